//! Envoy honours tokens of the `limpet` command, and the command reads Envoy's.

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Config, Site, TEST_KEY, tools};

fn limpet(arguments: &[&str]) -> Result<String> {
    let output = tools::run_limpet(arguments, &[("LIMPET_KEY", TEST_KEY)])?;
    // 1: without the key, no token is verified.
    ensure!(
        matches!(output.status.code(), Some(0 | 1)),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[tokio::test]
async fn envoy_honours_a_token_that_the_command_issued() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let arguments = format!(
        "token issue --config envoy-configs/cookie.yaml --cluster backends --host {}",
        site.backends[0].address()
    );
    let token = limpet(&arguments.split(' ').collect::<Vec<_>>())?;
    for _ in 0..6 {
        let answer = site
            .envoy
            .get("/")
            .cookie(format!("limpet-session={token}"))
            .send()
            .await?;
        assert_eq!(answer.backend(), Some("a"));
        assert!(answer.set_cookies().is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn the_command_opens_a_token_that_envoy_issued() -> Result<()> {
    let mut site = Site::start(Config::load("cookie.yaml")?).await?;
    let mut visitor = site.visitor();
    let answer = visitor.get("/").await?;
    let token = visitor.cookie("limpet-session").context("no cookie")?;
    let opened = limpet(&["token", "inspect", token, "--config", "envoy-configs/cookie.yaml"])?;
    let address = site.backend_of(&answer)?.address().to_string();
    assert!(opened.contains(&address), "{opened}");
    let unopened = limpet(&["token", "inspect", token])?;
    assert!(!unopened.contains(&address), "{unopened}");
    Ok(())
}
