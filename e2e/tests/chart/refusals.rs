//! Values that the chart refuses.

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
