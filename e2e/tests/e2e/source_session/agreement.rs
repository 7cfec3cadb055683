//! Envoys agree without talking: a client in no table gets the backend that its address hashes to.

use std::collections::BTreeSet;

use limpet_e2e::{Backend, Envoy};

use super::*;

async fn backends(envoy: &Envoy, addresses: &[String]) -> Result<Vec<String>> {
    let mut backends = Vec::new();
    for address in addresses {
        let request = envoy.get("/").header("x-forwarded-for", address);
        backends.push(backend_of(&request.send().await?)?);
    }
    Ok(backends)
}

fn hashed(policy: &Value, lb_policy: &str, backends: &[Backend]) -> Result<Config> {
    let config = Config::load("source.yaml")?.policy(policy).backends(backends);
    let behind = config.connection_manager(&json!({"xff_num_trusted_hops": 1}));
    Ok(behind.cluster(&json!({"lb_policy": lb_policy})))
}

#[tokio::test]
async fn several_envoys_and_a_new_one_choose_alike() -> Result<()> {
    let v4 = (1..=20).map(|number| format!("192.0.2.{number}"));
    let v6 = (1..=20).map(|number| format!("2001:db8:0:{number:x}::1"));
    let addresses: Vec<_> = v4.chain(v6).collect();
    for lb_policy in ["MAGLEV", "RING_HASH"] {
        let of_policy = json!({"source": {}});
        let servers = Backend::three()?;
        let config = || hashed(&of_policy, lb_policy, &servers);
        let chosen = backends(&Envoy::serve(config()?).await?, &addresses).await?;
        assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), 3, "{chosen:?}");
        let new = Envoy::serve(config()?).await?;
        assert_eq!(backends(&new, &addresses).await?, chosen, "{lb_policy}");
        assert_eq!(new.metric("web.issued").await?, 40);
        assert_eq!(new.metric("host_errors").await?, 0);
    }
    Ok(())
}

/// At each Envoy, a client may come from another address of its prefix.
#[tokio::test]
async fn addresses_of_one_prefix_hash_alike() -> Result<()> {
    let servers = Backend::three()?;
    let of_policy = json!({"source": {"prefixV4": 24}});
    let of_host = |host: u8| {
        let v4 = (1..=12).map(move |net| format!("198.51.{net}.{host}"));
        let v6 = (1..=12).map(move |net| format!("2001:db8:0:{net:x}::{host:x}"));
        v4.chain(v6).collect::<Vec<_>>()
    };
    let mut chosen = Vec::new();
    for host in [1, 200] {
        let envoy = Envoy::serve(hashed(&of_policy, "MAGLEV", &servers)?).await?;
        chosen.push(backends(&envoy, &of_host(host)).await?);
    }
    assert_eq!(chosen[0].iter().collect::<BTreeSet<_>>().len(), 3, "{chosen:?}");
    assert_eq!(chosen[0], chosen[1]);
    Ok(())
}
