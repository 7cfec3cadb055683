//! Answers that no library would send. What Envoy lets through reaches the client unchanged, and the session continues.

use anyhow::{Context, Result};
use limpet_e2e::{Config, Envoy, Fields, RawAnswer, RawUpstream, raw_get};
use serde_json::json;

pub(crate) struct Hostile {
    pub(crate) upstreams: [RawUpstream; 2],
    pub(crate) envoy: Envoy,
}

impl Hostile {
    /// Envoy accepts heads beyond its default of 100 fields and 80 KiB.
    async fn patient() -> Result<Self> {
        Self::patient_with(Config::load("cookie.yaml")?).await
    }

    pub(crate) async fn patient_with(config: Config) -> Result<Self> {
        Self::start(
            config,
            &json!({"max_headers_count": 2000, "max_response_headers_kb": 512}),
        )
        .await
    }

    async fn start(config: Config, limits: &serde_json::Value) -> Result<Self> {
        let upstreams = [RawUpstream::start().await?, RawUpstream::start().await?];
        let config = config
            .backend_addresses(&upstreams.each_ref().map(RawUpstream::address))
            .cluster(&json!({"typed_extension_protocol_options": {
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                    "explicit_http_config": {"http_protocol_options": {}},
                    "common_http_protocol_options": limits,
                },
            }}));
        let envoy = Envoy::serve(config).await?;
        Ok(Self { upstreams, envoy })
    }

    /// Answers from both upstreams have these fields, and one that names the upstream.
    pub(crate) fn answer(&self, fields: &Fields) {
        for (upstream, name) in self.upstreams.iter().zip(["a", "b"]) {
            upstream.answer([fields.clone(), field("x-backend", name)].concat());
        }
    }

    async fn get(&self, token: Option<&[u8]>) -> Result<RawAnswer> {
        let cookie = token.map(|token| ("cookie", token));
        raw_get(self.envoy.address(), "/", cookie.as_slice()).await
    }

    /// Checks that a new client gets all fields and a session, which continues with them.
    async fn assert_arrive(&self, what: &str, fields: &Fields) -> Result<()> {
        self.answer(fields);
        let first = self.get(None).await?;
        let pair = assert_all_there(what, fields, &first, true).context("no session begins")?;
        for _ in 0..6 {
            let answer = self.get(Some(&pair)).await?;
            assert_all_there(what, fields, &answer, false);
            assert_eq!(answer.all("x-backend"), first.all("x-backend"), "{what}");
        }
        Ok(())
    }

    /// Checks that Envoy answers 502 with none of the fields, and that no session begins or ends.
    async fn assert_refused(&self, what: &str, fields: &Fields) -> Result<()> {
        self.answer(&Fields::new());
        let first = self.get(None).await?;
        let pair = assert_all_there(what, &Fields::new(), &first, true).context("no session begins")?;
        self.answer(fields);
        for token in [None, Some(pair.as_slice())] {
            let answer = self.get(token).await?;
            assert_eq!(answer.status, 502, "{what}");
            assert!(answer.all("set-cookie").is_empty(), "{what}");
            assert!(answer.all("x-backend").is_empty(), "{what}");
        }
        self.answer(&Fields::new());
        let again = self.get(Some(&pair)).await?;
        assert_all_there(what, &Fields::new(), &again, false);
        assert_eq!(again.all("x-backend"), first.all("x-backend"), "{what}");
        Ok(())
    }
}

pub(crate) fn field(name: &str, value: impl AsRef<[u8]>) -> Fields {
    vec![(name.as_bytes().to_vec(), value.as_ref().to_vec())]
}

/// Checks that the answer has these fields, byte for byte and in order, and no others of these names. If a session
/// `begins`, Limpet's cookie follows the application's, none of which has its name. Returns its pair.
#[track_caller]
fn assert_all_there(what: &str, fields: &Fields, answer: &RawAnswer, begins: bool) -> Option<Vec<u8>> {
    assert_eq!(answer.status, 200, "{what}");
    let mut ours = None;
    for name in fields
        .iter()
        .map(|(name, _)| name.as_slice())
        .chain([b"set-cookie".as_slice()])
    {
        let sent = fields.iter().filter(|(sent, _)| sent == name);
        let is_namesake = |value: &[u8]| *name == *b"set-cookie" && value.starts_with(b"limpet-session=");
        let sent = sent.map(|(_, value)| value.as_slice());
        let expected: Vec<_> = sent.filter(|value| !is_namesake(value)).collect();
        let mut arrived = answer.all(&String::from_utf8_lossy(name));
        if *name == *b"set-cookie" && begins {
            ours = arrived.pop();
        }
        // A worker that has not seen such a cookie before reads only answers with a token.
        if !begins {
            arrived.retain(|value| !is_namesake(value));
        }
        let name = String::from_utf8_lossy(name);
        // Limpet changes Cache-Control of a first answer to keep it out of shared caches.
        if name != "cache-control" || !begins {
            assert_eq!(arrived, expected, "{what}: {name}");
        }
    }
    assert_eq!(ours.is_some(), begins, "{what}");
    let pair = ours?.split(|byte| *byte == b';').next()?;
    assert!(
        pair.starts_with(b"limpet-session=") && pair.len() == 75,
        "{what}: {pair:?}"
    );
    Some(pair.to_vec())
}

fn thousand_cookies() -> Fields {
    let cookie = |n| field("set-cookie", format!("app{n}=value{n}; Path=/{n}"));
    (0..1000).flat_map(cookie).collect()
}

fn large_cookie(kib: usize) -> Fields {
    field("set-cookie", format!("large={}; Path=/", "x".repeat(kib * 1024)))
}

#[tokio::test]
async fn a_thousand_cookies_arrive() -> Result<()> {
    Hostile::patient()
        .await?
        .assert_arrive("1,000 cookies", &thousand_cookies())
        .await
}

#[tokio::test]
async fn a_thousand_cookies_of_the_sessions_name_end_no_session() -> Result<()> {
    let cookies = (0..1000)
        .flat_map(|n| field("set-cookie", format!("limpet-session={n}")))
        .collect();
    Hostile::patient()
        .await?
        .assert_arrive("1,000 cookies called session", &cookies)
        .await
}

#[tokio::test]
async fn a_cookie_of_64_kib_arrives() -> Result<()> {
    Hostile::patient()
        .await?
        .assert_arrive("64 KiB", &large_cookie(64))
        .await
}

#[tokio::test]
async fn envoy_refuses_answers_beyond_its_limits() -> Result<()> {
    let site = Hostile::start(Config::load("cookie.yaml")?, &json!({})).await?;
    site.assert_refused("1,000 cookies", &thousand_cookies()).await?;
    site.assert_refused("128 KiB", &large_cookie(128)).await
}

#[tokio::test]
async fn bytes_that_are_not_utf8_arrive() -> Result<()> {
    let site = Hostile::patient().await?;
    for fields in [
        field("x-application", b"\xff\xfe\x80\xc3\x28"),
        field("set-cookie", b"app=\xff\xc3\x28; Path=/\xf0\x28"),
        field("set-cookie", b"\xff\xfe=\x80"),
        field("set-cookie", b"limpet-session=\xff"),
        field("vary", b"\xff, \x80"),
        field("expires", b"\xff"),
    ] {
        site.assert_arrive(&format!("{fields:?}"), &fields).await?;
    }
    let fields = field("cache-control", b"public, x=\"\xff\", \xfe");
    site.assert_arrive("cache-control", &fields).await?;
    let kept = site.get(None).await?;
    assert_eq!(kept.all("cache-control"), [b"private, x=\"\xff\", \xfe"]);
    Ok(())
}

#[tokio::test]
async fn fields_that_are_not_cookies_arrive() -> Result<()> {
    let site = Hostile::patient().await?;
    for value in [
        "",
        ";",
        "=",
        "=;=",
        "limpet-session",
        "session;",
        "limpet-session=;",
        "a\tb=1",
        "\"=\"",
        "a=1, limpet-session=2; Path=\"",
    ] {
        site.assert_arrive(&format!("{value:?}"), &field("set-cookie", value))
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn envoy_refuses_control_characters() -> Result<()> {
    let site = Hostile::patient().await?;
    for fields in [
        field("set-cookie", b"a\x01b=1"),
        field("set-cookie", b"a\x7fb=1"),
        field("set-cookie", b"a\0b=1"),
        field("set-cookie", b"limpet-session=\x1b[2J"),
        field("x-a\x01b", "1"),
        field("x-a b", "1"),
        field("", "1"),
    ] {
        site.assert_refused(&format!("{fields:?}"), &fields).await?;
    }
    Ok(())
}
