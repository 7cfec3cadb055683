//! Keys and backend addresses appear nowhere: in no admin page, in no log at trace level, in no output of a panic, in
//! no Debug output; with sealed tokens, in no cookie or header. For each search another test finds a planted value.

mod addresses;
mod debug;

use anyhow::{Result, ensure};
use limpet_e2e::leaks::Leaks;
use limpet_e2e::{Config, Envoy, KeyEncryptionKey, Keyring, Site, poll, tools};
use serde_json::{Value, json};

use crate::dynamic_module::takes_the_module;
use crate::sds_keys::gets_secrets;

/// Pages that every client of the admin port can read.
const ADMIN_PAGES: [&str; 10] = [
    "/config_dump?include_eds",
    "/server_info",
    "/init_dump",
    "/stats",
    "/stats/prometheus",
    "/clusters?format=json",
    "/listeners?format=json",
    "/runtime",
    "/certs",
    "/memory",
];

/// A configuration with two keys, the first retiring, and all of its secrets.
struct ConfigWithKeys {
    config: Config,
    keys: Value,
    secrets: Vec<String>,
    /// A token under the retiring key.
    token: String,
    /// The directory exists as long as this value.
    _keyring: Keyring,
}

impl ConfigWithKeys {
    /// `keys` returns the filter's configuration for a keyring, and further secrets by environment variable.
    fn new(keys: impl FnOnce(&Keyring) -> Result<(Value, Vec<(String, String)>)>) -> Result<Self> {
        let keyring = Keyring::generate()?;
        let token = keyring.token("limpet-session", "127.0.0.1:9")?;
        for _ in 1..=3 {
            keyring.rotate()?;
        }
        let (keys, environment) = keys(&keyring)?;
        let names: Vec<&str> = environment.iter().map(|(name, _)| name.as_str()).collect();
        let config = Config::load("ecds.yaml")?
            .filter_environment(&names)
            .filter(&filter(&keys, "limpet-session"));
        let config = environment
            .iter()
            .fold(config, |config, (name, key)| config.env(name, key));
        let mut secrets = keyring.secrets()?;
        for (_, key) in environment {
            if !secrets.contains(&key) {
                secrets.push(key);
            }
        }
        Ok(Self {
            config,
            keys,
            secrets,
            token,
            _keyring: keyring,
        })
    }

    fn from_environment() -> Result<Self> {
        Self::new(|keyring| {
            let keys = json!({"keys": [
                {"id": 1, "env": "LIMPET_KEY_1", "state": "retiring"},
                {"id": 2, "env": "LIMPET_KEY_2"},
            ]});
            let names = ["LIMPET_KEY_1", "LIMPET_KEY_2"].map(str::to_owned);
            Ok((keys, names.into_iter().zip(keyring.secrets()?).collect()))
        })
    }

    /// The key-encryption key is in Envoy's environment.
    fn wrapped() -> Result<Self> {
        Self::new(|keyring| {
            let kek = KeyEncryptionKey::generate(1)?;
            let keys = json!({"wrappedKeys": {"text": keyring.wrap(&kek)?, "keyEncryptionKeys": [kek.config()]}});
            Ok((keys, vec![(kek.variable, kek.key)]))
        })
    }

    /// Envoy discovers the keyring as a secret: as its file, or as its text.
    fn discovered(as_text: bool) -> Result<Self> {
        Self::new(|keyring| {
            let source =
                json!({"path_config_source": {"path": keyring.secret_file(as_text)?}, "resource_api_version": "V3"});
            let keys = json!({"sdsKeys": {"name": "limpet-keyring", "sdsConfig": source}});
            Ok((keys, Vec::new()))
        })
    }

    fn inline() -> Result<Self> {
        Self::new(|keyring| {
            let secrets = keyring.secrets()?;
            let keys = json!({"keys": [
                {"id": 1, "inline": secrets[0], "state": "retiring"},
                {"id": 2, "inline": secrets[1]},
            ]});
            Ok((keys, Vec::new()))
        })
    }

    fn leaks(&self) -> Result<Leaks> {
        let mut leaks = Leaks::default();
        for (i, key) in self.secrets.iter().enumerate() {
            leaks = leaks.key(&format!("secret {i}"), key)?;
        }
        Ok(leaks)
    }

    /// An Envoy at trace level with three sessions: one begins, one has a token under the retiring key, one is forged.
    /// Its configuration changes twice; the second change is refused.
    async fn live(&self) -> Result<Site> {
        let mut site = Site::start(self.config.clone().log_level("trace")).await?;
        let mut visitor = site.visitor();
        visitor.get("/").await?;
        visitor.get("/").await?;
        let forged = self.token.replace(char::is_lowercase, "a");
        for token in [self.token.as_str(), forged.as_str(), "x"] {
            let answer = site
                .envoy
                .get("/")
                .cookie(format!("limpet-session={token}"))
                .send()
                .await?;
            ensure!(answer.set_cookie("limpet-session").is_some());
        }
        site.envoy.until_stat(&counter("web.reissued")?, 1).await?;
        site.envoy
            .update(|config| config.filter(&filter(&self.keys, "renamed")))?;
        site.envoy
            .until_every_worker("has the renamed cookie", |answer| {
                answer.set_cookie("renamed").is_some()
            })
            .await?;
        site.envoy.update(|config| config.filter(&filter(&self.keys, "a b")))?;
        poll::until("the refusal", async || {
            let log = site.envoy.log().ok()?;
            log.contains("limpet: configuration refused: policies.web.cookie.name")
                .then_some(())
        })
        .await?;
        Ok(site)
    }
}

fn counter(name: &str) -> Result<String> {
    Ok(limpet_e2e::Build::tested()?.counter(name))
}

fn filter(keys: &Value, cookie: &str) -> Value {
    let mut filter = json!({
        "policies": {"web": {"cookie": {"name": cookie}}},
        "default": {"policy": "web", "scope": "default"},
    });
    for source in ["keys", "wrappedKeys", "sdsKeys"] {
        filter[source] = keys[source].clone();
    }
    filter
}

#[tokio::test]
async fn no_key_is_in_an_admin_page_or_a_log() -> Result<()> {
    let mut all = vec![ConfigWithKeys::from_environment()?, ConfigWithKeys::wrapped()?];
    if gets_secrets()? {
        all.push(ConfigWithKeys::discovered(false)?);
    }
    for keyed in all {
        let (leaks, site) = (keyed.leaks()?, keyed.live().await?);
        for page in ADMIN_PAGES {
            let shown = site.envoy.admin_text(page).await?;
            ensure!(!shown.is_empty(), "{page} is empty");
            leaks.none_in(page, shown)?;
        }
        let log = site.envoy.log()?;
        ensure!(log.contains("[trace]"), "the log is not at trace level");
        leaks.none_in("the log", log)?;
        leaks.none_in("the standard output", site.envoy.stdout()?)?;
    }
    Ok(())
}

/// The same search finds inline keys in the first admin page and in the log.
#[tokio::test]
async fn an_inline_key_is_found() -> Result<()> {
    let keyed = ConfigWithKeys::inline()?;
    let (leaks, site) = (keyed.leaks()?, keyed.live().await?);
    let shown = leaks.find("/config_dump", site.envoy.admin_text(ADMIN_PAGES[0]).await?)?;
    for secret in ["secret 0", "secret 1"] {
        ensure!(
            shown.iter().any(|found| found.contains(secret)),
            "{secret} was not found: {shown:#?}"
        );
    }
    Ok(())
}

/// A limit that docs/background/security.md names: from debug level on, Envoy logs a keyring that it discovers as text.
#[tokio::test]
async fn a_keyring_discovered_as_text_is_in_envoys_log() -> Result<()> {
    if !gets_secrets()? {
        return Ok(());
    }
    let keyed = ConfigWithKeys::discovered(true)?;
    let (leaks, site) = (keyed.leaks()?, keyed.live().await?);
    for page in ADMIN_PAGES {
        leaks.none_in(page, site.envoy.admin_text(page).await?)?;
    }
    let found = leaks.find("the log", site.envoy.log()?)?;
    ensure!(
        !found.is_empty(),
        "Envoy does not log it any more: update docs/background/security.md"
    );
    Ok(())
}

#[tokio::test]
async fn a_key_that_is_planted_in_a_log_is_found() -> Result<()> {
    let keyed = ConfigWithKeys::from_environment()?;
    let (leaks, site) = (keyed.leaks()?, keyed.live().await?);
    // Envoy logs requests at trace level.
    let planted = format!("{:?}", keyed.secrets[1].as_bytes());
    site.envoy.get("/").header("x-planted", planted).send().await?;
    poll::until("the request in the log", async || {
        site.envoy.log().ok()?.contains("x-planted").then_some(())
    })
    .await?;
    let found = leaks.find("the log", site.envoy.log()?)?;
    ensure!(
        found.len() == 1 && found[0].contains("secret 1, in base64 (decimal"),
        "{found:#?}"
    );
    Ok(())
}

/// Mistakes in a key, and keys in a wrong place.
#[tokio::test]
async fn envoys_error_messages_show_no_key() -> Result<()> {
    let keyed = ConfigWithKeys::from_environment()?;
    let leaks = keyed.leaks()?;
    let key = &keyed.secrets[0];
    let bare = Config::load("cookie.yaml")?;
    let by_variable = |value: &str| bare.clone().env("LIMPET_KEY", value);
    let by_filter = |keys: Value| bare.clone().filter(&filter(&keys, "limpet-session"));
    let kek = |env: &str| json!({"wrappedKeys": {"text": key, "keyEncryptionKeys": [{"id": 1, "env": env}]}});
    for (config, field) in [
        (by_variable(&key[..40]), "keys[0].env"),
        (by_variable(&format!("{key}{key}")), "keys[0].env"),
        (by_filter(json!({"keys": [{"id": 1, "env": key}]})), "keys[0].env"),
        (
            by_filter(json!({"keys": [{"id": 1, "inline": format!("{key}x")}]})),
            "keys[0].inline",
        ),
        (
            by_filter(json!({"keys": [{"id": key, "env": "LIMPET_KEY"}]})),
            "keys[0].id",
        ),
        (by_filter(kek("LIMPET_KEY")), "wrappedKeys.text"),
        (by_filter(kek(key)), "wrappedKeys."),
    ] {
        let (accepted, said) = Envoy::validate(&config).await?;
        ensure!(!accepted && said.contains(field), "{field}: {said}");
        leaks.none_in("Envoy's complaint", said)?;
    }
    Ok(())
}

/// The log after panics in a request's hooks, which print the module's whole state.
async fn panicked(keyed: &ConfigWithKeys) -> Result<String> {
    let config = keyed.config.clone().panicking()?.env("RUST_BACKTRACE", "full");
    let site = Site::start(config).await?;
    for hook in ["request_headers", "response_headers", "stream_complete", "destroy"] {
        site.envoy.get("/").header("x-panic", hook).send().await?;
        poll::until("the panic", async || {
            let log = site.envoy.log().ok()?;
            log.contains(&format!("in {hook}, as a test asked for: ModulePlugin"))
                .then_some(())
        })
        .await?;
    }
    let log = site.envoy.log()?;
    ensure!(log.contains("stack backtrace"), "no backtrace in {log}");
    Ok(log)
}

/// A panic of the wasm filter is a trap, which prints nothing of the filter's.
#[tokio::test]
async fn a_panic_prints_no_key() -> Result<()> {
    if !takes_the_module().await? {
        return Ok(());
    }
    let mut all = vec![ConfigWithKeys::from_environment()?, ConfigWithKeys::wrapped()?];
    if gets_secrets()? {
        all.push(ConfigWithKeys::discovered(false)?);
    }
    for keyed in all {
        keyed.leaks()?.none_in("the log", panicked(&keyed).await?)?;
    }
    // The same search finds inline keys, because these panics print the configuration.
    let keyed = ConfigWithKeys::inline()?;
    let found = keyed.leaks()?.find("the log", panicked(&keyed).await?)?;
    ensure!(!found.is_empty());
    Ok(())
}

/// The command reads all keys.
#[test]
fn the_limpet_command_prints_no_key() -> Result<()> {
    let keyring = Keyring::generate()?;
    keyring.rotate()?;
    let mut leaks = Leaks::default();
    for secret in keyring.secrets()? {
        leaks = leaks.key("a secret", &secret)?;
    }
    let file = keyring.file();
    let file = file.to_string_lossy();
    let token = keyring.token("limpet-session", "127.0.0.1:9")?;
    for arguments in [
        &["keys", "list", &file][..],
        &["keys", "list", &file, "-o", "json"],
        &["keys", "rotate", &file],
        &["keys", "rotate", &file, "-o", "json"],
        &["token", "inspect", &token, "--keys", &file, "--name", "limpet-session"],
        &["token", "inspect", "x", "--keys", &file, "--name", "limpet-session"],
        &["check", &file],
    ] {
        let output = tools::run_limpet(arguments, &[])?;
        leaks.none_in(&arguments.join(" "), [output.stdout, output.stderr].concat())?;
    }
    let planted = std::fs::read(keyring.file())?;
    ensure!(!leaks.find("the file", planted)?.is_empty());
    Ok(())
}
