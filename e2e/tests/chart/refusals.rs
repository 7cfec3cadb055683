//! Values that the chart refuses, and values that another one makes void.

use anyhow::{Result, ensure};

use crate::template;

#[test]
fn a_wrong_value_is_refused_by_its_name() -> Result<()> {
    for (values, expected) in [
        ("replica=3", "additional properties 'replica' not allowed"),
        ("image.tagg=1", "'/image': additional properties 'tagg' not allowed"),
        ("output=nginx", "'/output': value must be one of"),
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
        (
            "podDisruptionBudget.unhealthyPodEvictionPolicy=Always",
            "'/podDisruptionBudget/unhealthyPodEvictionPolicy': value must be one of",
        ),
        // The ports are those of the Service.
        (
            "config.xds.address=0.0.0.0:1",
            "'/config/xds/address': '0.0.0.0:1' does not match",
        ),
        // The roles are for the namespace of the release.
        (
            "config.leaderElection.namespace=a",
            "additional properties 'namespace' not allowed",
        ),
        // The controller would not start.
        (
            "xds.certificates=Secret,config.xds.tls.authority.secret=a",
            "config.xds.tls.authority: expected none, because xds.certificates is Secret",
        ),
        ("certificates.namespaces={Shop}", "'/certificates/namespaces/0'"),
    ] {
        let Err(refusal) = template(&["--name-template", "limpet", "--set", values]) else {
            anyhow::bail!("{values} is accepted");
        };
        let message = format!("{refusal:#}");
        ensure!(message.contains(expected), "{values}: {message}");
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
