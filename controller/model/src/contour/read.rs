//! What an object says by itself: its routes, or the first mistake in it.

use std::rc::Rc;
use std::time::Duration;

use limpet_api::{Delegate, IngressRouteSpec, IngressRule, IngressService, Object, ObjectName};

use super::delegation_tree::{CheckStep, ErrorPosition};
use super::go::{GoDuration, length, quoted};
use super::services::{ContourService, ContourServices, LoadBalancerStrategy};
use super::sessions::{self, IngressSession};
use crate::Settings;
use crate::graph::{PathChange, Retry, Rewrite};
use crate::session_fields::SessionFields;
use crate::sessions::annotated;

/// The most services of a route: with sessions, each is a route of Envoy.
const MOST_SERVICES: usize = 64;
/// Fields of Contour that Limpet cannot follow, and must not pass over.
const NOT_SUPPORTED: [&str; 3] = ["spec.tcpproxy", ".service", ".validation"];
/// 290 years. Envoy refuses a whole route table for a longer time.
const MOST_TIME: Duration = Duration::from_secs(290 * 365 * 86_400);
/// The longest prefix, in bytes: Envoy's buffer for all headers has 60 KiB, and each host may have a copy of it.
const MOST_PATH: usize = 4096;
/// Envoy's own default, which Contour keeps.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(super) struct IngressRouteContent<'a> {
    pub(super) rules: Vec<IngressRouteRule<'a>>,
    /// What is passed over.
    pub(super) notes: Vec<String>,
}

#[derive(Debug)]
pub(super) struct IngressRouteRule<'a> {
    /// Among the object's routes.
    pub(super) index: usize,
    pub(super) prefix: &'a str,
    pub(super) permit_insecure: bool,
    pub(super) action: IngressAction<'a>,
}

#[derive(Debug)]
pub(super) enum IngressAction<'a> {
    Forward(Rc<Forwarding<'a>>),
    Delegate(ObjectName),
}

#[derive(Debug)]
pub(super) struct Forwarding<'a> {
    pub(super) services: Vec<ContourService<'a>>,
    pub(super) session: Option<IngressSession>,
    pub(super) websockets: bool,
    pub(super) rewrite: Rewrite,
    pub(super) request_timeout: Option<Duration>,
    pub(super) try_timeout: Option<Duration>,
    pub(super) retry: Option<Retry>,
}

/// A mistake: its place, for the order of messages, and the object's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IngressRouteError {
    pub(super) place: ErrorPosition,
    pub(super) text: String,
}

pub(super) struct IngressRouteReader<'a> {
    pub(super) settings: &'a Settings,
    pub(super) services: ContourServices<'a>,
}

impl<'a> IngressRouteReader<'a> {
    /// # Errors
    /// The first mistake, in the order in which Contour looks for them.
    pub(super) fn read(
        &self,
        object: &'a Object<IngressRouteSpec>,
    ) -> Result<IngressRouteContent<'a>, IngressRouteError> {
        let at = |route, step, text| IngressRouteError {
            place: ErrorPosition { route, step },
            text,
        };
        let of_object = |text| at(0, CheckStep::Shape, text);
        if let Some(error) = &object.malformed {
            return Err(of_object(error.to_string()));
        }
        let is_refused = |field: &&String| {
            let [proxy, service, validation] = NOT_SUPPORTED;
            let below = |parent: &str| {
                field
                    .strip_prefix(parent)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            below(proxy)
                || field.starts_with("spec.routes[") && (field.ends_with(service) || field.ends_with(validation))
        };
        if let Some(field) = object.unread.iter().find(is_refused) {
            return Err(of_object(format!("{field}: not supported")));
        }
        let overrides = annotated(&object.meta.annotations).map_err(of_object)?;
        let mut notes: Vec<String> = object
            .unread
            .iter()
            .map(|field| format!("{field}: not known, so it has no effect"))
            .collect();
        let mut rules = Vec::with_capacity(object.spec.routes.len());
        for (index, rule) in object.spec.routes.iter().enumerate() {
            let field = format!("spec.routes[{index}]");
            let read = self.rule(object, (index, &field), rule, &overrides, &mut notes);
            rules.extend(read.map_err(|(step, text)| at(index, step, text))?);
        }
        Ok(IngressRouteContent { rules, notes })
    }

    fn rule(
        &self,
        object: &'a Object<IngressRouteSpec>,
        (index, field): (usize, &str),
        rule: &'a IngressRule,
        overrides: &SessionFields,
        notes: &mut Vec<String>,
    ) -> Result<Option<IngressRouteRule<'a>>, (CheckStep, String)> {
        let prefix = rule.prefix.as_str();
        let shape = |text: String| (CheckStep::Shape, text);
        if !rule.services.is_empty() && rule.delegate.is_some() {
            let text = format!(
                "route {}: cannot specify services and delegate in the same route",
                quoted(prefix)
            );
            return Err(shape(text));
        }
        is_path(prefix).map_err(|found| shape(format!("{field}.match: {found}")))?;
        let does = if let Some(delegate) = &rule.delegate {
            IngressAction::Delegate(delegate_of(object, delegate))
        } else if rule.services.is_empty() {
            notes.push(format!(
                "{field}: expected services or a delegate; the route is left out"
            ));
            return Ok(None);
        } else {
            let forwarding = self.forwarding(object, field, rule, overrides, notes);
            IngressAction::Forward(Rc::new(forwarding.map_err(|text| (CheckStep::Target, text))?))
        };
        Ok(Some(IngressRouteRule {
            index,
            prefix,
            permit_insecure: rule.permit_insecure,
            action: does,
        }))
    }

    fn forwarding(
        &self,
        object: &'a Object<IngressRouteSpec>,
        field: &str,
        rule: &'a IngressRule,
        overrides: &SessionFields,
        notes: &mut Vec<String>,
    ) -> Result<Forwarding<'a>, String> {
        let services = self.services(object, field, rule, notes)?;
        let timeout = rule.timeout_policy.as_ref().map_or("", |policy| &policy.request);
        let request_timeout = match timeout_of(&format!("{field}.timeoutPolicy.request"), timeout)? {
            GoDuration::Unsaid => Some(DEFAULT_TIMEOUT),
            GoDuration::Unlimited => None,
            GoDuration::Of(timeout) => Some(timeout),
        };
        let policy = rule.retry_policy.as_ref();
        let per_try = policy.map_or("", |policy| &policy.per_try_timeout);
        let try_timeout = match timeout_of(&format!("{field}.retryPolicy.perTryTimeout"), per_try)? {
            GoDuration::Of(timeout) => Some(timeout),
            GoDuration::Unsaid | GoDuration::Unlimited => None,
        };
        let rewrite = Some(rule.prefix_rewrite.as_str()).filter(|becomes| !becomes.is_empty());
        if let Some(becomes) = rewrite {
            is_path(becomes).map_err(|found| format!("{field}.prefixRewrite: {found}"))?;
        }
        let session = sessions::of_route(&services, overrides, self.settings, (field, &rule.prefix))?;
        Ok(Forwarding {
            services,
            session,
            websockets: rule.enable_websockets,
            rewrite: Rewrite {
                hostname: None,
                path: rewrite.map(|becomes| PathChange::Text(becomes.to_owned())),
            },
            request_timeout,
            try_timeout,
            retry: policy.map(|policy| Retry {
                attempts: policy.count.max(1),
                server_errors: true,
                codes: Vec::new(),
                backoff: None,
            }),
        })
    }

    fn services(
        &self,
        object: &'a Object<IngressRouteSpec>,
        field: &str,
        rule: &'a IngressRule,
        notes: &mut Vec<String>,
    ) -> Result<Vec<ContourService<'a>>, String> {
        let all = &rule.services;
        if all.len() > MOST_SERVICES {
            return Err(format!(
                "{field}.services: expected at most {MOST_SERVICES}, found {}",
                all.len()
            ));
        }
        let mut services: Vec<ContourService<'a>> = Vec::with_capacity(all.len());
        for (index, service) in all.iter().enumerate() {
            let at = format!("{field}.services[{index}]");
            if !(1..=65535).contains(&service.port) {
                return Err(format!(
                    "route {}: service {}: port must be in the range 1-65535",
                    quoted(&rule.prefix),
                    quoted(&service.name)
                ));
            }
            let strategy = Self::strategy(&at, &object.spec, service, notes)?;
            let check = service.health_check.as_ref().or(object.spec.health_check.as_ref());
            let namespace = &object.meta.namespace;
            let found = self.services.find(namespace, &at, service, strategy, notes)?;
            let found = found.checked(&at, check)?;
            if let Some(twin) = services.iter().find(|other| other.is_confused_with(&found)) {
                return Err(format!(
                    "{at}: expected a Service whose short hash differs from the hash of {}, because tokens could not \
                     tell them apart",
                    twin.name
                ));
            }
            services.push(found);
        }
        if let ([_, _, ..], Some(index)) = (
            &*services,
            services.iter().position(|service| service.strategy.is_sticky()),
        ) {
            return Err(format!(
                "{field}.services[{index}].strategy: StickySession: expected it to be the only service of its route"
            ));
        }
        let sum: u64 = services.iter().map(|service| u64::from(service.weight)).sum();
        if sum > u64::from(u32::MAX) {
            return Err(format!(
                "{field}.services: expected weights whose sum is at most {}, found {sum}",
                u32::MAX
            ));
        }
        Ok(services)
    }

    fn strategy(
        at: &str,
        spec: &'a IngressRouteSpec,
        service: &'a IngressService,
        notes: &mut Vec<String>,
    ) -> Result<LoadBalancerStrategy<'a>, String> {
        let said = |text: &'a Option<String>| text.as_deref().filter(|text| !text.is_empty());
        let (field, text) = match (said(&service.strategy), said(&spec.strategy)) {
            (Some(own), _) => (format!("{at}.strategy"), Some(own)),
            (None, default) => ("spec.strategy".to_owned(), default),
        };
        let strategy = LoadBalancerStrategy::read(text, service.sticky_session_config.as_ref(), (&field, at))?;
        if service.sticky_session_config.is_some() && !strategy.is_sticky() {
            notes.push(format!(
                "{at}.stickySessionConfig: it has no effect, because the strategy is not StickySession"
            ));
        }
        Ok(strategy)
    }
}

pub(super) fn delegate_of(object: &Object<IngressRouteSpec>, delegate: &Delegate) -> ObjectName {
    let namespace = Some(&delegate.namespace).filter(|name| !name.is_empty());
    ObjectName::new(
        namespace.map_or(&*object.meta.namespace, String::as_str),
        &delegate.name,
    )
}

fn timeout_of(field: &str, text: &str) -> Result<GoDuration, String> {
    let expected = || {
        let most = MOST_TIME.as_secs() / 3600;
        let found = quoted(text);
        format!("{field}: expected a duration of Go like 1m30s of at most {most}h, or infinity, found {found}")
    };
    match length(text).ok_or_else(expected)? {
        GoDuration::Of(time) if time > MOST_TIME => Err(expected()),
        // Envoy counts milliseconds, and 0 means no limit.
        GoDuration::Of(time) => Ok(GoDuration::Of(time.max(Duration::from_millis(1)))),
        other => Ok(other),
    }
}

/// Whether Envoy takes it as a prefix. If not, it refuses a whole route table.
fn is_path(text: &str) -> Result<(), String> {
    if !text.starts_with('/') {
        return Err(format!("expected a path that begins with /, found {}", quoted(text)));
    }
    if text.len() > MOST_PATH {
        return Err(format!("expected at most {MOST_PATH} bytes, found {}", text.len()));
    }
    if text.chars().any(|c| c.is_control() || c == '?' || c == '#') {
        return Err(format!(
            "expected a path without query and fragment, found {}",
            quoted(text)
        ));
    }
    Ok(())
}
