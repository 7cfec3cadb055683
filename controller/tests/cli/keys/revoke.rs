use serde_json::json;

use super::{Keyring, states};
use crate::{KEY, file, limpet, path};

#[test]
fn a_revoked_key_leaves_its_id_alone() {
    let keyring = Keyring::with(&[(1, "retiring", 10.0), (2, "signing", 500.0)]);
    let before = keyring.secrets();
    let ran = keyring.limpet(&["revoke", "--key", "1"]).code(0);
    ran.says("phase    none: key 2 signs")
        .says("key 1    revoked    since now");
    assert_eq!(keyring.states(), states(&[(1, "revoked"), (2, "signing")]));
    assert_eq!(keyring.secrets(), [before[1].clone()]);
    assert!(!keyring.text().contains(&before[0]));
    assert_eq!(keyring.mode(), 0o600);
    // The id is not used again while tokens of the key may come.
    keyring
        .limpet(&["rotate"])
        .code(0)
        .says("phase    1 of 3: key 3 verifies");
    keyring.limpet(&["rotate", "--longest-life", "0s"]).code(0);
    assert_eq!(keyring.states(), states(&[(2, "verifying"), (3, "signing")]));
}

#[test]
fn another_key_signs_in_the_same_step() {
    type Before<'a> = &'a [(u8, &'a str, f64)];
    type After<'a> = &'a [(u64, &'a str)];
    let cases: [(Before<'_>, &[&str], After<'_>); 5] = [
        (&[(7, "signing", 1.0)], &["7"], &[(7, "revoked"), (8, "signing")]),
        (&[(255, "signing", 1.0)], &["255"], &[(255, "revoked"), (0, "signing")]),
        // Envoys know the key that verifies.
        (
            &[(1, "signing", 1.0), (2, "verifying", 1.0)],
            &["1"],
            &[(1, "revoked"), (2, "signing")],
        ),
        (
            &[(1, "verifying", 1.0), (2, "signing", 1.0)],
            &["2"],
            &[(1, "signing"), (2, "revoked")],
        ),
        (
            &[(1, "retiring", 1.0), (2, "signing", 1.0), (3, "verifying", 1.0)],
            &["1", "2", "3"],
            &[(1, "revoked"), (2, "revoked"), (3, "revoked"), (4, "signing")],
        ),
    ];
    for (keys, revoked, expected) in cases {
        let keyring = Keyring::with(keys);
        keyring.limpet(&[&["revoke", "--key"], revoked].concat()).code(0);
        assert_eq!(keyring.states(), states(expected));
        let wrapped = keyring.limpet(&["wrap", "--key-encryption-key", "1=LIMPET_KEK_1"]);
        wrapped.code(0);
    }
}

#[test]
fn a_new_key_goes_on_after_the_newest_one() {
    // An id that was removed before is not used while others are free.
    let keyring = Keyring::with(&[(1, "retiring", 1.0), (3, "signing", 1.0)]);
    keyring.limpet(&["revoke", "--key", "3"]).code(0);
    assert_eq!(
        keyring.states(),
        states(&[(1, "retiring"), (3, "revoked"), (4, "signing")])
    );
    let keyring = Keyring::with(&[(2, "verifying", 1.0), (5, "signing", 1.0)]);
    keyring.limpet(&["revoke", "--key", "5"]).code(0);
    keyring.limpet(&["rotate"]).code(0);
    assert_eq!(
        keyring.states(),
        states(&[(2, "signing"), (5, "revoked"), (6, "verifying")])
    );
}

#[test]
fn force_leaves_the_ids_of_revoked_keys() {
    let keyring = Keyring::with(&[(1, "revoked", 1.0), (2, "retiring", 1.0), (3, "signing", 1.0)]);
    keyring.limpet(&["rotate", "--force"]).code(0);
    assert_eq!(keyring.states(), states(&[(1, "revoked"), (3, "signing")]));
    keyring.limpet(&["rotate", "--force"]).code(0);
    assert_eq!(
        keyring.states(),
        states(&[(1, "revoked"), (3, "signing"), (4, "verifying")])
    );
    // It goes when its tokens have ended.
    let keyring = Keyring::with(&[(1, "revoked", 1.0), (2, "retiring", 0.0), (3, "signing", 1.0)]);
    keyring
        .limpet(&["list", "--longest-life", "2h"])
        .code(0)
        .says("in 1h 59m, `limpet keys rotate");
    keyring.limpet(&["rotate", "--longest-life", "30m"]).code(0);
    assert_eq!(keyring.states(), states(&[(2, "retiring"), (3, "signing")]));
}

#[test]
fn a_dry_run_changes_nothing() {
    let keyring = Keyring::with(&[(1, "signing", 10.0)]);
    let before = keyring.text();
    let ran = keyring.limpet(&["revoke", "--key", "1", "--dry-run"]).code(0);
    ran.says("key 1    revoked")
        .says("key 2    signing")
        .says("revoked  nothing, because of --dry-run; without it: key 1\n")
        .says("next     the same without --dry-run\n");
    assert_eq!(keyring.text(), before);
    let ran = keyring.limpet(&["revoke", "--key", "1", "--dry-run", "-o", "json"]);
    let json = ran.code(0).json();
    assert_eq!((&json["written"], &json["revoked"]), (&json!(false), &json!([1])));
}

#[test]
fn a_second_revocation_says_that_nothing_changed() {
    let keyring = Keyring::with(&[(1, "retiring", 10.0), (2, "retiring", 10.0), (3, "signing", 10.0)]);
    let [one, _] = stats();
    let revoke = |keys: &str, more: &[&str]| keyring.limpet(&[&["revoke", "--key", keys], more].concat());
    let ran = revoke("1,2", &[]).code(0);
    ran.says("revoked  keys 1 and 2\n").says("next     give this keyring");
    let before = keyring.text();
    for more in [&[][..], &["--dry-run"]] {
        let ran = revoke("2", &[more, &["--stats", path(&one)]].concat()).code(0);
        let ran = ran.says("revoked  nothing more: key 2 was revoked before, and nothing is written\n");
        let is_news = ran.stdout.contains("at once") || ran.stdout.contains("ends ");
        assert!(!is_news, "{}", ran.stdout);
        let json = revoke("2", &[more, &["-o", "json"]].concat()).code(0).json();
        assert_eq!((&json["written"], &json["revoked"]), (&json!(false), &json!([])));
    }
    assert_eq!(keyring.text(), before);
    let ran = revoke("3,2", &[]).code(0);
    ran.says("revoked  key 3; key 2 was revoked before\n");
}

#[test]
fn a_key_that_is_not_there_is_named() {
    let keyring = Keyring::with(&[(1, "retiring", 10.0), (2, "signing", 10.0)]);
    let before = keyring.text();
    keyring
        .limpet(&["revoke", "--key", "2", "3"])
        .code(3)
        .complains("--key: expected ids of keys of the keyring (1, 2), found 3");
    keyring.limpet(&["revoke", "--key", "300"]).code(3).complains("300");
    keyring.limpet(&["revoke"]).code(3).complains("--key");
    assert_eq!(keyring.text(), before);
}

#[test]
fn only_so_many_revoked_keys_are_remembered() {
    let keyring = Keyring::generated();
    for id in 1..=20 {
        keyring.limpet(&["revoke", "--key", &id.to_string()]).code(0);
    }
    let ids: Vec<u64> = keyring.states().iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, (5..=21).collect::<Vec<_>>());
}

#[test]
fn a_token_of_a_revoked_key_is_refused_as_such() {
    let keyring = Keyring::with(&[(1, "signing", 10.0)]);
    let keys = keyring.file();
    let keys = keys.to_str().unwrap();
    let host = ["--host", "10.0.0.7:80", "--cluster", "c"];
    let issue = [&["token", "issue", "--keys", keys, "--name", "s"][..], &host].concat();
    let token = limpet(&issue).run().code(0).stdout;
    keyring.limpet(&["revoke", "--key", "1"]).code(0);
    let inspect = ["token", "inspect", "--keys", keys, "--name", "s", token.trim_end()];
    limpet(&inspect)
        .run()
        .code(2)
        .says("verdict  refused: revoked_key (key 1 is revoked)");
    let config = json!({
        "keys": [{"id": 1, "state": "revoked"}, {"id": 2, "inline": KEY}],
        "policies": {"web": {"cookie": {"name": "s"}}},
        "default": {"policy": "web"},
    });
    let config = file(".json", &config.to_string());
    let cookie = format!("s={}", token.trim_end());
    limpet(&["token", "inspect", "--config", path(&config), &cookie])
        .run()
        .code(2)
        .says("refused: revoked_key");
}

/// Statistics of two Envoys: three sessions have a token of key 1, and two of key 2.
fn stats() -> [tempfile::NamedTempFile; 2] {
    let first = "wasmcustom.limpet.keys.1.given: 7\nwasmcustom.limpet.keys.1.replaced: 4\n\
                 wasmcustom.limpet.keys.2.given: 1\nwasmcustom.limpet.web.steered: 99\n";
    let second = "envoy_wasmcustom_limpet_keys_1_given{} 2\nenvoy_wasmcustom_limpet_keys_1_ended{} 2\n\
                  envoy_dynamicmodulescustom_limpet_keys_2_given{} 1\n";
    [file(".txt", first), file(".txt", second)]
}

#[test]
fn sessions_are_counted_over_all_envoys() {
    let [one, other] = stats();
    let count = ["keys", "count", path(&one), path(&other)];
    limpet(&count).run().code(0).says(
        "key 1    at most 3 sessions: given 9, replaced 4, ended 2\n\
         key 2    at most 2 sessions: given 2, replaced 0, ended 0\n\
         source   counted by 2 Envoys since they started; earlier tokens, and tokens of other Envoys, are left out\n",
    );
    let json = limpet(&[&count[..], &["-o", "json"]].concat()).run().code(0).json();
    let expected = json!({"id": 1, "sessions": 3, "given": 9, "replaced": 4, "ended": 2});
    assert_eq!((&json["envoys"], &json["keys"][0]), (&json!(2), &expected));
    let nothing = file(".txt", "wasmcustom.limpet.web.steered: 99\n");
    limpet(&["keys", "count", path(&one), path(&nothing)])
        .run()
        .code(3)
        .complains("found no counter limpet.keys.<id>.given");
}

#[test]
fn an_envoy_is_counted_once() {
    let [one, other] = stats();
    let link = one.path().with_extension("link");
    std::os::unix::fs::symlink(one.path(), &link).unwrap();
    for again in [path(&one), link.to_str().unwrap()] {
        let expected = format!(
            "{again}: expected one file for each Envoy, found the one that {} is",
            path(&one)
        );
        limpet(&["keys", "count", path(&one), path(&other), again])
            .run()
            .code(3)
            .complains(&expected);
        let keyring = Keyring::with(&[(1, "signing", 10.0)]);
        let before = keyring.text();
        keyring
            .limpet(&["revoke", "--key", "1", "--stats", path(&one), again])
            .code(3)
            .complains(&expected);
        assert_eq!(keyring.text(), before);
    }
    std::fs::remove_file(link).unwrap();
}

#[test]
fn counters_are_read_in_json_too() {
    let stats = json!({"stats": [
        {"name": "wasmcustom.limpet.keys.1.given", "value": 7},
        {"name": "wasmcustom.limpet.keys.1.replaced", "value": 4},
        {"histograms": {"supported_quantiles": [0.0]}},
    ]});
    let stats = file(".json", &stats.to_string());
    limpet(&["keys", "count", path(&stats)])
        .run()
        .code(0)
        .says("key 1    at most 3 sessions: given 7, replaced 4, ended 0\n")
        .says("counted by 1 Envoy since it started;");
    let wrong = file(".json", "{\"stats\": 7}");
    limpet(&["keys", "count", path(&wrong)])
        .run()
        .code(3)
        .complains("/stats, /stats?format=json or /stats/prometheus, found no counter limpet.keys.<id>.given");
}

#[test]
fn how_many_sessions_end_is_said_before() {
    let keyring = Keyring::with(&[(1, "retiring", 10.0), (2, "signing", 10.0)]);
    let [one, other] = stats();
    let ends = |keys: &[&str], more: &[&str]| {
        let stats = ["--stats", path(&one), path(&other)];
        keyring
            .limpet(&[&["revoke", "--dry-run", "--key"], keys, &stats, more].concat())
            .code(0)
    };
    ends(&["1"], &[]).says("ends     at most 3 sessions, counted by 2 Envoys since they started; earlier tokens");
    ends(&["1", "2"], &[]).says("ends     at most 5 sessions");
    ends(&["1,2"], &[]).says("ends     at most 5 sessions");
    assert_eq!(ends(&["2"], &["-o", "json"]).json()["endsAtMost"], 2);
}
