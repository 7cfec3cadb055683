//! A keyring in a secret of Envoy, before and after it arrives.

use limpet_core::config::{self, KeyringDocument};
use limpet_core::{Filter, SessionError};
use serde_json::{Value, json};

use crate::base::*;

fn sds(keys: Value) -> Value {
    let mut config = changed(&[("/sdsKeys", keys)]);
    config.as_object_mut().unwrap().remove("keys");
    config
}

fn without_keys(config: &Value) -> Result<Filter, config::ConfigError> {
    Filter::without_keys(&config::parse(config.to_string().as_bytes())?)
}

#[track_caller]
fn refused(config: &Value, expected: &[&str]) {
    let error = without_keys(config).map(|_| ()).unwrap_err();
    let fields: Vec<&str> = error.problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(fields, expected, "{error}");
}

#[test]
fn the_wasm_filter_refuses_sds_keys_and_says_what_takes_them() {
    let error = load(&sds(json!({"name": "limpet"}))).map(|_| ()).unwrap_err();
    assert_eq!(error.problems[0].field, "sdsKeys", "{error}");
    assert!(
        error.to_string().contains("only to dynamic modules, from 1.40 on"),
        "{error}"
    );
}

#[test]
fn a_secret_has_a_name_and_an_optional_source() {
    assert!(without_keys(&sds(json!({"name": "limpet"}))).is_ok());
    let source = json!({"name": "limpet", "sdsConfig": {"path_config_source": {"path": "sds.yaml"}}});
    assert!(without_keys(&sds(source)).is_ok());
    refused(&sds(json!({"name": ""})), &["sdsKeys.name"]);
    refused(&sds(json!({})), &["sdsKeys"]);
    refused(&sds(json!({"name": 1})), &["sdsKeys.name"]);
    refused(
        &sds(json!({"name": "limpet", "sdsConfig": "sds.yaml"})),
        &["sdsKeys.sdsConfig"],
    );
    refused(
        &sds(json!({"name": "limpet", "sds_config": {}})),
        &["sdsKeys.sds_config"],
    );
}

#[test]
fn a_keyring_has_one_source() {
    let mut both = sds(json!({"name": "limpet"}));
    both["keys"] = json!([{ "id": 1, "env": "KEY" }]);
    refused(&both, &["sdsKeys"]);
    refused(&valid(), &["keys"]);
    assert!(load(&both).is_err());
}

#[test]
fn every_problem_is_reported_at_once() {
    let mut config = sds(json!({"name": ""}));
    config["maxIdle"] = json!("0s");
    refused(&config, &["sdsKeys.name", "maxIdle"]);
}

struct Request;

impl limpet_core::view::RequestView for Request {
    fn route_session(&self) -> limpet_core::view::ViewResult<'_> {
        Ok(None)
    }
    fn cluster_session(&self) -> limpet_core::view::ViewResult<'_> {
        Ok(None)
    }
    fn client_address(&self) -> limpet_core::view::ViewResult<'_> {
        Ok(None)
    }
    fn route_name(&self) -> limpet_core::view::ViewResult<'_> {
        Ok(Some(b"somewhere"[..].into()))
    }
    fn virtual_host(&self) -> limpet_core::view::ViewResult<'_> {
        Ok(None)
    }
    fn cluster_name(&self) -> limpet_core::view::ViewResult<'_> {
        Ok(None)
    }
    fn header(&self, _: &str) -> limpet_core::view::ViewResult<'_> {
        Ok(None)
    }
    fn reroute(&mut self, _: limpet_core::token::DestinationId) -> limpet_core::view::ViewResult<'_> {
        Ok(None)
    }
}

#[test]
fn there_are_no_sessions_until_the_keyring_arrives() {
    let keyring = || {
        let document = json!({"keys": [{"id": 1, "state": "signing", "secret": INLINE}]});
        KeyringDocument::parse(document.to_string().as_bytes())
            .unwrap()
            .keyring()
            .unwrap()
    };
    for default in [json!({"policy": "api"}), json!({"policy": "api", "scope": "s"})] {
        let mut config = sds(json!({"name": "limpet"}));
        config["default"] = default;
        let keyless = without_keys(&config).unwrap();
        assert_eq!(keyless.session(&Request).map(|_| ()), Err(SessionError::NoKeys));
        assert!(keyless.policies().eq(["api", "shop"]));
        let with_keys = keyless.with_keys(keyring());
        assert!(with_keys.session(&Request).unwrap().is_some());
        assert_eq!(keyless.session(&Request).map(|_| ()), Err(SessionError::NoKeys));
    }
    let mut config = sds(json!({"name": "limpet"}));
    config["default"] = NONE;
    let keyless = without_keys(&config).unwrap();
    assert!(keyless.session(&Request).unwrap().is_none());
    assert!(keyless.with_keys(keyring()).session(&Request).unwrap().is_none());
}
