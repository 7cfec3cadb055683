//! Tokens in places where they are not valid (check 21). Expiry is check 6; the filter's own tests cover fences and
//! times in the future.

use anyhow::{Context, Result, ensure};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine};
use limpet_e2e::kube::Release;
use limpet_e2e::{Answer, SetCookie};
use serde_json::{Value, json};

use super::dialect::lb_policy;
use super::site::{GatewaySite, rule};

const RULES: [(&str, &str); 4] = [
    ("one.example", "/a"),
    ("one.example", "/b"),
    ("two.example", "/a"),
    ("two.example", "/b"),
];

/// Two hosts with the same two rules, policy, Services and session name.
async fn site(prefix: &str) -> Result<GatewaySite> {
    let site = GatewaySite::start(Release::V1_2_1, prefix, |_| ()).await?;
    let services = site.services("shop").await?;
    let services = services.each_ref().map(String::as_str);
    let policy = lb_policy("shop", &services, &json!({"sessionName": "shop"}));
    site.namespace.apply_object(&policy).await?;
    for host in ["one.example", "two.example"] {
        let rules: Vec<Value> = ["/a", "/b"]
            .into_iter()
            .map(|path| rule(path, &[(services[0], 1), (services[1], 1)]))
            .collect();
        let name = host.replace('.', "-");
        site.route(&name, &rules).await?;
        let hosts = json!({"spec": {"hostnames": [host]}});
        site.namespace.merge("HTTPRoute", &name, &hosts).await?;
    }
    for (host, path) in RULES {
        // The first rule of each host has the plain name.
        let begins = |answer: &Answer| {
            let mut names = answer.set_cookies().into_iter().map(|cookie| cookie.name);
            names.any(|name| name.starts_with("shop") && name.contains('~') == (path == "/b"))
        };
        let request = || site.get(path).header("host", host);
        site.until_asked("sessions", request, begins).await?;
        let elsewhere = site.get(path).header("host", "three.example").send().await?;
        ensure!(
            elsewhere.status == 404,
            "a host serves the other one's route: {elsewhere:?}"
        );
    }
    Ok(site)
}

async fn first(site: &GatewaySite, (host, path): (&str, &str)) -> Result<(Answer, SetCookie)> {
    let answer = site.get(path).header("host", host).send().await?;
    let cookie = answer.set_cookies().pop().context("no cookie")?;
    Ok((answer, cookie))
}

#[tokio::test]
async fn check_21_forged_and_moved_tokens_fall_back_and_show_nothing() -> Result<()> {
    let (shop, others) = tokio::try_join!(site("tokens"), site("others"))?;
    let (answer, cookie) = first(&shop, RULES[0]).await?;
    let backend = answer.backend().context("no backend")?;
    let endpoints = ["shop-v1", "shop-v2"].map(|service| shop.namespace.endpoints(service, |all| all.len() == 2));
    let [v1, v2] = endpoints;
    let all = [v1.await?, v2.await?].concat();
    let pod = all
        .iter()
        .find(|endpoint| endpoint.pod == backend)
        .context("no endpoint")?;

    let bytes = BASE64_URL_SAFE_NO_PAD.decode(&cookie.value)?;
    let flipped = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    };
    let mut cases = vec![
        ("refused.malformed", BASE64_STANDARD.encode(pod.address.to_string())),
        ("refused.malformed", pod.address.to_string()),
        ("refused.malformed", cookie.value[..20].to_owned()),
        ("refused.bad_signature", flipped(bytes.len() - 1)),
        ("refused.bad_signature", flipped(3)),
        ("refused.unknown_key", flipped(1)),
    ];
    for rule in &RULES[1..] {
        let (_, other) = first(&shop, *rule).await?;
        cases.push(("refused.bad_signature", other.value));
    }
    let request = |token: &str| {
        let pair = format!("{}={token}", cookie.name);
        shop.get(RULES[0].1).header("host", RULES[0].0).cookie(pair)
    };
    let falls_back = async |token: &str| -> Result<()> {
        let answer = request(token).send().await?;
        ensure!(answer.status == 200, "{token}: {answer:?}");
        let new = answer.set_cookies().pop();
        let new = new.with_context(|| format!("{token} was honoured"))?;
        ensure!(!shows(&new.value, pod.address.ip())?, "{new:?}");
        Ok(())
    };
    for (reason, token) in cases {
        let before = shop.count(reason).await?;
        falls_back(&token).await?;
        ensure!(
            shop.count(reason).await? == before + 1,
            "{token} was not counted as {reason}"
        );
    }
    // Another cluster's key, whatever its id.
    let (_, foreign) = first(&others, RULES[0]).await?;
    falls_back(&foreign.value).await?;

    // The search finds an address that is there.
    let readable = BASE64_URL_SAFE_NO_PAD.encode(format!("at {}", pod.address));
    ensure!(shows(&readable, pod.address.ip())?);
    let kept = request(&cookie.value).send().await?;
    ensure!(
        kept.backend() == Some(backend) && kept.set_cookies().is_empty(),
        "{kept:?}"
    );
    Ok(())
}

fn shows(token: &str, ip: std::net::IpAddr) -> Result<bool> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token)?;
    let std::net::IpAddr::V4(ip) = ip else {
        anyhow::bail!("{ip} is not IPv4");
    };
    let found = |needle: &[u8]| bytes.windows(needle.len()).any(|part| part == needle);
    Ok(found(&ip.octets()) || found(ip.to_string().as_bytes()))
}
