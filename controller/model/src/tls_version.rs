use serde::{Deserialize, Serialize};

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TlsVersion {
    /// 1.1.
    #[serde(rename = "1.1")]
    V1_1,
    /// 1.2.
    #[serde(rename = "1.2")]
    V1_2,
    /// 1.3.
    #[serde(rename = "1.3")]
    V1_3,
}
