//! The keyring that the controller keeps: it is created, rotated, and left unchanged if it is broken.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Pod, Proxy, Release};
use limpet_e2e::{Build, Carrier, Crowd, Visitor, clock_off_by, poll};
use serde_json::{Value, json};

use crate::kept::{event, until_event};
use crate::site::{condition, site_objects};

const WEB: &[(&str, &str)] = &[("app", "web")];
pub(crate) const KEYRING: &str = "limpet-keyring";
pub(crate) const KEK: &str = "limpet-key-encryption-key";
/// The kind of the leader's object.
const LEADER: &str = "coordination.k8s.io/v1/Lease";
/// A rotation waits until no token of the old key can be alive.
pub(crate) const SHORT_IDLE: &str = "2s";

/// Two pods with sessions in the cookie `session`, a controller that keeps the keyring, and an Envoy.
pub(crate) struct KeyringSite {
    pub(crate) namespace: Namespace,
    pub(crate) controller: Controller,
    pub(crate) envoy: Proxy,
    pub(crate) pods: Vec<Pod>,
}

impl KeyringSite {
    /// A phase of a rotation lasts at least `phase_time`.
    pub(crate) async fn start(prefix: &str, phase_time: &str) -> Result<Self> {
        Self::start_with(prefix, phase_time, SHORT_IDLE).await
    }

    /// A slow test must not reach `max_idle`.
    pub(crate) async fn start_with(prefix: &str, phase_time: &str, max_idle: &str) -> Result<Self> {
        Self::start_at(prefix, phase_time, max_idle, [0, 0]).await
    }

    /// The clocks of the controller and of Envoy are off by so many seconds.
    pub(crate) async fn start_at(prefix: &str, phase_time: &str, max_idle: &str, clocks: [i64; 2]) -> Result<Self> {
        let cluster = Cluster::shared(Release::V1_2_1).await?;
        let namespace = cluster.namespace(prefix).await?;
        namespace.gateway_class().await?;
        namespace.service("web", WEB).await?;
        let pods = vec![namespace.pod("a", WEB).await?, namespace.pod("b", WEB).await?];
        namespace.apply(&site_objects(&namespace)).await?;
        namespace
            .apply(
                "
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: BackendLBPolicy
metadata:
  name: web
spec:
  targetRefs: [{group: '', kind: Service, name: web}]
  sessionPersistence: {sessionName: limpet-session}
",
            )
            .await?;
        let mut controller = prepared(cluster, &namespace, phase_time, max_idle).await?;
        if clocks[0] != 0 {
            for (variable, value) in clock_off_by(clocks[0])? {
                controller.environment(variable, &value);
            }
        }
        controller.launch()?;
        controller.until_ready().await?;
        let envoy = envoy_at(&controller, &namespace, "one", clocks[1]).await?;
        let site = Self {
            namespace,
            controller,
            envoy,
            pods,
        };
        let sessions = poll::until("sessions", async || site.session().await.ok()).await;
        sessions.with_context(|| {
            let (envoy, controller) = (site.envoy.log(), site.controller.log());
            format!("{}\n{}", envoy.unwrap_or_default(), controller.unwrap_or_default())
        })?;
        Ok(site)
    }

    pub(crate) async fn session(&self) -> Result<(Visitor, String)> {
        let mut visitor = Visitor::of(self.controller.address(8080));
        let answer = visitor.get("/").await?;
        visitor.cookie("limpet-session").context("no session")?;
        let backend = answer.backend().context("no backend")?.to_owned();
        Ok((visitor, backend))
    }

    pub(crate) async fn keys(&self) -> Result<Vec<(u64, String)>> {
        keys(&self.namespace.get("v1/Secret", KEYRING).await?)
    }

    pub(crate) async fn until_keys(&self, expected: &[(u64, &str)]) -> Result<()> {
        until_keys(&self.namespace, expected).await
    }

    pub(crate) async fn request_rotation(&self, value: &str) -> Result<()> {
        request_rotation(&self.namespace, value).await
    }

    pub(crate) async fn crowd(&self) -> Result<Crowd> {
        Crowd::gather(9, &[Carrier::Cookie], &[self.controller.address(8080)]).await
    }

    pub(crate) async fn reloads(&self) -> Result<u64> {
        let filter = Build::tested()?.discovered_name();
        let name = format!("extension_config_discovery.http_filter.{filter}.config_reload");
        let mut last = self.envoy.admin().stat(&name).await?;
        // Envoy counts a reload once all workers have it, after its dump.
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = self.envoy.admin().stat(&name).await?;
            if now == last {
                return Ok(now);
            }
            last = now;
        }
        bail!("{name} does not stop growing")
    }
}

pub(crate) async fn until_keys(namespace: &Namespace, expected: &[(u64, &str)]) -> Result<()> {
    let what = format!("the keys {expected:?}");
    let expected: Vec<_> = expected.iter().map(|(id, state)| (*id, (*state).to_owned())).collect();
    let found = async || keys(&namespace.get("v1/Secret", KEYRING).await.ok()?).ok();
    poll::until(&what, async || (found().await? == expected).then_some(())).await
}

pub(crate) async fn request_rotation(namespace: &Namespace, value: &str) -> Result<()> {
    let change = json!({"metadata": {"annotations": {"limpet.dev/rotate": value}}});
    namespace.merge("v1/Secret", KEYRING, &change).await.map(drop)
}

pub(crate) async fn replica(
    cluster: &Cluster,
    namespace: &Namespace,
    phase_time: &str,
    max_idle: &str,
) -> Result<Controller> {
    let mut controller = prepared(cluster, namespace, phase_time, max_idle).await?;
    controller.launch()?;
    controller.until_ready().await?;
    Ok(controller)
}

async fn prepared(cluster: &Cluster, namespace: &Namespace, phase_time: &str, max_idle: &str) -> Result<Controller> {
    Controller::prepare(cluster.server(), namespace, |config| {
        config["keyring"] = json!({"phaseTime": phase_time});
        config["maxIdle"] = max_idle.into();
        config["clockSkew"] = "500ms".into();
    })
    .await
}

/// Its clock is off by so many seconds.
pub(crate) async fn envoy_at(controller: &Controller, namespace: &Namespace, node: &str, clock: i64) -> Result<Proxy> {
    let key = key_encryption_key(namespace).await?;
    let clock = if clock == 0 {
        Vec::new()
    } else {
        clock_off_by(clock)?.to_vec()
    };
    let mut environment = vec![("LIMPET_KEK_1", key.as_str())];
    environment.extend(clock.iter().map(|(variable, value)| (*variable, value.as_str())));
    let mut envoy = controller.envoy_with("web", node, &environment).await?;
    envoy.until_ready().await?;
    Ok(envoy)
}

/// `LIMPET_KEK_1`, which Envoy's Deployment gets with `envFrom`.
pub(crate) async fn key_encryption_key(namespace: &Namespace) -> Result<String> {
    let data = namespace.get("v1/Secret", KEK).await?["data"].clone();
    let text = data["LIMPET_KEK_1"].as_str().context("no key-encryption key")?;
    Ok(String::from_utf8(STANDARD.decode(text)?)?)
}

fn keys(secret: &Value) -> Result<Vec<(u64, String)>> {
    let text = secret["data"]["keyring.json"].as_str().context("no keyring")?;
    let document: Value = serde_json::from_slice(&STANDARD.decode(text)?)?;
    let key = |key: &Value| Some((key["id"].as_u64()?, key["state"].as_str()?.to_owned()));
    let keys = document["keys"].as_array().context("no keys")?.iter();
    keys.map(|found| key(found).context("not a key")).collect()
}

pub(crate) fn key_of(token: &str) -> Result<u64> {
    let bytes = URL_SAFE_NO_PAD.decode(token)?;
    Ok(u64::from(*bytes.get(1).context("too short")?))
}

/// Waits until each client's token has this key.
pub(crate) async fn until_signed_with(crowd: &Crowd, key: u64) -> Result<()> {
    let what = format!("every token to be made with key {key}");
    let is_made_with_it = |token: &str| key_of(token).is_ok_and(|found| found == key);
    crowd.until_tokens(&what, is_made_with_it).await
}

/// Each client's token gets this key, no request fails, and no session moves.
async fn assert_stays_and_gets_key(crowd: Crowd, key: u64) -> Result<()> {
    until_signed_with(&crowd, key).await?;
    crowd.rounds(3).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.all_stayed()
}

#[tokio::test]
async fn an_envoy_that_never_had_a_keyring_holds_up_no_rotation() -> Result<()> {
    let site = KeyringSite::start("keyless-rotation", "300ms").await?;
    let mut keyless = site.controller.envoy_with("web", "keyless", &[]).await?;
    keyless.until_ready().await?;
    let refused = |gateway: &Value| {
        let conditions = gateway["status"]["conditions"].to_string();
        conditions.contains("Envoy keyless refused ExtensionConfig")
    };
    site.namespace.until("a refusal", "Gateway", "web", refused).await?;
    site.request_rotation("now").await?;
    site.until_keys(&[(1, "retiring"), (2, "signing")]).await
}

#[tokio::test]
async fn an_envoy_that_holds_up_a_rotation_is_named_and_then_left_behind() -> Result<()> {
    let site = KeyringSite::start_with("late", "500ms", "1h").await?;
    // It stays connected for a while, and acknowledges nothing.
    site.envoy.process().pause()?;
    site.request_rotation("now").await?;
    let words = format!(
        "Envoy one of Gateway {}/web has not acknowledged it",
        site.namespace.name()
    );
    until_event(&site.namespace, "Secret", KEYRING, "RotationWaits", &words).await?;
    assert_eq!(site.controller.metric("limpet_key_rotation_late").await?, "1");
    site.until_keys(&[(1, "signing"), (2, "verifying")]).await?;
    // All share the keyring, so it holds it up for twenty phases at most.
    event(&site.namespace, "Secret", KEYRING, "RotationGoesOn", &words).await?;
    site.until_keys(&[(1, "verifying"), (2, "signing")]).await?;
    site.envoy.process().go_on()?;
    site.until_keys(&[(1, "retiring"), (2, "signing")]).await?;
    poll::until("the metric to say so", async || {
        (site.controller.metric("limpet_key_rotation_late").await.ok()? == "0").then_some(())
    })
    .await?;
    site.session().await.map(drop)
}

#[tokio::test]
async fn an_annotation_rotates_the_key_and_no_session_is_lost() -> Result<()> {
    let site = KeyringSite::start("rotate", "300ms").await?;
    assert_eq!(site.keys().await?, [(1, "signing".to_owned())]);
    let mut crowd = site.crowd().await?;
    site.request_rotation("now").await?;
    site.until_keys(&[(1, "signing"), (2, "verifying")]).await?;
    site.until_keys(&[(1, "retiring"), (2, "signing")]).await?;
    crowd
        .grow(3, &[Carrier::Cookie], &[site.controller.address(8080)])
        .await?;
    site.until_keys(&[(2, "signing")]).await?;
    // The controller may see its own write later.
    let counted = async || (site.controller.metric("limpet_keys{state=\"retiring\"}").await.ok()? == "0").then_some(());
    poll::until("the metric to be 0", counted).await?;
    assert_stays_and_gets_key(crowd, 2).await?;
    let secret = site.namespace.get("v1/Secret", KEYRING).await?;
    assert_eq!(secret["metadata"]["annotations"]["limpet.dev/rotated"], "now");
    let log = site.controller.log()?;
    ensure!(log.contains("phase 3 of 3"), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_rotation_continues_where_the_leader_died() -> Result<()> {
    let mut site = KeyringSite::start("leader", "1s").await?;
    let crowd = site.crowd().await?;
    site.request_rotation("now").await?;
    for state in [
        ["signing", "verifying"],
        ["verifying", "signing"],
        ["retiring", "signing"],
    ] {
        site.until_keys(&[(1, state[0]), (2, state[1])]).await?;
        // The former leader may have gone so far.
        poll::until("a leader", async || {
            site.namespace.get(LEADER, "limpet-controller").await.ok()
        })
        .await?;
        site.controller.kill();
        // The next leader need not wait until the dead one's Lease ends.
        site.namespace.delete(LEADER, "limpet-controller").await?;
        site.controller.launch()?;
    }
    site.until_keys(&[(2, "signing")]).await?;
    crowd.rounds(3).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.all_stayed()?;
    let mut seen = BTreeSet::new();
    for journey in &journeys.0 {
        for token in journey.tokens().iter().filter_map(|visit| visit.token.as_ref()) {
            seen.insert(key_of(token)?);
        }
    }
    assert_eq!(seen, BTreeSet::from([1, 2]));
    Ok(())
}

#[tokio::test]
async fn a_broken_keyring_is_reported_and_sessions_go_on() -> Result<()> {
    let site = KeyringSite::start_with("broken", "300ms", "1h").await?;
    let (mut visitor, backend) = site.session().await?;
    let before = site.reloads().await?;
    let good = site.namespace.get("v1/Secret", KEYRING).await?["data"]["keyring.json"].clone();
    let document = STANDARD.decode(good.as_str().context("no keyring")?)?;
    let mut document: Value = serde_json::from_slice(&document)?;
    let secret = document["keys"][0]["secret"].as_str().context("no key")?.to_owned();
    let mut second = document["keys"][0].clone();
    second["id"] = 9.into();
    document["keys"].as_array_mut().context("no keys")?.push(second);
    let broken = STANDARD.encode(document.to_string());
    let put = async |text: &Value| {
        let change = json!({"data": {"keyring.json": text}});
        site.namespace.merge("v1/Secret", KEYRING, &change).await
    };
    put(&json!(broken)).await?;
    site.request_rotation("now").await?;
    let expected = "expected one key with state signing, found several";
    poll::until("the complaint", async || {
        site.controller.log().ok()?.contains(expected).then_some(())
    })
    .await?;
    let note = until_event(&site.namespace, "Secret", KEYRING, "Invalid", expected).await?;
    ensure!(!note.contains(&secret), "{note}");
    for _ in 0..4 {
        assert_eq!(visitor.get("/").await?.backend(), Some(&*backend));
        site.session().await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let left = site.namespace.get("v1/Secret", KEYRING).await?;
    assert_eq!(left["data"]["keyring.json"], json!(broken));
    assert_eq!(site.reloads().await?, before);
    ensure!(!site.controller.log()?.contains(&secret), "the log has the key");
    put(&good).await?;
    // Now the annotation counts.
    site.until_keys(&[(1, "signing"), (2, "verifying")]).await
}

/// A policy with this `absoluteTimeout`, of another tenant.
async fn other_policy(site: &KeyringSite, timeout: &str) -> Result<Value> {
    site.namespace.service("long", WEB).await?;
    let policy = format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: long
spec:
  parentRefs: [{{name: web}}]
  hostnames: [long.example]
  rules:
  - backendRefs: [{{name: long, port: 80}}]
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: BackendLBPolicy
metadata:
  name: long
spec:
  targetRefs: [{{group: '', kind: Service, name: long}}]
  sessionPersistence: {{sessionName: long, absoluteTimeout: {timeout}}}
"
    );
    site.namespace.apply(&policy).await?;
    poll::until("a status of the policy", async || {
        let policy = site
            .namespace
            .get("gateway.networking.k8s.io/v1alpha2/BackendLBPolicy", "long")
            .await
            .ok()?;
        let ancestors = policy["status"]["ancestors"].as_array()?;
        Some(ancestors.first()?["conditions"].clone())
    })
    .await
}

#[tokio::test]
async fn a_timeout_over_the_bound_stops_nobodys_keys() -> Result<()> {
    let site = KeyringSite::start("bounded", "300ms").await?;
    let conditions = other_policy(&site, "99999h").await?;
    assert_eq!(condition(&conditions, "Accepted"), "False/Invalid");
    let message = conditions[0]["message"].as_str().context("no message")?;
    let expected = "spec.sessionPersistence.absoluteTimeout: expected at most 720h, the maxSessionLife of the \
                    controller's configuration, found 99999h";
    assert_eq!(message, expected);
    // The old key goes when no token of the other policy can be alive.
    site.request_rotation("now").await?;
    site.until_keys(&[(2, "signing")]).await?;
    site.session().await.map(drop)
}

#[tokio::test]
async fn rotations_go_on_while_old_keys_retire() -> Result<()> {
    let site = KeyringSite::start("retire", "300ms").await?;
    let conditions = other_policy(&site, "720h").await?;
    assert_eq!(condition(&conditions, "Accepted"), "True/Accepted");
    let crowd = site.crowd().await?;
    site.request_rotation("one").await?;
    site.until_keys(&[(1, "retiring"), (2, "signing")]).await?;
    site.request_rotation("two").await?;
    site.until_keys(&[(1, "retiring"), (2, "retiring"), (3, "signing")])
        .await?;
    assert_stays_and_gets_key(crowd, 3).await
}
