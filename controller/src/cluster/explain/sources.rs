//! What is explained, from files.

use std::sync::Arc;

use kube::Client;

use crate::cluster::cli::ExplainArgs;
use crate::cluster::config::Config;
use crate::cluster::kube::{ReferencedObject, Store, StoreUpdate};
use crate::cluster::render::{ManifestFiles, read_manifests};
use crate::exit::CommandFailure;
use crate::tools::keys::keys_file;
use limpet_core::config::schema::{FenceConfig, KeyConfig};
use limpet_model::{Authorities, Certificate, Settings};

/// The namespace of objects that name none, as in kubectl.
const DEFAULT_NAMESPACE: &str = "default";

/// Everything that an explanation is made of.
pub(super) struct ExplainSources {
    pub(super) store: Store,
    pub(super) config: Config,
    pub(super) settings: Settings,
    /// The route's.
    pub(super) namespace: String,
    /// The keys of tokens, or why they are not known.
    pub(super) keys: Result<Vec<KeyConfig>, String>,
    pub(super) fences: Vec<FenceConfig>,
    /// Whether all endpoints are known, or only of Services that have any.
    pub(super) has_all_endpoints: bool,
    /// What is not known, and why.
    pub(super) unknown: Vec<String>,
    /// Asks for pods; `None`: there is no cluster, or its pods' words are not used.
    pub(super) client: Option<Client>,
}

/// Reads files.
pub(super) fn from_files(args: &ExplainArgs) -> Result<ExplainSources, CommandFailure> {
    let config = match &args.config {
        Some(file) => Config::read(file, args.target)?,
        None => Config::default(),
    };
    let settings = config.settings(args.target);
    let ManifestFiles { mut store, .. } = read_manifests(&args.files, &settings)?;
    assume_named(&mut store);
    Ok(ExplainSources {
        store,
        settings,
        config,
        namespace: args.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
        keys: keys(args)?.ok_or_else(|| "--keys was not given".to_owned()),
        fences: Vec::new(),
        has_all_endpoints: false,
        unknown: Vec::new(),
        client: None,
    })
}

/// The keys of `--keys`.
pub(super) fn keys(args: &ExplainArgs) -> Result<Option<Vec<KeyConfig>>, CommandFailure> {
    args.keys.as_deref().map(keys_file::read).transpose()
}

/// Answers for the single objects that others name. What is in them changes no session, so the right to read them is
/// not needed, and no private key is read.
pub(crate) fn assume_named(store: &mut Store) {
    for object in store.references().clone().into_keys() {
        let certificate = Certificate {
            chain: Vec::new().into(),
            key: Arc::default(),
        };
        store.apply(match object {
            ReferencedObject::Secret(name) => StoreUpdate::Secret(name, Some(Ok(certificate))),
            ReferencedObject::ConfigMap(name) => StoreUpdate::ConfigMap(name, Some(Ok(Authorities::of_pem("")))),
            ReferencedObject::Node(name) => StoreUpdate::Node(name, None),
        });
    }
}
