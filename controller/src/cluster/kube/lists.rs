//! Lists objects once, with the user's rights.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::api::ListParams;
use kube::core::{ApiResource, DynamicResourceScope};
use kube::{Api, Client, Error, Resource};
use serde::de::DeserializeOwned;

use super::decode::{self, DecodedObject, KindForm};
use super::discovery::{self, ServedKinds};
use super::item::WatchItem;
use super::kind::KindExt as _;
use super::reach::words;
use super::slice::RawSlice;
use super::store::Store;
use super::update::StoreUpdate;
use super::watch;
use limpet_api::{Kind, ObjectName};
use serde_json::Value;

pub(crate) struct Lists {
    client: Client,
    served: ServedKinds,
    /// Our `controllerName`.
    controller: Arc<str>,
}

/// The status of an object.
#[derive(Debug, Clone)]
pub(crate) struct ListedStatus {
    pub(crate) object: ObjectName,
    pub(crate) generation: i64,
    pub(crate) status: Value,
}

/// Why not all objects of a kind are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListError {
    /// The API server's words, which name the missing right.
    pub(crate) message: String,
    /// The namespaces whose objects are known anyway.
    pub(crate) listed_namespaces: BTreeSet<String>,
}

impl Lists {
    pub(crate) async fn new(client: &Client, controller: &str) -> Result<Self, Error> {
        Ok(Self {
            client: client.clone(),
            served: discovery::discover(client).await?,
            controller: controller.into(),
        })
    }

    /// Lists all objects of a kind into the store; without the right for all namespaces, only in `namespaces`.
    pub(crate) async fn read(
        &self,
        kind: Kind,
        namespaces: &BTreeSet<String>,
        store: &mut Store,
    ) -> Result<Option<ListError>, Error> {
        self.read_with(kind, namespaces, store, &mut |_| ()).await
    }

    /// The same, and shows the status of each object, unless the kind is of the API server itself.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) async fn read_with(
        &self,
        kind: Kind,
        namespaces: &BTreeSet<String>,
        store: &mut Store,
        show: &mut impl FnMut(ListedStatus),
    ) -> Result<Option<ListError>, Error> {
        let Some(Some(resource)) = self.served.get(&kind) else {
            store.apply(StoreUpdate::NotServed(kind));
            return Ok(None);
        };
        store.apply(StoreUpdate::Served(kind, resource.clone()));
        let refused = match self.list(kind, resource, None, show).await {
            Ok(entries) => {
                store.apply(StoreUpdate::Listed(kind, None, entries));
                return Ok(None);
            }
            Err(Error::Api(status)) if status.is_forbidden() => Error::Api(status),
            Err(error) => return Err(error),
        };
        let mut unlisted = ListError {
            message: words(&refused),
            listed_namespaces: BTreeSet::new(),
        };
        for namespace in namespaces.iter().filter(|_| kind.is_namespaced()) {
            match self.list(kind, resource, Some(namespace), show).await {
                Ok(entries) => {
                    store.apply(StoreUpdate::Listed(kind, Some(namespace.as_str().into()), entries));
                    unlisted.listed_namespaces.insert(namespace.clone());
                }
                Err(Error::Api(status)) if status.is_forbidden() => unlisted.message.clone_from(&status.message),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(unlisted))
    }

    async fn list(
        &self,
        kind: Kind,
        resource: &ApiResource,
        namespace: Option<&str>,
        show: &mut impl FnMut(ListedStatus),
    ) -> Result<Vec<DecodedObject>, Error> {
        match decode::form(kind) {
            KindForm::Slice => {
                let slices: Vec<RawSlice> = self.all(kind, resource, namespace).await?;
                Ok(slices.into_iter().filter_map(watch::slice_entry).collect())
            }
            KindForm::Item(form) => {
                let items: Vec<WatchItem> = self.all(kind, resource, namespace).await?;
                for item in items.iter().filter(|item| !item.status.is_null()) {
                    let meta = &item.metadata;
                    show(ListedStatus {
                        object: ObjectName::new(
                            meta.namespace.as_deref().unwrap_or_default(),
                            meta.name.as_deref().unwrap_or_default(),
                        ),
                        generation: meta.generation.unwrap_or_default(),
                        status: item.status.clone(),
                    });
                }
                let entry = |item| decode::entry(kind, form, item, &self.controller);
                Ok(items.into_iter().map(entry).collect())
            }
        }
    }

    async fn all<T>(&self, kind: Kind, resource: &ApiResource, namespace: Option<&str>) -> Result<Vec<T>, Error>
    where
        T: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let client = self.client.clone();
        let api: Api<T> = match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, resource),
            None => Api::all_with(client, resource),
        };
        let mut params = ListParams::default().limit(kind.page_size());
        let mut all = Vec::new();
        loop {
            let page = api.list(&params).await?;
            all.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(all),
            }
        }
    }
}
