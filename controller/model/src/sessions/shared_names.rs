//! Finds cookies of the same name of which a client would keep only one.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::graph::Hostname;
use limpet_core::config::schema::CookieConfig;

/// Cookies by name and path, and their hosts. A client tells cookies apart by name, path, and domain or host (RFC 6265,
/// section 5.3).
#[derive(Debug)]
pub(crate) struct SharedNames<'a, W> {
    cookies: HashMap<(&'a str, &'a str), HashMap<Hostname, Writers<'a, W>>>,
}

/// Who writes a cookie for a host.
#[derive(Debug)]
struct Writers<'a, W> {
    all: Vec<W>,
    /// The scope of all of them; `None` if there are several.
    scope: Option<&'a str>,
}

impl<W> Default for SharedNames<'_, W> {
    fn default() -> Self {
        Self {
            cookies: HashMap::new(),
        }
    }
}

impl<'a, W: Copy + Eq + Hash> SharedNames<'a, W> {
    /// Adds a cookie that `writer` writes in sessions of this scope, for clients of these hosts.
    pub(crate) fn add(
        &mut self,
        writer: W,
        scope: &'a str,
        hosts: impl IntoIterator<Item = &'a Hostname>,
        cookie: &'a CookieConfig,
    ) {
        let cookies = self.cookies.entry((&cookie.name, &cookie.path)).or_default();
        let add = |host: Hostname| {
            let writers = cookies.entry(host).or_insert_with(|| Writers {
                all: Vec::new(),
                scope: Some(scope),
            });
            writers.all.push(writer);
            writers.scope = writers.scope.filter(|known| *known == scope);
        };
        cookie_hosts(cookie, hosts).for_each(add);
    }

    /// The writers whose cookie another scope writes as well. The time is linear in the number of hosts.
    pub(crate) fn shared(&self) -> HashSet<W> {
        let mut shared = HashSet::new();
        for hosts in self.cookies.values() {
            for (host, writers) in hosts {
                if writers.scope.is_none() {
                    shared.extend(&writers.all);
                }
                for other in wider(host).filter_map(|host| hosts.get(&host)) {
                    if writers.scope.is_none() || writers.scope != other.scope {
                        // Writers of several scopes are added above.
                        for one in [writers, other].into_iter().filter(|one| one.scope.is_some()) {
                            shared.extend(&one.all);
                        }
                    }
                }
            }
        }
        shared
    }
}

/// The hosts of a cookie that is written for clients of these. With a domain, it is one cookie for all of the domain.
fn cookie_hosts<'a>(
    cookie: &CookieConfig,
    hosts: impl IntoIterator<Item = &'a Hostname>,
) -> impl Iterator<Item = Hostname> {
    let domain = cookie.domain.as_ref();
    let domain = domain.map(|domain| Hostname::parse(Some(domain.trim_start_matches('.'))));
    let hosts = hosts.into_iter().filter(|_| cookie.domain.is_none()).cloned();
    domain.into_iter().chain(hosts)
}

/// A cookie that sessions of a scope write for clients of a host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WrittenCookie {
    /// Whether it counts among the cookies of policies alone, to which those of others are nothing.
    pub(crate) among_policies: bool,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) host: Hostname,
    pub(crate) scope: String,
}

impl WrittenCookie {
    /// One for each of these hosts.
    pub(super) fn all<'a>(
        among_policies: bool,
        scope: &str,
        hosts: impl IntoIterator<Item = &'a Hostname>,
        cookie: &CookieConfig,
    ) -> impl Iterator<Item = Self> {
        cookie_hosts(cookie, hosts).map(move |host| Self {
            among_policies,
            name: cookie.name.clone(),
            path: cookie.path.clone(),
            host,
            scope: scope.to_owned(),
        })
    }
}

/// The wildcards that contain all of these hosts, without the set itself.
pub(crate) fn wider(host: &Hostname) -> impl Iterator<Item = Hostname> + '_ {
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

    /// The writers that share a cookie, of those with these hosts, domains and scopes.
    fn shared(writers: &[(&str, Option<&str>, &str)]) -> Vec<usize> {
        let hosts: Vec<Hostname> = writers.iter().map(|(host, ..)| Hostname::parse(Some(host))).collect();
        let cookies: Vec<CookieConfig> = writers
            .iter()
            .map(|(_, domain, _)| CookieConfig {
                domain: domain.map(str::to_owned),
                ..CookieConfig::named("s")
            })
            .collect();
        let mut names = SharedNames::default();
        for (index, (_, _, scope)) in writers.iter().enumerate() {
            names.add(index, scope, [&hosts[index]], &cookies[index]);
        }
        let mut shared: Vec<usize> = names.shared().into_iter().collect();
        shared.sort_unstable();
        shared
    }

    #[test]
    fn hosts_that_overlap_share_a_cookie_and_others_do_not() {
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
            let expected: &[usize] = if expected { &[0, 1] } else { &[] };
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
    fn who_shares_with_nobody_stays_out_of_it() {
        let of = |host, scope| (host, None, scope);
        let writers = [
            of("a.com", "1"),
            of("a.com", "2"),
            of("b.com", "3"),
            of("*.b.com", "4"),
            of("x.b.com", "5"),
            of("c.com", "6"),
        ];
        assert_eq!(shared(&writers), [0, 1, 3, 4]);
        // One that everybody meets.
        assert_eq!(shared(&[&writers[..], &[of("*", "7")]].concat()), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_domain_is_one_for_all_of_its_hosts() {
        let domain = Some("example.com");
        assert_eq!(
            shared(&[("a.example.com", domain, "1"), ("b.example.com", domain, "2")]),
            [0, 1]
        );
        assert_eq!(
            shared(&[
                ("a.example.com", domain, "1"),
                ("b.example.com", Some(".EXAMPLE.com"), "2")
            ]),
            [0, 1]
        );
        // A client has both.
        assert!(shared(&[("a.example.com", domain, "1"), ("a.example.com", None, "2")]).is_empty());
        // The host's own could be either, by RFC 6265.
        assert_eq!(
            shared(&[("a.example.com", domain, "1"), ("example.com", None, "2")]),
            [0, 1]
        );
    }
}
