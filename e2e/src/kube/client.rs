//! A client of an API server, without code of the controller.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Context, Result, bail};
use hyper::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::kinds::{Kind, Kinds};
use super::{User, manifest};
use crate::{Answer, Connection, Request, Tls, poll};

/// The `fieldManager` of applied objects.
const MANAGER: &str = "limpet-e2e";

/// A client of an API server for one user, with a default namespace.
///
/// A kind is `HTTPRoute`, or with group and version `gateway.networking.k8s.io/v1beta1/HTTPRoute`.
#[derive(Debug, Clone)]
pub struct Client {
    address: SocketAddr,
    tls: Tls,
    user: User,
    namespace: String,
    connection: Arc<Mutex<Option<Connection>>>,
    kinds: Arc<RwLock<Kinds>>,
}

/// An error answer of the API server.
#[derive(Debug)]
pub struct Refusal {
    /// The status code.
    pub code: u16,
    /// The reason, such as `Forbidden`.
    pub reason: String,
    /// The message for people.
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the API server answers {} {}: {}",
            self.code, self.reason, self.message
        )
    }
}

impl std::error::Error for Refusal {}

/// The refusal in a result that must be one.
///
/// # Errors
/// If the request was not refused.
pub fn refused<T>(result: Result<T>) -> Result<Refusal> {
    match result {
        Ok(_) => bail!("the API server did not refuse this"),
        Err(error) => error.downcast(),
    }
}

impl Client {
    pub(super) fn new(address: SocketAddr, tls: Tls, user: User) -> Self {
        Self {
            address,
            tls,
            user,
            namespace: "default".to_owned(),
            connection: Arc::default(),
            kinds: Arc::default(),
        }
    }

    /// The same client with another namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self.clone()
        }
    }

    /// A client for another user, with a new connection.
    #[must_use]
    pub fn as_user(&self, user: User) -> Self {
        Self {
            namespace: self.namespace.clone(),
            ..Self::new(self.address, self.tls.clone(), user)
        }
    }

    /// Applies the objects of a YAML stream as `kubectl apply --server-side --force-conflicts`; unknown fields are
    /// refused.
    ///
    /// # Errors
    /// If an object is refused; those before it are applied.
    pub async fn apply(&self, yaml: &str) -> Result<()> {
        for object in manifest::objects(yaml)? {
            self.apply_object(&object).await?;
        }
        Ok(())
    }

    /// Applies one object and returns it.
    ///
    /// # Errors
    /// If the object is refused.
    pub async fn apply_object(&self, object: &Value) -> Result<Value> {
        self.apply_with(object, "").await
    }

    /// As [`Client::apply_object`], without storing it.
    ///
    /// # Errors
    /// If the object would be refused.
    pub async fn dry_run(&self, object: &Value) -> Result<Value> {
        self.apply_with(object, "&dryRun=All").await
    }

    async fn apply_with(&self, object: &Value, parameters: &str) -> Result<Value> {
        let text = |value: &Value| Some(value.as_str()?.to_owned());
        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        let (api_version, kind) = text(&object["apiVersion"]).zip(kind).context("no apiVersion or kind")?;
        let name = name.context("an object without a name")?;
        let kind = self.kind(&format!("{api_version}/{kind}")).await?;
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(&self.namespace);
        let path = format!(
            "{}/{name}?fieldManager={MANAGER}&force=true&fieldValidation=Strict{parameters}",
            kind.path(namespace)
        );
        // JSON is also YAML.
        self.call(Method::PATCH, &path, "application/apply-patch+yaml", Some(object))
            .await
    }

    /// The object of this name.
    ///
    /// # Errors
    /// A [`Refusal`] with 404 if there is no such object.
    pub async fn get(&self, kind: &str, name: &str) -> Result<Value> {
        self.call(Method::GET, &self.path(kind, name).await?, "", None).await
    }

    /// The object of this name, if it exists.
    ///
    /// # Errors
    /// If the request fails otherwise.
    pub async fn find(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        match self.get(kind, name).await {
            Err(error)
                if error
                    .downcast_ref::<Refusal>()
                    .is_some_and(|refusal| refusal.code == 404) =>
            {
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }

    /// The objects with these labels, such as `app=web,tier!=test`; empty for all.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn list(&self, kind: &str, labels: &str) -> Result<Vec<Value>> {
        let path = self.kind(kind).await?.path(&self.namespace);
        let labels = labels.replace('=', "%3D").replace(',', "%2C").replace('!', "%21");
        let mut list = self
            .call(Method::GET, &format!("{path}?labelSelector={labels}"), "", None)
            .await?;
        Ok(serde_json::from_value(list["items"].take())?)
    }

    /// Changes an object by a merge patch.
    ///
    /// # Errors
    /// If the change is refused.
    pub async fn merge(&self, kind: &str, name: &str, change: &Value) -> Result<Value> {
        let path = format!("{}?fieldValidation=Strict", self.path(kind, name).await?);
        self.call(Method::PATCH, &path, "application/merge-patch+json", Some(change))
            .await
    }

    /// Changes the `status` of an object by a merge patch.
    ///
    /// # Errors
    /// If the change is refused.
    pub async fn merge_status(&self, kind: &str, name: &str, status: &Value) -> Result<Value> {
        let path = format!("{}/status?fieldValidation=Strict", self.path(kind, name).await?);
        let change = json!({"status": status});
        self.call(Method::PATCH, &path, "application/merge-patch+json", Some(&change))
            .await
    }

    /// Deletes an object. Finalizers or a pod's grace period may keep it for a while.
    ///
    /// # Errors
    /// If that is refused, or there is no such object.
    pub async fn delete(&self, kind: &str, name: &str) -> Result<()> {
        let path = self.path(kind, name).await?;
        self.call(Method::DELETE, &path, "", None).await.map(drop)
    }

    /// Deletes an object without a grace period.
    ///
    /// # Errors
    /// As [`Client::delete`].
    pub async fn delete_now(&self, kind: &str, name: &str) -> Result<()> {
        let path = self.path(kind, name).await?;
        let options = json!({"gracePeriodSeconds": 0});
        self.call(Method::DELETE, &path, "application/json", Some(&options))
            .await
            .map(drop)
    }

    /// Waits until `check` holds for an object, and returns it.
    ///
    /// # Errors
    /// If that does not happen.
    pub async fn until(&self, what: &str, kind: &str, name: &str, check: impl Fn(&Value) -> bool) -> Result<Value> {
        let mut last = None;
        let found = poll::until(what, async || {
            last = Some(self.find(kind, name).await);
            let object = last.as_ref()?.as_ref().ok()?.as_ref()?;
            check(object).then(|| object.clone())
        })
        .await;
        found.with_context(|| format!("{kind} {name}: {last:?}"))
    }

    /// Waits until the object is gone.
    ///
    /// # Errors
    /// If it stays.
    pub async fn until_gone(&self, kind: &str, name: &str) -> Result<()> {
        let gone = async || self.find(kind, name).await.ok()?.is_none().then_some(());
        poll::until(&format!("{kind} {name} to be gone"), gone).await
    }

    pub(super) async fn until_defined(&self, definition: &Value) -> Result<()> {
        let kind = definition["spec"]["names"]["kind"]
            .as_str()
            .context("no spec.names.kind")?;
        let group = definition["spec"]["group"].as_str().context("no spec.group")?;
        for version in definition["spec"]["versions"].as_array().context("no spec.versions")? {
            if version["served"] == true {
                let asked = format!("{group}/{}/{kind}", version["name"].as_str().unwrap_or_default());
                let there = async || self.list(&asked, "").await.ok();
                poll::until(&format!("the kind {asked}"), there).await?;
            }
        }
        Ok(())
    }

    /// Sends any request for JSON. `path` begins with `/`.
    ///
    /// # Errors
    /// A [`Refusal`], or another error without an answer.
    pub async fn call(&self, method: Method, path: &str, content_type: &str, body: Option<&Value>) -> Result<Value> {
        let request = || {
            let request = Request::get(self.address, path)
                .method(method.clone())
                .header("accept", "application/json");
            match body {
                Some(body) => request.header("content-type", content_type).body(body.to_string()),
                None => request,
            }
        };
        self.answer(request).await
    }

    async fn answer(&self, request: impl Fn() -> Request) -> Result<Value> {
        let answer = self.send(request).await?;
        let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if (200..300).contains(&answer.status) {
            return Ok(value);
        }
        let text = |value: &Value, or: &str| value.as_str().unwrap_or(or).to_owned();
        let said = String::from_utf8_lossy(&answer.body);
        Err(anyhow::Error::new(Refusal {
            code: answer.status,
            reason: text(&value["reason"], ""),
            message: text(&value["message"], &said),
        }))
    }

    async fn send(&self, request: impl Fn() -> Request) -> Result<Answer> {
        let request = || request().header("authorization", format!("Bearer {}", self.user.token));
        let mut connection = self.connection.lock().await;
        // The server may have closed the connection. Sending again is safe for all requests here.
        if let Some(mut kept) = connection.take()
            && let Ok(answer) = kept.send(request()).await
        {
            *connection = Some(kept);
            return Ok(answer);
        }
        let mut new = Connection::open_tls(self.address, &self.tls, false).await?;
        let answer = new.send(request()).await?;
        *connection = Some(new);
        Ok(answer)
    }

    pub(super) async fn kind(&self, asked: &str) -> Result<Kind> {
        if let Some(kind) = self.known_kind(asked) {
            return Ok(kind);
        }
        let discover = async |path| {
            let request = || Request::get(self.address, path).header("accept", Kinds::ACCEPT);
            self.answer(request).await
        };
        let kinds = Kinds::read(&[discover("/api").await?, discover("/apis").await?])?;
        *self.kinds.write().unwrap_or_else(PoisonError::into_inner) = kinds;
        self.known_kind(asked)
            .with_context(|| format!("the API server knows no kind {asked}"))
    }

    fn known_kind(&self, asked: &str) -> Option<Kind> {
        self.kinds
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .find(asked)
            .cloned()
    }

    async fn path(&self, kind: &str, name: &str) -> Result<String> {
        Ok(format!("{}/{name}", self.kind(kind).await?.path(&self.namespace)))
    }
}
