//! `limpet migrate policies`: writes session policies so that their sessions survive an upgrade of the Gateway API.
//!
//! - `change`: what a policy needs. Pure.
//!
//! Which shape the API server takes is asked of the API server itself, by a write that is only tried.

mod change;

use std::fmt::Write as _;

use kube::api::{DynamicObject, ListParams, Patch, PatchParams, ValidationDirective};
use kube::core::ApiResource;
use kube::{Api, Client, Error};
use serde_json::{Value, json};

use crate::cluster::cli::MigratePoliciesArgs;
use crate::cluster::kube::{FIELD_MANAGER, connect};
use crate::exit::{Failure, Verdict};
use crate::output::{self, Output};
use change::{Form, Need, need, patch};
use limpet_api::{GATEWAY_X_GROUP, Kind};

/// What became of a policy.
struct Outcome {
    policy: String,
    state: State,
    about: String,
    patch: Option<Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    NotWritten,
    Written,
    Unknown,
    Refused,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NotWritten => "not written",
            Self::Written => "written",
            Self::Unknown => "unknown",
            Self::Refused => "refused",
        }
    }
}

pub(crate) fn run(args: &MigratePoliciesArgs, format: Output) -> Result<Verdict, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure(format!("cannot start: {error}")))?;
    let outcomes = runtime.block_on(migrate(args))?;
    output::print(&text(&outcomes, format)?)?;
    let is_good = |outcome: &Outcome| matches!(outcome.state, State::Ready | State::Written);
    Ok(if outcomes.iter().all(is_good) {
        Verdict::Good
    } else {
        Verdict::Bad
    })
}

async fn migrate(args: &MigratePoliciesArgs) -> Result<Vec<Outcome>, Failure> {
    let client = connect(args.kubeconfig.as_deref()).await;
    let client = client.map_err(|error| Failure(error.to_string()))?;
    let all = api(&client, args.namespace.as_deref());
    let policies = match all.list(&ListParams::default()).await {
        Ok(policies) => policies.items,
        // The kind is not served, so there are none.
        Err(Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(Failure(format!("cannot list {}: {error}", Kind::XBackendTrafficPolicy))),
    };
    let mut outcomes = Vec::new();
    for policy in policies {
        let namespace = policy.metadata.namespace.clone().unwrap_or_default();
        let own = api(&client, Some(&namespace));
        outcomes.push(migrate_one(&own, &policy, args.write).await?);
    }
    Ok(outcomes)
}

fn api(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: GATEWAY_X_GROUP.to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: format!("{GATEWAY_X_GROUP}/v1alpha1"),
        kind: Kind::XBackendTrafficPolicy.as_str().to_owned(),
        plural: "xbackendtrafficpolicies".to_owned(),
    };
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn migrate_one(api: &Api<DynamicObject>, policy: &DynamicObject, writes: bool) -> Result<Outcome, Failure> {
    let name = policy.metadata.name.clone().unwrap_or_default();
    let namespace = policy.metadata.namespace.clone().unwrap_or_default();
    let outcome = |state, about: String, patch| Outcome {
        policy: format!("{namespace}/{name}"),
        state,
        about,
        patch,
    };
    let session = match need(policy) {
        Need::Nothing(why) => return Ok(outcome(State::Ready, why.to_owned(), None)),
        Need::Unknown(why) => return Ok(outcome(State::Unknown, why, None)),
        Need::Session(session) => session,
    };
    let mut form = Form::Fields;
    let mut change = patch(policy, &session, form);
    let mut tried = write(api, &name, change.as_ref(), true).await;
    if tried.as_ref().is_err_and(is_unknown_field) {
        form = Form::Annotations;
        change = patch(policy, &session, form);
        tried = write(api, &name, change.as_ref(), true).await;
    }
    if tried.is_ok() && writes {
        tried = write(api, &name, change.as_ref(), false).await;
    }
    match tried {
        Err(Error::Api(status)) => Ok(outcome(State::Refused, status.message.clone(), change)),
        Err(error) => Err(Failure(format!("{namespace}/{name}: {error}"))),
        Ok(()) if change.is_none() => Ok(outcome(State::Ready, format!("{session} is in {form}"), None)),
        Ok(()) => {
            let state = if writes { State::Written } else { State::NotWritten };
            Ok(outcome(state, format!("{session} goes to {form}"), change))
        }
    }
}

/// Writes a change, or only tries it. A field that the definition does not have is refused.
async fn write(api: &Api<DynamicObject>, name: &str, change: Option<&Value>, tries: bool) -> Result<(), Error> {
    let Some(change) = change else {
        return Ok(());
    };
    let params = PatchParams {
        dry_run: tries,
        field_manager: Some(FIELD_MANAGER.to_owned()),
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    api.patch(name, &params, &Patch::Merge(change)).await.map(drop)
}

fn is_unknown_field(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.message.contains("unknown field"))
}

fn text(outcomes: &[Outcome], format: Output) -> Result<String, Failure> {
    if let Output::Json = format {
        let policy = |outcome: &Outcome| {
            json!({
                "policy": outcome.policy,
                "state": outcome.state.name(),
                "about": outcome.about,
                "patch": outcome.patch,
            })
        };
        let policies: Vec<Value> = outcomes.iter().map(policy).collect();
        return Ok(format!("{:#}\n", json!({"policies": policies})));
    }
    let mut text = String::new();
    for outcome in outcomes {
        let (policy, state) = (&outcome.policy, outcome.state.name());
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{} {policy}: {state}: {}",
            Kind::XBackendTrafficPolicy,
            outcome.about
        );
        if let Some(patch) = &outcome.patch {
            let yaml =
                serde_saphyr::to_string(patch).map_err(|error| Failure(format!("cannot write YAML: {error}")))?;
            text.extend(yaml.lines().flat_map(|line| ["  ", line, "\n"]));
        }
    }
    if outcomes.is_empty() {
        text += "there is no XBackendTrafficPolicy\n";
    }
    if outcomes.iter().any(|outcome| outcome.state == State::NotWritten) {
        text += "run it with --write to change these policies\n";
    }
    Ok(text)
}
