use serde_json::json;

use super::{Keyring, ago, states};
use crate::{KEY, file, limpet, path};

#[test]
fn a_key_changes_in_three_phases() {
    let keyring = Keyring::generated();
    let old = keyring.secrets();
    let steps = [
        (
            &["rotate"][..],
            "1 of 3: key 2 verifies",
            states(&[(1, "signing"), (2, "verifying")]),
        ),
        (
            &["rotate"],
            "2 of 3: key 2 signs",
            states(&[(1, "verifying"), (2, "signing")]),
        ),
        (
            &["rotate"],
            "3 of 3: key 2 signs",
            states(&[(1, "retiring"), (2, "signing")]),
        ),
        (&["rotate", "--force"], "none: key 2 signs", states(&[(2, "signing")])),
    ];
    let mut new = None;
    for (args, phase, expected) in steps {
        keyring.limpet(args).code(0).says(&format!("phase    {phase}"));
        assert_eq!(keyring.states(), expected);
        assert_eq!(keyring.mode(), 0o600);
        // Every key keeps its secret.
        let secrets = keyring.secrets();
        let new = new.get_or_insert_with(|| secrets[1].clone());
        assert_ne!(old[0], *new);
        assert_eq!(secrets.last(), Some(&*new), "{phase}");
        assert!(secrets.len() == 1 || secrets[0] == old[0], "{phase}");
    }
    // The next rotation uses a new id.
    keyring.limpet(&["rotate"]).code(0);
    assert_eq!(keyring.states(), states(&[(2, "signing"), (3, "verifying")]));
}

#[test]
fn the_filter_accepts_the_keyring_of_each_phase() {
    let keyring = Keyring::generated();
    for _ in 0..3 {
        keyring.limpet(&["rotate"]).code(0);
        keyring
            .limpet(&["wrap", "--key-encryption-key", "1=LIMPET_KEK_1"])
            .code(0);
    }
}

/// By default for 184h49m: the 168 hours of `maxIdle`, a tenth of that, and a minute.
#[test]
fn a_retiring_key_stays_while_its_tokens_may_live() {
    let config = file(
        ".yaml",
        "keys: [{id: 1, env: LIMPET_KEY}]\n\
         policies: {web: {cookie: {name: s}, idleTimeout: 30m}, api: {header: {name: s}, absoluteTimeout: 10h}}\n\
         clockSkew: 0s\n",
    );
    let from_config = ["--config", path(&config)];
    let given = ["--longest-life", "2h"];
    let cases: [(&[&str], f64, bool); 9] = [
        (&[], 184.7, false),
        (&[], 184.9, true),
        (&from_config, 10.9, false),
        (&from_config, 11.1, true),
        (&given, 1.9, false),
        (&given, 2.1, true),
        (&["--longest-life", "0s"], 0.0, true),
        (&["--force"], 0.0, true),
        (&["--force", "--longest-life", "9999h"], 0.0, true),
    ];
    for (args, hours, goes) in cases {
        let keyring = Keyring::with(&[(7, "retiring", hours), (8, "signing", 500.0)]);
        let before = keyring.text();
        let ran = keyring.limpet(&[&["rotate"], args].concat());
        if goes {
            ran.code(0);
            assert_eq!(keyring.states(), states(&[(8, "signing")]), "{args:?} {hours}");
        } else {
            ran.code(0).says("not due").says("--force");
            assert_eq!(keyring.text(), before);
        }
    }
}

#[test]
fn the_next_rotation_begins_while_old_keys_retire() {
    let keyring = Keyring::with(&[(1, "retiring", 10.0), (2, "signing", 500.0)]);
    keyring
        .limpet(&["rotate"])
        .code(0)
        .says("--begin starts the next rotation meanwhile");
    keyring.limpet(&["rotate", "--begin"]).code(0).says("phase    1 of 3");
    assert_eq!(
        keyring.states(),
        states(&[(1, "retiring"), (2, "signing"), (3, "verifying")])
    );
    keyring.limpet(&["rotate"]).code(0).says("phase    2 of 3");
    keyring.limpet(&["rotate"]).code(0).says("phase    3 of 3");
    assert_eq!(
        keyring.states(),
        states(&[(1, "retiring"), (2, "retiring"), (3, "signing")])
    );
    // Each goes when its own tokens have ended, in whichever phase.
    keyring.limpet(&["rotate", "--longest-life", "9h"]).code(0);
    assert_eq!(keyring.states(), states(&[(2, "retiring"), (3, "signing")]));
    keyring
        .limpet(&["rotate", "--longest-life", "9h"])
        .code(0)
        .says("not due");
}

#[test]
fn no_more_keys_retire_than_may() {
    let mut keys: Vec<(u8, &str, f64)> = (1..=8).map(|id| (id, "retiring", 10.0)).collect();
    keys.push((9, "signing", 10.0));
    let full = Keyring::with(&keys);
    full.limpet(&["rotate", "--begin"])
        .code(0)
        .says("8 keys are retiring (maximum 8)");
    keys.remove(3);
    let keyring = Keyring::with(&keys);
    keyring.limpet(&["rotate", "--begin"]).code(0);
    assert_eq!(keyring.states().last().unwrap(), &(10, "verifying".to_owned()));
}

#[test]
fn programs_were_told_nothing_of_a_step_that_is_not_due() {
    let keyring = Keyring::with(&[(1, "retiring", 1.0), (2, "signing", 1.0)]);
    let told = keyring.limpet(&["rotate", "-o", "json"]).code(0).json();
    assert_eq!(told["phase"], 3);
    assert!(
        told["notDue"]
            .as_str()
            .unwrap()
            .starts_with("a token of a retiring key may live until")
    );
}

/// Once a week, with a copy of the keyring for every Envoy before the next run. A key retires for longer than a week.
#[test]
fn a_weekly_job_failed_while_a_key_retired() {
    let keyring = Keyring::generated();
    let mut weeks = Vec::new();
    for _ in 0..8 {
        keyring.limpet(&["rotate"]).code(0);
        weeks.push(keyring.states());
        keyring.gets_older_by(time::Duration::WEEK);
    }
    let retiring = states(&[(1, "retiring"), (2, "signing")]);
    let expected = [
        states(&[(1, "signing"), (2, "verifying")]),
        states(&[(1, "verifying"), (2, "signing")]),
        retiring.clone(),
        retiring,
        states(&[(2, "signing")]),
        states(&[(2, "signing"), (3, "verifying")]),
        states(&[(2, "verifying"), (3, "signing")]),
        states(&[(2, "retiring"), (3, "signing")]),
    ];
    assert_eq!(weeks, expected);
}

/// A key in Envoys' environment becomes the first of a keyring.
#[test]
fn a_clear_keyring_without_times_is_rotated() {
    let keyring = Keyring::of(&json!({"keys": [{"id": 255, "state": "signing", "secret": KEY}]}));
    for expected in [
        [(255, "signing"), (0, "verifying")],
        [(255, "verifying"), (0, "signing")],
        [(255, "retiring"), (0, "signing")],
    ] {
        keyring.limpet(&["rotate"]).code(0);
        assert_eq!(keyring.states(), states(&expected));
    }
}

#[test]
fn states_of_no_rotation_are_left_to_the_operator() {
    let key = |id: u8, state: &str| json!({"id": id, "state": state, "secret": KEY});
    for (keys, complaint) in [
        (
            json!([key(1, "signing"), key(2, "verifying")]),
            "to tell the new key from the old one",
        ),
        (
            json!([key(1, "signing"), key(2, "verifying"), key(3, "verifying")]),
            "at most one that verifies",
        ),
        (
            json!([key(1, "verifying")]),
            "keys: expected one key with state signing",
        ),
        (json!([key(1, "signing"), key(1, "retiring")]), "found 1 twice"),
        (
            json!([{"id": 1, "state": "signing", "secret": format!("x{KEY}")}]),
            "keys[0].secret",
        ),
        (json!([{"id": KEY, "state": "signing", "secret": KEY}]), "keys[0].id"),
        (
            json!([{"id": 1, "state": "signing", "secret": KEY, "since": "yesterday"}]),
            "keys[0].since: expected a time",
        ),
        (
            json!([{"id": 1, "state": "signing", "env": "LIMPET_KEY"}]),
            "expected a keyring file",
        ),
    ] {
        let keyring = Keyring::of(&json!({"keys": keys}));
        let before = keyring.text();
        keyring.limpet(&["rotate"]).code(3).complains(complaint);
        assert_eq!(keyring.text(), before);
    }
    let unknown = Keyring::of(&json!({"keys": [key(1, "retiring"), key(2, "signing")]}));
    unknown
        .limpet(&["rotate"])
        .code(1)
        .complains("it is not known since when keys retire");
    unknown.limpet(&["rotate", "--force"]).code(0);
}

/// The clock may have been set back since the other key was made.
#[test]
fn the_new_key_is_newer_even_if_the_clock_is_wrong() {
    let ahead = json!({"id": 1, "state": "signing", "secret": KEY, "created": ago(-5.0), "since": ago(-5.0)});
    let keyring = Keyring::of(&json!({"keys": [ahead]}));
    keyring.limpet(&["rotate"]).code(0).says("1 of 3: key 2 verifies");
    keyring.limpet(&["rotate"]).code(0).says("2 of 3: key 2 signs");
}

#[test]
fn a_symbolic_link_stays_one() {
    let keyring = Keyring::generated();
    let link = keyring.folder.path().join("link.json");
    std::os::unix::fs::symlink(keyring.file(), &link).unwrap();
    limpet(&["keys", "rotate", link.to_str().unwrap()]).run().code(0);
    assert!(link.is_symlink());
    assert_eq!(keyring.states(), states(&[(1, "signing"), (2, "verifying")]));
}

#[test]
fn a_file_that_others_may_read_is_reported_and_closed() {
    let keyring = Keyring::generated();
    keyring.set_mode(0o644);
    keyring
        .limpet(&["rotate"])
        .code(0)
        .complains("others than its owner may read it (mode 644)");
    assert_eq!(keyring.mode(), 0o600);
    let ran = keyring.limpet(&["rotate"]).code(0);
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_dry_run_of_a_rotation_wrote_the_file() {
    let keyring = Keyring::generated();
    let before = keyring.text();
    keyring
        .limpet(&["rotate", "--dry-run"])
        .code(0)
        .says("phase    1 of 3: key 2");
    assert_eq!(keyring.text(), before);
}
