//! What is explained, from the API server, with the rights of the user.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{Api, Client, Error};

use super::sources::{ExplainSources, assume_named, keys};
use crate::cluster::cli::{ExplainArgs, RouteArgument, TargetKind};
use crate::cluster::config::{Config, IN_CONFIG_MAP};
use crate::cluster::kube::{
    ApiConnection, FIELD_MANAGER, ListError, Lists, PodMeta, Store, StoreUpdate, WatchSettings, ZeroizingSecret,
    connect, words,
};
use crate::cluster::reconcile::config_map::ConfigMapContent;
use crate::cluster::reconcile::fences::FenceList;
use crate::cluster::reconcile::keyring;
use crate::exit::CommandFailure;
use crate::tools::keys::keys_file;
use limpet_api::{Kind, ObjectName, ParentRef};
use limpet_core::config::schema::KeyConfig;
use limpet_model::{Memory, Objects};

/// Reads a cluster. `judges_tokens`: whether keys and fences are needed.
pub(super) async fn read(
    args: &ExplainArgs,
    route: &RouteArgument,
    judges_tokens: bool,
) -> Result<ExplainSources, CommandFailure> {
    let ApiConnection { client, address } = connect(&args.cluster).await?;
    let failed = |error: &Error| {
        CommandFailure(format!(
            "cannot read from the API server at {address}: {}",
            words(error)
        ))
    };
    let mut unknown = Vec::new();
    let config = ConfigSource::of(args).read(&client, &mut unknown).await?;
    let settings = config.settings(args.target);
    let namespace = args
        .namespace
        .clone()
        .unwrap_or_else(|| client.default_namespace().to_owned());
    let watched = WatchSettings::everywhere(&settings);
    let lists = Lists::new(&client, &settings.controller_name).await;
    let lists = lists.map_err(|error| failed(&error))?;
    let mut store = Store::new(watched.clone());
    let kinds = Kind::ALL.into_iter().filter(|kind| watched.reads(*kind)).collect();
    let unlisted = read_kinds(kinds, route, &namespace, &lists, &mut store, &failed).await?;
    let has_all_endpoints = unlisted.iter().all(|(kind, _)| *kind != Kind::EndpointSlice);
    unknown.extend(
        unlisted
            .iter()
            .map(|(kind, unlisted)| list_error_message(*kind, unlisted)),
    );
    let own = ControllerObjects {
        client: &client,
        namespace: &args.controller.namespace,
    };
    let memory = format!("{}-memory", config.leader_election.name);
    match own.content::<Memory>(&memory).await {
        Ok(memory) => {
            store.set_memory(memory.unwrap_or_default());
        }
        Err(why) => unknown.push(format!("{why}: rules without a name may have other scopes")),
    }
    assume_named(&mut store);
    // The controller reads pods on these conditions.
    let reads_pods = judges_tokens && settings.serves() && config.sessions.enabled;
    let mut sources = ExplainSources {
        store,
        settings,
        namespace,
        keys: Err(String::new()),
        fences: Vec::new(),
        has_all_endpoints,
        unknown,
        client: reads_pods.then(|| client.clone()),
        config,
    };
    if judges_tokens {
        read_keys_and_fences(args, &own, &mut sources).await?;
    }
    Ok(sources)
}

async fn read_keys_and_fences(
    args: &ExplainArgs,
    own: &ControllerObjects<'_>,
    sources: &mut ExplainSources,
) -> Result<(), CommandFailure> {
    sources.keys = match keys(args)? {
        Some(keys) => Ok(keys),
        None => own.keys(&sources.config).await,
    };
    match own.content::<FenceList>(&sources.config.fences).await {
        Ok(list) => sources.fences = list.map(|list| list.config()).unwrap_or_default(),
        Err(why) => sources
            .unknown
            .push(format!("{why}: whether a token is fenced is not known")),
    }
    Ok(())
}

/// Reads the objects of these kinds, as far as they can be listed. Returns those that cannot be listed everywhere.
async fn read_kinds(
    mut kinds: Vec<Kind>,
    route: &RouteArgument,
    namespace: &str,
    lists: &Lists,
    store: &mut Store,
    failed: &impl Fn(&Error) -> CommandFailure,
) -> Result<Vec<(Kind, ListError)>, CommandFailure> {
    let mut namespaces = BTreeSet::from([namespace.to_owned()]);
    // Gateways may be in other namespaces, which routes name.
    kinds.sort_by_key(|kind| !is_route(*kind));
    let mut all = Vec::new();
    for kind in kinds {
        if !is_route(kind) {
            namespaces.extend(gateways_of(&store.objects(), &route.name, namespace));
        }
        let unlisted = lists.read(kind, &namespaces, store).await;
        let Some(unlisted) = unlisted.map_err(|error| failed(&error))? else {
            continue;
        };
        let is_needed = [Kind::Gateway, Kind::GatewayClass].contains(&kind) || route.kind == Some(kind);
        if is_needed && unlisted.listed_namespaces.is_empty() {
            let message = format!("cannot list {kind}: {}", unlisted.message);
            return Err(CommandFailure(message));
        }
        all.push((kind, unlisted));
    }
    Ok(all)
}

/// Reads what these pods say. Returns whether that may change the explanation. Without the right, it is one more thing
/// that is not known.
pub(super) async fn read_pods(pods: &BTreeSet<ObjectName>, sources: &mut ExplainSources) -> bool {
    let Some(client) = sources.client.clone() else {
        return false;
    };
    for name in pods {
        let api: Api<Pod> = Api::namespaced(client.clone(), &name.namespace);
        match api.get_metadata_opt(&name.name).await {
            Ok(Some(pod)) => {
                let pod = PodMeta::read(&pod, FIELD_MANAGER);
                sources.store.apply(StoreUpdate::Pod(name.clone(), pod));
            }
            Ok(None) => {}
            Err(error) => sources.unknown.push(format!(
                "whether pod {name} drains by its annotation is not known: {}",
                words(&error)
            )),
        }
    }
    true
}

fn is_route(kind: Kind) -> bool {
    matches!(kind, Kind::HttpRoute | Kind::GrpcRoute)
}

/// The namespaces of the Gateways that the route names.
fn gateways_of(objects: &Objects, name: &str, namespace: &str) -> BTreeSet<String> {
    let route = ObjectName::new(namespace, name);
    let http = objects.http_routes.get(&route).map(|route| &route.spec.parent_refs);
    let grpc = objects.grpc_routes.get(&route).map(|route| &route.spec.parent_refs);
    let parents = http.into_iter().chain(grpc).flatten();
    parents
        .filter_map(|parent: &ParentRef| parent.namespace.clone())
        .collect()
}

pub(crate) fn list_error_message(
    kind: Kind,
    ListError {
        message: words,
        listed_namespaces: known,
    }: &ListError,
) -> String {
    if known.is_empty() {
        return format!("no {kind} is known: {words}");
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    format!("{kind}: only the objects of {} are known: {words}", known.join(", "))
}

/// Where the controller's configuration is: in `--config`, or in its ConfigMap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConfigSource<'a> {
    pub(crate) file: Option<&'a str>,
    pub(crate) controller: &'a ObjectName,
    pub(crate) target: TargetKind,
}

impl<'a> ConfigSource<'a> {
    fn of(args: &'a ExplainArgs) -> Self {
        Self {
            file: args.config.as_deref(),
            controller: &args.controller,
            target: args.target,
        }
    }

    /// Reads it; its defaults count if it is not there.
    ///
    /// # Errors
    /// If it is no configuration of the controller.
    pub(crate) async fn read(self, client: &Client, unknown: &mut Vec<String>) -> Result<Config, CommandFailure> {
        let Self {
            file,
            controller,
            target,
        } = self;
        if let Some(file) = file {
            return Config::read(file, target);
        }
        let ObjectName { namespace, name } = controller;
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let place = format!("ConfigMap {namespace}/{name}");
        match maps.get_opt(name).await {
            Ok(Some(map)) => match map.data.as_ref().and_then(|data| data.get(IN_CONFIG_MAP)) {
                Some(text) => return Config::parse(&format!("{place}, {IN_CONFIG_MAP}"), text, target),
                None => unknown.push(format!(
                    "{place} has no {IN_CONFIG_MAP}: expected the controller's configuration (--config)"
                )),
            },
            Ok(None) => unknown.push(format!(
                "{place}, the controller's configuration, is not there: its defaults count (--config, --controller)"
            )),
            Err(error) => unknown.push(format!(
                "the controller's configuration is not known, and its defaults count (--config): {}",
                words(&error)
            )),
        }
        Ok(Config::default())
    }
}

/// The controller's own objects.
pub(crate) struct ControllerObjects<'a> {
    pub(crate) client: &'a Client,
    pub(crate) namespace: &'a str,
}

impl ControllerObjects<'_> {
    /// What a ConfigMap keeps; `None`: it does not exist.
    pub(crate) async fn content<K: ConfigMapContent>(&self, name: &str) -> Result<Option<K>, String> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), self.namespace);
        let found = maps.get_opt(name).await.map_err(|error| words(&error))?;
        let Some(map) = found else { return Ok(None) };
        let content = K::parse(&map.data.unwrap_or_default());
        content
            .map(Some)
            .map_err(|error| format!("ConfigMap {}/{name}: {error}", self.namespace))
    }

    /// The keys of the keyring, or why they are not known.
    async fn keys(&self, config: &Config) -> Result<Vec<KeyConfig>, String> {
        const INSTEAD: &str = "--keys takes a keyring file";
        if let Some(file) = &config.keyring.file {
            return Err(format!(
                "the controller reads its keyring from its file {file}; {INSTEAD}"
            ));
        }
        let (namespace, name) = (self.namespace, &config.keyring.secret);
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        match secrets.get_opt(name).await {
            Ok(Some(secret)) => {
                let secret = ZeroizingSecret::new(secret);
                let document = keyring::document(secret.object());
                let document = document.map_err(|broken| format!("Secret {namespace}/{name}: {broken}"))?;
                Ok(keys_file::of_document(&document))
            }
            Ok(None) => Err(format!(
                "Secret {namespace}/{name}, the keyring, is not there; {INSTEAD}"
            )),
            Err(error) => Err(format!("{}; {INSTEAD}", words(&error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_told_with_the_missing_right() {
        let refused = |known: &[&str]| ListError {
            message: "services is forbidden".to_owned(),
            listed_namespaces: known.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(
            list_error_message(Kind::Service, &refused(&[])),
            "no Service is known: services is forbidden"
        );
        assert_eq!(
            list_error_message(Kind::Service, &refused(&["shop"])),
            "Service: only the objects of shop are known: services is forbidden"
        );
    }
}
