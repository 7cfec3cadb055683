//! The parameters of all Gateways together.

use std::collections::{BTreeMap, BTreeSet};

use limpet_api::{EnvoyDeploymentSpec, GatewaySpec, Kind, Object, ObjectName, Text};

use super::fair_share::within_share;
use super::maps::{Map, changed};

type GatewayMap = Map<ObjectName, Object<GatewaySpec>>;
type EnvoyDeployments = Map<ObjectName, Object<EnvoyDeploymentSpec>>;

/// The most bytes of JSON of all Gateways' parameters, without the classes' parameters. Each Gateway has its own copy,
/// in the graph and in the objects of its Envoys.
pub(crate) const MOST_BYTES: usize = 8 << 20;

/// The Gateways whose parameters have room. Each namespace has a fair share, for its oldest Gateways.
#[derive(Debug, Clone, Default)]
pub(crate) struct ParametersRoom {
    gateways: GatewayMap,
    deployments: EnvoyDeployments,
    bytes: BTreeMap<ObjectName, usize>,
    without: BTreeSet<ObjectName>,
}

impl ParametersRoom {
    /// Returns the Gateways for which the answer differs. `is_ours`: whether the controller keeps the Envoys of a
    /// class, the same every time.
    pub(crate) fn catch_up(
        &mut self,
        gateways: &GatewayMap,
        deployments: &EnvoyDeployments,
        is_ours: impl Fn(&str) -> bool,
    ) -> BTreeSet<ObjectName> {
        let mut names = changed(&self.deployments, deployments).peekable();
        if names.peek().is_none() && changed(&self.gateways, gateways).next().is_none() {
            return BTreeSet::new();
        }
        for name in names {
            match deployments.get(name) {
                Some(object) => self.bytes.insert(name.clone(), bytes(&object.spec)),
                None => self.bytes.remove(name),
            };
        }
        self.gateways.clone_from(gateways);
        self.deployments.clone_from(deployments);
        let without = self.find(is_ours);
        let before = std::mem::replace(&mut self.without, without);
        before.symmetric_difference(&self.without).cloned().collect()
    }

    fn find(&self, is_ours: impl Fn(&str) -> bool) -> BTreeSet<ObjectName> {
        let ours = self.gateways.iter();
        let ours = ours.filter(|(_, gateway)| is_ours(&gateway.spec.gateway_class_name));
        let mut ours: Vec<_> = ours
            .filter_map(|(name, gateway)| {
                let reference = gateway.spec.infrastructure.parameters_ref.as_ref()?;
                let kind = Kind::find(&reference.group, &reference.kind);
                let parameters = ObjectName::new(&name.namespace, &reference.name);
                let bytes = *self
                    .bytes
                    .get(&parameters)
                    .filter(|_| kind == Some(Kind::EnvoyDeployment))?;
                Some((gateway.meta.precedence(), name, bytes))
            })
            .collect();
        ours.sort_unstable();
        let mut namespaces: BTreeMap<&Text, Vec<(&ObjectName, usize)>> = BTreeMap::new();
        for (_, name, bytes) in &ours {
            namespaces.entry(&name.namespace).or_default().push((*name, *bytes));
        }
        let mut without: BTreeSet<ObjectName> = ours.iter().map(|(_, name, _)| (*name).clone()).collect();
        for name in within_share(namespaces, MOST_BYTES) {
            without.remove(name);
        }
        without
    }

    /// Why this Gateway's have no room.
    pub(crate) fn shortage(&self, gateway: &ObjectName) -> Option<String> {
        self.without.contains(gateway).then(|| {
            format!(
                "spec.infrastructure.parametersRef: the EnvoyDeployments of the Gateways of namespace {} take more \
                 than their share of the {MOST_BYTES} bytes for all Gateways, counted once for each Gateway, \
                 so the younger Gateways have none: expected shorter EnvoyDeployments, or none where the \
                 GatewayClass's suffice",
                gateway.namespace
            )
        })
    }
}

fn bytes(spec: &EnvoyDeploymentSpec) -> usize {
    // All keys of its maps are strings, so it serializes.
    serde_json::to_string(spec).unwrap_or_default().len()
}
