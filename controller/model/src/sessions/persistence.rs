//! Reads `sessionPersistence` in all its shapes. Objects from files are not checked by an API server, so everything is
//! checked that the schemas and CEL rules of the CRDs check.

use super::fault::Fault;
use limpet_api::{CookieSettings, SessionPersistence};
use limpet_core::config::schema::LifetimeTypeConfig;
use limpet_core::time::GatewayDuration;

/// The maximum length of `sessionName`, by its definition.
const MAX_SESSION_NAME: usize = 128;

/// The shapes that a kind may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `sessionName` and `cookieConfig`: `BackendLBPolicy`.
    Named,
    /// `cookie` and `header`: `XBackend`.
    Union,
    /// Either of the two, by the fields that are set: `XBackendTrafficPolicy` and the rules of routes.
    Either,
}

/// The shape that an object has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// `sessionName` and `cookieConfig`.
    Named,
    /// `cookie` and `header`.
    Union,
}

/// The sessions that an object asks for, independent of the shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Persistence {
    pub(super) shape: Shape,
    pub(super) carrier: Carrier,
    pub(super) absolute_timeout: Option<GatewayDuration>,
    pub(super) idle_timeout: Option<GatewayDuration>,
}

/// What the token travels in. A missing name is generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Carrier {
    Cookie {
        name: Option<String>,
        path: Option<String>,
        lifetime: LifetimeTypeConfig,
    },
    Header {
        name: Option<String>,
    },
}

impl Persistence {
    pub(super) fn is_cookie(&self) -> bool {
        matches!(self.carrier, Carrier::Cookie { .. })
    }

    /// The session's name, where the object gives it one.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.carrier {
            Carrier::Cookie { name, .. } | Carrier::Header { name } => name.as_deref(),
        }
    }

    /// The field of the name.
    pub(super) fn name_field(&self) -> &'static str {
        match (self.shape, self.is_cookie()) {
            (Shape::Named, _) => "sessionName",
            (Shape::Union, true) => "cookie.name",
            (Shape::Union, false) => "header.name",
        }
    }
}

/// Reads `sessionPersistence`, without the checks of the filter's configuration.
///
/// # Errors
/// If a field cannot be followed, or a timeout is longer than `longest`. The faults name each field.
pub(super) fn read(
    persistence: &SessionPersistence,
    dialect: Dialect,
    longest: GatewayDuration,
) -> Result<Persistence, Vec<Fault>> {
    let mut faults = Vec::new();
    let is_union = persistence.cookie.is_some() || persistence.header.is_some();
    let shape = match dialect {
        Dialect::Union => Shape::Union,
        Dialect::Either if is_union => Shape::Union,
        Dialect::Named | Dialect::Either => Shape::Named,
    };
    check_shape(persistence, dialect, shape, &mut faults);
    let is_header = match persistence.kind.as_deref() {
        None | Some("Cookie") => false,
        Some("Header") => true,
        Some(other) => {
            faults.push(Fault::persistence(
                "type",
                format!("expected Cookie or Header, found {other:?}"),
            ));
            return Err(faults);
        }
    };
    let mut timeout = |field, text: &Option<String>| timeout(field, text.as_deref()?, longest, &mut faults);
    let absolute_timeout = timeout("absoluteTimeout", &persistence.absolute_timeout);
    let idle_timeout = timeout("idleTimeout", &persistence.idle_timeout);
    let carrier = match shape {
        Shape::Named => named(persistence, is_header, &mut faults),
        Shape::Union => union(persistence, is_header, &mut faults),
    };
    let is_permanent = matches!(
        carrier,
        Carrier::Cookie {
            lifetime: LifetimeTypeConfig::Permanent,
            ..
        }
    );
    if is_permanent && persistence.absolute_timeout.is_none() {
        faults.push(Fault::persistence(
            "absoluteTimeout",
            "expected a duration, because the cookie's lifetimeType is Permanent",
        ));
    }
    if faults.is_empty() {
        Ok(Persistence {
            shape,
            carrier,
            absolute_timeout,
            idle_timeout,
        })
    } else {
        Err(faults)
    }
}

/// Refuses fields of the other shape.
fn check_shape(persistence: &SessionPersistence, dialect: Dialect, shape: Shape, faults: &mut Vec<Fault>) {
    let (others, message) = match (shape, dialect) {
        (Shape::Named, _) => (
            [
                ("cookie", persistence.cookie.is_some()),
                ("header", persistence.header.is_some()),
                ("", false),
            ],
            "expected none in a BackendLBPolicy, which has sessionName and cookieConfig",
        ),
        (Shape::Union, dialect) => (
            [
                ("sessionName", persistence.session_name.is_some()),
                ("cookieConfig", persistence.cookie_config.is_some()),
                ("idleTimeout", persistence.idle_timeout.is_some()),
            ],
            match dialect {
                Dialect::Union => "expected none in an XBackend, which has cookie and header",
                _ => "expected none beside cookie or header, which are the newer shape of sessionPersistence",
            },
        ),
    };
    let wrong = others.into_iter().filter(|(_, is_there)| *is_there);
    faults.extend(wrong.map(|(field, _)| Fault::persistence(field, message)));
}

fn timeout(
    field: &'static str,
    text: &str,
    longest: GatewayDuration,
    faults: &mut Vec<Fault>,
) -> Option<GatewayDuration> {
    let expected = match text.parse::<GatewayDuration>() {
        Ok(timeout) if timeout <= longest => return Some(timeout),
        Ok(_) => format!("expected at most {longest}, the maxSessionLife of the controller's configuration"),
        Err(error) => error.to_string(),
    };
    faults.push(Fault::persistence(field, format!("{expected}, found {text:?}")));
    None
}

fn named(persistence: &SessionPersistence, is_header: bool, faults: &mut Vec<Fault>) -> Carrier {
    let name = persistence.session_name.clone();
    let length = name.as_ref().map_or(0, |name| name.chars().count());
    if length > MAX_SESSION_NAME {
        let message = format!("expected at most {MAX_SESSION_NAME} characters, found {length}");
        faults.push(Fault::persistence("sessionName", message));
    }
    let Some(cookie) = &persistence.cookie_config else {
        return carrier(is_header, name, None, LifetimeTypeConfig::default());
    };
    if is_header {
        faults.push(Fault::persistence("cookieConfig", "expected none with type Header"));
    }
    for (field, is_there) in [
        ("cookieConfig.name", cookie.name.is_some()),
        ("cookieConfig.path", cookie.path.is_some()),
    ] {
        if is_there {
            let message = "expected none here: cookieConfig has only lifetimeType, and the name is sessionName";
            faults.push(Fault::persistence(field, message));
        }
    }
    let lifetime = lifetime("cookieConfig.lifetimeType", cookie, faults);
    carrier(is_header, name, None, lifetime)
}

fn union(persistence: &SessionPersistence, is_header: bool, faults: &mut Vec<Fault>) -> Carrier {
    if is_header {
        if persistence.cookie.is_some() {
            faults.push(Fault::persistence("cookie", "expected none with type Header"));
        }
        let header = persistence.header.as_ref();
        let name = header.and_then(|header| header.name.clone());
        if name.is_none() {
            let field = if header.is_some() { "header.name" } else { "header" };
            faults.push(Fault::persistence(
                field,
                "expected the header's name, because the type is Header",
            ));
        }
        return Carrier::Header { name };
    }
    if persistence.header.is_some() {
        faults.push(Fault::persistence("header", "expected none with type Cookie"));
    }
    let Some(cookie) = &persistence.cookie else {
        let message = "expected the cookie, which may be empty, because the type is Cookie";
        faults.push(Fault::persistence("cookie", message));
        return carrier(false, None, None, LifetimeTypeConfig::default());
    };
    let lifetime = lifetime("cookie.lifetimeType", cookie, faults);
    carrier(false, cookie.name.clone(), cookie.path.clone(), lifetime)
}

fn carrier(is_header: bool, name: Option<String>, path: Option<String>, lifetime: LifetimeTypeConfig) -> Carrier {
    if is_header {
        Carrier::Header { name }
    } else {
        Carrier::Cookie { name, path, lifetime }
    }
}

fn lifetime(field: &'static str, cookie: &CookieSettings, faults: &mut Vec<Fault>) -> LifetimeTypeConfig {
    match cookie.lifetime_type.as_deref() {
        None | Some("Session") => LifetimeTypeConfig::Session,
        Some("Permanent") => LifetimeTypeConfig::Permanent,
        Some(other) => {
            faults.push(Fault::persistence(
                field,
                format!("expected Session or Permanent, found {other:?}"),
            ));
            LifetimeTypeConfig::Session
        }
    }
}
