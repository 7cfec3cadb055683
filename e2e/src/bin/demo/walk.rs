//! The walk: each step says what it does, does it, shows what came back, and checks it.

use anyhow::{Context, Result, ensure};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine};
use limpet_e2e::{Answer, Build, Visitor};

use crate::stage::Stage;

/// The session's cookie in `cookie.yaml`.
const COOKIE: &str = "session";

/// All steps.
pub(crate) async fn walk(stage: &mut Stage) -> Result<()> {
    let (mut visitor, first) = first_request(stage).await?;
    ten_replays(stage, &mut visitor, &first).await?;
    another_client(stage, &mut visitor, &first).await?;
    inside_the_cookie(stage, &visitor, &first)?;
    one_bit_flipped(stage, &visitor).await?;
    backend_stopped(stage, &mut visitor, &first).await?;
    counters(stage).await?;
    println!("\nEvery step did what it says.");
    Ok(())
}

/// What a person can try by hand.
pub(crate) fn say_what_to_try(stage: &Stage) {
    let (url, admin) = (stage.url(), stage.envoy.admin());
    let forged = BASE64_STANDARD.encode(stage.backends[0].address().to_string());
    println!("\nAll backends run again, and Envoy keeps serving. Try, in another terminal:");
    for (what, command) in [
        ("a new session with every request", format!("curl -i {url}")),
        ("one session, again and again", format!("curl -s -c jar -b jar {url}")),
        ("a token that is not ours", format!("curl -i -b {COOKIE}=forged {url}")),
        (
            "steering without a token, in vain",
            format!("curl -i -H 'x-limpet-host: {forged}' {url}"),
        ),
        ("the counters", format!("curl -s 'http://{admin}/stats?filter=limpet'")),
    ] {
        println!("\n  # {what}\n  {command}");
    }
    println!("\nCtrl-C ends the demo.");
}

async fn first_request(stage: &Stage) -> Result<(Visitor, Answer)> {
    title("A client sends its first request. Envoy picks a backend, and the answer sets a cookie.");
    let mut visitor = stage.visitor();
    let answer = visitor.get("/").await?;
    println!("  $ curl -i {}", stage.url());
    println!("  {}, from backend {}", answer.status, answered(&answer)?);
    let field = answer.header("set-cookie").context("the answer sets no cookie")?;
    println!("  Set-Cookie: {field}");
    ensure!(answer.status == 200, "the answer has status {}", answer.status);
    ensure!(visitor.cookie(COOKIE).is_some(), "the cookie is not called {COOKIE}");
    Ok((visitor, answer))
}

async fn ten_replays(stage: &Stage, visitor: &mut Visitor, first: &Answer) -> Result<()> {
    title("It comes back ten times with its cookie. The same backend answers each time, and no cookie is set again.");
    let mut names = Vec::new();
    for _ in 0..10 {
        let answer = visitor.get("/").await?;
        names.push(answered(&answer)?.to_owned());
        ensure!(answer.set_cookies().is_empty(), "a cookie was set again");
    }
    println!("  $ curl -b {COOKIE}=... {}", stage.url());
    println!("  backends: {}", names.join(" "));
    ensure!(
        names.iter().all(|name| Some(name.as_str()) == first.backend()),
        "the session did not hold"
    );
    Ok(())
}

async fn another_client(stage: &Stage, visitor: &mut Visitor, first: &Answer) -> Result<()> {
    title("Other clients have no cookie and land where the load balancer sends them; the first client stays.");
    for number in 2..=20 {
        let answer = stage.visitor().get("/").await?;
        println!("  client {number}: backend {}", answered(&answer)?);
        if answer.backend() != first.backend() {
            let again = visitor.get("/").await?;
            println!("  client 1: backend {}", answered(&again)?);
            ensure!(
                again.backend() == first.backend(),
                "the first client's session did not hold"
            );
            return Ok(());
        }
    }
    anyhow::bail!("twenty clients landed on one backend")
}

fn inside_the_cookie(stage: &mut Stage, visitor: &Visitor, first: &Answer) -> Result<()> {
    title("The cookie hides which backend it names. With the key, limpet opens it.");
    let token = token_of(visitor)?.to_owned();
    let address = stage.backend_of(first)?.address().to_string();
    let sealed = stage.inspect(&token, false)?;
    println!("  $ limpet token inspect {token}\n{}", indented(&sealed));
    ensure!(!sealed.contains(&address), "the address shows without the key");
    let opened = stage.inspect(&token, true)?;
    println!(
        "  $ limpet token inspect {token} --config {}\n{}",
        stage.config,
        indented(&opened)
    );
    ensure!(opened.contains(&address), "the token does not name {address}");
    Ok(())
}

async fn one_bit_flipped(stage: &Stage, visitor: &Visitor) -> Result<()> {
    title("Somebody flips one bit of the cookie. It is refused, counted, and a new session begins.");
    let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(token_of(visitor)?)?;
    *bytes.last_mut().context("the token is empty")? ^= 1;
    let before = stage.envoy.metric("web.refused.bad_signature").await?;
    let mut forger = stage.visitor();
    forger.keep(COOKIE, &BASE64_URL_SAFE_NO_PAD.encode(bytes));
    let answer = forger.get("/").await?;
    println!(
        "  {}, from backend {}, with a new cookie",
        answer.status,
        answered(&answer)?
    );
    let after = stage.envoy.metric("web.refused.bad_signature").await?;
    println!("  limpet.web.refused.bad_signature: {before} -> {after}");
    ensure!(answer.set_cookie(COOKIE).is_some(), "no new session began");
    ensure!(after == before + 1, "the refusal was not counted");
    Ok(())
}

async fn backend_stopped(stage: &mut Stage, visitor: &mut Visitor, first: &Answer) -> Result<()> {
    let gone = answered(first)?;
    title(&format!(
        "Backend {gone} stops. The first client's session moves to another backend, with a new cookie, and stays there."
    ));
    stage.backend_of(first)?.stop().await;
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
    ensure!(
        token_of(visitor)? != before,
        "the session has no token for its new backend"
    );
    let mut names = Vec::new();
    for _ in 0..5 {
        names.push(answered(&visitor.get("/").await?)?.to_owned());
    }
    println!("  and then: {}", names.join(" "));
    ensure!(
        names.iter().all(|name| Some(name.as_str()) == moved.backend()),
        "the session did not hold"
    );
    Ok(())
}

async fn counters(stage: &Stage) -> Result<()> {
    title("Envoy's counters tell all of it.");
    println!("  $ curl 'http://{}/stats?filter=limpet'", stage.envoy.admin());
    let prefix = Build::tested()?.counter("web.");
    let stats = stage.envoy.stats(&prefix).await?;
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
        .with_context(|| format!("no backend answered: Envoy says {}", answer.status))
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
