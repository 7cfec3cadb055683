//! Names of applications' session cookies and headers.

use super::ConfigWarning;
use super::schema::FilterConfig;
use crate::token::CarrierMode;

/// Cookies, each with its default owner.
const COOKIES: [(&str, &str); 22] = [
    (".AspNetCore.Session", "ASP.NET Core"),
    ("ASP.NET_SessionId", "ASP.NET"),
    ("CAKEPHP", "CakePHP"),
    ("CFID", "ColdFusion"),
    ("CFTOKEN", "ColdFusion"),
    ("JSESSIONID", "Java servlets"),
    ("PHPSESSID", "PHP"),
    ("PLAY_SESSION", "Play"),
    ("SESSION", "Spring Session"),
    ("__session", "Remix and others"),
    ("_session", "many applications"),
    ("_session_id", "Rails"),
    ("beaker.session.id", "Beaker"),
    ("ci_session", "CodeIgniter"),
    ("connect.sid", "Express"),
    ("laravel_session", "Laravel"),
    ("rack.session", "Rack"),
    ("session", "Flask, Starlette and others"),
    ("session_id", "Odoo and others"),
    ("sessionid", "Django"),
    ("sid", "many applications"),
    ("user_session", "many applications"),
];

const HEADERS: [(&str, &str); 2] = [
    ("mcp-session-id", "servers of the Model Context Protocol"),
    ("x-transmission-session-id", "Transmission"),
];

/// Warns of policies whose own cookie or header has such a name.
#[must_use]
pub fn warnings(config: &FilterConfig) -> Vec<ConfigWarning> {
    let warning = |policy: &String, carrier: Option<(CarrierMode, &str)>| {
        let (carrier, name, owner) = match carrier? {
            (CarrierMode::Cookie, name) => ("cookie", name, COOKIES.iter().find(|(known, _)| *known == name)),
            (CarrierMode::Header, name) => {
                let known = HEADERS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
                ("header", name, known)
            }
            _ => return None,
        };
        Some(ConfigWarning::WellKnownName {
            field: format!("policies.{policy}.{carrier}.name"),
            name: name.to_owned(),
            owner: owner?.1,
        })
    };
    let policies = config.policies.iter();
    policies
        .filter_map(|(name, policy)| {
            let has_name_of_its_own = policy.cookie.as_ref().is_some_and(|cookie| cookie.per_scope);
            let carrier = policy.carrier().filter(|_| !has_name_of_its_own);
            warning(name, carrier)
        })
        .collect()
}
