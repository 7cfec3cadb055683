use super::*;

/// A table in the proxy; the client gets nothing.
#[tokio::test]
async fn a_stick_table_keeps_sessions_by_a_url_parameter() -> Result<()> {
    let backends = Backend::three()?;
    let lines = "stick-table type string len 32 size 1k expire 1m\nstick on url_param(id)";
    let haproxy = haproxy(lines, &backends).await?;
    let mut all = BTreeSet::new();
    for id in ["x", "y", "z"] {
        let mut reached = BTreeSet::new();
        for _ in 0..6 {
            let answer = Request::get(haproxy.address(), &format!("/?id={id}")).send().await?;
            assert!(answer.set_cookies().is_empty());
            reached.insert(answer.backend().unwrap_or("none").to_owned());
        }
        assert_eq!(reached.len(), 1);
        all.append(&mut reached);
    }
    assert_eq!(all.len(), 3);
    Ok(())
}
