use std::sync::Arc;

use kube::core::ApiResource;
use tokio::sync::mpsc;

use super::decode::DecodedObject;
use super::pod::PodMeta;
use limpet_api::{Kind, ObjectName};
use limpet_model::{Authorities, Certificate};

#[derive(Debug)]
pub(crate) enum StoreUpdate {
    /// All objects of a kind in a namespace, or in all namespaces.
    Listed(Kind, Option<Arc<str>>, Vec<DecodedObject>),
    /// An object was created or changed.
    Applied(Kind, Box<DecodedObject>),
    /// An object was deleted.
    Deleted(Kind, ObjectName),
    /// A kind is not served, so it has no objects.
    NotServed(Kind),
    /// What a Secret holds; `None`: it does not exist.
    Secret(ObjectName, Option<Result<Certificate, String>>),
    /// The authorities in a ConfigMap; `None`: it does not exist.
    ConfigMap(ObjectName, Option<Result<Authorities, String>>),
    /// The addresses of a Node; `None`: it does not exist.
    Node(ObjectName, Option<Result<Vec<String>, String>>),
    /// A kind is served and watched in this version.
    Served(Kind, ApiResource),
    /// The pods of a namespace, or of all namespaces, of which anything is to be kept.
    Pods(Option<Arc<str>>, Vec<(ObjectName, PodMeta)>),
    /// What is to be kept of a pod that was created or changed; `None`: nothing, or it was deleted.
    Pod(ObjectName, Option<PodMeta>),
    /// The right to read the pods of a namespace is missing, or of all namespaces.
    NoPods(Option<Arc<str>>),
}

/// Where updates go. Bounded, so that lists are read no faster than the store takes them in.
pub(super) type UpdateSender = mpsc::Sender<StoreUpdate>;
