use std::sync::Arc;

use kube::core::ApiResource;
use tokio::sync::mpsc;

use super::decode::DecodedObject;
use super::pod::PodMeta;
use limpet_api::{Kind, ObjectName};
use limpet_model::{Authorities, Certificate};

#[derive(Debug)]
pub(crate) enum StoreUpdate {
    /// All objects of a kind in a namespace, or in all.
    Listed(Kind, Option<Arc<str>>, Vec<DecodedObject>),
    Applied(Kind, Box<DecodedObject>),
    Deleted(Kind, ObjectName),
    /// It has no objects then.
    NotServed(Kind),
    /// `None` in this variant and the next two: it does not exist.
    Secret(ObjectName, Option<Result<Certificate, String>>),
    ConfigMap(ObjectName, Option<Result<Authorities, String>>),
    Node(ObjectName, Option<Result<Vec<String>, String>>),
    Served(Kind, ApiResource),
    /// All pods of a namespace, or of all, of which anything is kept.
    Pods(Option<Arc<str>>, Vec<(ObjectName, PodMeta)>),
    /// `None`: nothing is kept, or it was deleted.
    Pod(ObjectName, Option<PodMeta>),
    /// The right to read the pods of the namespace, or of all, is missing.
    NoPods(Option<Arc<str>>),
}

/// Bounded, so that lists are read no faster than the store takes them in.
pub(super) type UpdateSender = mpsc::Sender<StoreUpdate>;
