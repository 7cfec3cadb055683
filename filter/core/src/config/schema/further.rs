//! Carriers besides cookie and header, and carriers besides the policy's own.

use serde::{Deserialize, Serialize};

use super::is_false;

#[cfg(feature = "schema")]
use super::constraints::{PARAMETER, TOKEN, exactly_one};

/// The session parameter in the query of URLs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueryConfig {
    /// The name of the parameter.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = PARAMETER)))]
    pub name: String,
    /// Whether the backend sees the parameter.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub forward: bool,
    /// Whether `Location` of a redirect to the same host gets the token.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub redirects: bool,
}

/// A further carrier. Exactly one of `cookie`, `header` and `query`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("oneOf" = exactly_one(&["cookie", "header", "query"]))))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FurtherConfig {
    /// A cookie with the token as its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<FurtherFieldConfig>,
    /// A header with the token as its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<FurtherFieldConfig>,
    /// A parameter of the query with the token as its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<FurtherParameterConfig>,
    /// Whether sessions had it as their own carrier before they were renamed. Tokens in it are replaced by those in the
    /// policy's own carrier.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub former: bool,
}

/// A cookie or header that tokens are read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FurtherFieldConfig {
    /// Its name. The case of a header does not matter.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = TOKEN)))]
    pub name: String,
    /// Whether the backend sees it.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub forward: bool,
}

/// A parameter of the query that tokens are read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FurtherParameterConfig {
    /// Its name.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = PARAMETER)))]
    pub name: String,
    /// Whether the backend sees it.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub forward: bool,
}

/// Where responses have every token that they issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TellConfig {
    /// A response header.
    pub header: TellHeaderConfig,
}

/// A response header with the token as its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TellHeaderConfig {
    /// The name of the header. Case does not matter.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = TOKEN)))]
    pub name: String,
}
