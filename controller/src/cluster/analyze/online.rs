//! Findings of a cluster, with the rights of the user.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Error};

use super::code::FindingCode;
use super::files::inputs;
use super::finding::{AnalysisFinding, FindingPlace};
use super::reports::of_built;
use super::statuses::{AnalyzedGateway, depends_on, merged, of_status};
use crate::cluster::cli::TargetKind;
use crate::cluster::config::Config;
use crate::cluster::explain::{ConfigSource, ControllerObjects, assume_named, list_error_message};
use crate::cluster::kube::{ApiConnection, ListedStatus, Lists, Store, WatchSettings, words};
use crate::cluster::reconcile::keyring::{self, KeyringReading};
use crate::cluster::render::{ManifestFiles, render_manifests};
use crate::exit::CommandFailure;
use crate::time_format;
use crate::tools::keys::ids;
use limpet_api::{Kind, ObjectName};
use limpet_model::{Memory, Objects};

/// What is analyzed.
pub(crate) struct AnalyzedCluster<'a> {
    pub(crate) connection: &'a ApiConnection,
    pub(crate) namespaces: AnalyzedNamespaces<'a>,
    pub(crate) config: ConfigSource<'a>,
}

/// Whose objects are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnalyzedNamespaces<'a> {
    All,
    /// The kubeconfig's.
    Own,
    Named(&'a str),
}

/// What is found in a cluster.
pub(crate) struct ClusterAnalysis {
    pub(crate) findings: Vec<AnalysisFinding>,
    /// The Gateways of the controller.
    pub(crate) gateways: Vec<AnalyzedGateway>,
    /// `None`: it is not known, or not asked for.
    pub(crate) keyring: Option<KeyringReading>,
}

/// Reads the cluster.
///
/// # Errors
/// If no API server answers, or a file of the command line cannot be read.
pub(crate) async fn analyze(what: &AnalyzedCluster<'_>) -> Result<ClusterAnalysis, CommandFailure> {
    let ApiConnection { client, address } = what.connection;
    let failed = |error: &Error| {
        let words = words(error);
        CommandFailure(format!("cannot read from the API server at {address}: {words}"))
    };
    let mut found = Vec::new();
    let config = config(what, client, &mut found).await?;
    let own = ControllerObjects {
        client,
        namespace: &what.config.controller.namespace,
    };
    let home = match what.namespaces {
        AnalyzedNamespaces::Named(namespace) => namespace.to_owned(),
        AnalyzedNamespaces::All | AnalyzedNamespaces::Own => client.default_namespace().to_owned(),
    };
    let settings = config.settings(what.config.target);
    let lists = Lists::new(client, &settings.controller_name)
        .await
        .map_err(|error| failed(&error))?;
    let mut cluster = ListedCluster {
        store: Store::new(WatchSettings::everywhere(&settings)),
        statuses: Vec::new(),
        unlisted: BTreeSet::new(),
    };
    let kinds = kinds(&WatchSettings::everywhere(&settings));
    found.extend(
        cluster
            .read(kinds, &lists, &home)
            .await
            .map_err(|error| failed(&error))?,
    );
    found.extend(cluster.read_memory(&own, &config).await);
    let (of_objects, mut gateways) = cluster.findings(&config, what.config.target);
    found.extend(of_objects);
    let mut keyring = None;
    let is_all = matches!(what.namespaces, AnalyzedNamespaces::All);
    if is_all || home == own.namespace {
        let (of_keyring, reading) = of_keyring(&config, &own).await;
        found.extend(of_keyring);
        keyring = reading;
    }
    if !is_all {
        gateways.retain(|gateway| *gateway.name.namespace == *home);
        found.retain(|finding| finding.place.namespace.is_empty() || finding.place.namespace == home);
    }
    Ok(ClusterAnalysis {
        findings: found,
        gateways,
        keyring,
    })
}

fn not_known(message: impl Into<String>) -> AnalysisFinding {
    AnalysisFinding::new(FindingPlace::default(), FindingCode::input("NotKnown"), message)
}

/// The controller's configuration; its defaults if it is broken.
async fn config(
    what: &AnalyzedCluster<'_>,
    client: &Client,
    found: &mut Vec<AnalysisFinding>,
) -> Result<Config, CommandFailure> {
    let mut unknown = Vec::new();
    let read = what.config.read(client, &mut unknown).await;
    found.extend(unknown.into_iter().map(not_known));
    match read {
        Err(CommandFailure(broken)) if what.config.file.is_none() => {
            let code = FindingCode::input("ControllerConfiguration");
            found.push(AnalysisFinding::new(FindingPlace::default(), code, broken));
            Ok(Config::default())
        }
        read => read,
    }
}

/// The kinds that findings are about or depend on. Routes are first, because they name namespaces.
fn kinds(watched: &WatchSettings) -> Vec<Kind> {
    let is_read = |kind: &Kind| watched.reads(*kind) && *kind != Kind::EndpointSlice;
    let mut kinds: Vec<Kind> = Kind::ALL.into_iter().filter(is_read).collect();
    kinds.sort_by_key(|kind| !matches!(kind, Kind::HttpRoute | Kind::GrpcRoute));
    kinds
}

/// What is there, as far as the user may see it.
struct ListedCluster {
    store: Store,
    statuses: Vec<(Kind, ListedStatus)>,
    /// The kinds of which objects may be missing.
    unlisted: BTreeSet<Kind>,
}

impl ListedCluster {
    /// Lists these kinds. Where the right to list one in all namespaces is missing, it is listed in the namespace
    /// `home` and in the namespaces of the Gateways that routes name. Returns the kinds that cannot be listed.
    async fn read(&mut self, kinds: Vec<Kind>, lists: &Lists, home: &str) -> Result<Vec<AnalysisFinding>, Error> {
        let mut found = Vec::new();
        let mut namespaces = BTreeSet::from([home.to_owned()]);
        for kind in kinds {
            if kind == Kind::Gateway {
                namespaces.extend(gateways_of(&self.store.objects()));
            }
            let mut show = |status: ListedStatus| self.statuses.push((kind, status));
            let unlisted = lists.read_with(kind, &namespaces, &mut self.store, &mut show).await?;
            if let Some(unlisted) = unlisted {
                self.unlisted.insert(kind);
                let place = FindingPlace {
                    kind: kind.to_string(),
                    ..FindingPlace::default()
                };
                let message = list_error_message(kind, &unlisted);
                found.push(AnalysisFinding::new(place, FindingCode::input("NotListed"), message));
            }
        }
        Ok(found)
    }

    /// Reads what the controller remembers.
    async fn read_memory(&mut self, own: &ControllerObjects<'_>, config: &Config) -> Option<AnalysisFinding> {
        let name = format!("{}-memory", config.leader_election.name);
        match own.content::<Memory>(&name).await {
            Ok(memory) => {
                self.store.set_memory(memory.unwrap_or_default());
                None
            }
            Err(why) => Some(not_known(format!("{why}: rules without a name may have other scopes"))),
        }
    }

    /// What the model says of the objects, and what their statuses say; and the Gateways.
    fn findings(mut self, config: &Config, target: TargetKind) -> (Vec<AnalysisFinding>, Vec<AnalyzedGateway>) {
        assume_named(&mut self.store);
        let settings = config.settings(target);
        let manifests = ManifestFiles {
            store: self.store,
            skipped: BTreeMap::new(),
            unknown: BTreeMap::new(),
        };
        let plane = config.control_plane(target);
        let rendered = render_manifests(manifests, &settings, &config.envoy, plane.as_ref(), &inputs(config));
        let mut built = of_built(&rendered);
        built.retain(|finding| !self.unlisted.iter().any(|kind| depends_on(finding, *kind)));
        let reports = &rendered.reports;
        let is_ours = |kind: Kind, name: &ObjectName| match kind {
            Kind::Gateway => reports.gateways.contains_key(name) || self.unlisted.contains(&Kind::GatewayClass),
            Kind::IngressRoute => reports.ingress_routes.contains_key(name),
            Kind::GatewayClass => reports.gateway_classes.contains_key(name.name.as_str()),
            _ => true,
        };
        let ours = || {
            let all = self.statuses.iter();
            all.filter(|(kind, listed)| is_ours(*kind, &listed.object))
        };
        let statuses = ours().flat_map(|(kind, listed)| of_status(*kind, listed, &settings.controller_name));
        let unwritten = reports
            .gateways
            .keys()
            .map(|name| (name.clone(), AnalyzedGateway::unwritten(name)));
        let mut gateways: BTreeMap<ObjectName, AnalyzedGateway> = unwritten.collect();
        let written = ours().filter(|(kind, _)| *kind == Kind::Gateway);
        gateways.extend(written.map(|(_, listed)| (listed.object.clone(), AnalyzedGateway::of(listed))));
        (merged(built, statuses.collect()), gateways.into_values().collect())
    }
}

/// The namespaces of the Gateways that routes name.
fn gateways_of(objects: &Objects) -> BTreeSet<String> {
    let http = objects.http_routes.values().map(|route| &route.spec.parent_refs);
    let grpc = objects.grpc_routes.values().map(|route| &route.spec.parent_refs);
    let parents = http.chain(grpc).flatten();
    parents.filter_map(|parent| parent.namespace.clone()).collect()
}

/// What is wrong with the Secret of the keyring.
async fn of_keyring(config: &Config, own: &ControllerObjects<'_>) -> (Vec<AnalysisFinding>, Option<KeyringReading>) {
    if config.keyring.file.is_some() {
        return (Vec::new(), None);
    }
    let (name, namespace) = (&config.keyring.secret, own.namespace);
    let place = FindingPlace {
        kind: "Secret".to_owned(),
        namespace: namespace.to_owned(),
        name: name.clone(),
        ..FindingPlace::default()
    };
    let finding = |code, message: String| AnalysisFinding::new(place.clone(), code, message);
    let secrets: Api<Secret> = Api::namespaced(own.client.clone(), namespace);
    let secret = match secrets.get_opt(name).await {
        Ok(Some(secret)) => secret,
        Ok(None) => {
            let message = "the keyring does not exist: the leading controller makes it".to_owned();
            return (vec![finding(FindingCode::keyring("Missing"), message)], None);
        }
        Err(error) => {
            let message = format!("the keyring is not known: {}", words(&error));
            return (vec![finding(FindingCode::input("NotKnown"), message)], None);
        }
    };
    let reading = keyring::read(&config.keyring, secret, time_format::now());
    let problems = reading.problems.iter();
    let mut found: Vec<AnalysisFinding> = problems
        .map(|problem| finding(FindingCode::keyring("Invalid"), problem.clone()))
        .collect();
    if !reading.revoking.is_empty() {
        let message = format!(
            "not every Envoy knows that {} must be refused",
            ids::keys(&reading.revoking)
        );
        found.push(finding(FindingCode::keyring("Revoking"), message));
    }
    (found, Some(reading))
}
