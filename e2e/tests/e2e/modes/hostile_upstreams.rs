//! Applications that set what no library would. What Envoy lets through gets a token, and comes back unchanged.

use anyhow::{Context, Result};
use limpet_e2e::{Fields, RawAnswer, raw_get};
use serde_json::json;

use super::*;
use crate::hostile_upstreams::{Hostile, field};

type KeptField = (&'static str, Vec<u8>);

async fn hostile() -> Result<Hostile> {
    // Requests must have room to bring back what these applications set.
    let room = json!({"max_request_headers_kb": 512, "common_http_protocol_options": {"max_headers_count": 2000}});
    Hostile::patient_with(every_mode(&json!({}))?.connection_manager(&room)).await
}

impl Mode {
    fn raw(self, value: &[u8]) -> Fields {
        match self {
            Self::CookiePrefix | Self::CookieRewrite => {
                field("set-cookie", [b"JSESSIONID=", value, b"; Path=/"].concat())
            }
            Self::HeaderPrefix => field(HEADER, value),
        }
    }

    fn raw_name(self) -> &'static str {
        match self {
            Self::CookiePrefix | Self::CookieRewrite => "set-cookie",
            Self::HeaderPrefix => HEADER,
        }
    }
}

async fn get(site: &Hostile, mode: Mode, kept: Option<&KeptField>) -> Result<RawAnswer> {
    let fields: Vec<_> = kept
        .map(|(name, value)| (*name, value.as_slice()))
        .into_iter()
        .collect();
    raw_get(site.envoy.address(), &mode.path(), &fields).await
}

/// The token in `set`, if it is `own` with a token and nothing else.
fn token_in<'f>(mode: Mode, set: &'f [u8], own: &[u8]) -> Option<&'f [u8]> {
    let (before, after): (&[u8], &[u8]) = match mode {
        Mode::CookiePrefix => (b"JSESSIONID=", b"; Path=/"),
        Mode::CookieRewrite => {
            return set
                .strip_prefix(b"JSESSIONID=")?
                .strip_suffix(b"; Path=/")
                .filter(|token| token.len() == 60);
        }
        Mode::HeaderPrefix => (b"", b""),
    };
    let rest = set
        .strip_prefix(before)?
        .strip_suffix(&[b"~", own, after].concat()[..])?;
    (rest.len() == 60).then_some(rest)
}

/// Checks that a session continues, and that the upstream sees its own value.
async fn assert_holds(site: &Hostile, mode: Mode, first: &RawAnswer, token: &[u8], own: &[u8]) -> Result<()> {
    let (kept, seen) = match mode {
        Mode::CookiePrefix => (
            [b"JSESSIONID=", token, b"~", own].concat(),
            [b"JSESSIONID=", own].concat(),
        ),
        Mode::CookieRewrite => ([b"JSESSIONID=", token].concat(), [b"JSESSIONID=", token].concat()),
        Mode::HeaderPrefix => ([token, b"~", own].concat(), own.to_vec()),
    };
    let name = if mode == Mode::HeaderPrefix { HEADER } else { "cookie" };
    let kept = (name, kept);
    for _ in 0..4 {
        let answer = get(site, mode, Some(&kept)).await?;
        assert_eq!(answer.status, 200, "{mode:?}");
        assert_eq!(answer.all("x-backend"), first.all("x-backend"), "{mode:?}");
    }
    let at = usize::from(first.all("x-backend") == [b"b"]);
    assert!(
        site.upstreams[at].seen(name)? == [seen],
        "{mode:?}: the upstream does not see its own value"
    );
    Ok(())
}

#[tokio::test]
async fn a_thousand_fields_that_set_the_session_arrive() -> Result<()> {
    let site = hostile().await?;
    for mode in Mode::ALL {
        let values: Vec<Vec<u8>> = (0..1000).map(|n| format!("value{n}~").into_bytes()).collect();
        site.answer(&values.iter().flat_map(|value| mode.raw(value)).collect());
        let answer = get(&site, mode, None).await?;
        assert_eq!(answer.status, 200, "{mode:?}");
        let set = answer.all(mode.raw_name());
        assert_eq!(set.len(), 1000, "{mode:?}");
        let token = token_in(mode, set[0], &values[0]).with_context(|| format!("{mode:?}: no token"))?;
        for (set, own) in set.iter().zip(&values) {
            assert_eq!(token_in(mode, set, own), Some(token), "{mode:?}");
        }
        site.answer(&Fields::new());
        assert_holds(&site, mode, &answer, token, &values[999]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn values_of_64_kib_and_of_any_bytes_come_back_unchanged() -> Result<()> {
    let site = hostile().await?;
    let large = vec![b'x'; 64 * 1024];
    let tildes = vec![b'~'; 64 * 1024];
    for own in [
        &large[..],
        &tildes,
        b"\xff\xfe\xc3\x28",
        b"\xe2\x80\xa8~\x80",
        b"a\tb",
        b"\"",
        b"a,b",
    ] {
        for mode in Mode::ALL {
            site.answer(&mode.raw(own));
            let answer = get(&site, mode, None).await?;
            let set = answer.all(mode.raw_name());
            assert_eq!((answer.status, set.len()), (200, 1), "{mode:?}");
            let token = token_in(mode, set[0], own).with_context(|| format!("{mode:?}: no token"))?;
            site.answer(&Fields::new());
            assert_holds(&site, mode, &answer, token, own).await?;
        }
    }
    Ok(())
}

/// All but empty ones arrive, next to one that sets a session.
#[tokio::test]
async fn fields_that_are_not_cookies_arrive() -> Result<()> {
    let site = hostile().await?;
    let semicolons = format!("JSESSIONID={}", ";".repeat(60 * 1024));
    let dates = format!(
        "JSESSIONID=x{}; Max-Age=0",
        "; Expires=Thu, 99-Foo-99 99:99:99 GMT".repeat(1500)
    );
    let odd: [&[u8]; 16] = [
        b";",
        b"=",
        b"=;=",
        b"JSESSIONID",
        b"JSESSIONID;",
        b"JSESSIONID=",
        b"JSESSIONID=;",
        b"JSESSIONID=\"\"; \"",
        b"\xff\xfe=\x80",
        b"\xff=1; JSESSIONID=abc",
        b"JSESSIONID\xff=abc",
        b"a\tb=1",
        b"a=1, JSESSIONID=2",
        b"JSESSIONID=x; Max-Age=-99999999999999999999; Expires=\xff",
        semicolons.as_bytes(),
        dates.as_bytes(),
    ];
    for value in odd {
        let session = Mode::CookiePrefix.raw(b"abc");
        site.answer(
            &[
                field("set-cookie", value),
                field("set-cookie", ""),
                session,
                field("set-cookie", value),
            ]
            .concat(),
        );
        let answer = get(&site, Mode::CookiePrefix, None).await?;
        let set = answer.all("set-cookie");
        let what = value.get(..40).unwrap_or(value).escape_ascii().to_string();
        assert!(answer.status == 200 && set.len() == 3, "{what}");
        assert!(set[0] == value && set[2] == value, "{what}");
        let token = token_in(Mode::CookiePrefix, set[1], b"abc").with_context(|| format!("no token beside {what}"))?;
        site.answer(&Fields::new());
        assert_holds(&site, Mode::CookiePrefix, &answer, token, b"abc").await?;
    }
    Ok(())
}

/// Envoy answers 502 with none of the fields. The client's session continues.
#[tokio::test]
async fn envoy_refuses_control_characters() -> Result<()> {
    let site = hostile().await?;
    for mode in Mode::ALL {
        site.answer(&mode.raw(b"abc"));
        let first = get(&site, mode, None).await?;
        let token = token_in(mode, first.all(mode.raw_name())[0], b"abc")
            .context("no token")?
            .to_vec();
        for bad in [
            mode.raw(b"a\x01b"),
            mode.raw(b"a\0b"),
            mode.raw(b"a\x7fb"),
            field("set-cookie", b"JSESSION\x1bID=abc"),
            field("x-session\x01", "abc"),
        ] {
            site.answer(&[bad, mode.raw(b"abc")].concat());
            let answer = get(&site, mode, None).await?;
            assert_eq!(answer.status, 502, "{mode:?}");
            assert!(
                answer.all(mode.raw_name()).is_empty() && answer.all("x-backend").is_empty(),
                "{mode:?}"
            );
        }
        site.answer(&Fields::new());
        assert_holds(&site, mode, &first, &token, b"abc").await?;
    }
    Ok(())
}
