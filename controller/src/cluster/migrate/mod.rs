//! `limpet migrate policies`: writes session policies so that their sessions survive an upgrade of the Gateway API. A
//! dry run of a write shows which shape the API server takes.
//!
//! - `change`: what a policy needs. Pure.

mod change;

use std::fmt::Write as _;

use kube::api::{DynamicObject, ListParams, Patch, PatchParams, ValidationDirective};
use kube::core::ApiResource;
use kube::{Api, Client, Error};
use serde_json::{Value, json};

use crate::cluster::cli::MigratePoliciesArgs;
use crate::cluster::kube::{ApiConnection, FIELD_MANAGER, connect, words};
use crate::cluster::runtime::runtime;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output, printable};
use change::{MigrationNeed, MigrationTarget, need, patch};
use limpet_api::{GATEWAY_X_GROUP, Kind};

struct MigrationReport {
    /// Of the API server.
    address: String,
    /// Whether the API server has the kind.
    serves_kind: bool,
    outcomes: Vec<PolicyMigration>,
}

struct PolicyMigration {
    policy: String,
    state: MigrationState,
    about: String,
    patch: Option<Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MigrationState {
    Ready,
    NotWritten,
    Written,
    Unknown,
    Refused,
}

impl MigrationState {
    fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NotWritten => "not written",
            Self::Written => "written",
            Self::Unknown => "unknown",
            Self::Refused => "refused",
        }
    }

    fn verdict(self) -> CommandVerdict {
        match self {
            Self::Ready | Self::Written => CommandVerdict::Good,
            Self::NotWritten | Self::Unknown => CommandVerdict::Warned,
            Self::Refused => CommandVerdict::Bad,
        }
    }
}

pub(crate) fn run(args: &MigratePoliciesArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let runtime = runtime()?;
    let report = runtime.block_on(migrate(args))?;
    match form {
        Output::Text { .. } => output::print(&text(&report)?)?,
        Output::Document(format) => output::print_document(format, &document(&report))?,
    }
    let worst = report.outcomes.iter().map(|outcome| outcome.state.verdict()).max();
    Ok(worst.unwrap_or(CommandVerdict::Good))
}

async fn migrate(args: &MigratePoliciesArgs) -> Result<MigrationReport, CommandFailure> {
    let ApiConnection { client, address } = connect(&args.cluster).await?;
    let own = args.namespace.as_deref().unwrap_or(client.default_namespace());
    let all = api(&client, (!args.all_namespaces).then_some(own));
    let (serves_kind, policies) = match all.list(&ListParams::default()).await {
        Ok(policies) => (true, policies.items),
        Err(Error::Api(status)) if status.code == 404 => (false, Vec::new()),
        Err(error) => {
            let (kind, error) = (Kind::XBackendTrafficPolicy, words(&error));
            return Err(CommandFailure(format!("cannot list {kind} at {address}: {error}")));
        }
    };
    let mut outcomes = Vec::new();
    for policy in policies {
        let namespace = policy.metadata.namespace.clone().unwrap_or_default();
        let own = api(&client, Some(&namespace));
        outcomes.push(migrate_one(&own, &policy, args.write).await?);
    }
    Ok(MigrationReport {
        address,
        serves_kind,
        outcomes,
    })
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

async fn migrate_one(
    api: &Api<DynamicObject>,
    policy: &DynamicObject,
    writes: bool,
) -> Result<PolicyMigration, CommandFailure> {
    let name = policy.metadata.name.clone().unwrap_or_default();
    let namespace = policy.metadata.namespace.clone().unwrap_or_default();
    let outcome = |state, about: String, patch| PolicyMigration {
        policy: format!("{namespace}/{name}"),
        state,
        about,
        patch,
    };
    let session = match need(policy) {
        MigrationNeed::Nothing(why) => return Ok(outcome(MigrationState::Ready, why.to_owned(), None)),
        MigrationNeed::Unknown(why) => return Ok(outcome(MigrationState::Unknown, why, None)),
        MigrationNeed::Session(session) => session,
    };
    let mut form = MigrationTarget::Fields;
    let mut change = patch(policy, &session, form);
    let mut tried = write(api, &name, change.as_ref(), true).await;
    if tried.as_ref().is_err_and(is_unknown_field) {
        form = MigrationTarget::Annotations;
        change = patch(policy, &session, form);
        tried = write(api, &name, change.as_ref(), true).await;
    }
    if tried.is_ok() && writes {
        tried = write(api, &name, change.as_ref(), false).await;
    }
    match tried {
        Err(Error::Api(status)) => Ok(outcome(MigrationState::Refused, status.message.clone(), change)),
        Err(error) => Err(CommandFailure(format!("{namespace}/{name}: {}", words(&error)))),
        Ok(()) if change.is_none() => Ok(outcome(MigrationState::Ready, format!("{session} is in {form}"), None)),
        Ok(()) => {
            let state = if writes {
                MigrationState::Written
            } else {
                MigrationState::NotWritten
            };
            Ok(outcome(state, format!("{session} goes to {form}"), change))
        }
    }
}

/// `tries`: a dry run. A field that the definition lacks is refused.
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

fn document(report: &MigrationReport) -> Value {
    let policy = |outcome: &PolicyMigration| {
        json!({
            "policy": outcome.policy,
            "state": outcome.state.name(),
            "about": outcome.about,
            "patch": outcome.patch,
        })
    };
    let policies: Vec<Value> = report.outcomes.iter().map(policy).collect();
    json!({"apiServer": report.address, "servesKind": report.serves_kind, "policies": policies})
}

fn text(report: &MigrationReport) -> Result<String, CommandFailure> {
    let MigrationReport {
        address,
        serves_kind,
        outcomes,
    } = report;
    let kind = Kind::XBackendTrafficPolicy;
    let mut text = String::new();
    for outcome in outcomes {
        let (policy, state, about) = (&outcome.policy, outcome.state.name(), printable(&outcome.about));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{kind} {policy}: {state}: {about}");
        if let Some(patch) = &outcome.patch {
            let yaml = output::yaml(patch)?;
            text.extend(yaml.lines().flat_map(|line| ["  ", line, "\n"]));
        }
    }
    if !serves_kind {
        let _ = writeln!(
            text,
            "the API server at {address} does not serve {kind}: nothing to migrate"
        );
    } else if outcomes.is_empty() {
        let _ = writeln!(
            text,
            "the API server at {address} has no {kind} here: nothing to migrate"
        );
    }
    if outcomes
        .iter()
        .any(|outcome| outcome.state == MigrationState::NotWritten)
    {
        text += "run it with --write to change these policies\n";
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(serves_kind: bool, outcomes: Vec<PolicyMigration>) -> MigrationReport {
        MigrationReport {
            address: "https://192.0.2.1:6443".to_owned(),
            serves_kind,
            outcomes,
        }
    }

    #[test]
    fn a_cluster_without_the_kind_is_told_from_one_without_policies() {
        let said = |serves_kind| text(&report(serves_kind, Vec::new())).unwrap();
        assert_eq!(
            said(false),
            "the API server at https://192.0.2.1:6443 does not serve XBackendTrafficPolicy: nothing to migrate\n"
        );
        assert_eq!(
            said(true),
            "the API server at https://192.0.2.1:6443 has no XBackendTrafficPolicy here: nothing to migrate\n"
        );
    }

    #[test]
    fn what_users_wrote_cannot_change_the_terminal() {
        let outcome = PolicyMigration {
            policy: "shop/web".to_owned(),
            state: MigrationState::Refused,
            about: "name \u{1b}[2J".to_owned(),
            patch: None,
        };
        let said = text(&report(true, vec![outcome])).unwrap();
        assert_eq!(said, "XBackendTrafficPolicy shop/web: refused: name \\u{1b}[2J\n");
    }
}
