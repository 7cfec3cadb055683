//! Envoy messages as JSON, by the rules of proto3 and with the original field names (`typed_config`). The content of an
//! `Any` is unpacked next to its `@type`.
//!
//! `descriptors.binpb`, by `make descriptors`, describes [`ROOTS`] and all messages that they lead to.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::{Message, Name};
use prost_reflect::bytes::Bytes;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _,
    SerializeOptions, Value as Field,
};
use serde_json::{Map, Value};

use limpet_resources::Resource;

/// Full names of the messages that are written, also inside an `Any`.
pub const ROOTS: [&str; 31] = [
    "envoy.config.bootstrap.v3.Bootstrap",
    "envoy.config.cluster.v3.Cluster",
    "envoy.config.core.v3.TypedExtensionConfig",
    "envoy.config.endpoint.v3.ClusterLoadAssignment",
    "envoy.config.listener.v3.Listener",
    "envoy.config.route.v3.FilterConfig",
    "envoy.config.route.v3.RouteConfiguration",
    "envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
    "envoy.extensions.filters.http.cors.v3.Cors",
    "envoy.extensions.filters.http.cors.v3.CorsPolicy",
    "envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter",
    "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
    "envoy.extensions.filters.http.health_check.v3.HealthCheck",
    "envoy.extensions.filters.http.router.v3.Router",
    "envoy.extensions.filters.http.stateful_session.v3.StatefulSession",
    "envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute",
    "envoy.extensions.filters.http.wasm.v3.Wasm",
    "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
    "envoy.extensions.http.stateful_session.header.v3.HeaderBasedSessionState",
    "envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
    "envoy.extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig",
    "envoy.extensions.router.cluster_specifiers.dynamic_modules.v3.DynamicModuleClusterSpecifier",
    "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
    "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
    "envoy.extensions.transport_sockets.tls.v3.Secret",
    "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
    "envoy.service.discovery.v3.DiscoveryResponse",
    "google.protobuf.StringValue",
];

/// Why a message cannot be written as JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// A message that is neither in [`ROOTS`] nor reached from there.
    #[error("{0} is not among the messages that descriptors.binpb describes")]
    UnknownMessage(String),
    /// An invalid encoding of a message.
    #[error("not a {message}: {error}")]
    Malformed {
        /// Its full name.
        message: String,
        /// The decoder's error.
        error: String,
    },
    /// A field that the descriptors lack.
    #[error("{message} has an unknown field {number}")]
    UnknownField {
        /// The message's full name.
        message: String,
        /// The field's number.
        number: u32,
    },
}

/// Decodes a message of this type URL (`type.googleapis.com/envoy.config.cluster.v3.Cluster`), without unset fields.
///
/// # Errors
/// If the type is unknown, or the bytes are not an encoding of it.
pub fn message(type_url: &str, bytes: &[u8]) -> Result<Map<String, Value>, JsonError> {
    let name = type_url.rsplit('/').next().unwrap_or_default();
    let descriptor = POOL.as_ref().and_then(|pool| pool.get_message_by_name(name));
    let descriptor = descriptor.ok_or_else(|| JsonError::UnknownMessage(name.to_owned()))?;
    fields(&decode(descriptor, bytes)?)
}

/// Writes a message of a known type.
///
/// # Errors
/// If a message inside is unknown.
pub fn typed<M: Message + Name>(message: &M) -> Result<Value, JsonError> {
    self::message(&M::type_url(), &message.encode_to_vec()).map(Value::Object)
}

/// Writes a resource with its `@type`.
///
/// # Errors
/// If a message inside is unknown, or the content is not an encoding of the type.
pub fn resource(resource: &Resource) -> Result<Value, JsonError> {
    any(resource.resource_type().url(), resource.body())
}

/// Writes a message with its `@type`, as in an `Any`.
///
/// # Errors
/// If a message inside is unknown.
pub fn any(type_url: &str, bytes: &[u8]) -> Result<Value, JsonError> {
    if type_url.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let name = type_url.rsplit('/').next().unwrap_or_default();
    let descriptor = POOL.as_ref().and_then(|pool| pool.get_message_by_name(name));
    let descriptor = descriptor.ok_or_else(|| JsonError::UnknownMessage(name.to_owned()))?;
    let packed = decode(descriptor, bytes)?;
    let mut json = if is_well_known(name) {
        Map::from_iter([("value".to_owned(), well_known(&packed)?)])
    } else {
        fields(&packed)?
    };
    json.insert("@type".to_owned(), type_url.into());
    Ok(json.into())
}

/// `None` if the descriptors are broken, which a test rules out.
static POOL: LazyLock<Option<DescriptorPool>> =
    LazyLock::new(|| DescriptorPool::decode(include_bytes!("descriptors.binpb").as_slice()).ok());

fn decode(descriptor: MessageDescriptor, bytes: &[u8]) -> Result<DynamicMessage, JsonError> {
    let message = descriptor.full_name().to_owned();
    DynamicMessage::decode(descriptor, bytes).map_err(|error| JsonError::Malformed {
        message,
        error: error.to_string(),
    })
}

fn fields(message: &DynamicMessage) -> Result<Map<String, Value>, JsonError> {
    if let Some(unknown) = message.unknown_fields().next() {
        return Err(JsonError::UnknownField {
            message: message.descriptor().full_name().to_owned(),
            number: unknown.number(),
        });
    }
    let field = |(field, value): (FieldDescriptor, &Field)| Ok((field.name().to_owned(), json(&field.kind(), value)?));
    message.fields().map(field).collect()
}

fn json(kind: &Kind, value: &Field) -> Result<Value, JsonError> {
    Ok(match value {
        Field::Bool(value) => (*value).into(),
        Field::I32(value) => (*value).into(),
        Field::U32(value) => (*value).into(),
        // Many readers take JSON numbers as doubles, so 64-bit integers are strings (proto3 JSON mapping).
        Field::I64(value) => value.to_string().into(),
        Field::U64(value) => value.to_string().into(),
        Field::F32(value) => (*value).into(),
        Field::F64(value) => (*value).into(),
        Field::String(value) => value.as_str().into(),
        Field::Bytes(value) => base64(value).into(),
        Field::EnumNumber(number) => match kind {
            Kind::Enum(names) => names
                .get_value(*number)
                .map_or_else(|| (*number).into(), |value| value.name().into()),
            _ => (*number).into(),
        },
        Field::Message(message) => of_message(message)?,
        Field::List(values) => {
            let values = values.iter().map(|value| json(kind, value));
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        Field::Map(entries) => {
            let kind = match kind {
                Kind::Message(entry) => entry.map_entry_value_field().kind(),
                other => other.clone(),
            };
            let entry = |(key, value): (&MapKey, &Field)| Ok((text(key), json(&kind, value)?));
            Value::Object(entries.iter().map(entry).collect::<Result<_, JsonError>>()?)
        }
    })
}

fn of_message(message: &DynamicMessage) -> Result<Value, JsonError> {
    let descriptor = message.descriptor();
    match descriptor.full_name() {
        "google.protobuf.Any" => {
            let type_url = message.get_field_by_name("type_url");
            let value = message.get_field_by_name("value");
            let type_url = type_url.as_deref().and_then(Field::as_str).unwrap_or_default();
            let value = value.as_deref().and_then(Field::as_bytes).cloned();
            any(type_url, &value.unwrap_or_else(Bytes::new))
        }
        name if is_well_known(name) => well_known(message),
        _ => fields(message).map(Value::Object),
    }
}

/// Messages with their own JSON form (proto3 JSON mapping). None of them contains an `Any`.
fn well_known(message: &DynamicMessage) -> Result<Value, JsonError> {
    let serializer = serde_json::value::Serializer;
    let written = message.serialize_with_options(serializer, &SerializeOptions::new());
    written.map_err(|error| JsonError::Malformed {
        message: message.descriptor().full_name().to_owned(),
        error: error.to_string(),
    })
}

fn is_well_known(name: &str) -> bool {
    name.starts_with("google.protobuf.")
}

fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}
