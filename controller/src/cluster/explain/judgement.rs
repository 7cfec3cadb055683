//! What is said of a token.

use serde::Serialize;

use crate::time_format;
use crate::tools::token::counting::counting;
use limpet_api::ObjectName;
use limpet_core::outcome::RequestOutcome;
use limpet_core::time::Timestamp;
use limpet_core::token::{TokenAge, TokenRefusal};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum TokenVerdict {
    Honoured,
    Refused,
    /// The filter honours it, and the request goes elsewhere.
    Moved,
    NotVerified,
}

/// What is said of a token.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenJudgement {
    /// Its carrier, like `cookie shop`.
    pub(super) presented: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) form: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key_id: Option<u8>,
    pub(super) verdict: TokenVerdict,
    /// The word of metrics and access logs for a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    pub(super) why: String,
    /// The rule whose sessions it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rule: Option<String>,
    /// What would accept it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) accepted_by: Option<String>,
    /// Whether it is the token that counts, where the rule honours several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counts: Option<bool>,
    /// The pod that requests go to, if it is ready as far as is known.
    #[serde(skip)]
    pub(super) ready: Option<ObjectName>,
    /// What it says, if it could be verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claims: Option<TokenClaims>,
}

/// What a token says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenClaims {
    pub(super) host: String,
    pub(super) destination: String,
    /// The cluster, if there is one of this destination.
    pub(super) cluster: Option<String>,
    #[serde(serialize_with = "exact")]
    pub(super) issued_at: Timestamp,
    #[serde(serialize_with = "exact")]
    pub(super) last_seen: Timestamp,
    #[serde(skip)]
    pub(super) age: TokenAge,
    /// Whether the application named the backend, which has not answered yet.
    pub(super) moving: bool,
    /// When the session ends in any case.
    #[serde(serialize_with = "exact_if_any")]
    pub(super) absolute_end: Option<Timestamp>,
    /// When it ends unless it is used.
    #[serde(serialize_with = "exact_if_any")]
    pub(super) idle_end: Option<Timestamp>,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over the field by reference"
)]
fn exact<S: serde::Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time_format::exact(*time))
}

#[allow(clippy::ref_option, reason = "serde hands over the field by reference")]
fn exact_if_any<S: serde::Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(time_format::exact).serialize(serializer)
}

/// Where a rule honours several tokens, says which one counts.
pub(super) fn mark_newest(all: &mut [TokenJudgement]) {
    let honoured: Vec<_> = all.iter().map(TokenJudgement::honoured).collect();
    for (at, judgement) in all.iter_mut().enumerate() {
        let Some((rule, _)) = judgement.honoured() else {
            continue;
        };
        if honoured.iter().flatten().filter(|(of, _)| *of == rule).count() > 1 {
            judgement.counts = Some(counting(&honoured, &rule) == Some(at));
        }
    }
}

impl TokenJudgement {
    /// The rule that honours the token, and its age. Where the pod is gone, the token still counts: the session begins
    /// again with the next one.
    fn honoured(&self) -> Option<(Option<String>, TokenAge)> {
        let is_honoured = matches!(self.verdict, TokenVerdict::Honoured | TokenVerdict::Moved);
        let claims = self.claims.as_ref().filter(|_| is_honoured)?;
        Some((self.rule.clone(), claims.age))
    }

    pub(super) fn refused(mut self, refusal: TokenRefusal) -> Self {
        self.verdict = TokenVerdict::Refused;
        let word = RequestOutcome::Refused(refusal).as_str();
        self.reason = Some(word.trim_start_matches("refused.").to_owned());
        self
    }
}
