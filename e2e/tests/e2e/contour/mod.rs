//! Contour's `IngressRoute`s, as a client sees them: `limpet render`, a stock Envoy and backends.

mod addresses;
mod dns;
mod health;
mod hellos;
mod migration;
mod mixed;
mod names;
mod prefixes;
mod protocols;
mod redirects;
mod routes;
mod secure;
mod shared;
mod sticky;
mod tls;
mod weights;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use limpet_e2e::protocols::Chat;
use limpet_e2e::{Answer, Backend, Build, Config, Connection, Envoy, Request, Tls, Visitor, poll, tools};
use serde_json::{Value, json};

const NAMESPACE: &str = "shop";
const HOST: &str = "shop.example.com";
const COOKIE: &str = "X-Contour-Session-Affinity";
/// The listeners, by their ports in the configuration; here they have free ports.
const HTTP: &str = "http-8080";
const HTTPS: &str = "https-8443";

/// Services with their backends, which outlast a change of the objects.
#[derive(Debug)]
struct Services {
    backends: BTreeMap<String, Vec<Backend>>,
    /// The rest of the Services' `spec`.
    specs: BTreeMap<String, Value>,
}

impl Services {
    /// Services with this many backends each, named `service/0` and so on, which also speak WebSocket.
    fn start(wanted: &[(&str, usize)]) -> Result<Self> {
        let mut all = BTreeMap::new();
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        for (service, count) in wanted {
            let names = (0..*count).map(|number| format!("{service}/{number}"));
            let backends = names.map(|name| Backend::start_speaking(&name, free, &[Arc::new(Chat)]));
            all.insert((*service).to_owned(), backends.collect::<Result<_>>()?);
        }
        Ok(Self {
            backends: all,
            specs: BTreeMap::new(),
        })
    }

    /// Adds fields to a Service's `spec`.
    fn with(mut self, service: &str, spec: Value) -> Self {
        self.specs.insert(service.to_owned(), spec);
        self
    }

    fn of(&self, service: &str) -> Result<&[Backend]> {
        let backends = self.backends.get(service);
        Ok(backends.with_context(|| format!("there is no Service {service}"))?)
    }

    fn backend(&self, name: &str) -> Result<&Backend> {
        let mut all = self.backends.values().flatten();
        let backend = all.find(|backend| backend.name() == name);
        backend.with_context(|| format!("there is no backend {name}"))
    }

    /// The Services, and an `EndpointSlice` for each backend, because a port belongs to a slice.
    fn objects(&self) -> Vec<Value> {
        let mut objects = Vec::new();
        for (name, backends) in &self.backends {
            let mut spec = json!({"ports": [{"port": 80}]});
            for (field, value) in self.specs.get(name).and_then(Value::as_object).into_iter().flatten() {
                spec[field] = value.clone();
            }
            objects.push(service_object(name, &spec));
            let slices = backends.iter().enumerate();
            objects.extend(slices.map(|(number, backend)| slice(name, number, backend)));
        }
        objects
    }
}

fn service_object(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": spec,
    })
}

fn slice(service: &str, number: usize, backend: &Backend) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": NAMESPACE,
            "name": format!("{service}-{number}"),
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "ports": [{"port": backend.address().port()}],
        "endpoints": [{"addresses": [backend.address().ip().to_string()], "conditions": {"ready": true}}],
    })
}

fn ingress_route(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "contour.heptio.com/v1beta1",
        "kind": "IngressRoute",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": spec,
    })
}

/// A root for [`HOST`] with these routes.
fn root(routes: &Value) -> Value {
    ingress_route("root", &json!({"virtualhost": {"fqdn": HOST}, "routes": routes}))
}

fn vertex(name: &str, routes: &Value) -> Value {
    ingress_route(name, &json!({"routes": routes}))
}

fn sticky(name: &str) -> Value {
    json!({"name": name, "port": 80, "strategy": "Cookie"})
}

fn plain(name: &str) -> Value {
    json!({"name": name, "port": 80})
}

#[derive(Debug)]
struct Rendered {
    bootstrap: Value,
    report: Value,
}

impl Rendered {
    /// With these fields in the configuration's section `contour`.
    fn new(objects: &[Value], contour: &Value) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let filter = match Build::tested()? {
            Build::Wasm => json!({"wasm": {"file": tools::wasm()?}}),
            Build::Module => json!({"module": {"name": "limpet"}}),
        };
        let mut config = json!({
            "contour": {"gateway": "limpet/contour"},
            "envoy": {"filter": filter, "listenAddress": "127.0.0.1"},
        });
        for (field, value) in contour.as_object().into_iter().flatten() {
            config["contour"][field] = value.clone();
        }
        let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        std::fs::write(file("config.json"), config.to_string())?;
        std::fs::write(
            file("in.json"),
            json!({"kind": "List", "apiVersion": "v1", "items": objects}).to_string(),
        )?;
        let arguments = ["render", "-o", "json", "-f", &file("in.json")];
        let options = ["--config", &file("config.json"), "--write-envoy", &file("envoy.json")];
        let output = tools::run_limpet(&[arguments.as_slice(), &options].concat(), &[])?;
        let said = String::from_utf8_lossy(&output.stderr);
        let report = serde_json::from_slice(&output.stdout).with_context(|| said.into_owned())?;
        let bootstrap = serde_json::from_slice(&std::fs::read(file("envoy.json"))?)?;
        Ok(Self { bootstrap, report })
    }

    /// As [`Rendered::new`]; each `IngressRoute` must be valid.
    fn valid(objects: &[Value], contour: &Value) -> Result<Self> {
        let rendered = Self::new(objects, contour)?;
        let reports = rendered.report["ingressRoutes"].as_object();
        for (name, report) in reports.context("no IngressRoute was read")? {
            ensure!(report["status"] == "valid", "{name}: {report}");
        }
        Ok(rendered)
    }

    fn config(self) -> Config {
        Config::made(self.bootstrap)
    }

    fn status(&self, name: &str) -> (&str, &str) {
        let report = &self.report["ingressRoutes"][format!("{NAMESPACE}/{name}")];
        let text = |field: &str| report[field].as_str().unwrap_or_default();
        (text("status"), text("description"))
    }

    fn actions(&self, rule: &str) -> Vec<&Value> {
        let mut found = Vec::new();
        collect(&self.bootstrap, &mut |object| {
            if object["name"] == rule && object.get("route").is_some() {
                found.push(&object["route"]);
            }
        });
        found
    }
}

fn collect<'a>(value: &'a Value, visit: &mut dyn FnMut(&'a Value)) {
    match value {
        Value::Object(object) => {
            visit(value);
            object.values().for_each(|value| collect(value, visit));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, visit)),
        _ => {}
    }
}

#[derive(Debug)]
struct Site {
    envoy: Envoy,
    services: Services,
}

impl Site {
    /// With valid objects, beside the Services' own.
    async fn start(services: Services, objects: &[Value]) -> Result<Self> {
        Self::configured(services, objects, &json!({})).await
    }

    /// With these fields in the configuration's section `contour`.
    async fn configured(services: Services, objects: &[Value], contour: &Value) -> Result<Self> {
        let rendered = Rendered::valid(&[objects, &services.objects()].concat(), contour)?;
        let envoy = Envoy::serve(rendered.config()).await?;
        let site = Self { envoy, services };
        site.until_healthy().await?;
        Ok(site)
    }

    /// Waits until health checks pass: while Envoy compiles the filter, they time out.
    async fn until_healthy(&self) -> Result<()> {
        poll::until("all backends to be healthy", async || {
            let clusters = self.envoy.admin_text("/clusters").await.ok()?;
            (!clusters.contains("failed_active_hc")).then_some(())
        })
        .await
    }

    async fn change(self, objects: &[Value]) -> Result<Self> {
        let Self { envoy, services } = self;
        drop(envoy);
        Self::start(services, objects).await
    }

    fn http(&self) -> Result<SocketAddr> {
        self.envoy.listener(HTTP)
    }

    fn get(&self, path: &str) -> Result<Request> {
        self.get_of(HOST, path)
    }

    fn get_of(&self, host: &str, path: &str) -> Result<Request> {
        Ok(Request::get(self.http()?, path).header("host", host))
    }

    async fn ask(&self, path: &str) -> Result<Answer> {
        self.get(path)?.send().await
    }

    async fn visit(&self, visitor: &mut Visitor, path: &str) -> Result<Answer> {
        visitor.send(self.get(path)?).await
    }

    fn visitor(&self) -> Result<Visitor> {
        Ok(Visitor::of(self.http()?))
    }

    async fn begin(&self, path: &str) -> Result<(Visitor, String)> {
        let mut visitor = self.visitor()?;
        let answer = self.visit(&mut visitor, path).await?;
        ensure!(
            visitor.cookie_names().len() == 1,
            "{path}: no session began: {answer:?}"
        );
        Ok((visitor, backend(&answer)?))
    }

    /// The backends that answer clients without a session.
    async fn met(&self, path: &str, clients: usize) -> Result<Vec<String>> {
        let mut met = Vec::new();
        for _ in 0..clients {
            met.push(backend(&self.ask(path).await?)?);
        }
        Ok(met)
    }

    /// The certificate must be of this authority.
    async fn over_tls(&self, authority: &str, host: &str, request: Request) -> Result<Answer> {
        let tls = Tls::new(authority, host)?;
        let mut connection = Connection::open_tls(self.envoy.listener(HTTPS)?, &tls, false).await?;
        connection.send(request).await
    }
}

/// Checks that this client stays on its backend and gets no other token.
async fn stays(site: &Site, visitor: &mut Visitor, path: &str, expected: &str) -> Result<()> {
    for _ in 0..10 {
        let answer = site.visit(visitor, path).await?;
        ensure!(
            answer.backend() == Some(expected),
            "{path}: {expected} expected: {answer:?}"
        );
        ensure!(answer.set_cookies().is_empty(), "{path}: another token: {answer:?}");
    }
    Ok(())
}

fn backend(answer: &Answer) -> Result<String> {
    let name = answer.backend();
    Ok(name
        .with_context(|| format!("Envoy answered without a backend: {answer:?}"))?
        .to_owned())
}

fn service(backend: &str) -> &str {
    backend.split('/').next().unwrap_or_default()
}

fn shares(backends: &[String]) -> BTreeMap<&str, usize> {
    let mut shares = BTreeMap::new();
    for backend in backends {
        *shares.entry(service(backend)).or_default() += 1;
    }
    shares
}

fn different(backends: &[String]) -> usize {
    backends.iter().collect::<BTreeSet<_>>().len()
}

/// The same client at another Envoy.
fn moved(site: &Site, visitor: &Visitor) -> Result<Visitor> {
    let mut moved = site.visitor()?;
    for name in visitor.cookie_names() {
        moved.keep(name, visitor.cookie(name).context("a cookie without a value")?);
    }
    Ok(moved)
}

/// The tokens that the filter refused, by reason.
async fn refused(envoy: &Envoy) -> Result<BTreeMap<String, u64>> {
    let mut refused = BTreeMap::new();
    for (name, count) in envoy.stats("refused").await? {
        if let Some((_, reason)) = name.split_once(".refused.")
            && count > 0
        {
            *refused.entry(reason.to_owned()).or_default() += count;
        }
    }
    Ok(refused)
}
