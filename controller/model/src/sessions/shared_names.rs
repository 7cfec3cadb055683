//! Finds cookies of the same name of which a client would keep only one.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use crate::graph::Hostname;
use limpet_api::ObjectName;
use limpet_core::config::schema::CookieConfig;

/// Cookies by name and path, and their hosts, as clients tell them apart (RFC 6265, section 5.3).
#[derive(Debug)]
pub(crate) struct SharedNames<'a, W> {
    cookies: HashMap<(&'a str, &'a str), HashMap<CookiePlace, NameWriters<'a, W>>>,
}

#[derive(Debug)]
struct NameWriters<'a, W> {
    all: Vec<(W, ScopeAge<'a>)>,
    oldest: OldestScopes<'a>,
}

/// Since when a scope may have its cookie, as text that sorts by time, and the scope. The smaller one keeps the name.
pub(crate) type ScopeAge<'a> = (&'a str, &'a str);

/// Since when each scope has had its cookie: since the first of its writers.
pub(crate) fn ages<'a>(writers: impl IntoIterator<Item = (&'a str, String)>) -> HashMap<&'a str, String> {
    let mut ages: HashMap<&str, String> = HashMap::new();
    for (scope, since) in writers {
        let age = ages.entry(scope).or_insert_with(|| since.clone());
        if since < *age {
            *age = since;
        }
    }
    ages
}

/// The oldest scope, and the oldest of the others.
#[derive(Debug, Clone, Copy, Default)]
struct OldestScopes<'a>([Option<ScopeAge<'a>>; 2]);

impl<'a> OldestScopes<'a> {
    fn add(&mut self, since: ScopeAge<'a>) {
        let [first, second] = &mut self.0;
        let is_of = |known: &Option<ScopeAge<'a>>| known.is_some_and(|known| known.1 == since.1);
        if first.is_none_or(|first| since < first) {
            if !is_of(first) {
                *second = *first;
            }
            *first = Some(since);
        } else if !is_of(first) && second.is_none_or(|second| since < second) {
            *second = Some(since);
        }
    }

    fn merge(&mut self, other: &Self) {
        other.0.iter().flatten().for_each(|since| self.add(*since));
    }

    /// The oldest other scope that is older.
    fn before(&self, since: ScopeAge<'a>) -> Option<ScopeAge<'a>> {
        let mut all = self.0.iter().flatten();
        all.find(|known| known.1 != since.1 && **known < since).copied()
    }
}

impl<W> Default for SharedNames<'_, W> {
    fn default() -> Self {
        Self {
            cookies: HashMap::new(),
        }
    }
}

impl<'a, W: Copy + Eq + Hash> SharedNames<'a, W> {
    pub(crate) fn add(
        &mut self,
        writer: W,
        since: ScopeAge<'a>,
        places: impl IntoIterator<Item = CookiePlace>,
        cookie: &'a CookieConfig,
    ) {
        let cookies = self.cookies.entry((&cookie.name, &cookie.path)).or_default();
        for place in places {
            let writers = cookies.entry(place).or_insert_with(|| NameWriters {
                all: Vec::new(),
                oldest: OldestScopes::default(),
            });
            writers.all.push((writer, since));
            writers.oldest.add(since);
        }
    }

    /// The writers whose cookie an older scope also writes, with the oldest of these, in time linear in the number of
    /// hosts.
    pub(crate) fn shared(&self) -> HashMap<W, ScopeAge<'a>> {
        let mut shared: HashMap<W, ScopeAge<'a>> = HashMap::new();
        for hosts in self.cookies.values() {
            let mut within: HashMap<CookiePlace, OldestScopes<'a>> = HashMap::new();
            for (host, writers) in hosts {
                for wider in wider_places(host).filter(|wider| hosts.contains_key(wider)) {
                    within.entry(wider).or_default().merge(&writers.oldest);
                }
            }
            for (host, writers) in hosts {
                let mut oldest = writers.oldest;
                oldest.merge(&within.get(host).copied().unwrap_or_default());
                for wider in wider_places(host).filter_map(|wider| hosts.get(&wider)) {
                    oldest.merge(&wider.oldest);
                }
                for (writer, since) in &writers.all {
                    if let Some(older) = oldest.before(*since) {
                        let known = shared.entry(*writer).or_insert(older);
                        *known = older.min(*known);
                    }
                }
            }
        }
        shared
    }
}

/// Hosts that a cookie is written for: all of a Gateway, and a single one at any Gateway (`None`), since two Gateways
/// may serve one host. But a wildcard has no hosts of other Gateways: a route could take the names of all cookies
/// there.
pub(crate) type CookiePlace = (Option<ObjectName>, Hostname);

/// The places of a cookie for clients of these hosts. With a domain, it is one cookie for all of the domain.
pub(super) fn cookie_places<'a>(
    cookie: &CookieConfig,
    hosts: impl IntoIterator<Item = (ObjectName, &'a Hostname)>,
) -> BTreeSet<CookiePlace> {
    let domain = cookie.domain.as_ref();
    let domain = domain.map(|domain| Hostname::parse(Some(domain.trim_start_matches('.'))));
    let mut places = BTreeSet::new();
    for (gateway, host) in hosts {
        let host = domain.as_ref().unwrap_or(host);
        if matches!(host, Hostname::Exact(_)) {
            places.insert((None, host.clone()));
        }
        places.insert((Some(gateway), host.clone()));
    }
    places
}

/// The wildcards of the same Gateway that contain all of these hosts, without the set itself.
pub(crate) fn wider_places((gateway, host): &CookiePlace) -> impl Iterator<Item = CookiePlace> + '_ {
    let wider = gateway.iter().flat_map(move |_| wider(host));
    wider.map(|wider| (gateway.clone(), wider))
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WrittenCookie {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) place: CookiePlace,
    /// As [`ScopeAge`].
    pub(crate) since: (String, String),
}

impl WrittenCookie {
    pub(super) fn all(
        (since, scope): ScopeAge<'_>,
        places: BTreeSet<CookiePlace>,
        cookie: &CookieConfig,
    ) -> impl Iterator<Item = Self> {
        places.into_iter().map(move |place| Self {
            name: cookie.name.clone(),
            path: cookie.path.clone(),
            place,
            since: (since.to_owned(), scope.to_owned()),
        })
    }
}

/// Whether a host is in both sets. One of two hosts or wildcards with a host in common contains the other, so each is
/// looked up: comparing all pairs would take the product of both.
pub(super) fn have_common_host(one: &BTreeSet<Hostname>, other: &BTreeSet<Hostname>) -> bool {
    let is_within = |host: &Hostname, others: &BTreeSet<Hostname>| {
        #[cfg(test)]
        crate::looked::at_one();
        others.contains(host) || wider(host).any(|wider| others.contains(&wider))
    };
    one.iter().any(|host| is_within(host, other)) || other.iter().any(|host| is_within(host, one))
}

/// The wildcards that contain all of these hosts, without the set itself.
fn wider(host: &Hostname) -> impl Iterator<Item = Hostname> + '_ {
    let (text, is_any) = match host {
        Hostname::Exact(text) => (text.as_str(), false),
        Hostname::Suffix(text) => (text.get(1..).unwrap_or_default(), false),
        Hostname::Any => ("", true),
    };
    let dots = text.match_indices('.').filter_map(|(at, _)| text.get(at..));
    dots.map(|suffix| Hostname::Suffix(suffix.into()))
        .chain((!is_any).then_some(Hostname::Any))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The writers that give way, of those with these hosts, domains and scopes, the oldest first, and to whom.
    fn shared(writers: &[(&str, Option<&str>, &str)]) -> Vec<(usize, String)> {
        let hosts: Vec<Hostname> = writers.iter().map(|(host, ..)| Hostname::parse(Some(host))).collect();
        let ages: Vec<String> = (0..writers.len()).map(|age| format!("{age:02}")).collect();
        let cookies: Vec<CookieConfig> = writers
            .iter()
            .map(|(_, domain, _)| CookieConfig {
                domain: domain.map(str::to_owned),
                ..CookieConfig::named("s")
            })
            .collect();
        let mut names = SharedNames::default();
        for (index, (_, _, scope)) in writers.iter().enumerate() {
            let first = writers.iter().position(|(_, _, other)| other == scope).unwrap();
            let places = cookie_places(&cookies[index], [(ObjectName::new("a", "web"), &hosts[index])]);
            names.add(index, (&ages[first], scope), places, &cookies[index]);
        }
        let shared = names.shared().into_iter();
        let mut shared: Vec<_> = shared.map(|(writer, (_, scope))| (writer, scope.to_owned())).collect();
        shared.sort_unstable();
        shared
    }

    #[test]
    fn of_hosts_that_overlap_the_older_keeps_the_name() {
        for (one, other, expected) in [
            ("a.example.com", "a.example.com", true),
            ("a.example.com", "b.example.com", false),
            ("a.example.com", "*.example.com", true),
            ("b.a.example.com", "*.example.com", true),
            ("example.com", "*.example.com", false),
            ("*.example.com", "*.a.example.com", true),
            ("*.example.com", "*.example.com", true),
            ("*.a.example.com", "*.b.example.com", false),
            ("a.example.com", "*", true),
            ("*.example.com", "*", true),
            ("*", "*", true),
            ("badexample.com", "*.example.com", false),
        ] {
            let expected: &[_] = if expected { &[(1, "x".to_owned())] } else { &[] };
            for hosts in [[one, other], [other, one]] {
                let [first, second] = hosts.map(|host| (host, None));
                let writers = [(first.0, first.1, "x"), (second.0, second.1, "y")];
                assert_eq!(shared(&writers), expected, "{hosts:?}");
                let one_scope = writers.map(|(host, domain, _)| (host, domain, "x"));
                assert!(shared(&one_scope).is_empty(), "{hosts:?}");
            }
        }
    }

    #[test]
    fn who_comes_later_changes_no_name() {
        let of = |host, scope| (host, None, scope);
        let writers = [
            of("a.com", "1"),
            of("a.com", "2"),
            of("b.com", "3"),
            of("*.b.com", "4"),
            of("x.b.com", "5"),
            of("c.com", "6"),
            of("c.com", "6"),
            of("*", "7"),
            of("x.b.com", "4"),
        ];
        let expected = [(1, "1"), (4, "4"), (7, "1")].map(|(writer, scope)| (writer, scope.to_owned()));
        assert_eq!(shared(&writers), expected);
        for count in 0..writers.len() {
            let before: Vec<_> = expected.iter().filter(|(writer, _)| *writer < count).cloned().collect();
            assert_eq!(shared(&writers[..count]), before, "{count}");
        }
    }

    #[test]
    fn a_domain_is_one_for_all_of_its_hosts() {
        let domain = Some("example.com");
        let gives_way = [(1, "1".to_owned())];
        assert_eq!(
            shared(&[("a.example.com", domain, "1"), ("b.example.com", domain, "2")]),
            gives_way
        );
        assert_eq!(
            shared(&[
                ("a.example.com", domain, "1"),
                ("b.example.com", Some(".EXAMPLE.com"), "2")
            ]),
            gives_way
        );
        assert!(shared(&[("a.example.com", domain, "1"), ("a.example.com", None, "2")]).is_empty());
        assert_eq!(
            shared(&[("a.example.com", domain, "1"), ("example.com", None, "2")]),
            gives_way
        );
    }
}
