use anyhow::Result;
use limpet_e2e::{Config, Envoy, Site, poll};
use serde_json::{Value, json};

use super::{begun, policy};

/// Common formats and the one of docs/background/security.md, by the first word of their lines.
const FORMATS: [(&str, &str); 3] = [
    ("path", "%REQ(:PATH)%"),
    ("original", "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%"),
    ("without", "%PATH(NQ:ORIG_OR_PATH)%"),
];

/// Access logs of these formats, and a filter in front of Limpet that answers `/early`. Each line names the moment of
/// its writing.
async fn site() -> Result<Site> {
    let logs = FORMATS.map(|(word, format)| {
        let line = format!("{word} %ACCESS_LOG_TYPE% {format} %RESPONSE_CODE%\n");
        json!({
            "name": "envoy.access_loggers.stdout",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
                "log_format": {"text_format_source": {"inline_string": line}},
            },
        })
    });
    let answers_early = json!([{
        "name": "envoy.filters.http.fault",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault",
            "abort": {"http_status": 401, "percentage": {"numerator": 100}},
            "headers": [{"name": ":path", "string_match": {"prefix": "/early"}}],
        },
    }]);
    let config = Config::load("cookie.yaml")?
        .policy(&policy(&json!([{"query": {"name": "s"}}])))
        .prepend_filters(&answers_early)
        .connection_manager(&json!({
            "access_log": Value::from(logs.to_vec()),
            "access_log_options": {"flush_access_log_on_new_request": true},
        }));
    Site::start(config).await
}

async fn line(envoy: &Envoy, word: &str, moment: &str, path: &str) -> Result<String> {
    let begin = format!("{word} {moment} {path}");
    poll::until(&format!("an access log line of {begin}"), async || {
        let log = envoy.stdout().ok()?;
        log.lines().find(|line| line.starts_with(&begin)).map(str::to_owned)
    })
    .await
}

#[tokio::test]
async fn a_log_at_the_end_has_no_token_but_of_early_answers() -> Result<()> {
    let site = site().await?;
    let (token, _) = begun(&site).await?;
    for path in ["/a", "/early"] {
        site.envoy.get(&format!("{path}?x=1&s={token}&y")).send().await?;
    }
    let end = async |word, path| line(&site.envoy, word, "DownstreamEnd", path).await;
    for word in ["path", "original"] {
        assert_eq!(end(word, "/a").await?, format!("{word} DownstreamEnd /a?x=1&y 200"));
        let early = format!("{word} DownstreamEnd /early?x=1&s={token}&y 401");
        assert_eq!(end(word, "/early").await?, early, "nobody had taken the token out");
    }
    assert_eq!(end("without", "/a").await?, "without DownstreamEnd /a 200");
    assert_eq!(end("without", "/early").await?, "without DownstreamEnd /early 401");
    Ok(())
}

#[tokio::test]
async fn a_log_at_the_start_has_the_token_of_a_query() -> Result<()> {
    let site = site().await?;
    let (token, _) = begun(&site).await?;
    site.envoy.get(&format!("/a?s={token}")).send().await?;
    let start = async |word| line(&site.envoy, word, "DownstreamStart", "/a").await;
    assert!(start("path").await?.contains(&token));
    assert_eq!(start("without").await?, "without DownstreamStart /a 0");
    Ok(())
}
