//! Cookies of hosts that are served over HTTP and over HTTPS. A browser that has a `Secure` cookie refuses one of the
//! same name over HTTP (RFC 6265bis section 5.7, "Leave Secure Cookies Alone"), for as long as it has it. So after one
//! visit over HTTPS, there was no session over HTTP. Such a cookie is not `Secure`, unless an object says `always`.

use std::collections::BTreeMap;

use super::facts::Schemes;
use super::origins::Part;
use super::policy::Draft;
use super::rules::RuleChoice;
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
    let mut shared: BTreeMap<Text, Schemes> = BTreeMap::new();
    for rule in chosen.iter().filter(|rule| rule.shares_session()) {
        let schemes = shared.entry(rule.scope.of_cookie.clone()).or_default();
        schemes.extend(&rule.facts.schemes);
    }
    for rule in chosen {
        let of_all = shared.get(&rule.scope.of_cookie).filter(|_| rule.shares_session());
        let schemes = of_all.unwrap_or(&rule.facts.schemes);
        rule.draft = rule.draft.take().map(|draft| draft.over(schemes));
        let each = std::mem::take(&mut rule.each);
        rule.each = each
            .into_iter()
            .map(|(path, draft)| (path, draft.over(schemes)))
            .collect();
    }
}
