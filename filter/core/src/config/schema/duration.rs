//! Durations in JSON are strings such as `1h30m`.

use serde::{Deserialize, Serialize};

use crate::time::{DurationError, GatewayDuration};

impl Serialize for GatewayDuration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GatewayDuration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|error: DurationError| serde::de::Error::custom(error.about(&text)))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for GatewayDuration {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$",
            "description": "A duration as the Gateway API writes it (GEP-2257), like 30m, 1h30m or 500ms."
        })
    }
}
