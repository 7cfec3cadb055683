use crate::{KEY, checkout, file, limpet, path};
use limpet_core::outcome::{
    HOST_ERRORS, KeyOutcome, NO_KEYS, REFUSED_SECRETS, RequestOutcome, ResponseOutcome, UNKNOWN_ROUTE_CONFIGS,
    UNKNOWN_SESSIONS, counter_name,
};

fn page(name: &str) -> String {
    std::fs::read_to_string(checkout().join("docs").join(name)).unwrap()
}

#[test]
fn the_examples_have_no_finding() {
    for (name, at_least) in [("reference/configuration.md", 2), ("background/modes.md", 5)] {
        let page = page(name);
        let blocks = page
            .split("```yaml\n")
            .skip(1)
            .map(|rest| rest.split("```").next().unwrap());
        let configurations: Vec<&str> = blocks.filter(|block| block.contains("policies:")).collect();
        assert!(configurations.len() >= at_least, "{name}: {configurations:?}");
        for configuration in configurations {
            let file = file(".yaml", configuration);
            limpet(&["check", "--deny-warnings", path(&file)])
                .env("LIMPET_KEY", KEY)
                .run()
                .code(0);
        }
    }
}

#[test]
fn every_counter_is_described() {
    let page = page("reference/metrics.md");
    let requests = [RequestOutcome::Steered, RequestOutcome::NoToken]
        .into_iter()
        .chain(limpet_core::token::TokenRefusal::ALL.map(RequestOutcome::Refused))
        .map(RequestOutcome::as_str);
    let responses = ResponseOutcome::COUNTED.iter().filter_map(|outcome| outcome.as_str());
    let names = requests.chain(responses).map(|word| counter_name("<policy>", word));
    let of_all = [
        HOST_ERRORS,
        UNKNOWN_SESSIONS,
        UNKNOWN_ROUTE_CONFIGS,
        NO_KEYS,
        REFUSED_SECRETS,
    ];
    let of_keys = KeyOutcome::ALL.map(|outcome| format!("limpet.keys.<id>.{}", outcome.as_str()));
    let names = names.chain(of_keys).chain(of_all.map(str::to_owned));
    for name in names {
        assert!(
            page.contains(&format!("| `{name}` |")),
            "{name} is not in reference/metrics.md"
        );
    }
}

#[test]
fn the_page_of_troubles_has_each_refusal_once() {
    let page = page("how-to/troubleshoot.md");
    for refusal in limpet_core::token::TokenRefusal::ALL {
        let row = format!("| `{}` |", RequestOutcome::Refused(refusal).as_str());
        assert_eq!(page.matches(&row).count(), 1, "{row}");
    }
}

#[test]
#[cfg(feature = "controller")]
fn every_field_of_the_controllers_configuration_is_described() {
    let page = page("reference/controller-configuration.md");
    for (section, nested, prefix) in [
        ("", "", ""),
        ("sessions", "", "sessions."),
        ("sessionDefaults", "", ""),
        ("envoy", "", ""),
        ("envoy", "filter", "filter."),
        ("keyring", "", ""),
        ("keyring", "keyEncryptionKey", "keyEncryptionKey."),
        ("xds", "", "xds."),
        ("xds", "tls", "xds.tls."),
        ("http", "", "http."),
        ("leaderElection", "", "leaderElection."),
        ("istio", "", ""),
        ("envoyGateway", "", ""),
    ] {
        // The error for an unknown field lists the known ones.
        let mut config = serde_json::json!({"nothing": 1});
        for name in [nested, section].into_iter().filter(|name| !name.is_empty()) {
            config = serde_json::json!({ name: config });
        }
        let file = file(".json", &config.to_string());
        let ran = limpet(&["controller", "--check", "--config", path(&file)])
            .run()
            .code(2);
        let (_, listed) = ran.stderr.split_once("expected ").unwrap();
        let fields: Vec<&str> = listed.split('`').skip(1).step_by(2).collect();
        assert!(!fields.is_empty(), "{}", ran.stderr);
        for field in fields {
            let name = format!("`{prefix}{field}");
            assert!(
                page.contains(&format!("{name}`")) || page.contains(&format!("{name}.")),
                "{section} {name} is not in controller-configuration.md"
            );
        }
    }
}

#[test]
fn every_command_says_its_exit_codes() {
    for command in [
        &["check"][..],
        &["token", "inspect"],
        &["token", "issue"],
        &["keys", "generate"],
        &["keys", "list"],
        &["keys", "rotate"],
        &["keys", "wrap"],
        &["install"],
        &["envoy", "drain"],
        &["wait-drained"],
        &["version"],
        &[],
    ] {
        let ran = limpet(&[command, &["--help"]].concat()).run().code(0);
        ran.says("  3  ");
    }
    limpet(&["check", "--help"]).run().says("the chain around");
}
