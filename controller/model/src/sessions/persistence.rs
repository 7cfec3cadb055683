//! Reads `sessionPersistence` in all its shapes, with the checks of the CRDs' schemas and CEL rules, which objects from
//! files have not passed.

use super::field_error::{SessionFieldError, overruled};
use crate::session_fields::{CookiePath, SessionCarrier, SessionField, SessionFields, SessionSplit, ValueOrNone};
use limpet_api::{CookieSettings, SessionPersistence};
use limpet_core::config::schema::LifetimeTypeConfig;
use limpet_core::time::GatewayDuration;

const MAX_SESSION_NAME: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `sessionName` and `cookieConfig`: `BackendLBPolicy`.
    Named,
    /// `cookie` and `header`: `XBackend`.
    Union,
    /// Either of the two, by the fields that are set: `XBackendTrafficPolicy` and the rules of routes.
    Either,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// `sessionName` and `cookieConfig`.
    Named,
    /// `cookie` and `header`: from release 1.7 on.
    Union,
    /// An object without `sessionPersistence`.
    Foreign,
}

impl Shape {
    /// The Gateway API's defaults for sessions in this shape.
    pub(super) fn defaults(self, holder: SessionCarrier) -> SessionFields {
        let is_newest = self == Self::Union;
        SessionFields {
            // GEP-1619 of release 1.7: "MUST NOT override which backend is selected".
            split: Some(if is_newest {
                SessionSplit::Choose
            } else {
                SessionSplit::Keep
            }),
            // GEP-1619 of release 1.7: the cookie or header "SHOULD be forwarded to the backend".
            forward: (is_newest && matches!(holder, SessionCarrier::OwnCookie | SessionCarrier::OwnHeader))
                .then_some(true),
            ..SessionFields::default()
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Persistence {
    pub(super) shape: Shape,
    pub(super) carrier: PersistenceType,
    /// The session's name, if the object gives one.
    pub(super) name: Option<String>,
    pub(super) fields: SessionFields,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PersistenceType {
    Cookie,
    Header,
}

impl Persistence {
    pub(super) fn is_cookie(&self) -> bool {
        self.carrier == PersistenceType::Cookie
    }

    /// The field of the name.
    pub(super) fn name_field(&self) -> &'static str {
        match (self.shape, self.is_cookie()) {
            (Shape::Named, _) => "sessionName",
            (Shape::Union | Shape::Foreign, true) => "cookie.name",
            (Shape::Union | Shape::Foreign, false) => "header.name",
        }
    }

    pub(super) fn field_of(&self, annotated: &SessionField) -> Option<&'static str> {
        let path = match (annotated.config, self.shape) {
            (["absoluteTimeout"], _) => "absoluteTimeout",
            (["idleTimeout"], _) => "idleTimeout",
            (["cookie.lifetimeType"], Shape::Named) => "cookieConfig.lifetimeType",
            (["cookie.lifetimeType"], Shape::Union) => "cookie.lifetimeType",
            (["cookie.path"], Shape::Union) => "cookie.path",
            _ => return None,
        };
        self.fields.sets(annotated).then_some(path)
    }

    /// Annotations among `below` without effect, because a field says otherwise; `parent`: of `sessionPersistence`;
    /// `of`: its object, if another one.
    pub(super) fn overruled(&self, below: &SessionFields, parent: &str, of: &str) -> Vec<String> {
        let by = |field: &str| format!("{parent}.sessionPersistence.{field}{of}");
        let fields = self.fields.contradicted(below);
        let said = fields.filter_map(|entry| Some(overruled(&entry.annotation(), "it", &by(self.field_of(entry)?))));
        let mut said: Vec<String> = said.collect();
        if let (Some(name), Some(ValueOrNone(Some(query)))) = (&self.name, &below.query)
            && query.name != *name
        {
            said.push(overruled("query", "its name", &by(self.name_field())));
        }
        said
    }
}

/// Reads `sessionPersistence`, without the checks of the filter's configuration.
///
/// # Errors
/// Each field that cannot be followed.
pub(super) fn read(persistence: &SessionPersistence, dialect: Dialect) -> Result<Persistence, Vec<SessionFieldError>> {
    let mut faults = Vec::new();
    let shape = match dialect {
        Dialect::Union => Shape::Union,
        Dialect::Either if has_newer_fields(persistence) => Shape::Union,
        Dialect::Named | Dialect::Either => Shape::Named,
    };
    check_shape(persistence, dialect, shape, &mut faults);
    let carrier = match persistence.kind.as_deref() {
        None | Some("Cookie") => PersistenceType::Cookie,
        Some("Header") => PersistenceType::Header,
        Some(other) => {
            faults.push(SessionFieldError::persistence(
                "type",
                format!("expected Cookie or Header, found {other:?}"),
            ));
            return Err(faults);
        }
    };
    let mut timeout = |field, text: &Option<String>| timeout(field, text.as_deref()?, &mut faults);
    let mut fields = SessionFields {
        absolute_timeout: timeout("absoluteTimeout", &persistence.absolute_timeout),
        idle_timeout: timeout("idleTimeout", &persistence.idle_timeout),
        ..SessionFields::default()
    };
    let name = match shape {
        Shape::Named => named(persistence, carrier, &mut fields, &mut faults),
        Shape::Union | Shape::Foreign => union(persistence, carrier, &mut fields, &mut faults),
    };
    if faults.is_empty() {
        Ok(Persistence {
            shape,
            carrier,
            name,
            fields,
        })
    } else {
        Err(faults)
    }
}

pub(super) fn has_newer_fields(persistence: &SessionPersistence) -> bool {
    persistence.cookie.is_some() || persistence.header.is_some()
}

/// Refuses fields of the other shape.
fn check_shape(persistence: &SessionPersistence, dialect: Dialect, shape: Shape, faults: &mut Vec<SessionFieldError>) {
    let (others, message) = match (shape, dialect) {
        (Shape::Named, _) => (
            [
                ("cookie", persistence.cookie.is_some()),
                ("header", persistence.header.is_some()),
                ("", false),
            ],
            "remove it in a BackendLBPolicy, which has sessionName and cookieConfig",
        ),
        (Shape::Union | Shape::Foreign, dialect) => (
            [
                ("sessionName", persistence.session_name.is_some()),
                ("cookieConfig", persistence.cookie_config.is_some()),
                ("idleTimeout", persistence.idle_timeout.is_some()),
            ],
            match dialect {
                Dialect::Union => "remove it in an XBackend, which has cookie and header",
                _ => "remove it beside cookie or header, which are the newer shape of sessionPersistence",
            },
        ),
    };
    let wrong = others.into_iter().filter(|(_, is_there)| *is_there);
    faults.extend(wrong.map(|(field, _)| SessionFieldError::persistence(field, message)));
}

fn timeout(field: &'static str, text: &str, faults: &mut Vec<SessionFieldError>) -> Option<GatewayDuration> {
    let timeout = text.parse::<GatewayDuration>();
    if let Err(error) = timeout {
        faults.push(SessionFieldError::persistence(field, error.about(text)));
    }
    timeout.ok()
}

/// Returns the name.
fn named(
    persistence: &SessionPersistence,
    carrier: PersistenceType,
    fields: &mut SessionFields,
    faults: &mut Vec<SessionFieldError>,
) -> Option<String> {
    let name = persistence.session_name.clone();
    let length = name.as_ref().map_or(0, |name| name.chars().count());
    if length > MAX_SESSION_NAME {
        let message = format!("expected at most {MAX_SESSION_NAME} characters, found {length}");
        faults.push(SessionFieldError::persistence("sessionName", message));
    }
    let Some(cookie) = &persistence.cookie_config else {
        return name;
    };
    if carrier == PersistenceType::Header {
        faults.push(SessionFieldError::persistence(
            "cookieConfig",
            "remove it with type Header",
        ));
    }
    for (field, is_there) in [
        ("cookieConfig.name", cookie.name.is_some()),
        ("cookieConfig.path", cookie.path.is_some()),
    ] {
        if is_there {
            let message = "remove it here: cookieConfig has only lifetimeType, and the name is sessionName";
            faults.push(SessionFieldError::persistence(field, message));
        }
    }
    fields.lifetime_type = lifetime("cookieConfig.lifetimeType", cookie, faults);
    name
}

/// Returns the name.
fn union(
    persistence: &SessionPersistence,
    carrier: PersistenceType,
    fields: &mut SessionFields,
    faults: &mut Vec<SessionFieldError>,
) -> Option<String> {
    if carrier == PersistenceType::Header {
        if persistence.cookie.is_some() {
            faults.push(SessionFieldError::persistence("cookie", "remove it with type Header"));
        }
        let header = persistence.header.as_ref();
        let name = header.and_then(|header| header.name.clone());
        if name.is_none() {
            let field = if header.is_some() { "header.name" } else { "header" };
            faults.push(SessionFieldError::persistence(
                field,
                "expected the header's name, because the type is Header",
            ));
        }
        return name;
    }
    if persistence.header.is_some() {
        faults.push(SessionFieldError::persistence("header", "remove it with type Cookie"));
    }
    let Some(cookie) = &persistence.cookie else {
        let message = "expected the cookie, which may be empty, because the type is Cookie";
        faults.push(SessionFieldError::persistence("cookie", message));
        return None;
    };
    fields.lifetime_type = lifetime("cookie.lifetimeType", cookie, faults);
    fields.path = cookie.path.as_deref().map(CookiePath::literal);
    cookie.name.clone()
}

fn lifetime(
    field: &'static str,
    cookie: &CookieSettings,
    faults: &mut Vec<SessionFieldError>,
) -> Option<LifetimeTypeConfig> {
    match cookie.lifetime_type.as_deref()? {
        "Session" => Some(LifetimeTypeConfig::Session),
        "Permanent" => Some(LifetimeTypeConfig::Permanent),
        other => {
            let message = format!("expected Session or Permanent, found {other:?}");
            faults.push(SessionFieldError::persistence(field, message));
            None
        }
    }
}
