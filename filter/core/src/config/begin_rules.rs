use super::carrier_rules::name_problem;
use super::schema::{BeginConfig, BeginWhenConfig, EndConfig, PolicyConfig};
use super::{ApplicationSign, BeginRule, Carrier, CarrierKind, EndRule, FurtherCarrier, Problem};
use crate::envoy::INTERNAL_HEADER_PREFIX;

const MAX_METHOD_LEN: usize = 32;

/// The cookies and headers that the filter sets and removes.
pub(super) struct OwnFields<'a> {
    pub(super) carrier: &'a Carrier,
    pub(super) also: &'a [FurtherCarrier],
    pub(super) tell: Option<&'a str>,
}

impl OwnFields<'_> {
    fn has(&self, place: CarrierKind, name: &str) -> bool {
        self.carrier.place() == Some(place) && self.carrier.name() == name
            || self
                .also
                .iter()
                .any(|one| one.place == place && one.name == name && !one.is_former)
            || place == CarrierKind::Header && self.tell == Some(name)
    }

    fn cookie_problem(&self, name: &str) -> Option<String> {
        let is_own = self.has(CarrierKind::Cookie, name);
        let message = format!("expected a cookie of the application, found {name:?}, which carries tokens");
        name_problem("cookie", name).or(is_own.then_some(message))
    }

    /// Checks one of both names. `problem` takes the field below, and what is wrong.
    fn sign(
        &self,
        cookie: Option<&str>,
        header: Option<&str>,
        problem: &mut impl FnMut(&str, String),
    ) -> Option<ApplicationSign> {
        match (cookie, header) {
            (None, None) => None,
            (Some(cookie), None) => {
                if let Some(message) = self.cookie_problem(cookie) {
                    problem(".cookie", message);
                }
                Some(ApplicationSign::Cookie(cookie.to_owned()))
            }
            (None, Some(header)) => {
                let header = header.to_ascii_lowercase();
                if let Some(message) = self.header_problem(&header) {
                    problem(".header", message);
                }
                Some(ApplicationSign::Header(header))
            }
            (Some(_), Some(_)) => {
                problem("", "expected cookie or header, found both".to_owned());
                None
            }
        }
    }

    fn header_problem(&self, name: &str) -> Option<String> {
        let is_own = self.has(CarrierKind::Header, name);
        let is_internal = name.starts_with(INTERNAL_HEADER_PREFIX);
        let why = if is_own {
            "which carries tokens"
        } else {
            "which only the filter and Envoy use"
        };
        let message = format!("expected a header of the application, found {name:?}, {why}");
        name_problem("header", name).or((is_own || is_internal).then_some(message))
    }
}

/// Checks `begin` and adds to `problems`.
pub(super) fn begin(field: &str, config: &PolicyConfig, own: &OwnFields<'_>, problems: &mut Vec<Problem>) -> BeginRule {
    let BeginConfig::When(when) = &config.begin else {
        return BeginRule::default();
    };
    let BeginWhenConfig {
        cookie,
        header,
        methods,
    } = when;
    let mut problem = |name: &str, message: String| {
        problems.push(Problem {
            field: format!("{field}.begin{name}"),
            message,
        });
    };
    if own.carrier.mode().is_some() && !own.carrier.is_own() {
        let message = "expected always in this mode: the application begins the session when it sets its cookie or \
                       header";
        problem("", message.to_owned());
    }
    if cookie.is_none() && header.is_none() && methods.is_empty() {
        problem("", "expected cookie, header or methods, found none".to_owned());
    }
    let sign = own.sign(cookie.as_deref(), header.as_deref(), &mut problem);
    for (i, method) in methods.iter().enumerate() {
        let earlier = methods.get(..i).unwrap_or_default();
        if let Some(message) = method_problem(method, earlier) {
            problem(&format!(".methods[{i}]"), message);
        }
    }
    BeginRule {
        sign,
        methods: methods.clone(),
    }
}

fn method_problem(method: &str, earlier: &[String]) -> Option<String> {
    let is_method = method.len() <= MAX_METHOD_LEN
        && method.starts_with(|c: char| c.is_ascii_uppercase())
        && method.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    if !is_method {
        return Some(format!(
            "expected a method: 1 to {MAX_METHOD_LEN} capital letters, such as POST, found {method:?}"
        ));
    }
    let is_known = earlier.iter().any(|known| known == method);
    is_known.then(|| format!("expected each method once, found {method:?} again"))
}

/// Checks `end` and adds to `problems`.
pub(super) fn end(
    field: &str,
    config: &PolicyConfig,
    own: &OwnFields<'_>,
    problems: &mut Vec<Problem>,
) -> Option<EndRule> {
    let EndConfig { cookie, header } = config.end.as_ref()?;
    let field = format!("{field}.end");
    let refused = match own.carrier {
        Carrier::Cookie { .. } | Carrier::Source(_) => None,
        Carrier::Header { .. } | Carrier::Query { .. } => {
            Some("remove it, or use cookie or source: a token that is in no cookie cannot be taken back")
        }
        Carrier::CookiePrefix { .. } | Carrier::CookieRewrite { .. } | Carrier::HeaderPrefix { .. } => {
            Some("remove it in this mode: the session ends with the application's own cookie or header")
        }
    };
    problems.extend(refused.map(|message| Problem {
        field: field.clone(),
        message: message.to_owned(),
    }));
    let mut problem = |name: &str, message: String| {
        problems.push(Problem {
            field: format!("{field}{name}"),
            message,
        });
    };
    if cookie.is_none() && header.is_none() {
        problem("", "expected cookie or header, found none".to_owned());
    }
    own.sign(cookie.as_deref(), header.as_deref(), &mut problem)
        .map(EndRule)
}
