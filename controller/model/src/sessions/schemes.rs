//! Cookies of hosts that are served over HTTP and over HTTPS. A browser that has a `Secure` cookie refuses one of the
//! same name over HTTP (RFC 6265bis section 5.7, "Leave Secure Cookies Alone"), for as long as it has it. So after one
//! visit over HTTPS, there was no session over HTTP. Such a cookie is not `Secure`, unless an object says `always`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::facts::Schemes;
use super::origins::Part;
use super::policy::Draft;
use super::rules::RuleChoice;
use super::scopes::shared_by;
use crate::graph::Hostname;
use limpet_api::Text;
use limpet_core::config::schema::{CookieModeConfig, SecureConfig};

impl Schemes {
    pub(super) fn extend(&mut self, other: &Self) {
        self.over_http.extend(other.over_http.iter().cloned());
        self.over_https.extend(other.over_https.iter().cloned());
    }

    /// Whether a browser may send one cookie over both. With a `Domain`, hosts of it have one cookie.
    fn share_cookies(&self, has_domain: bool) -> bool {
        let meets = |host: &Hostname| self.over_https.iter().any(|other| host.intersection(other).is_some());
        if has_domain {
            !self.over_http.is_empty() && !self.over_https.is_empty()
        } else {
            self.over_http.iter().any(meets)
        }
    }
}

impl Draft {
    /// The same for hosts that are served over HTTP, too.
    pub(super) fn over_http_too(mut self) -> Self {
        if let Some(cookie) = &mut self.config.cookie
            && cookie.secure == SecureConfig::Auto
            // The attributes of the application's cookie are its own.
            && cookie.mode == CookieModeConfig::Insert
        {
            cookie.secure = SecureConfig::Never;
            self.origins.set("secure", Part::Schemes);
        }
        self
    }

    /// The same for these hosts.
    pub(super) fn over(self, schemes: &Schemes) -> Self {
        if schemes.share_cookies(self.config.domain().is_some()) {
            self.over_http_too()
        } else {
            self
        }
    }

    /// Whether the cookie would be `Secure` without the hosts that are served over HTTP.
    pub(super) fn is_plain_for_http(&self) -> bool {
        self.origins.fields().any(|(_, part)| part == Some(Part::Schemes))
    }
}

/// What the message of a status says of such a cookie.
pub(super) const NOT_SECURE: &str = "the cookie is not Secure, because its host is served over HTTP as well, and \
    browsers keep one cookie of a name; with session.limpet.dev/secure: always, there are no sessions over HTTP";

/// Settles the cookies of all rules. Rules that share a session have one cookie.
pub(super) fn settle(chosen: &mut [RuleChoice<'_>]) {
    let mut shared: BTreeMap<(String, Option<Text>), Schemes> = BTreeMap::new();
    let keys = |rule: &RuleChoice<'_>| {
        let keys = shared_by(rule).into_iter().filter(|_| rule.shares_session());
        let keys = keys.map(|(scope, cluster)| (scope.to_owned(), cluster.cloned()));
        keys.collect::<Vec<_>>()
    };
    for rule in &*chosen {
        for key in keys(rule) {
            shared.entry(key).or_default().extend(&rule.facts.schemes);
        }
    }
    for rule in chosen {
        let mut schemes = Cow::Borrowed(&rule.facts.schemes);
        for of_all in keys(rule).iter().filter_map(|key| shared.get(key)) {
            schemes.to_mut().extend(of_all);
        }
        rule.draft = rule.draft.take().map(|draft| draft.over(&schemes));
        let each = std::mem::take(&mut rule.each);
        rule.each = each
            .into_iter()
            .map(|(path, draft)| (path, draft.over(&schemes)))
            .collect();
    }
}
