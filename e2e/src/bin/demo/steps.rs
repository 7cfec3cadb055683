//! The steps, each announced, done, printed and checked.

use anyhow::{Context, Result, ensure};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine};
use limpet_e2e::{Answer, Build, Visitor};

use crate::setup::Setup;

const COOKIE: &str = "limpet-session";

pub(crate) async fn run(setup: &mut Setup) -> Result<()> {
    let (mut visitor, first) = first_request(setup).await?;
    ten_replays(setup, &mut visitor, &first).await?;
    another_client(setup, &mut visitor, &first).await?;
    inside_the_cookie(setup, &visitor, &first)?;
    one_bit_flipped(setup, &visitor).await?;
    backend_stopped(setup, &mut visitor, &first).await?;
    counters(setup).await?;
    println!("\nEvery step did what it says.");
    Ok(())
}

pub(crate) fn print_commands_to_try(setup: &Setup) {
    let (url, admin) = (setup.url(), setup.envoy.admin());
    let forged = BASE64_STANDARD.encode(setup.backends[0].address().to_string());
    println!("\nAll backends run again, and Envoy keeps serving. Try these commands in another terminal:");
    for (what, command) in [
        ("a new session with every request", format!("curl -i {url}")),
        (
            "the same session with every request",
            format!("curl -s -c jar -b jar {url}"),
        ),
        ("a forged token", format!("curl -i -b {COOKIE}=forged {url}")),
        (
            "an attempt to choose the backend without a token (it has no effect)",
            format!("curl -i -H 'x-limpet-host: {forged}' {url}"),
        ),
        (
            "the filter's counters",
            format!("curl -s 'http://{admin}/stats?filter=limpet'"),
        ),
    ] {
        println!("\n  # {what}\n  {command}");
    }
    println!("\nCtrl-C ends the demo.");
}

async fn first_request(setup: &Setup) -> Result<(Visitor, Answer)> {
    title("A client sends its first request. Envoy picks a backend, and the answer sets a cookie.");
    let mut visitor = setup.visitor();
    let answer = visitor.get("/").await?;
    println!("  $ curl -i {}", setup.url());
    println!("  {}, from backend {}", answer.status, answered(&answer)?);
    let field = answer.header("set-cookie").context("the answer sets no cookie")?;
    println!("  Set-Cookie: {field}");
    ensure!(answer.status == 200, "the answer has status {}", answer.status);
    ensure!(visitor.cookie(COOKIE).is_some(), "there is no cookie {COOKIE}");
    Ok((visitor, answer))
}

async fn ten_replays(setup: &Setup, visitor: &mut Visitor, first: &Answer) -> Result<()> {
    title("The client sends ten more requests with its cookie. The same backend answers each, and sets no cookie.");
    let mut names = Vec::new();
    for _ in 0..10 {
        let answer = visitor.get("/").await?;
        names.push(answered(&answer)?.to_owned());
        ensure!(answer.set_cookies().is_empty(), "a cookie was set again");
    }
    println!("  $ curl -b {COOKIE}=... {}", setup.url());
    println!("  backends: {}", names.join(" "));
    ensure!(
        names.iter().all(|name| Some(name.as_str()) == first.backend()),
        "another backend answered a request of the session"
    );
    Ok(())
}

async fn another_client(setup: &Setup, visitor: &mut Visitor, first: &Answer) -> Result<()> {
    title(
        "Other clients have no cookie, so the load balancer picks their backends. The first client keeps its backend.",
    );
    for number in 2..=20 {
        let answer = setup.visitor().get("/").await?;
        println!("  client {number}: backend {}", answered(&answer)?);
        if answer.backend() != first.backend() {
            let again = visitor.get("/").await?;
            println!("  client 1: backend {}", answered(&again)?);
            ensure!(
                again.backend() == first.backend(),
                "another backend answered the first client"
            );
            return Ok(());
        }
    }
    anyhow::bail!("the same backend answered twenty clients")
}

fn inside_the_cookie(setup: &mut Setup, visitor: &Visitor, first: &Answer) -> Result<()> {
    title("The cookie does not show the backend's address. With the key, `limpet token inspect` does.");
    let token = token_of(visitor)?.to_owned();
    let address = setup.backend_of(first)?.address().to_string();
    let sealed = setup.inspect(&token, false)?;
    println!("  $ limpet token inspect {token}\n{}", indented(&sealed));
    ensure!(!sealed.contains(&address), "the address can be read without the key");
    let opened = setup.inspect(&token, true)?;
    println!(
        "  $ limpet token inspect {token} --config {}\n{}",
        setup.config,
        indented(&opened)
    );
    ensure!(opened.contains(&address), "the token does not name {address}");
    Ok(())
}

async fn one_bit_flipped(setup: &Setup, visitor: &Visitor) -> Result<()> {
    title(
        "An attacker changes one bit of the cookie. The filter refuses the token, counts that, and starts a new session.",
    );
    let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(token_of(visitor)?)?;
    *bytes.last_mut().context("the token is empty")? ^= 1;
    let before = setup.envoy.metric("web.refused.bad_signature").await?;
    let mut forger = setup.visitor();
    forger.keep(COOKIE, &BASE64_URL_SAFE_NO_PAD.encode(bytes));
    let answer = forger.get("/").await?;
    println!(
        "  {}, from backend {}, with a new cookie",
        answer.status,
        answered(&answer)?
    );
    let after = setup.envoy.metric("web.refused.bad_signature").await?;
    println!("  limpet.web.refused.bad_signature: {before} -> {after}");
    ensure!(answer.set_cookie(COOKIE).is_some(), "the answer sets no new cookie");
    ensure!(after == before + 1, "the refusal was not counted");
    Ok(())
}

async fn backend_stopped(setup: &mut Setup, visitor: &mut Visitor, first: &Answer) -> Result<()> {
    let gone = answered(first)?;
    title(&format!(
        "Backend {gone} stops. The first client's session moves to another backend, gets a new cookie, and stays there."
    ));
    setup.backend_of(first)?.stop().await;
    let before = token_of(visitor)?.to_owned();
    let moved = visitor.get("/").await?;
    println!(
        "  {}, from backend {}, with a new cookie",
        moved.status,
        answered(&moved)?
    );
    ensure!(
        moved.status == 200 && moved.backend() != first.backend(),
        "the session did not move"
    );
    ensure!(token_of(visitor)? != before, "the cookie did not change");
    let mut names = Vec::new();
    for _ in 0..5 {
        names.push(answered(&visitor.get("/").await?)?.to_owned());
    }
    println!("  then: {}", names.join(" "));
    ensure!(
        names.iter().all(|name| Some(name.as_str()) == moved.backend()),
        "the session moved again"
    );
    Ok(())
}

async fn counters(setup: &Setup) -> Result<()> {
    title("Envoy's counters show all of this.");
    println!("  $ curl 'http://{}/stats?filter=limpet'", setup.envoy.admin());
    let prefix = Build::tested()?.counter("web.");
    let stats = setup.envoy.stats(&prefix).await?;
    for (name, value) in stats.iter().filter(|(_, value)| **value > 0) {
        println!("  {name}: {value}");
    }
    for name in ["issued", "no_token", "steered", "reissued", "refused.bad_signature"] {
        let counted = stats.get(&format!("{prefix}{name}")).copied().unwrap_or(0);
        ensure!(counted > 0, "{name} was not counted");
    }
    Ok(())
}

fn title(text: &str) {
    println!("\n{text}");
}

fn answered(answer: &Answer) -> Result<&str> {
    answer
        .backend()
        .with_context(|| format!("no backend answered; Envoy answered {}", answer.status))
}

fn token_of(visitor: &Visitor) -> Result<&str> {
    visitor.cookie(COOKIE).context("the client has no cookie")
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
