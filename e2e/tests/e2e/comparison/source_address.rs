//! The client's address holds the session; clients get nothing.

use std::net::Ipv4Addr;

use super::*;

const CLIENTS: std::ops::RangeInclusive<u8> = 1..=6;

/// Checks that nothing is set.
async fn backend(at: SocketAddr, client: u8) -> Result<String> {
    let answer = Request::get(at, "/")
        .from(Ipv4Addr::new(127, 0, 8, client))
        .send()
        .await?;
    assert!(answer.set_cookies().is_empty());
    Ok(answer.backend().context("no backend answered")?.to_owned())
}

async fn backends(at: SocketAddr) -> Result<Vec<String>> {
    let mut backends = Vec::new();
    for client in CLIENTS {
        backends.push(backend(at, client).await?);
    }
    Ok(backends)
}

/// Checks that clients stay, and that not all have the same backend.
async fn assert_kept(at: SocketAddr) -> Result<Vec<String>> {
    let first = backends(at).await?;
    assert!(first.iter().any(|backend| *backend != first[0]), "{first:?}");
    for _ in 0..4 {
        assert_eq!(backends(at).await?, first);
    }
    Ok(first)
}

/// Checks that a pause ends a session, and that a client in time continues.
async fn assert_expires(at: SocketAddr, timeout: f64) -> Result<()> {
    let own = backend(at, 1).await?;
    for _ in 0..3 {
        pass(timeout / 2.0).await;
        assert_eq!(backend(at, 1).await?, own);
    }
    // New sessions take turns, so a client that is forgotten moves.
    for _ in 0..6 {
        pass(timeout * 1.5).await;
        if backend(at, 1).await? != own {
            return Ok(());
        }
    }
    bail!("the session does not end")
}

async fn haproxy_with_table(table: &str, backends: &[Backend]) -> Result<Haproxy> {
    let lines = format!("balance roundrobin\nstick-table type ip {table}\nstick on src");
    Haproxy::start(&section(&lines, &servers(backends, |_| String::new()))).await
}

async fn limpet_with_table(source: &Value, backends: &[Backend]) -> Result<Envoy> {
    let config = Config::load("source.yaml")?.policy(&json!({"source": source}));
    // One worker takes turns as HAProxy does.
    let in_turn = config.workers(1).cluster(&json!({"lb_policy": "ROUND_ROBIN"}));
    Envoy::serve(in_turn.backends(backends)).await
}

#[tokio::test]
async fn haproxy_and_limpet_keep_addresses_for_a_time() -> Result<()> {
    let servers = Backend::three()?;
    let haproxy = haproxy_with_table("size 100 expire 2s", &servers).await?;
    let limpet = limpet_with_table(&json!({"entries": 100, "timeout": "2s"}), &servers).await?;
    for at in [haproxy.address(), limpet.address()] {
        assert_kept(at).await?;
        assert_expires(at, 2.0).await?;
    }
    Ok(())
}

/// With room for two, a third client displaces one. HAProxy's table frees some entries at a time.
#[tokio::test]
async fn haproxy_and_limpet_forget_somebody_when_the_table_is_full() -> Result<()> {
    let servers = Backend::three()?;
    let haproxy = haproxy_with_table("size 2 expire 1h", &servers).await?;
    let limpet = limpet_with_table(&json!({"entries": 2}), &servers).await?;
    for at in [haproxy.address(), limpet.address()] {
        let own = backend(at, 1).await?;
        let mut moved = false;
        for client in 2..=20 {
            backend(at, client).await?;
        }
        for _ in 0..4 {
            moved |= backend(at, 1).await? != own;
            for client in 2..=5 {
                backend(at, client).await?;
            }
        }
        assert!(moved, "the table keeps more than it may");
    }
    Ok(())
}

/// Envoy without Limpet hashes addresses: a new backend moves sessions.
#[tokio::test]
async fn only_a_table_keeps_sessions_when_a_backend_comes() -> Result<()> {
    let servers = Backend::three()?;
    let hashed = || Config::load("draining.yaml");
    let route = json!({"route": {"hash_policy": [{"connection_properties": {"source_ip": true}}]}});
    for (with_limpet, stays) in [(false, false), (true, true)] {
        let config = hashed()?.policy(&json!({"source": {}})).route(&route);
        let config = config.cluster(&json!({"lb_policy": "MAGLEV"}));
        let config = if with_limpet { config } else { config.without_limpet() };
        let mut envoy = Envoy::serve(config.backends(&servers[..2])).await?;
        envoy.until_stat("cluster.backends.membership_healthy", 2).await?;
        let clients = 1..=40;
        let mut before = Vec::new();
        for client in clients.clone() {
            before.push(backend(envoy.address(), client).await?);
        }
        envoy.update(|config| config.backends(&servers))?;
        envoy.until_stat("cluster.backends.membership_healthy", 3).await?;
        envoy
            .until_every_worker("knows the new backend", |answer| answer.backend().is_some())
            .await?;
        let mut after = Vec::new();
        for client in clients {
            after.push(backend(envoy.address(), client).await?);
        }
        assert_eq!(before == after, stays, "{before:?} {after:?}");
    }
    Ok(())
}
