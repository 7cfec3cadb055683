//! What a person asks the controller for, by an annotation of the Secret with the keyring. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::cluster::reconcile::keyring::{REVOKE, ROTATE};
use crate::tools::keys::ids;
use limpet_api::ObjectName;
use limpet_core::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyringRequest {
    /// Any new value asks for a rotation.
    Rotate(Timestamp),
    Revoke(BTreeSet<u8>),
}

impl KeyringRequest {
    pub(super) fn annotation(&self) -> &'static str {
        match self {
            Self::Rotate(_) => ROTATE,
            Self::Revoke(_) => REVOKE,
        }
    }

    pub(super) fn value(&self) -> String {
        match self {
            Self::Rotate(now) => now.unix_millis().to_string(),
            Self::Revoke(ids) => ids.iter().map(u8::to_string).collect::<Vec<_>>().join(","),
        }
    }

    /// Whether it may be asked for beside these annotations.
    ///
    /// # Errors
    /// If it would replace another request that is not done.
    pub(super) fn check(&self, present: &BTreeMap<String, String>) -> Result<(), String> {
        match (self, present.get(REVOKE)) {
            (Self::Revoke(_), Some(other)) if *other != self.value() => Err(format!(
                "{REVOKE} is {other:?}, and not every Envoy knows that: wait until `limpet keys list` does not show it, \
                 or name these keys as well"
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn text(&self, secret: &ObjectName, dry_run: bool) -> String {
        let annotation = format!("{}={} of Secret {secret}", self.annotation(), self.value());
        if dry_run {
            return format!("dry run: the API server would take {annotation}\n");
        }
        match self {
            Self::Rotate(_) => format!(
                "asked for a rotation: {annotation}\nThe controller takes it through its phases: see `limpet keys list`\n"
            ),
            Self::Revoke(ids) => format!(
                "asked to revoke {}: {annotation}\nThe controller revokes at once; `limpet keys list` shows when every \
                 Envoy knows\n",
                ids::keys(ids)
            ),
        }
    }

    pub(super) fn json(&self, secret: &ObjectName, dry_run: bool) -> Value {
        json!({
            "secret": secret.to_string(),
            "annotation": self.annotation(),
            "value": self.value(),
            "written": !dry_run,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_revocation_was_overwritten() {
        let request = KeyringRequest::Revoke([4, 3].into());
        assert_eq!(request.value(), "3,4");
        let present = |value: &str| BTreeMap::from([(REVOKE.to_owned(), value.to_owned())]);
        assert_eq!(request.check(&present("3,4")), Ok(()));
        assert_eq!(request.check(&BTreeMap::new()), Ok(()));
        let why = request.check(&present("2")).unwrap_err();
        assert!(
            why.starts_with("limpet.dev/revoke is \"2\", and not every Envoy knows that"),
            "{why}"
        );
        let rotation = KeyringRequest::Rotate(Timestamp::from_unix_seconds(7));
        assert_eq!(rotation.check(&present("2")), Ok(()));
    }

    #[test]
    fn a_dry_run_says_that_it_was_done() {
        let secret = ObjectName::new("limpet-system", "limpet-keyring");
        let request = KeyringRequest::Rotate(Timestamp::from_unix_seconds(7));
        let text = request.text(&secret, true);
        let expected = "dry run: the API server would take limpet.dev/rotate=7000 of Secret \
                        limpet-system/limpet-keyring\n";
        assert_eq!(text, expected);
        assert_eq!(request.json(&secret, true)["written"], false);
        assert!(
            request
                .text(&secret, false)
                .starts_with("asked for a rotation: limpet.dev/rotate=7000 of ")
        );
        let revoked = KeyringRequest::Revoke([3].into()).text(&secret, false);
        assert!(
            revoked.starts_with("asked to revoke key 3: limpet.dev/revoke=3 of "),
            "{revoked}"
        );
    }
}
