//! Policies from which an upgrade of the Gateway API took fields.

use serde_json::{Value, json};

use super::*;
use crate::remembered_sessions::RememberedSessions;
use crate::stand_in::remembered;

const KIND: &str = "XBackendTrafficPolicy";

fn named() -> Value {
    let cookie = json!({"lifetimeType": "Permanent"});
    json!({"sessionName": "s", "type": "Cookie", "absoluteTimeout": "8h", "cookieConfig": cookie})
}

/// After the upgrade. Its metadata has these values.
fn pruned(name: Option<&str>, lifetime: Option<&str>) -> Value {
    let mut policy = policy(KIND, "p", &["a"], &json!({"type": "Cookie", "absoluteTimeout": "8h"}));
    policy["metadata"]["pruned"] = json!({"sessionName": name, "cookieConfig.lifetimeType": lifetime});
    policy
}

fn with(policy: Value) -> World {
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(policy);
    world
}

fn former_sessions(world: &World) -> RememberedSessions {
    remembered(&world.objects, &world.sessions().verdicts, |_| false)
}

fn status(world: &World) -> Vec<String> {
    only_ancestor(world.sessions().report_of(KIND, "p"))
}

#[test]
fn the_sessions_are_as_before_where_fields_are_known() {
    let before = with(policy(KIND, "p", &["a"], &named()));
    let written = before.sessions().written(0);
    assert_eq!(status(&before), [ACCEPTED]);
    let mut remembered = with(pruned(None, None));
    remembered.objects.memory.sessions = former_sessions(&before);
    let applied = with(pruned(Some("s"), Some("Permanent")));
    for world in [&remembered, &applied] {
        assert_eq!(world.sessions().written(0), written);
        let [accepted] = &status(world)[..] else {
            panic!("{:?}", status(world))
        };
        assert!(
            accepted.contains("left out: sessionName s, cookieConfig.lifetimeType Permanent; the sessions go on"),
            "{accepted}"
        );
    }
    let mut edited = with(pruned(Some("older"), None));
    edited.objects.memory.sessions = former_sessions(&before);
    assert_eq!(edited.sessions().written(0), written);
    let [further] = &former_sessions(&remembered).iter().cloned().collect::<Vec<_>>()[..] else {
        panic!("one policy")
    };
    let sessions = further.settings.session_persistence.as_ref().unwrap();
    assert_eq!(sessions.session_name.as_deref(), Some("s"));
    assert!(further.counts);
    let kept = annotated(
        annotated(pruned(None, None), "session-name", "s"),
        "lifetime-type",
        "Permanent",
    );
    let kept = with(kept);
    assert_eq!(
        (kept.sessions().written(0), status(&kept)),
        (written, vec![ACCEPTED.to_owned()])
    );
}

#[test]
fn what_an_upgrade_took_and_nobody_knows_is_said() {
    let world = with(pruned(None, Some("Permanent")));
    assert_eq!(world.sessions().written(0)["cookie"]["lifetimeType"], "Permanent");
    let [accepted, programmed] = &status(&world)[..] else {
        panic!("{:?}", status(&world))
    };
    assert!(
        accepted.contains("sessionName cannot be known, so new sessions have begun"),
        "{accepted}"
    );
    assert!(
        programmed.starts_with("Programmed=True/PartiallyProgrammed: "),
        "{programmed}"
    );
    let mut other = policy(KIND, "p", &["a"], &named());
    other["metadata"]["uid"] = json!("other");
    let mut later = pruned(None, None);
    later["metadata"]["uid"] = json!("later");
    let mut later = with(later);
    later.objects.memory.sessions = former_sessions(&with(other));
    assert!(status(&later)[0].contains("cannot be known"), "{:?}", status(&later));
}

#[test]
fn a_policy_that_was_written_since_is_what_it_says() {
    let mut written = pruned(None, None);
    written["spec"]["sessionPersistence"] = json!({"type": "Cookie", "cookie": {"name": "new"}});
    written["metadata"]["pruned"] = json!({});
    let mut world = with(annotated(written, "session-name", "s"));
    world.objects.memory.sessions = former_sessions(&with(policy(KIND, "p", &["a"], &named())));
    assert_eq!(world.sessions().written(0)["cookie"]["name"], "new");
    assert_eq!(
        status(&world),
        [format!(
            "{ACCEPTED}; metadata.annotations[session.limpet.dev/session-name]: it has no effect, because \
             spec.sessionPersistence.cookie.name says otherwise; release 1.7 of the Gateway API deprecates \
             sessionPersistence of an XBackendTrafficPolicy: an XBackend with it, and with the selector and the port of \
             its Service, replaces it, where backendRefs lead there, and clients get new sessions (shop/a); tokens in the \
             former cookie \"s\" still count until they time out (the filter looks for them until there were two later \
             names) on: HTTPRoute shop/web spec.rules[0]"
        )]
    );
    let written = former_sessions(&world);
    let written: Vec<_> = written
        .iter()
        .filter_map(|known| known.settings.session_persistence.as_ref())
        .collect();
    assert!(
        written.iter().all(|written| written.session_name.is_none()),
        "{written:?}"
    );
}

#[test]
fn the_annotations_that_keep_fields_are_for_one_kind() {
    let policy = annotated(policy("BackendLBPolicy", "p", &["a"], &json!({})), "session-name", "s");
    let status = with(policy).sessions().status("p");
    assert!(
        status[0].starts_with("Accepted=False/Invalid: metadata.annotations"),
        "{status:?}"
    );
}
