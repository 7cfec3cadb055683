use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limpet_core::Filter;
use limpet_core::config::Environment;
use limpet_core::config::schema::{FenceConfig, FormerLagConfig, KeyEncryptionKeyConfig, WrappedKeysConfig};
use serde_json::{Value, json};

use super::{forward, gateway, graph, inputs, module, only, route, to, with_session};
use crate::envoy::{EnvoyOptions, FilterBuild, MovingFilter, RemoteFile, WasmFilter, extension_config, resources};
use crate::envoy_gateway::EnvoyGatewayOptions;
use crate::istio::IstioOptions;
use crate::json::typed;
use crate::manifests::ManifestInputs;
use crate::{ControlPlane, FilterInputs, FilterKeys, RetainedConfig, filter_config, used_policies};
use limpet_api::{Kind, ObjectName, ObjectRef};
use limpet_model::graph::{Action, ClusterName, RuleName, RuleOrigin, Session, SessionRequester, SessionUse};
use limpet_model::{FewSet, Graph, Objects};
use limpet_resources::ResourceType;

fn with_sessions() -> Graph {
    graph(vec![with_session(forward(vec![to("v1", 1)]), "web")])
}

fn read(filter: &Value) -> Value {
    let text = filter["value"].as_str().unwrap();
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_filter_accepts_the_configuration_of_the_used_policies() {
    let mut inputs = inputs();
    inputs.fences = vec![FenceConfig {
        address: "10.0.0.7".to_owned(),
        namespace: None,
        not_before: 1_790_000_000,
    }];
    inputs.max_idle = "24h".parse().unwrap();
    let config = filter_config(
        used_policies(&with_sessions(), &gateway()),
        &BTreeSet::new(),
        false,
        &inputs,
    );
    assert_eq!(config.policies.keys().collect::<Vec<_>>(), ["web"]);
    let text = serde_json::to_vec(&config).unwrap();
    let key: Environment<'_> = &|_: &str| Some("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=".to_owned());
    let (filter, warnings) = Filter::from_json(&text, key).unwrap();
    assert_eq!(filter.policies().collect::<Vec<_>>(), ["web"]);
    assert_eq!(warnings, []);
}

#[test]
fn sessions_of_destinations_bring_their_policies() {
    let mut graph = with_sessions();
    let used = SessionUse {
        policy: "strict".into(),
        scope: "XBackend/shop/v2".into(),
    };
    Arc::make_mut(graph.clusters.get_mut(&ClusterName("v2".into())).unwrap()).session = Some(used);
    let policies = |graph: &Graph| {
        let config = filter_config(used_policies(graph, &gateway()), &BTreeSet::new(), false, &inputs());
        config.policies.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(policies(&graph), ["web"]);
    let mut action = forward(vec![to("v2", 1)]);
    action.session = Session::Destinations;
    let web = Arc::make_mut(graph.gateways.get_mut(&gateway()).unwrap());
    let hosts = &mut web.ports.get_mut(&80).unwrap()[0].virtual_hosts;
    let host = Arc::make_mut(hosts.get_mut(&limpet_model::graph::Hostname::Any).unwrap());
    host.routes.push(super::acting(Action::Forward(action)));
    assert_eq!(policies(&graph), ["strict", "web"]);
}

/// The namespaces of fences in each configuration of a text.
fn fenced(text: &str) -> BTreeSet<String> {
    let fences: Vec<&str> = text.split(r#""namespace":""#).skip(1).collect();
    let end = |rest: &&str| rest.split('"').next().unwrap_or_default().to_owned();
    fences.iter().map(end).collect()
}

fn planes() -> [ControlPlane; 2] {
    [
        ControlPlane::Istio(IstioOptions::default()),
        ControlPlane::EnvoyGateway(EnvoyGatewayOptions::default()),
    ]
}

fn add_rule(graph: &mut Graph) {
    let origin = RuleOrigin {
        route: ObjectRef {
            kind: Kind::HttpRoute,
            name: gateway(),
        },
        index: 0,
        name: Some("rule".to_owned()),
        gateways: FewSet::from_iter([gateway()]),
        requested_by: SessionRequester::Backends(Vec::new()),
    };
    let rule = RuleName("HTTPRoute/shop/web/rule".into());
    graph.rules.insert(rule, Arc::new(origin));
}

/// The only object with a filter for another control plane.
fn manifest(
    plane: &ControlPlane,
    graph: &Graph,
    inputs: &FilterInputs,
    retained: &BTreeMap<ObjectName, RetainedConfig>,
) -> Value {
    let source = ManifestInputs {
        objects: &Objects::default(),
        graph,
        options: &EnvoyOptions::default(),
        inputs,
        retained,
    };
    let made = plane.manifests(&source);
    let filters = made.objects.iter().filter(|one| one.definition == plane.keyring_kind());
    let specs: Vec<&Value> = filters.map(|one| &one.spec).collect();
    assert_eq!(specs.len(), 1, "{specs:?}");
    specs[0].clone()
}

#[test]
fn policies_say_how_old_tokens_of_their_sessions_may_be() {
    let mut graph = with_sessions();
    add_rule(&mut graph);
    let former = |namespace: &str| FormerLagConfig {
        namespace: Some(namespace.to_owned()),
        lag: "6m".parse().unwrap(),
        until: 1_790_000_060,
    };
    let former = ["other", "shop"].map(former).to_vec();
    let retained = RetainedConfig {
        former_lags: ["gone", "web"].map(|policy| (policy.into(), former.clone())).into(),
        ..RetainedConfig::default()
    };
    let mut inputs = inputs();
    let retained = BTreeMap::from([(gateway(), retained)]);
    let [istio, envoy_gateway] = planes().map(|plane| manifest(&plane, &graph, &inputs, &retained));
    let of = |config: &Value| config["policies"]["web"]["formerLags"].clone();
    assert_eq!(of(&istio["pluginConfig"]), json!(former));
    assert_eq!(of(&envoy_gateway["dynamicModule"][0]["config"]), json!([former[1]]));
    inputs.retained = retained[&gateway()].clone();
    let ours = filter_config(used_policies(&graph, &gateway()), &BTreeSet::new(), false, &inputs);
    assert_eq!(of(&json!(ours)), json!(former));
    assert_eq!(ours.policies.len(), 1);
}

#[test]
fn all_envoys_had_the_fences_of_all_namespaces() {
    let mut graph = graph(vec![with_session(forward(vec![to("v1", 1)]), "moving")]);
    add_rule(&mut graph);
    let fence = |namespace: &str| FenceConfig {
        address: "10.0.0.7:80".to_owned(),
        namespace: Some(namespace.to_owned()),
        not_before: 1_790_000_000,
    };
    let mut inputs = inputs();
    inputs.fences = ["gone", "other", "shop"].map(fence).to_vec();
    let options = EnvoyOptions::default();
    let ours = |inputs: &FilterInputs| {
        let all = resources(&graph, &gateway(), &options, inputs);
        let moving = MovingFilter::of(&graph, &gateway(), &options, inputs).unwrap();
        let filters = all
            .iter()
            .filter(|one| one.resource_type() == ResourceType::ExtensionConfig);
        let moving = moving.with(&BTreeMap::new());
        let filters = filters.chain([&moving]);
        let text = |filter| read(&crate::json::resource(filter).unwrap()["typed_config"]["config"]["configuration"]);
        filters
            .map(|filter| fenced(&text(filter).to_string()))
            .collect::<Vec<_>>()
    };
    let shop = BTreeSet::from(["shop".to_owned()]);
    assert_eq!(ours(&inputs), [shop.clone(), shop.clone()]);
    let planes = planes();
    let theirs = |plane: &ControlPlane, retained: &BTreeMap<ObjectName, RetainedConfig>| {
        fenced(&manifest(plane, &graph, &inputs, retained).to_string())
    };
    for plane in &planes {
        assert_eq!(theirs(plane, &BTreeMap::new()), shop, "{}", plane.name());
    }
    let retained = RetainedConfig {
        namespaces: BTreeSet::from(["gone".into()]),
        ..RetainedConfig::default()
    };
    let both = BTreeSet::from(["gone".to_owned(), "shop".to_owned()]);
    assert_eq!(
        theirs(&planes[0], &BTreeMap::from([(gateway(), retained.clone())])),
        both
    );
    inputs.retained = retained;
    assert_eq!(ours(&inputs), [both.clone(), both]);
}

#[test]
fn the_wasm_filter_gets_the_variables_that_its_keys_are_in() {
    let wrapped = FilterInputs::with_keys(FilterKeys::Wrapped(WrappedKeysConfig {
        text: "gQEX".to_owned(),
        key_encryption_keys: [(2, "KEK_B"), (1, "KEK_A")]
            .map(|(id, env)| KeyEncryptionKeyConfig {
                id,
                env: env.to_owned(),
            })
            .to_vec(),
    }));
    let options = EnvoyOptions {
        access_log: true,
        ..EnvoyOptions::default()
    };
    let config = filter_config(
        used_policies(&with_sessions(), &gateway()),
        &BTreeSet::new(),
        true,
        &wrapped,
    );
    let made = typed(&extension_config(&config, &options)).unwrap();
    assert_eq!(made["name"], "limpet.wasm");
    let plugin = &made["typed_config"]["config"];
    assert_eq!(
        plugin["vm_config"],
        json!({
            "runtime": "envoy.wasm.runtime.v8",
            "code": {"local": {"filename": "/etc/limpet/limpet.wasm"}},
            "environment_variables": {"host_env_keys": ["KEK_A", "KEK_B"]},
        })
    );
    assert_eq!(plugin["failure_policy"], "FAIL_RELOAD");
    assert_eq!(plugin["reload_config"], json!({"backoff": {"base_interval": "0.100s"}}));
    let read = read(&plugin["configuration"]);
    assert_eq!(read["wrappedKeys"]["text"], "gQEX");
    assert_eq!(read["accessLog"], true);
}

#[test]
fn the_module_is_found_by_name_or_by_file() {
    let made = only(&with_sessions(), &module(), ResourceType::ExtensionConfig);
    let filter = &made["typed_config"];
    assert_eq!(
        filter["@type"],
        "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter"
    );
    assert_eq!(filter["dynamic_module_config"], json!({"name": "limpet"}));
    assert_eq!(filter["filter_name"], "limpet");
    assert_eq!(
        read(&filter["filter_config"])["policies"]["web"]["cookie"]["name"],
        "web"
    );
    let options: EnvoyOptions =
        serde_json::from_value(json!({"filter": {"module": {"file": "/opt/liblimpet.so"}}})).unwrap();
    let made = only(&with_sessions(), &options, ResourceType::ExtensionConfig);
    assert_eq!(
        made["typed_config"]["dynamic_module_config"],
        json!({"module": {"local": {"filename": "/opt/liblimpet.so"}}})
    );
}

#[test]
fn without_sessions_there_is_no_filter() {
    let made = only(
        &graph(vec![route(vec![to("v1", 1)])]),
        &EnvoyOptions::default(),
        ResourceType::ExtensionConfig,
    );
    assert_eq!(
        made["typed_config"],
        json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
            "mutations": {},
        })
    );
}

#[test]
fn options_are_read_as_they_are_written() {
    let written = json!({
        "filter": {"wasm": {"remote": {"url": "https://files.example.com/limpet.wasm", "sha256": "00"}}},
        "listenAddress": "::",
        "connectTimeout": "300ms",
        "accessLog": true,
        "keyEncryptionKeyEnv": "KEK",
        "systemAuthorities": "/etc/pki/ca.crt",
        "routesElsewhere": [],
        "splits": "specifier",
    });
    let read: EnvoyOptions = serde_json::from_value(written.clone()).unwrap();
    let remote = RemoteFile {
        url: "https://files.example.com/limpet.wasm".to_owned(),
        sha256: "00".to_owned(),
    };
    assert_eq!(read.filter, FilterBuild::Wasm(WasmFilter::Remote(remote)));
    assert_eq!(serde_json::to_value(&read).unwrap(), written);
    assert_eq!(
        serde_json::from_value::<EnvoyOptions>(json!({})).unwrap(),
        EnvoyOptions::default()
    );
    assert!(serde_json::from_value::<EnvoyOptions>(json!({"filters": {}})).is_err());
}
