//! The path of a cookie, as annotations and `sessionDefaults` say it.

use serde::{Deserialize, Serialize};

/// The path of a cookie.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum CookiePath {
    /// `/`, as current releases of the GEP require.
    #[default]
    Root,
    /// Derived from the matches of a rule with `sessionPersistence`, as older releases of the GEP require.
    Route,
    /// This path.
    At(String),
}

pub(super) const PATHS: &str = "root, route or a path like /shop";

impl From<CookiePath> for String {
    fn from(path: CookiePath) -> Self {
        match path {
            CookiePath::Root => "root".to_owned(),
            CookiePath::Route => "route".to_owned(),
            CookiePath::At(path) => path,
        }
    }
}

impl TryFrom<String> for CookiePath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "route" => Ok(Self::Route),
            "root" => Ok(Self::Root),
            path if path.starts_with('/') => Ok(Self::literal(path)),
            _ => Err(format!("expected {PATHS}, found {text:?}")),
        }
    }
}

impl CookiePath {
    /// The path itself, valid or not.
    pub(crate) fn literal(path: &str) -> Self {
        if path == "/" {
            Self::Root
        } else {
            Self::At(path.to_owned())
        }
    }
}
