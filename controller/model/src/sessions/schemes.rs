//! Cookies of hosts that are served over HTTP and HTTPS. A browser that has a `Secure` cookie refuses one of the same
//! name over HTTP (RFC 6265bis section 5.7). So such a cookie is not `Secure`, unless an
//! object says `always`.

use std::collections::BTreeMap;

use super::facts::Schemes;
use super::origins::FieldSource;
use super::policy::PolicyDraft;
use super::rules::RuleChoice;
use super::scopes::shared_by;
use super::shared_names::have_common_host;
use limpet_api::Text;
use limpet_core::config::schema::{CookieModeConfig, SecureConfig};

impl Schemes {
    pub(super) fn extend(&mut self, other: &Self) {
        self.over_http.extend(other.over_http.iter().cloned());
        self.over_https.extend(other.over_https.iter().cloned());
    }

    /// Whether a client may have one cookie for both; with a `Domain`, hosts of it share one.
    fn share_cookies(&self, has_domain: bool) -> bool {
        if has_domain {
            !self.over_http.is_empty() && !self.over_https.is_empty()
        } else {
            have_common_host(&self.over_http, &self.over_https)
        }
    }

    /// The answer for cookies without and with a `Domain`.
    fn shared_cookies(&self) -> [bool; 2] {
        [false, true].map(|has_domain| self.share_cookies(has_domain))
    }
}

impl PolicyDraft {
    /// Adapts it to hosts that are also served over HTTP.
    pub(super) fn also_over_http(mut self) -> Self {
        if let Some(cookie) = &mut self.config.cookie
            && cookie.secure == SecureConfig::Auto
            // The attributes of the application's cookie are its own.
            && cookie.mode == CookieModeConfig::Insert
        {
            cookie.secure = SecureConfig::Never;
            self.origins.set("secure", FieldSource::Schemes);
        }
        self
    }

    pub(super) fn for_schemes(self, schemes: &Schemes) -> Self {
        self.over_shared(schemes.shared_cookies())
    }

    fn over_shared(self, [without_domain, with_domain]: [bool; 2]) -> Self {
        let is_shared = if self.config.domain().is_some() {
            with_domain
        } else {
            without_domain
        };
        if is_shared { self.also_over_http() } else { self }
    }

    /// Whether the cookie would be `Secure` without the hosts that are served over HTTP.
    pub(super) fn is_plain_for_http(&self) -> bool {
        self.origins
            .fields()
            .any(|(_, part)| part == Some(FieldSource::Schemes))
    }
}

pub(super) const NOT_SECURE: &str = "the cookie is not Secure, because its host is served over HTTP as well, and \
    browsers keep one cookie of a name; with session.limpet.dev/secure: always, there are no sessions over HTTP";

/// Settles the cookies of all rules. Rules that share a session, also through others, have one cookie, so they are
/// settled together.
pub(super) fn settle(chosen: &mut [RuleChoice<'_>]) {
    let mut groups = UnionFind::default();
    let mut first: BTreeMap<(String, Option<Text>), usize> = BTreeMap::new();
    for rule in &*chosen {
        let group = groups.add();
        for (scope, cluster) in shared_by(rule).into_iter().filter(|_| rule.shares_session()) {
            let of_first = *first.entry((scope.to_owned(), cluster.cloned())).or_insert(group);
            groups.join(group, of_first);
        }
    }
    let mut schemes: BTreeMap<usize, Schemes> = BTreeMap::new();
    for (rule, index) in chosen.iter().zip(0..) {
        schemes.entry(groups.of(index)).or_default().extend(&rule.facts.schemes);
    }
    let shared: BTreeMap<usize, [bool; 2]> = schemes
        .into_iter()
        .map(|(group, schemes)| (group, schemes.shared_cookies()))
        .collect();
    for (rule, index) in chosen.iter_mut().zip(0..) {
        let shared = shared.get(&groups.of(index)).copied().unwrap_or_default();
        rule.draft = rule.draft.take().map(|draft| draft.over_shared(shared));
        let each = std::mem::take(&mut rule.each);
        let each = each.into_iter().map(|(path, draft)| (path, draft.over_shared(shared)));
        rule.each = each.collect();
    }
}

/// Union-find: each rule knows one of its group, and in the end all know the same one.
#[derive(Default)]
struct UnionFind(Vec<usize>);

impl UnionFind {
    fn add(&mut self) -> usize {
        self.0.push(self.0.len());
        self.0.len() - 1
    }

    /// The one that all of a group know. The way there is halved each time.
    fn of(&mut self, mut member: usize) -> usize {
        while let Some(&next) = self.0.get(member).filter(|next| **next != member) {
            let behind = self.0.get(next).copied().unwrap_or(next);
            if let Some(known) = self.0.get_mut(member) {
                *known = behind;
            }
            member = behind;
        }
        member
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.of(one), self.of(other));
        if let Some(known) = self.0.get_mut(one.max(other)) {
            *known = one.min(other);
        }
    }
}
