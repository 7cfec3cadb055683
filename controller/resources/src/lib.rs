//! Envoy resources by type and name: outputs make them, an xDS server sends them. Contents are opaque bytes here.

use std::fmt;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// The types of resources that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceType {
    /// A cluster (CDS).
    Cluster,
    /// The endpoints of a cluster (EDS), under the name of the cluster.
    ClusterLoadAssignment,
    /// A filter's configuration (ECDS).
    ExtensionConfig,
    /// A secret (SDS).
    Secret,
    /// A listener (LDS).
    Listener,
    /// Virtual hosts and routes (RDS).
    RouteConfiguration,
    /// A virtual host of a route configuration (VHDS), under the name `<route configuration>/<id>`.
    VirtualHost,
}

/// The route configuration in which a server offers [`Resources::units`], to a node with [`PREFLIGHT_METADATA`].
pub const PREFLIGHT: &str = "preflight";

/// The field of a node's metadata that says, by any value, that it asks for [`PREFLIGHT`].
pub const PREFLIGHT_METADATA: &str = "limpet.preflight";

impl ResourceType {
    /// All types, in the order in which a change to several of them is sent.
    pub const ALL: [Self; 7] = [
        Self::Cluster,
        Self::ClusterLoadAssignment,
        Self::ExtensionConfig,
        Self::Secret,
        Self::Listener,
        Self::RouteConfiguration,
        Self::VirtualHost,
    ];

    /// The type URL.
    #[must_use]
    pub const fn url(self) -> &'static str {
        match self {
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::ClusterLoadAssignment => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::ExtensionConfig => "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
            Self::Secret => "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::RouteConfiguration => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
            Self::VirtualHost => "type.googleapis.com/envoy.config.route.v3.VirtualHost",
        }
    }

    /// Finds the type of a URL; `None` if it is not served.
    #[must_use]
    pub fn from_url(url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|served| served.url() == url)
    }

    /// Whether a request without names asks for all resources (xDS protocol, wildcard subscription).
    #[must_use]
    pub const fn has_wildcard(self) -> bool {
        matches!(self, Self::Cluster | Self::Listener)
    }

    /// The name of the message, as in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::ClusterLoadAssignment => "ClusterLoadAssignment",
            Self::ExtensionConfig => "ExtensionConfig",
            Self::Secret => "Secret",
            Self::Listener => "Listener",
            Self::RouteConfiguration => "RouteConfiguration",
            Self::VirtualHost => "VirtualHost",
        }
    }
}

impl fmt::Display for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value for each type.
#[derive(Debug, Clone, Default)]
pub struct PerType<T> {
    clusters: T,
    endpoints: T,
    extension_configs: T,
    secrets: T,
    listeners: T,
    routes: T,
    hosts: T,
}

impl<T> Index<ResourceType> for PerType<T> {
    type Output = T;

    fn index(&self, resource_type: ResourceType) -> &T {
        match resource_type {
            ResourceType::Cluster => &self.clusters,
            ResourceType::ClusterLoadAssignment => &self.endpoints,
            ResourceType::ExtensionConfig => &self.extension_configs,
            ResourceType::Secret => &self.secrets,
            ResourceType::Listener => &self.listeners,
            ResourceType::RouteConfiguration => &self.routes,
            ResourceType::VirtualHost => &self.hosts,
        }
    }
}

impl<T> IndexMut<ResourceType> for PerType<T> {
    fn index_mut(&mut self, resource_type: ResourceType) -> &mut T {
        match resource_type {
            ResourceType::Cluster => &mut self.clusters,
            ResourceType::ClusterLoadAssignment => &mut self.endpoints,
            ResourceType::ExtensionConfig => &mut self.extension_configs,
            ResourceType::Secret => &mut self.secrets,
            ResourceType::Listener => &mut self.listeners,
            ResourceType::RouteConfiguration => &mut self.routes,
            ResourceType::VirtualHost => &mut self.hosts,
        }
    }
}

/// The name of a resource.
pub type Name = Arc<str>;

/// The first 16 bytes of the SHA-256 of a content, in hexadecimal. Equal contents have equal versions in every process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceVersion([u8; 16]);

impl ResourceVersion {
    fn of(content: &[u8]) -> Self {
        Self::from_digest(Sha256::new_with_prefix(content))
    }

    /// The version of a set of resources, which must be sorted by name.
    pub fn of_all<'a>(resources: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        let mut digest = Sha256::new();
        for (name, version) in resources {
            digest.update(name);
            // Names do not contain this byte, and versions have a fixed length.
            digest.update([0]);
            digest.update(version.0);
        }
        Self::from_digest(digest)
    }

    fn from_digest(digest: Sha256) -> Self {
        let mut version = [0; 16];
        version
            .iter_mut()
            .zip(digest.finalize())
            .for_each(|(to, from)| *to = from);
        Self(version)
    }

    /// Reads a version; `None` if it is not exactly as a version is displayed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut version = [0; 16];
        if text.len() != 2 * version.len() {
            return None;
        }
        for (byte, digits) in version.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(version)).filter(|version| version.to_string() == text)
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A resource, immutable: a change is another one of the same type and name.
pub struct Resource {
    of_type: ResourceType,
    name: Name,
    version: ResourceVersion,
    // The body may be a secret, so it is zeroized when dropped.
    body: Zeroizing<Vec<u8>>,
}

impl Resource {
    /// Creates a resource with this encoded message.
    ///
    /// Equal contents must be equal bytes, or they are sent again. `prost` encodes the entries of a map in any order.
    #[must_use]
    pub fn new(resource_type: ResourceType, name: impl Into<Name>, body: Vec<u8>) -> Self {
        Self {
            of_type: resource_type,
            name: name.into(),
            version: ResourceVersion::of(&body),
            body: Zeroizing::new(body),
        }
    }

    /// Its type.
    #[must_use]
    pub fn resource_type(&self) -> ResourceType {
        self.of_type
    }

    /// Its name, as Envoy asks for it.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Its content's version.
    #[must_use]
    pub fn version(&self) -> ResourceVersion {
        self.version
    }

    /// The encoded message.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

/// Compares no contents: equal versions are equal contents.
impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        (self.of_type, &self.name, self.version) == (other.of_type, &other.name, other.version)
    }
}

impl Eq for Resource {}

/// Leaves out the content, which may be a secret.
impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            of_type,
            name,
            version,
            body,
        } = self;
        write!(f, "{of_type} {name} {version} ({} bytes)", body.len())
    }
}

/// Resources of one type, by name. Copies share all but what differs, which [`OrdMap::diff`] finds without a look at
/// the rest.
pub type ByName = OrdMap<Name, Arc<Resource>>;

/// Each key that differs between two maps, with its values before and after, without a look at what they share.
pub fn changes<'m, K: Ord, V: PartialEq>(
    before: &'m OrdMap<K, V>,
    after: &'m OrdMap<K, V>,
) -> impl Iterator<Item = (&'m K, Option<&'m V>, Option<&'m V>)> {
    before.diff(after).map(|item| match item {
        DiffItem::Add(key, value) => (key, None, Some(value)),
        DiffItem::Remove(key, value) => (key, Some(value), None),
        DiffItem::Update {
            old: (_, before),
            new: (key, after),
        } => (key, Some(before), Some(after)),
    })
}

fn patch(map: &mut ByName, before: &ByName, after: &ByName) -> bool {
    let mut is_changed = false;
    for (name, _, resource) in changes(before, after) {
        is_changed = true;
        match resource {
            Some(resource) => map.insert(Arc::clone(name), Arc::clone(resource)),
            None => map.remove(name),
        };
    }
    is_changed
}

/// All resources of one group of nodes. Copies share all but what differs.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    by_type: PerType<ByName>,
    units: ByName,
}

impl Resources {
    /// No resources.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a resource.
    pub fn insert(&mut self, resource: impl Into<Arc<Resource>>) {
        let resource = resource.into();
        self.by_type[resource.of_type].insert(Arc::clone(&resource.name), resource);
    }

    /// Adds a unit of the preflight: a virtual host, with its own domains, of all that one object adds to route
    /// configurations, which a node has to accept first.
    pub fn insert_unit(&mut self, unit: impl Into<Arc<Resource>>) {
        let unit = unit.into();
        self.units.insert(Arc::clone(&unit.name), unit);
    }

    /// Applies the changes from `before` to `after`. Returns whether there are any.
    pub fn catch_up(&mut self, before: &Self, after: &Self) -> bool {
        let mut is_changed = false;
        for each in ResourceType::ALL {
            is_changed |= patch(&mut self.by_type[each], &before.by_type[each], &after.by_type[each]);
        }
        is_changed | patch(&mut self.units, &before.units, &after.units)
    }

    /// Removes a unit of the preflight.
    pub fn remove_unit(&mut self, name: &str) {
        self.units.remove(name);
    }

    /// The unit of this name.
    #[must_use]
    pub fn unit(&self, name: &str) -> Option<&Arc<Resource>> {
        self.units.get(name)
    }

    /// The units of the preflight, by name.
    pub fn units(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.units.values()
    }

    /// Removes a resource.
    pub fn remove(&mut self, resource_type: ResourceType, name: &str) -> Option<Arc<Resource>> {
        self.by_type[resource_type].remove(name)
    }

    /// The resource of this type and name.
    #[must_use]
    pub fn get(&self, resource_type: ResourceType, name: &str) -> Option<&Arc<Resource>> {
        self.by_type[resource_type].get(name)
    }

    /// All resources of a type, by name.
    #[must_use]
    pub fn by_name(&self, resource_type: ResourceType) -> &ByName {
        &self.by_type[resource_type]
    }

    /// The units of the preflight, by name.
    #[must_use]
    pub fn units_by_name(&self) -> &ByName {
        &self.units
    }

    /// All resources of a type, by name.
    pub fn of_type(&self, resource_type: ResourceType) -> impl Iterator<Item = &Arc<Resource>> {
        self.by_type[resource_type].values()
    }

    /// All resources, by type and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        ResourceType::ALL.into_iter().flat_map(|each| self.of_type(each))
    }

    /// The number of resources.
    #[must_use]
    pub fn len(&self) -> usize {
        ResourceType::ALL.into_iter().map(|each| self.by_type[each].len()).sum()
    }

    /// Whether there is no resource.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out all resources of a type, by name.
    pub fn take(&mut self, resource_type: ResourceType) -> ByName {
        std::mem::take(&mut self.by_type[resource_type])
    }
}

impl<R: Into<Arc<Resource>>> Extend<R> for Resources {
    fn extend<I: IntoIterator<Item = R>>(&mut self, resources: I) {
        resources.into_iter().for_each(|resource| self.insert(resource));
    }
}

impl<R: Into<Arc<Resource>>> FromIterator<R> for Resources {
    fn from_iter<I: IntoIterator<Item = R>>(resources: I) -> Self {
        let mut all = Self::new();
        all.extend(resources);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_contents_have_one_version_that_can_be_read_back() {
        let resource = |body: &[u8]| Resource::new(ResourceType::Secret, "tls", body.to_vec());
        let version = resource(b"content").version();
        assert_eq!(resource(b"content").version(), version);
        assert_ne!(resource(b"Content").version(), version);
        assert_eq!(version.to_string(), "ed7002b439e9ac845f22357d822bac14");
        assert_eq!(ResourceVersion::parse(&version.to_string()), Some(version));
        for other in [
            "",
            "v1",
            "ED7002B439E9AC845F22357D822BAC14",
            "+d7002b439e9ac845f22357d822bac14",
        ] {
            assert_eq!(ResourceVersion::parse(other), None, "{other}");
        }
    }

    #[test]
    fn debug_does_not_leak_a_secret() {
        let secret = Resource::new(ResourceType::Secret, "tls", b"a private key".to_vec());
        let shown = format!("{secret:?}");
        assert!(shown.contains("Secret tls") && !shown.contains("private"), "{shown}");
        assert!(!shown.contains(&format!("{:?}", b"a private key")), "{shown}");
    }

    #[test]
    fn types_are_known_by_their_urls() {
        for each in ResourceType::ALL {
            assert_eq!(ResourceType::from_url(each.url()), Some(each));
        }
        assert_eq!(ResourceType::from_url("Cluster"), None);
    }
}
