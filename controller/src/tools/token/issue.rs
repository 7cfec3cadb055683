//! `limpet token issue`.

use serde_json::json;

use super::candidates::{CandidateSession, Candidates, session_json};
use crate::cli::IssueArgs;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};
use crate::time_format;
use limpet_core::config::schema::TokenConfig;
use limpet_core::token::{Claims, DestinationId, PayloadForm};

pub(crate) fn run(args: &IssueArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let candidates = Candidates::from_args(&args.realm, None, [None, None])?;
    let candidate = the_only(&candidates)?;
    let realm = candidate.realm(None).map_err(|unavailable| match unavailable {
        Some(unavailable) => CommandFailure(unavailable.to_string()),
        None => CommandFailure("keys: expected one with state signing".to_owned()),
    })?;
    let issued_at = args.issued_at.unwrap_or_else(time_format::now);
    let last_seen = args.last_seen.unwrap_or(issued_at);
    if last_seen < issued_at {
        return Err(CommandFailure(
            "--last-seen: expected a time that is not before --issued-at".to_owned(),
        ));
    }
    let claims = Claims {
        host: args.host,
        destination: DestinationId::of_cluster(args.cluster.as_bytes()),
        issued_at,
        last_seen,
    };
    let of_policy = || match candidate.policy_config().map(|policy| policy.token) {
        Some(TokenConfig::Signed) => PayloadForm::Signed,
        Some(TokenConfig::Sealed) | None => PayloadForm::Sealed,
    };
    let token_form = args.form.map_or_else(of_policy, PayloadForm::from);
    let mut nonce = [0; 4];
    getrandom::fill(&mut nonce).map_err(|error| CommandFailure(format!("the system has no random bytes: {error}")))?;
    let token = realm.seal(token_form, &claims, nonce);
    match form {
        Output::Text { .. } => output::print(&format!("{token}\n"))?,
        Output::Document(format) => {
            let session = session_json(candidate, &candidates);
            output::print_document(
                format,
                &json!({"token": token, "form": token_form.name(), "session": session}),
            )?;
        }
    }
    Ok(CommandVerdict::Good)
}

/// A token is for one session, so the arguments must leave one candidate.
fn the_only(candidates: &Candidates) -> Result<&CandidateSession, CommandFailure> {
    match candidates.list.as_slice() {
        [] => Err(CommandFailure("expected --keys or --config".to_owned())),
        [candidate] => Ok(candidate),
        _ => Err(CommandFailure(format!(
            "expected --policy and --scope to name one session of these: {}",
            candidates.words()
        ))),
    }
}
