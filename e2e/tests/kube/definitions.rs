//! The definition of `BackendLBPolicy` that Limpet ships.

use anyhow::{Context, Result, bail};
use limpet_e2e::kube::{Cluster, Namespace, Release, refused};
use serde_json::Value;

const SHIPPED: &str = include_str!("../../../controller/deploy/crds/backendlbpolicies.yaml");

/// A cluster with a Gateway API release that does not have this definition, and with Limpet's.
async fn shipped() -> Result<Namespace> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    cluster.define(SHIPPED).await?;
    cluster.namespace("shipped").await
}

/// The result of applying a policy with this spec: `Ok` with the stored spec, or `Err` with the refused fields.
async fn stored(namespace: &Namespace, spec: &str) -> Result<Result<Value, Vec<String>>> {
    let policy = format!(
        "
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: BackendLBPolicy
metadata: {{name: web}}
spec: {spec}
"
    );
    let applied = namespace.apply(&policy).await;
    if applied.is_ok() {
        let spec = namespace.get("BackendLBPolicy", "web").await?["spec"].take();
        namespace.delete("BackendLBPolicy", "web").await?;
        return Ok(Ok(spec));
    }
    let refusal = refused(applied)?;
    if ![400, 422, 500].contains(&refusal.code) {
        bail!("{spec}: {refusal}");
    }
    let fields = [
        "targetRefs",
        "sessionPersistence",
        "sessionName",
        "absoluteTimeout",
        "idleTimeout",
        "type",
        "lifetimeType",
        "kind",
        "name",
        "other",
    ];
    Ok(Err(fields
        .into_iter()
        .filter(|field| refusal.message.contains(field))
        .map(str::to_owned)
        .collect()))
}

#[tokio::test]
async fn limpets_definition_accepts_what_the_released_one_does() -> Result<()> {
    let released = Cluster::shared(Release::V1_2_1).await?.namespace("released").await?;
    let shipped = shipped().await?;
    let target = "targetRefs: [{group: '', kind: Service, name: web}]";
    let good = [
        String::new(),
        ", sessionPersistence: {}".to_owned(),
        ", sessionPersistence: {sessionName: s, absoluteTimeout: 1h30m, idleTimeout: 500ms, type: Header}".to_owned(),
        ", sessionPersistence: {absoluteTimeout: 1h, cookieConfig: {lifetimeType: Permanent}}".to_owned(),
        ", sessionPersistence: {cookieConfig: {}}".to_owned(),
        format!(", sessionPersistence: {{sessionName: {}}}", "n".repeat(128)),
    ];
    for rest in good {
        let spec = format!("{{{target}{rest}}}");
        let expected = stored(&released, &spec).await?;
        assert!(expected.is_ok(), "{spec}: {expected:?}");
        assert_eq!(stored(&shipped, &spec).await?, expected, "{spec}");
    }
    let targets: Vec<String> = (0..17)
        .map(|number| format!("{{group: '', kind: Service, name: web-{number}}}"))
        .collect();
    let too_many = targets.join(", ");
    let bad = [
        "{}".to_owned(),
        "{targetRefs: []}".to_owned(),
        format!("{{targetRefs: [{too_many}]}}"),
        "{targetRefs: [{group: '', kind: Service, name: web}, {group: '', kind: Service, name: web}]}".to_owned(),
        "{targetRefs: [{group: '', kind: Service}]}".to_owned(),
        "{targetRefs: [{group: '', kind: 'a b', name: web}]}".to_owned(),
        format!("{{{target}, other: 1}}"),
        format!("{{{target}, sessionPersistence: {{absoluteTimeout: 1d}}}}"),
        format!("{{{target}, sessionPersistence: {{idleTimeout: '1.5h'}}}}"),
        format!("{{{target}, sessionPersistence: {{type: Query}}}}"),
        format!("{{{target}, sessionPersistence: {{cookieConfig: {{lifetimeType: Forever}}}}}}"),
        format!("{{{target}, sessionPersistence: {{cookieConfig: {{lifetimeType: Permanent}}}}}}"),
        format!("{{{target}, sessionPersistence: {{sessionName: {}}}}}", "n".repeat(129)),
    ];
    for spec in bad {
        let expected = stored(&released, &spec).await?;
        assert!(
            expected.as_ref().is_err_and(|fields| !fields.is_empty()),
            "{spec}: {expected:?}"
        );
        assert_eq!(stored(&shipped, &spec).await?, expected, "{spec}");
    }
    Ok(())
}

#[tokio::test]
async fn admission_policies_of_releases_accept_the_definition() -> Result<()> {
    let cluster = Cluster::start(&[]).await?;
    let admin = cluster.server().admin();
    let definition: Value = serde_saphyr::from_str(SHIPPED)?;
    for release in [Release::V1_6_1, Release::V1_7_0] {
        // Both channels have a policy of the same name, and they are not the same.
        for channel in ["standard", "experimental"] {
            let what = format!("{} {channel}", release.tag());
            let files = release.channel(channel)?;
            let policy = files.iter().find(|file| file.to_string_lossy().contains("_vap_"));
            let policy = std::fs::read_to_string(policy.with_context(|| format!("{what}: no policy"))?)?;
            cluster.define(&policy).await?;
            admin.dry_run(&definition).await.context(what)?;
            for kind in ["ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"] {
                admin.delete(kind, "safe-upgrades.gateway.networking.k8s.io").await?;
            }
            cluster.until_definitions_are_judged(false).await?;
        }
    }
    Ok(())
}
