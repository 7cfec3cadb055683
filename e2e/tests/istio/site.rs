//! The site of `envoy-configs/istio`, in a test's own namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use limpet_core::token::DestinationId;
use limpet_e2e::kube::{Gateway, Istiod, Namespace, POD_PORT, Pod, Proxy};
use limpet_e2e::{Answer, KeyEncryptionKey, Keyring, Request, Visitor, poll, tools};
use serde_json::{Value, json};
use tempfile::TempDir;

const HOST: &str = "shop.example.com";
pub(crate) const COOKIE: &str = "limpet-session";
/// The services, whose pods have a label of the same name.
const SERVICES: [&str; 2] = ["shop", "shop-canary"];
/// The objects that give sessions to routes without a split.
pub(crate) const OBJECTS: [&str; 3] = ["chain.yaml", "wasm-plugin.yaml", "route.yaml"];

/// A gateway without sessions, its stock Envoy, two pods of `shop`, and two of `shop-canary`, which no route leads to
/// yet.
pub(crate) struct IstioSite {
    pub(crate) namespace: Namespace,
    pub(crate) gateway: Gateway,
    pub(crate) envoy: Proxy,
    pub(crate) pods: BTreeMap<String, Pod>,
    pub(crate) keyring: Keyring,
    pub(crate) key_encryption_key: KeyEncryptionKey,
    directory: TempDir,
}

impl IstioSite {
    pub(crate) async fn start(prefix: &str) -> Result<Self> {
        let istiod = Istiod::shared().await?;
        let namespace = istiod.cluster().namespace(prefix).await?;
        let gateway = istiod.gateway(&namespace, "web", 80).await?;
        let mut pods = BTreeMap::new();
        for service in SERVICES {
            for number in 0..2 {
                let name = format!("{service}-{number}");
                let pod = namespace.pod(&name, &[("app", service)]).await?;
                pods.insert(name, pod);
            }
        }
        namespace.service("shop-canary", &[("app", "shop-canary")]).await?;
        let key_encryption_key = KeyEncryptionKey::generate(1)?;
        let environment = [(&*key_encryption_key.variable, &*key_encryption_key.key)];
        let envoy = gateway.envoy(&environment).await?;
        let mut site = Self {
            namespace,
            gateway,
            envoy,
            pods,
            keyring: Keyring::generate()?,
            key_encryption_key,
            directory: TempDir::with_prefix("limpet-e2e-")?,
        };
        site.apply(&["shop.yaml"]).await?;
        site.envoy.until_ready().await?;
        let answers = async || site.visit(&mut site.visitor()).await.ok()?.backend().map(drop);
        poll::until("the route", answers).await?;
        Ok(site)
    }

    /// Replaces the Envoy by a new one.
    pub(crate) async fn restart_envoy(&mut self) -> Result<()> {
        let key = &self.key_encryption_key;
        self.envoy = self.gateway.envoy(&[(&key.variable, &key.key)]).await?;
        self.envoy.until_ready().await
    }

    /// As [`IstioSite::restart_envoy`], without the key-encryption key.
    pub(crate) async fn restart_envoy_without_key(&mut self) -> Result<()> {
        self.envoy = self.gateway.envoy(&[]).await?;
        self.envoy.until_ready().await
    }

    /// Waits until Envoy has refused the filter's configuration. Pods must answer all requests without sessions.
    pub(crate) async fn until_refused(&self) -> Result<()> {
        let mut failure = None;
        let refused = async || {
            let mut visitor = self.visitor();
            match self.visit(&mut visitor).await {
                Err(error) => failure = Some(error),
                Ok(_) if !visitor.cookie_names().is_empty() => failure = Some(anyhow::anyhow!("a session")),
                Ok(_) => {}
            }
            let stats = self
                .envoy
                .admin()
                .stats("extension_config_discovery.*config_fail")
                .await
                .ok()?;
            (failure.is_some() || stats.values().sum::<u64>() > 0).then_some(())
        };
        poll::until("Envoy to refuse the filter", refused).await?;
        failure.map_or(Ok(()), Err)?;
        for _ in 0..20 {
            let mut visitor = self.visitor();
            self.visit(&mut visitor).await?;
            ensure!(visitor.cookie_names().is_empty(), "a session");
        }
        Ok(())
    }

    pub(crate) async fn with_sessions(prefix: &str, objects: &[&str]) -> Result<Self> {
        let site = Self::start(prefix).await?;
        site.apply(objects).await?;
        site.until_sessions().await?;
        Ok(site)
    }

    /// As an operator does.
    pub(crate) async fn apply(&self, files: &[&str]) -> Result<()> {
        for file in files {
            self.namespace.apply(&self.text(file)?).await?;
        }
        Ok(())
    }

    pub(crate) async fn delete(&self, files: &[&str]) -> Result<()> {
        for file in files {
            let objects: Vec<Value> = serde_saphyr::from_multiple(&self.text(file)?)?;
            for object in objects {
                let text = |value: &Value| value.as_str().map(str::to_owned).context("no text");
                let kind = format!("{}/{}", text(&object["apiVersion"])?, text(&object["kind"])?);
                self.namespace
                    .delete(&kind, &text(&object["metadata"]["name"])?)
                    .await?;
            }
        }
        Ok(())
    }

    /// The text of a file, with the test's namespace, keys and path of the filter.
    pub(crate) fn text(&self, file: &str) -> Result<String> {
        let path = tools::checkout().join("envoy-configs/istio").join(file);
        let mut text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = self.namespace.name();
        for service in SERVICES {
            let hash = |namespace: &str| {
                let cluster = format!("outbound|80||{service}.{namespace}.svc.cluster.local");
                DestinationId::of_cluster(cluster.as_bytes()).to_string()
            };
            if file == "split.yaml" {
                ensure!(text.contains(&hash("shop")), "no hash of {service} in {file}");
            }
            text = text.replace(&hash("shop"), &hash(name));
        }
        text = text
            .replace("namespace: shop", &format!("namespace: {name}"))
            .replace("/shop.limpet~", &format!("/{name}.limpet~"))
            .replace(".shop.svc.", &format!(".{name}.svc."))
            .replace("targetPort: 8080", &format!("targetPort: {POD_PORT}"));
        if file == "wasm-plugin.yaml" {
            let filter = format!("file://{}", tools::wasm()?.display());
            text = text.replace("oci://registry.example.com/limpet:1", &filter);
            let wrapped = self.file(file);
            std::fs::write(&wrapped, &text)?;
            self.keyring.wrap_into(&wrapped, &self.key_encryption_key)?;
            text = std::fs::read_to_string(wrapped)?;
        }
        Ok(text)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn visitor(&self) -> Visitor {
        Visitor::of(self.gateway.address())
    }

    pub(crate) fn request(&self) -> Request {
        Request::get(self.gateway.address(), "/").header("host", HOST)
    }

    pub(crate) async fn visit(&self, visitor: &mut Visitor) -> Result<Answer> {
        let answer = visitor.send(self.request()).await?;
        ensure!(answer.status == 200, "the answer is {}", answer.status);
        Ok(answer)
    }

    pub(crate) async fn session(&self) -> Result<(Visitor, String)> {
        let mut visitor = self.visitor();
        let answer = self.visit(&mut visitor).await?;
        visitor.cookie(COOKIE).context("no session")?;
        Ok((visitor, answer.backend().context("no backend")?.to_owned()))
    }

    pub(crate) async fn session_on(&self, pod: &str) -> Result<Visitor> {
        poll::until(&format!("a session at {pod}"), async || {
            let (visitor, found) = self.session().await.ok()?;
            (found == pod).then_some(visitor)
        })
        .await
    }

    pub(crate) async fn until_sessions(&self) -> Result<()> {
        let sessions = poll::until("sessions", async || self.session().await.ok().map(drop)).await;
        sessions.with_context(|| self.envoy.log().unwrap_or_default())
    }

    /// Ten requests all reach this pod.
    pub(crate) async fn holds(&self, visitor: &mut Visitor, pod: &str) -> Result<()> {
        for request in 0..10 {
            let answer = self.visit(visitor).await?;
            let reached = answer.backend().unwrap_or_default();
            ensure!(reached == pod, "request {request} reached {reached}, not {pod}");
        }
        Ok(())
    }

    pub(crate) async fn spread(&self, requests: usize) -> Result<BTreeSet<String>> {
        let mut reached = BTreeSet::new();
        for _ in 0..requests {
            let answer = self.visit(&mut self.visitor()).await?;
            reached.insert(answer.backend().context("no backend")?.to_owned());
        }
        Ok(reached)
    }

    /// The lines of Envoy's configuration that mention Limpet.
    pub(crate) async fn traces(&self) -> Result<Vec<String>> {
        let dump = self.envoy.admin().text("/config_dump?include_eds").await?;
        let lines = dump.lines().filter(|line| line.to_lowercase().contains("limpet"));
        Ok(lines.map(|line| line.trim().to_owned()).collect())
    }

    /// Deletes a pod and stops its backend.
    pub(crate) async fn remove(&mut self, pod: &str) -> Result<()> {
        let pod = self.pods.remove(pod).context("no such pod")?;
        pod.remove().await.map(drop)
    }

    /// Sets the weights of both services in the route.
    pub(crate) async fn weights(&self, stable: u32, canary: u32) -> Result<()> {
        let backends = json!([
            {"name": "shop", "port": 80, "weight": stable},
            {"name": "shop-canary", "port": 80, "weight": canary},
        ]);
        let change = json!({"spec": {"rules": [{"name": "shop-pages", "backendRefs": backends}]}});
        self.namespace.merge("HTTPRoute", "shop", &change).await.map(drop)
    }

    /// With and without a session.
    pub(crate) async fn check_forged_headers_have_no_effect(&self) -> Result<()> {
        let (visitor, pod) = self.session().await?;
        let other = if pod == "shop-0" { "shop-1" } else { "shop-0" };
        let host = STANDARD.encode(self.pods[other].address().to_string());
        let mut reached = BTreeSet::new();
        for cookie in [true, false].into_iter().cycle().take(20) {
            let request = self
                .request()
                .header("x-limpet-host", &host)
                .header("x-limpet-host-strict", &host)
                .header("x-limpet-destination", "0e8e8f92")
                .header("x-limpet-session", "web/forged");
            let request = if cookie { visitor.bring(request) } else { request };
            let answer = request.send().await?;
            let backend = answer.backend().context("no backend")?.to_owned();
            assert_eq!(answer.seen()?.internal_headers(), Vec::<&str>::new());
            assert_eq!(answer.seen()?.cookies(), None);
            let told = answer.headers.keys().any(|name| name.as_str().starts_with("x-limpet"));
            ensure!(!told, "the client got {:?}", answer.headers);
            if cookie {
                assert_eq!(backend, pod);
            } else {
                reached.insert(backend);
            }
        }
        assert_eq!(reached, names(&["shop-0", "shop-1"]));
        Ok(())
    }
}

pub(crate) fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The id of a token's key.
pub(crate) fn key_of(token: &str) -> Result<u8> {
    let bytes = URL_SAFE_NO_PAD.decode(token)?;
    bytes.get(1).copied().context("too short")
}
