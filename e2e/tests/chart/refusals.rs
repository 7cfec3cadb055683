//! Values that the chart refuses, and values that others make void.

use anyhow::{Result, ensure};

use crate::template;

/// Values, and words of the refusal.
const WRONG: &[(&str, &str)] = &[
    ("replica=3", "additional properties 'replica' not allowed"),
    ("image.tagg=1", "'/image': additional properties 'tagg' not allowed"),
    ("target=nginx", "'/target': value must be one of"),
    ("replicas=many", "'/replicas': got string, want integer"),
    (
        "config.sesionDefaults.strict=true",
        "'/config': additional properties 'sesionDefaults' not allowed",
    ),
    (
        "config.sessionDefaults.sameSite=lax",
        "'/config/sessionDefaults/sameSite': value must be one of",
    ),
    (
        "config.keyring.rotateEvery=30d",
        "'/config/keyring/rotateEvery': '30d' does not match",
    ),
    ("config.maxIdle=7d", "'/config/maxIdle': '7d' does not match"),
    ("config.maxIdle=0s", "'/config/maxIdle': '0s' does not match"),
    ("config.maxIdle=3600", "'/config/maxIdle': got number, want string"),
    ("replicas=-1", "'/replicas': minimum"),
    (
        "resources.limits.memory=1Gx",
        "'/resources/limits/memory': '1Gx' does not match",
    ),
    ("resources.requests.cpu=-1", "'/resources/requests/cpu': minimum"),
    (
        "resources.limit.memory=1Gi",
        "'/resources': additional properties 'limit' not allowed",
    ),
    (
        "config.envoy.managed.defaults.service.type=Loadbalancer",
        "'/config/envoy/managed/defaults/service/type': value must be one of",
    ),
    (
        "config.envoy.managed.defaults.envoy.resources.limits.memory=1Gx",
        "'/config/envoy/managed/defaults/envoy/resources/limits/memory': '1Gx' does not match",
    ),
    (
        "config.envoy.managed.defaults.replica=2",
        "'/config/envoy/managed/defaults': additional properties 'replica' not allowed",
    ),
    (
        "config.envoy.managed.envoyImage=a b",
        "'/config/envoy/managed/envoyImage': 'a b' does not match",
    ),
    (
        "config.envoy.connectTimeout=0.5s",
        "'/config/envoy/connectTimeout': '0.5s' does not match",
    ),
    ("podLabels.team=a b", "'/podLabels/team': 'a b' does not match"),
    (
        "podMonitor.interval=often",
        "'/podMonitor/interval': 'often' does not match",
    ),
    (
        "podDisruptionBudget.minAvailable=150%",
        "'/podDisruptionBudget/minAvailable'",
    ),
    (
        "podDisruptionBudget.unhealthyPodEvictionPolicy=Always",
        "'/podDisruptionBudget/unhealthyPodEvictionPolicy': value must be one of",
    ),
    // The ports are the Service's.
    (
        "config.xds.address=0.0.0.0:1",
        "'/config/xds/address': '0.0.0.0:1' does not match",
    ),
    // The roles are for the release's namespace.
    (
        "config.leaderElection.namespace=a",
        "additional properties 'namespace' not allowed",
    ),
    // The controller would not start.
    (
        "xds.certificates=Secret,config.xds.tls.authority.secret=a",
        "config.xds.tls.authority: remove it: xds.certificates is Secret",
    ),
    (
        "config.contour.ingressClass=limpet",
        "'/config/contour': missing property 'gateway'",
    ),
    (
        "config.contour.gateway=contour",
        "'/config/contour/gateway': 'contour' does not match",
    ),
    (
        "target=istio,config.contour.gateway=a/b",
        "config.contour: remove it: target is istio",
    ),
    (
        "contour.patchObject=true",
        "'/contour': additional properties 'patchObject' not allowed",
    ),
    (
        "config.http.debugPage=off",
        "'/config/http/debugPage': got string, want boolean",
    ),
    ("certificates.namespaces={Shop}", "'/certificates/namespaces/0'"),
];

#[test]
fn a_wrong_value_is_refused_by_its_name() -> Result<()> {
    for (values, expected) in WRONG {
        let Err(refusal) = template(&["--name-template", "limpet", "--set", values]) else {
            anyhow::bail!("{values} is accepted");
        };
        let message = format!("{refusal:#}");
        ensure!(message.contains(expected), "{values}: {message}");
    }
    Ok(())
}

#[test]
fn quantities_are_accepted_as_kubernetes_takes_them() -> Result<()> {
    for values in [
        "cpu=1",
        "cpu=0.5",
        "cpu=500m",
        "memory=1Gi",
        "memory=1e9",
        "memory=.5Gi",
    ] {
        for field in ["resources", "config.envoy.managed.defaults.limpet.resources"] {
            let values = format!("{field}.limits.{values}");
            template(&["--name-template", "limpet", "--set", &values])?;
        }
    }
    Ok(())
}

#[test]
fn envoys_of_others_need_neither_rights_nor_parameters() -> Result<()> {
    let of = |values: &str| {
        let all = format!("crds.install=false,envoys.namespaces={{shop}},{values}");
        template(&["--name-template", "limpet", "--set", &all])
    };
    let kept = of("config.envoy.managed.namespace=Gateway")?;
    ensure!(kept.contains("managed:") && kept.contains("namespace: shop"), "{kept}");
    let void = of("envoys.managed=false,config.envoy.managed.namespace=Gateway")?;
    ensure!(
        !void.contains("managed:") && !void.contains("namespace: shop"),
        "{void}"
    );
    // They run in the controller's own namespace.
    let own = of("config.envoy.accessLog=true")?;
    ensure!(own.contains("managed:") && !own.contains("namespace: shop"), "{own}");
    Ok(())
}

#[test]
fn what_ingress_routes_need_is_there_only_when_asked_for() -> Result<()> {
    let of = |values: &str| template(&["--name-template", "limpet", "--set", values]);
    let default = of("crds.install=true")?;
    ensure!(!default.contains("contour"), "{default}");
    let definitions = ["ingressroutes", "tlscertificatedelegations"].map(|kind| format!("name: {kind}.contour"));
    let configured = of("config.contour.gateway=limpet-system/contour")?;
    ensure!(configured.contains("ingressroutes/status"), "{configured}");
    // Limpet's own definitions need no right to change routes.
    ensure!(
        configured.matches("resources: [ingressroutes]").count() == 1,
        "{configured}"
    );
    for (values, expected) in [
        ("config.contour.gateway=limpet-system/contour", false),
        ("crds.contour=true,crds.install=false", false),
        ("crds.contour=true", true),
    ] {
        let printed = of(values)?;
        for definition in &definitions {
            ensure!(printed.contains(definition) == expected, "{values}: {definition}");
        }
    }
    Ok(())
}
