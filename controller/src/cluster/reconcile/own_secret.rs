//! Rotation requests in the Secrets of the keyring and of the authority, and the leader's writes of them.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::api::PostParams;
use kube::{Api, Error};

use super::diagnostics::refusal;
use crate::cluster::kube::{Backoff, ZeroizingSecret};

/// Asks for a rotation, unless `limpet.dev/rotated` has the same value.
pub(crate) const ROTATE: &str = "limpet.dev/rotate";
/// The last value of `limpet.dev/rotate` that was heeded.
pub(super) const ROTATED: &str = "limpet.dev/rotated";

const CALL: Duration = Duration::from_secs(5);
/// The maximum wait for the watch to show a write.
const SEEN: Duration = Duration::from_secs(5);

/// The value of `limpet.dev/rotate` if it asks for a rotation.
pub(super) fn rotation_request(secret: &SecretObject) -> Option<String> {
    let annotation = |name| secret.metadata.annotations.as_ref()?.get(name);
    let wish = annotation(ROTATE).filter(|wish| Some(*wish) != annotation(ROTATED));
    wish.cloned()
}

pub(super) fn heed(secret: &mut SecretObject, wish: Option<&str>) {
    if let Some(wish) = wish {
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.insert(ROTATED.to_owned(), wish.to_owned());
    }
}

/// The message on ignored annotations of ours.
pub(super) fn unknown_annotations(secret: &SecretObject, known: &[&str]) -> Option<String> {
    let annotations = secret.metadata.annotations.as_ref()?;
    limpet_model::unknown_annotations(annotations.keys(), known)
}

pub(super) struct SecretWriter {
    secrets: Api<SecretObject>,
    /// A write that the watch has not shown yet.
    written_at: Option<Instant>,
    backoff: Backoff,
}

pub(super) enum SecretWriteOutcome {
    Done,
    /// A lasting refusal, with the API server's message.
    Refused(String),
    /// To be tried again, for example after another client's write.
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

    pub(super) fn saw(&mut self) {
        self.written_at = None;
    }

    /// How long to wait before the next write.
    pub(super) fn rest(&mut self) -> Option<Duration> {
        let rest = self.written_at.map(|at| SEEN.saturating_sub(at.elapsed()));
        let rest = rest.filter(|rest| !rest.is_zero());
        if rest.is_none() {
            self.written_at = None;
        }
        rest
    }

    pub(super) fn failed(&mut self) -> Duration {
        self.backoff.next()
    }

    /// Creates or replaces a Secret. Also returns how long to wait after that.
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
