//! The searched process. It must compute a secret only as the filter does.

use std::io::BufRead as _;

use limpet_core::config::KeyringDocument;
use limpet_core::config::schema::FilterConfig;
use limpet_core::fakes::FakeRequest;
use limpet_core::time::Timestamp;
use limpet_core::{Filter, config};
use zeroize::Zeroizing;

/// Marks a process as the child, and says where its keys come from.
pub(crate) const VARIABLE: &str = "LIMPET_MEMORY_OF";
pub(crate) const WAYS: [&str; 3] = ["the environment", "a wrapped keyring", "a document"];
/// The variables with a key in base64, its successor, the wrapped keyring, and the document's path.
pub(crate) const KEY: &str = "LIMPET_KEY";
pub(crate) const NEXT: &str = "LIMPET_NEXT";
pub(crate) const WRAPPED: &str = "LIMPET_WRAPPED";
pub(crate) const DOCUMENT: &str = "LIMPET_DOCUMENT";

pub(crate) const IN_USE: &str = "in use";
pub(crate) const REPLACED: &str = "replaced";

pub(crate) fn main() {
    let way = std::env::var(VARIABLE).expect("the parent sets it");
    let former = filter(&way);
    request(&former);
    stop(IN_USE);
    let next = filter("the next keys");
    drop(former);
    request(&next);
    stop(REPLACED);
}

/// Lets the parent search, until it sends a line.
fn stop(stage: &str) {
    println!("{stage}");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).expect("a line");
}

#[inline(never)]
fn filter(way: &str) -> Filter {
    let wrapped = std::env::var(WRAPPED).unwrap_or_default();
    let source = match way {
        "the environment" => r#""keys": [{"id": 1, "env": "LIMPET_KEY"}]"#.to_owned(),
        "the next keys" => r#""keys": [{"id": 1, "env": "LIMPET_NEXT"}]"#.to_owned(),
        "a wrapped keyring" => format!(
            r#""wrappedKeys": {{"text": "{wrapped}", "keyEncryptionKeys": [{{"id": 1, "env": "LIMPET_KEY"}}]}}"#
        ),
        _ => r#""sdsKeys": {"name": "keyring"}"#.to_owned(),
    };
    let json = format!(r#"{{{source}, "policies": {{"web": {{"cookie": {{"name": "session"}}}}}}}}"#);
    let config: FilterConfig = config::parse(json.as_bytes()).expect("a configuration");
    if config.sds_keys.is_none() {
        let environment = |name: &str| std::env::var(name).ok();
        return Filter::new(&config, &environment).expect("a valid configuration").0;
    }
    let path = std::env::var(DOCUMENT).expect("the parent sets it");
    let document = Zeroizing::new(std::fs::read(path).expect("a document"));
    let keyring = KeyringDocument::parse(&document).expect("a keyring").keyring();
    let filter = Filter::without_keys(&config).expect("a valid configuration");
    filter.with_keys(keyring.expect("a keyring"))
}

/// The token names the first key, but another made it: verifying it leaves on the stack what the next key's
/// verification overwrites.
#[inline(never)]
fn request(filter: &Filter) {
    let token = format!("session=EAE{}", "A".repeat(57));
    let mut request = FakeRequest::new().session("web/scope").cookie(&token);
    let session = filter.session(&request).expect("the view answers");
    let mut session = session.expect("the route has a session");
    let plan = session.on_request(&mut request, Timestamp::from_unix_seconds(1_763_718_000));
    assert!(plan.is_ok());
}
