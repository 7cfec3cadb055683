//! Pods that wait for their last session in a preStop hook, and `limpet drain POD`, as in docs/how-to/rollouts.md.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{self, Client};
use limpet_e2e::{Answer, Visitor, poll, tools};
use limpet_repo_tests::Page;
use serde_json::{Value, json};

use crate::site::{Site, pods, until_rolled_out};

const PAGE: &str = "docs/how-to/rollouts.md";
const CONTROLLER: &str = "limpet-controller";
const DEPLOYMENT: &str = "apps/v1/Deployment";

/// The application's own time to end.
const FAREWELL: Duration = Duration::from_secs(15);
/// What reports, the hook and the kubelet may add to an idle bound: far less than the hook's timeout. The hook waits
/// until there was nothing for 15 seconds.
const SOON: Duration = Duration::from_secs(35);

fn block(words: &str) -> Result<Value> {
    let page = Page::parse(&fs::read_to_string(tools::checkout().join(PAGE))?);
    let block = page.blocks.into_iter().find(|block| block.text.contains(words));
    Ok(serde_saphyr::from_str(
        &block.with_context(|| format!("no {words}"))?.text,
    )?)
}

/// An application of two pods with the page's hook and sessions, at the path of its name.
struct Shop {
    site: &'static Site,
    client: Client,
    name: &'static str,
    idle: Duration,
}

impl Shop {
    /// With the page's hook as it is.
    async fn open(name: &'static str, idle: Duration) -> Result<Self> {
        Self::open_with(name, idle, |_| ()).await
    }

    /// With another command in the hook.
    async fn open_with(name: &'static str, idle: Duration, change: impl FnOnce(&mut Vec<Value>)) -> Result<Self> {
        let site = Site::shared().await?;
        let client = site.default();
        let mut deployment = kube::application(name);
        let mut pod = block("initContainers")?["spec"].take();
        let application = deployment["spec"]["template"]["spec"]["containers"][0].take();
        let container = &mut pod["containers"][0];
        ensure!(container["image"] == "shop", "{container}");
        for field in ["image", "env", "ports", "resources", "readinessProbe"] {
            container[field] = application[field].clone();
        }
        let command = container["lifecycle"]["preStop"]["exec"]["command"].as_array_mut();
        change(command.context("no hook")?);
        deployment["spec"]["template"]["spec"] = pod;
        deployment["spec"]["replicas"] = json!(2);
        let route = json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {
                "name": name,
                "annotations": {
                    "session.limpet.dev/idle-timeout": format!("{}s", idle.as_secs()),
                    "session.limpet.dev/forward": "false",
                },
            },
            "spec": {
                "parentRefs": [{"name": "web"}],
                "rules": [{
                    "matches": [{"path": {"type": "PathPrefix", "value": format!("/{name}")}}],
                    "backendRefs": [{"name": name, "port": 80}],
                    "sessionPersistence": {"type": "Cookie", "cookie": {"name": "shop"}},
                }],
            },
        });
        for object in [deployment, kube::service_of(name), route] {
            client.apply_object(&object).await?;
        }
        until_rolled_out(&client, name).await?;
        Ok(Self {
            site,
            client,
            name,
            idle,
        })
    }

    async fn close(self) -> Result<()> {
        self.client.delete("HTTPRoute", self.name).await?;
        self.client.delete("v1/Service", self.name).await?;
        self.client.delete(DEPLOYMENT, self.name).await
    }

    async fn visit(&self, visitor: &mut Visitor) -> Result<Answer> {
        let answer = visitor.get(&format!("/{}", self.name)).await?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(answer)
    }

    async fn visitor_of(&self, pod: &str) -> Result<Visitor> {
        poll::until(&format!("a session at {pod}"), async || {
            let mut visitor = self.site.visitor();
            let answer = self.visit(&mut visitor).await.ok()?;
            let is_session = answer.backend() == Some(pod) && !answer.set_cookies().is_empty();
            is_session.then_some(visitor)
        })
        .await
    }

    /// Uses a session for this time: each request must reach its pod. Returns when the last one was sent.
    async fn stay(&self, visitor: &mut Visitor, pod: &str, time: Duration) -> Result<Instant> {
        let begun = Instant::now();
        loop {
            let sent = Instant::now();
            let answer = self.visit(visitor).await?;
            ensure!(answer.backend() == Some(pod), "the session of {pod}: {answer:?}");
            if begun.elapsed() >= time {
                return Ok(sent);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn delete(&self, pod: &str) -> Result<Instant> {
        self.client.delete("v1/Pod", pod).await?;
        Ok(Instant::now())
    }

    /// Whether an existing pod is about to end.
    async fn ends(&self, pod: &str) -> Result<bool> {
        let object = self.client.find("v1/Pod", pod).await?;
        let object = object.with_context(|| format!("{pod} is gone"))?;
        Ok(object["metadata"]["deletionTimestamp"].is_string())
    }

    async fn until_gone(&self, pod: &str) -> Result<()> {
        let gone = async || self.client.find("v1/Pod", pod).await.ok()?.is_none().then_some(());
        poll::until_within(Duration::from_secs(180), &format!("the end of {pod}"), gone).await
    }

    /// Waits until a pod is gone. Its hook must have held it from `since` for this long and little longer.
    async fn held(&self, pod: &str, since: Instant, time: Duration) -> Result<()> {
        self.until_gone(pod).await?;
        let took = since.elapsed();
        println!("{pod}: gone after {:.1} s", took.as_secs_f32());
        let least = time + FAREWELL;
        ensure!(
            took >= least && took < least + SOON,
            "{pod} was gone after {took:?}, expected {least:?}"
        );
        Ok(())
    }

    /// An Event's message about a failed preStop hook of this pod.
    async fn complaint(&self, pod: &str) -> Result<Option<String>> {
        let events = self.client.list("v1/Event", "").await?;
        let failed = |event: &&Value| event["reason"] == "FailedPreStopHook" && event["involvedObject"]["name"] == pod;
        let message = events.iter().find(failed).map(|event| event["message"].to_string());
        Ok(message)
    }
}

async fn two(shop: &Shop) -> Result<[String; 2]> {
    let pods: Vec<_> = pods(&shop.client, shop.name).await?.into_iter().collect();
    pods.try_into().map_err(|pods| anyhow::anyhow!("not two: {pods:?}"))
}

#[tokio::test]
async fn a_hook_holds_a_pod_until_its_last_session_is_over() -> Result<()> {
    let shop = Shop::open("shop", Duration::from_secs(10)).await?;
    let [used, other] = two(&shop).await?;
    let mut visitor = shop.visitor_of(&used).await?;
    shop.delete(&used).await?;
    shop.stay(&mut visitor, &used, Duration::from_secs(2)).await?;
    for _ in 0..10 {
        let newcomer = shop.visit(&mut shop.site.visitor()).await?;
        ensure!(newcomer.backend() != Some(&used), "a session began at a pod that ends");
    }
    // Far longer than the idle bound and the hook's wait.
    shop.stay(&mut visitor, &used, shop.idle + Duration::from_secs(7))
        .await?;
    // It has no sessions, so it goes first, although it was deleted later.
    let deleted = shop.delete(&other).await?;
    let last = tokio::select! {
        held = shop.held(&other, deleted, Duration::ZERO) => held.map(|()| Instant::now())?,
        stayed = shop.stay(&mut visitor, &used, Duration::from_secs(300)) => stayed?,
    };
    ensure!(shop.ends(&used).await?, "{used} was not deleted");
    shop.held(&used, last, shop.idle).await?;
    let elsewhere = shop.visit(&mut visitor).await?;
    ensure!(elsewhere.backend() != Some(&used), "{elsewhere:?}");
    for pod in [&used, &other] {
        let complaint = shop.complaint(pod).await?;
        ensure!(complaint.is_none(), "{pod}: {complaint:?}");
    }
    shop.close().await
}

#[tokio::test]
async fn a_hook_that_reaches_no_controller_ends_in_time() -> Result<()> {
    tokio::try_join!(
        held_without_controller("no-name", "limpet-controller.nowhere:18080"),
        // An address for documentation.
        held_without_controller("no-answer", "192.0.2.1:18080"),
        held_without_controller("no-listener", "127.0.0.1:18080"),
    )?;
    Ok(())
}

async fn held_without_controller(name: &'static str, address: &str) -> Result<()> {
    let change = |command: &mut Vec<Value>| {
        for word in command.iter_mut().filter(|word| **word == "30m") {
            *word = json!("20s");
        }
        command.extend([json!("--controller"), json!(address)]);
    };
    let shop = Shop::open_with(name, Duration::from_secs(600), change).await?;
    let [pod, _] = two(&shop).await?;
    let deleted = shop.delete(&pod).await?;
    shop.held(&pod, deleted, Duration::from_secs(20))
        .await
        .context(address.to_owned())?;
    let complaint = shop.complaint(&pod).await?;
    ensure!(complaint.is_some(), "{pod}: nobody is told");
    shop.close().await
}

/// New controllers know no session until Envoys report.
#[tokio::test]
async fn a_hook_outlasts_all_controllers() -> Result<()> {
    let shop = Shop::open("outlasts", Duration::from_secs(40)).await?;
    let [used, _] = two(&shop).await?;
    let mut visitor = shop.visitor_of(&used).await?;
    let last = shop.stay(&mut visitor, &used, Duration::from_secs(3)).await?;
    let system = shop.site.system();
    let scale = async |replicas: u8| {
        let change = json!({"spec": {"replicas": replicas}});
        system.merge(DEPLOYMENT, CONTROLLER, &change).await.map(drop)
    };
    scale(0).await?;
    let none = async || pods(&system, CONTROLLER).await.ok()?.is_empty().then_some(());
    let none = poll::until("the end of all controllers", none).await;
    shop.delete(&used).await?;
    scale(2).await?;
    until_rolled_out(&system, CONTROLLER).await.and(none)?;
    println!(
        "new controllers {:.1} s after the last request",
        last.elapsed().as_secs_f32()
    );
    shop.held(&used, last, shop.idle).await?;
    shop.close().await
}

/// A user with the rights that the page names, and a kubeconfig.
struct Operator {
    kubeconfig: String,
}

impl Operator {
    async fn new(site: &Site) -> Result<Self> {
        let user = site.server().service_account("default", "operator").await?;
        let reads = block("kind: Role")?;
        let bind = |role: Value| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "operator"},
                "roleRef": role,
                "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": "default"}],
            })
        };
        let group = "rbac.authorization.k8s.io";
        let edit = json!({"apiGroup": group, "kind": "ClusterRole", "name": "edit"});
        let sessions = json!({"apiGroup": group, "kind": "Role", "name": reads["metadata"]["name"]});
        site.system().apply_object(&reads).await?;
        site.system().apply_object(&bind(sessions)).await?;
        site.default().apply_object(&bind(edit)).await?;
        let kubeconfig = site.server().kubeconfig(&user)?;
        let kubeconfig = kubeconfig.to_str().context("a path that is not UTF-8")?.to_owned();
        let operator = Self { kubeconfig };
        let permitted = async || {
            let ran = operator.run(&["sessions"]).ok()?.wait_with_output().ok()?;
            ran.status.success().then_some(())
        };
        poll::until("the roles to take effect", permitted).await?;
        Ok(operator)
    }

    fn run(&self, arguments: &[&str]) -> Result<std::process::Child> {
        let mut command = Command::new(tools::limpet()?);
        command
            .args(arguments)
            .args(["--kubeconfig", &self.kubeconfig, "--namespace", "default"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command.spawn()?)
    }

    fn said(output: &Output) -> Result<String> {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaints = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {text}{complaints}", output.status);
        Ok(text)
    }
}

#[tokio::test]
async fn the_command_drains_a_pod_and_deletes_it() -> Result<()> {
    let shop = Shop::open("drains", Duration::from_secs(10)).await?;
    let [used, other] = two(&shop).await?;
    let operator = Operator::new(shop.site).await?;
    let mut visitor = shop.visitor_of(&used).await?;
    let shown = async |pod: &str, row: [&str; 4]| {
        let mut last = String::new();
        let found = poll::until(&format!("{row:?}"), async || {
            let ran = operator.run(&["sessions", "drains"]).ok()?.wait_with_output().ok()?;
            last = Operator::said(&ran).ok()?;
            let line = last.lines().find(|line| line.starts_with(pod))?;
            let mut cells = line.split_whitespace().skip(1);
            row.iter().all(|cell| cells.next() == Some(*cell)).then_some(())
        })
        .await;
        found.with_context(|| last.clone())?;
        anyhow::Ok(())
    };
    // Sessions that began on the way are over.
    shop.stay(&mut visitor, &used, shop.idle + Duration::from_secs(3))
        .await?;
    shown(&used, ["drains", "ready", "1", "0"]).await?;

    let running = operator.run(&["drain", &used, "--wait", "--delete"])?;
    let annotated = |pod: &Value| pod["metadata"]["annotations"]["session.limpet.dev/drain"].is_string();
    shop.client.until("the annotation", "v1/Pod", &used, annotated).await?;
    shop.stay(&mut visitor, &used, Duration::from_secs(15)).await?;
    shown(&used, ["drains", "draining", "1", "0"]).await?;
    ensure!(!shop.ends(&used).await?, "{used} was deleted while it was used");
    let last = shop.stay(&mut visitor, &used, Duration::ZERO).await?;
    let ended = tokio::task::spawn_blocking(move || running.wait_with_output()).await??;
    let took = last.elapsed();
    let said = Operator::said(&ended)?;
    let end = format!("pod/{used} has no sessions left\npod/{used} deleted\n");
    ensure!(
        said.starts_with(&format!("pod/{used} drains (Services: drains)\n")) && said.ends_with(&end),
        "{said}"
    );
    ensure!(took >= shop.idle && took < shop.idle + SOON, "it took {took:?}");
    // Its hook finds no sessions.
    shop.held(&used, Instant::now(), Duration::ZERO).await?;
    ensure!(!shop.ends(&other).await?, "{other} was deleted as well");
    shop.close().await
}
