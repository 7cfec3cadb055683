//! What the Secrets of the keyring and of the authority have in common: how a person asks for a rotation, and how the
//! leader writes them.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::api::PostParams;
use kube::{Api, Error};

use super::diagnostics::refusal;
use crate::cluster::kube::{Backoff, ZeroizingSecret};

/// The annotation that asks for a rotation, unless `limpet.dev/rotated` has the same value.
pub(super) const ROTATE: &str = "limpet.dev/rotate";
/// The value of `limpet.dev/rotate` that led to the last rotation.
pub(super) const ROTATED: &str = "limpet.dev/rotated";

/// The timeout of one call.
const CALL: Duration = Duration::from_secs(5);
/// How long to wait for the watch to show what was written, before anything else is written.
const SEEN: Duration = Duration::from_secs(5);

/// The value of `limpet.dev/rotate` if it asks for a rotation.
pub(super) fn rotation_request(secret: &SecretObject) -> Option<String> {
    let annotation = |name| secret.metadata.annotations.as_ref()?.get(name);
    let wish = annotation(ROTATE).filter(|wish| Some(*wish) != annotation(ROTATED));
    wish.cloned()
}

/// Marks this wish as heeded.
pub(super) fn heed(secret: &mut SecretObject, wish: Option<&str>) {
    if let Some(wish) = wish {
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.insert(ROTATED.to_owned(), wish.to_owned());
    }
}

/// What is wrong with annotations of ours that are none of `known`: they ask for nothing, whatever they say.
pub(super) fn unknown_annotations(secret: &SecretObject, known: &[&str]) -> Option<String> {
    let annotations = secret.metadata.annotations.as_ref()?;
    limpet_model::unknown_annotations(annotations.keys(), known)
}

/// Writes Secrets, one at a time.
pub(super) struct SecretWriter {
    secrets: Api<SecretObject>,
    /// When something was written that the watch has not shown yet.
    written_at: Option<Instant>,
    backoff: Backoff,
}

/// The outcome of writing a Secret.
pub(super) enum SecretWriteOutcome {
    Done,
    /// The API server refuses it for a reason that lasts, with its message.
    Refused(String),
    /// Another client wrote it first, or it must be tried again.
    Not,
}

impl SecretWriter {
    pub(super) fn new(secrets: Api<SecretObject>) -> Self {
        Self {
            secrets,
            written_at: None,
            backoff: Backoff::of_the_api(),
        }
    }

    /// The watch has shown a Secret.
    pub(super) fn saw(&mut self) {
        self.written_at = None;
    }

    /// How long to wait before anything else is written.
    pub(super) fn rest(&mut self) -> Option<Duration> {
        let rest = self.written_at.map(|at| SEEN.saturating_sub(at.elapsed()));
        let rest = rest.filter(|rest| !rest.is_zero());
        if rest.is_none() {
            self.written_at = None;
        }
        rest
    }

    /// How long to wait after a failure.
    pub(super) fn failed(&mut self) -> Duration {
        self.backoff.next()
    }

    /// Creates this Secret, or replaces it. Returns how long to wait after that, too.
    pub(super) async fn write(
        &mut self,
        name: &str,
        secret: &ZeroizingSecret,
        is_new: bool,
    ) -> (SecretWriteOutcome, Duration) {
        let post = PostParams::default();
        let call = async {
            if is_new {
                self.secrets.create(&post, secret.object()).await
            } else {
                // With its resourceVersion: of two writers, the second gets a conflict.
                self.secrets.replace(name, &post, secret.object()).await
            }
        };
        let (error, written) = match tokio::time::timeout(CALL, call).await {
            Ok(Ok(written)) => {
                drop(ZeroizingSecret::new(written));
                self.backoff.reset();
                self.written_at = Some(Instant::now());
                return (SecretWriteOutcome::Done, SEEN);
            }
            Ok(Err(Error::Api(status))) if status.code == 409 => {
                self.written_at = Some(Instant::now());
                return (SecretWriteOutcome::Not, SEEN);
            }
            Ok(Err(error)) => (
                error.to_string(),
                refusal(&error).map_or(SecretWriteOutcome::Not, SecretWriteOutcome::Refused),
            ),
            Err(_) => ("no answer".to_owned(), SecretWriteOutcome::Not),
        };
        tracing::warn!(secret = name, error, "cannot be written");
        (written, self.failed())
    }
}
