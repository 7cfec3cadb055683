//! `limpet drain POD --wait` and `limpet sessions` through the API server: to a real controller, or to a page that a
//! test fills.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Namespace, Pod, Release};
use limpet_e2e::protocols::{Chat, Session, Socket};
use limpet_e2e::{Carrier, Protocol, Request, poll, tools};
use serde_json::{Value, json};

use super::command::{Operator, Ran};
use super::{DRAIN, at};
use crate::keyring::KeyringSite;

const WEB: &[(&str, &str)] = &[("app", "web")];
/// The rights for `limpet sessions`.
const READING: [(&str, &[&str]); 2] = [("pods", &["list", "get", "patch", "delete"]), ("pods/proxy", &["get"])];

struct Page(Arc<Mutex<String>>);

impl Page {
    async fn serve(namespace: &Namespace, name: &str) -> Result<Self> {
        let address = SocketAddr::new(namespace.next_address()?, 18080);
        let page = Arc::new(Mutex::new(r#"{"complete": true, "pods": []}"#.to_owned()));
        let listener = TcpListener::bind(address)?;
        let served = Arc::clone(&page);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                    head.extend(byte);
                }
                let body = served.lock().map(|page| page.clone()).unwrap_or_default();
                let status = if head.starts_with(b"GET /sessions ") && !body.is_empty() {
                    "200 OK"
                } else {
                    "404 Not Found"
                };
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        namespace.controller_pod(name, address).await?;
        Ok(Self(page))
    }

    fn set(&self, page: &str) {
        if let Ok(mut known) = self.0.lock() {
            page.clone_into(&mut known);
        }
    }

    /// Pods `a` and `b` of the Service `web`: state, sessions, streams.
    fn tell(&self, namespace: &Namespace, pods: [(&str, u64, u64); 2]) {
        let row = |(name, (state, sessions, streams)): (&str, (&str, u64, u64))| {
            json!({
                "namespace": namespace.name(), "service": "web", "pod": name, "address": "10.0.0.7:8000",
                "state": state, "sessions": sessions, "streams": streams, "requests": 4711,
                "lastUse": "2020-01-01T00:00:00Z", "oldest": "2019-01-01T00:00:00Z", "complete": true,
            })
        };
        let rows: Vec<Value> = ["a", "b"].into_iter().zip(pods).map(row).collect();
        self.set(&json!({"since": "2019-01-01T00:00:00Z", "complete": true, "pods": rows}).to_string());
    }
}

async fn site(prefix: &str) -> Result<(Namespace, [Pod; 2], [Page; 2], Operator)> {
    let namespace = Cluster::shared(Release::V1_2_1).await?.namespace(prefix).await?;
    namespace.service("web", WEB).await?;
    let pods = [namespace.pod("a", WEB).await?, namespace.pod("b", WEB).await?];
    namespace.endpoints("web", |endpoints| endpoints.len() == 2).await?;
    let pages = [
        Page::serve(&namespace, "controller-0").await?,
        Page::serve(&namespace, "controller-1").await?,
    ];
    let rights = [&READING[..], &[("endpointslices", &["list"])]].concat();
    let operator = Operator::with(&namespace, "operator", &rights).await?;
    Ok((namespace, pods, pages, operator))
}

struct Running(std::process::Child);

impl Running {
    fn start(operator: &Operator, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(tools::limpet()?);
        command.args(operator.arguments(arguments));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self(command.spawn()?))
    }

    /// As Ctrl-C does it.
    fn interrupt(&self) -> Result<()> {
        let pid = self.0.id().to_string();
        ensure!(Command::new("kill").args(["-INT", &pid]).status()?.success());
        Ok(())
    }

    /// A shell's background process may not notice Ctrl-C.
    fn terminate(&self) -> Result<()> {
        let pid = self.0.id().to_string();
        ensure!(Command::new("kill").args(["-TERM", &pid]).status()?.success());
        Ok(())
    }

    async fn end(self) -> Result<Ran> {
        let output = tokio::task::spawn_blocking(move || self.0.wait_with_output()).await??;
        Ok(output.into())
    }
}

async fn until_annotated(namespace: &Namespace, pod: &str) -> Result<()> {
    let annotated = |pod: &Value| pod["metadata"]["annotations"][DRAIN].is_string();
    namespace
        .until("the annotation", "v1/Pod", pod, annotated)
        .await
        .map(drop)
}

#[tokio::test]
async fn the_command_waits_for_the_last_session() -> Result<()> {
    let (namespace, _pods, pages, operator) = site("waits").await?;
    let here = ["--controller", namespace.name()];
    let tell = |a: (&str, u64, u64)| {
        for page in &pages {
            page.tell(&namespace, [a, ("ready", 5, 5)]);
        }
    };
    tell(("ready", 2, 1));
    operator
        .run_when_permitted(&[&["sessions"][..], &here].concat())
        .await?;

    let running = Running::start(&operator, &[&["drain", "a", "--wait", "--delete"][..], &here].concat())?;
    until_annotated(&namespace, "a").await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    tell(("draining", 1, 1));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let empty = Instant::now();
    tell(("draining", 0, 0));
    // One replica is behind: the other one knows of a session.
    pages[1].tell(&namespace, [("draining", 1, 0), ("ready", 5, 5)]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    tell(("draining", 0, 0));
    let ran = running.end().await?;
    let expected = "\
pod/a drains (Services: web)
pod/a has 2 sessions, 1 stream
pod/a has 1 session, 1 stream
pod/a has 1 session, 0 streams
pod/a has 0 sessions, 0 streams
pod/a has no sessions left
pod/a deleted
";
    assert_eq!((ran.code, &*ran.out), (Some(0), expected), "{ran:?}");
    ensure!(empty.elapsed() > Duration::from_secs(15), "it was deleted at once");
    let deleted = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    namespace.until("its end", "v1/Pod", "a", deleted).await.map(drop)
}

#[tokio::test]
async fn the_command_waits_while_there_may_be_more() -> Result<()> {
    let (namespace, _pods, pages, operator) = site("doubts").await?;
    let here = ["--controller", namespace.name()];
    for page in &pages {
        page.tell(&namespace, [("draining", 0, 0), ("ready", 5, 5)]);
    }
    operator
        .run_when_permitted(&[&["sessions"][..], &here].concat())
        .await?;
    // One replica is silent, then all have just started: not everything is known.
    pages[1].set("");
    let wait = [&["drain", "a", "--wait", "--timeout", "40s"][..], &here].concat();
    let running = Running::start(&operator, &wait)?;
    until_annotated(&namespace, "a").await?;
    tokio::time::sleep(Duration::from_secs(18)).await;
    let doubtful = json!({"since": null, "complete": false, "why": ["it has just started"], "pods": []});
    for page in &pages {
        page.set(&doubtful.to_string());
    }
    let ran = running.end().await?;
    ensure!(ran.code == Some(1), "{ran:?}");
    ensure!(
        ran.out
            .contains("has 0 sessions, 0 streams, or more left when the time is over"),
        "{ran:?}"
    );
    let warnings: Vec<&str> = ran.complaints.lines().collect();
    ensure!(
        warnings.len() == 2
            && warnings[0].contains("there may be more sessions: cannot ask the controller controller-1")
            && warnings[1] == "warning: there may be more sessions: it has just started",
        "{ran:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_wait_that_ends_early_leaves_the_drain_in_place() -> Result<()> {
    let (namespace, _pods, pages, operator) = site("waits-long").await?;
    let here = ["--controller", namespace.name()];
    let wait = [&["drain", "b", "--wait"][..], &here].concat();
    pages[0].tell(&namespace, [("ready", 5, 5), ("ready", 3, 1)]);
    let undo = format!("limpet drain b -n {} --undo", namespace.name());

    // Without the right to ask controllers, nothing is changed.
    let rights = [("pods", &["list", "get", "patch"][..]), ("endpointslices", &["list"])];
    let blind = Operator::with(&namespace, "blind", &rights).await?;
    let refused = async || {
        let ran = blind.run(&wait).await.ok()?;
        ran.complaints
            .contains("cannot get resource \"pods/proxy\"")
            .then_some(ran)
    };
    let ran = poll::until("the missing right", refused).await?;
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let pod = namespace.get("v1/Pod", "b").await?;
    assert_eq!(pod["metadata"]["annotations"][DRAIN], Value::Null);

    let ran = operator
        .run_when_permitted(&[&wait[..], &["--timeout", "3s"]].concat())
        .await?;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let left = "pod/b has 3 sessions, 1 stream left when the time is over; it still drains; to take it back: ";
    ensure!(ran.out.contains(left) && ran.out.contains(&undo), "{ran:?}");
    until_annotated(&namespace, "b").await?;

    let interrupted = Running::start(&operator, &wait)?;
    tokio::time::sleep(Duration::from_secs(4)).await;
    interrupted.interrupt()?;
    let ran = interrupted.end().await?;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let left = "pod/b has 3 sessions, 1 stream left; it still drains; to take it back: ";
    ensure!(ran.out.contains(left) && ran.out.contains(&undo), "{ran:?}");
    until_annotated(&namespace, "b").await?;

    let waiting = Running::start(&operator, &wait)?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    operator.run(&["drain", "b", "--undo"]).await?;
    let ran = waiting.end().await?;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    ensure!(
        ran.out
            .contains("pod/b drains no more, because its annotation was removed"),
        "{ran:?}"
    );
    Ok(())
}

#[tokio::test]
async fn sessions_are_shown_as_kubectl_shows_objects() -> Result<()> {
    let (namespace, _pods, pages, operator) = site("shows").await?;
    let here = ["--controller", namespace.name()];
    let show = async |arguments: &[&str]| {
        let all = [&["sessions"][..], arguments, &here].concat();
        operator.run_when_permitted(&all).await
    };
    let ran = show(&[]).await?;
    assert_eq!((ran.code, &*ran.out), (Some(0), ""), "{ran:?}");
    ensure!(ran.complaints.contains("No sessions found in the namespace"), "{ran:?}");

    for page in &pages {
        page.tell(&namespace, [("ready", 12, 1), ("draining", 0, 0)]);
    }
    let ran = show(&[]).await?;
    let lines: Vec<Vec<&str>> = ran.out.lines().map(|line| line.split_whitespace().collect()).collect();
    let headings = "POD SERVICE STATE SESSIONS STREAMS LAST USE REQUESTS OLDEST";
    assert_eq!(lines[0].join(" "), headings, "{ran:?}");
    assert_eq!(lines[1][..5], ["a", "web", "ready", "12", "1"], "{ran:?}");
    assert_eq!(lines[2][..5], ["b", "web", "draining", "0", "0"], "{ran:?}");

    for (name, found) in [("b", 1), ("web", 2), ("svc/web", 2), ("pod/a", 1)] {
        let ran = show(&[name, "-o", "json"]).await?;
        let told: Value = serde_json::from_str(&ran.out)?;
        assert_eq!(
            told["pods"].as_array().context("no pods")?.len(),
            found,
            "{name}: {ran:?}"
        );
    }
    let ran = show(&["other"]).await?;
    ensure!(ran.code == Some(3), "{ran:?}");
    ensure!(
        ran.complaints.contains("other: no Service and no pod with sessions"),
        "{ran:?}"
    );

    // A line for each change.
    let watching = Running::start(&operator, &[&["sessions", "--watch"][..], &here].concat())?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    pages[0].tell(&namespace, [("ready", 13, 1), ("draining", 0, 0)]);
    tokio::time::sleep(Duration::from_secs(4)).await;
    watching.terminate()?;
    let ran = watching.end().await?;
    let lines: Vec<&str> = ran.out.lines().collect();
    ensure!(lines.len() == 4 && lines[3].contains(" 13 "), "{ran:?}");

    // One replica's numbers are shown as incomplete; without any, there is nothing to show.
    pages[0].set("");
    let ran = show(&[]).await?;
    ensure!(ran.code == Some(0) && ran.out.contains(" 12+ "), "{ran:?}");
    ensure!(
        ran.complaints
            .contains("there may be more sessions: cannot ask the controller controller-0"),
        "{ran:?}"
    );
    let ran = show(&["-o", "json"]).await?;
    let told: Value = serde_json::from_str(&ran.out)?;
    ensure!(
        told["complete"] == false && told["pods"][0]["complete"] == false,
        "{told}"
    );
    pages[1].set("");
    let ran = show(&[]).await?;
    ensure!(
        ran.code == Some(3) && ran.complaints.contains("it tells nothing of sessions"),
        "{ran:?}"
    );
    let ran = operator.run(&["sessions", "--controller", "default"]).await?;
    ensure!(
        ran.code == Some(3) && ran.complaints.contains("cannot list resource \"pods\""),
        "{ran:?}"
    );
    Ok(())
}

/// Waits until the controllers' pods show these numbers of a pod.
async fn until_shown(operator: &Operator, arguments: &[&str], shown: [&str; 4]) -> Result<()> {
    let mut last = None;
    let found = poll::until(&format!("{shown:?}"), async || {
        let ran = operator.run(arguments).await.ok()?;
        let cells: Vec<String> = ran
            .out
            .lines()
            .nth(1)?
            .split_whitespace()
            .skip(1)
            .take(4)
            .map(str::to_owned)
            .collect();
        last = Some(ran);
        (cells == shown).then_some(())
    })
    .await;
    found.with_context(|| format!("{last:?}"))
}

#[tokio::test]
async fn a_pod_is_deleted_after_its_last_session_and_stream() -> Result<()> {
    let site = KeyringSite::start_with("empties", "1m", "10s").await?;
    let namespace = &site.namespace;
    let chat: [Arc<dyn Protocol>; 1] = [Arc::new(Chat)];
    let _pod = namespace.pod_speaking("chat", WEB, &chat).await?;
    namespace.controller_pod("controller", site.controller.http()).await?;
    let rights = [&READING[..], &[("endpointslices", &["list"])]].concat();
    let operator = Operator::with(namespace, "operator", &rights).await?;
    let here = ["--controller", namespace.name()];
    let mut visitor = at(&site, "/", "chat").await?;

    let mut session = Session::new(Carrier::Cookie);
    let answer = visitor.get("/").await?;
    ensure!(answer.backend() == Some("chat"), "{answer:?}");
    let mut socket = poll::until("a WebSocket at the pod", async || {
        session = Session::new(Carrier::Cookie);
        let first = Request::get(site.controller.address(8080), "/").send().await.ok()?;
        session.answered(&first.headers).ok()?;
        if first.backend() != Some("chat") {
            return None;
        }
        Socket::open(site.controller.address(8080), &mut session).await.ok()
    })
    .await?;
    socket.echo("hello").await?;
    let show = [&["sessions", "pod/chat"][..], &here].concat();
    operator.run_when_permitted(&show).await?;

    let running = Running::start(
        &operator,
        &[&["drain", "chat", "--wait", "--delete"][..], &here].concat(),
    )?;
    until_annotated(namespace, "chat").await?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(12) {
        let answer = visitor.get("/").await?;
        ensure!(answer.backend() == Some("chat"), "{answer:?}");
        socket.echo("still here").await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    // The sessions end before the stream does.
    until_shown(&operator, &show, ["web", "draining", "0", "1"]).await?;
    socket.echo("good bye").await?;
    let last = Instant::now();
    socket.close().await?;
    let ran = running.end().await?;
    ensure!(ran.code == Some(0), "{ran:?}");
    ensure!(
        ran.out.ends_with("pod/chat has no sessions left\npod/chat deleted\n"),
        "{ran:?}"
    );
    ensure!(
        last.elapsed() > Duration::from_secs(14),
        "{:?}: {ran:?}",
        last.elapsed()
    );
    let deleted = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    namespace.until("its end", "v1/Pod", "chat", deleted).await.map(drop)
}
