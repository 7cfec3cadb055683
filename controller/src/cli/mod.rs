//! What can be asked for on the command line.

use std::net::SocketAddr;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand, ValueEnum};

use crate::exit::EXIT_CODES;
use crate::time_format;
use limpet_core::time::{GatewayDuration, Timestamp};
use limpet_core::token::{CarrierMode, Form};

const KEYS_FILE: &str = "\
A file of keys is the `keys` list of the filter's configuration, in YAML or JSON; a whole configuration of the filter serves as well:

  - {id: 1, env: LIMPET_KEY, state: retiring}
  - {id: 2, inline: <32 bytes in base64>}

So does a keyring file, as `limpet keys generate FILE` makes one. A key given by `env` is read from this command's own environment.";

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    Inspect(InspectArgs),
    Issue(IssueArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    Generate(GenerateArgs),
    List(ListArgs),
    Rotate(RotateArgs),
    Wrap(WrapArgs),
}

/// Makes a key, or a keyring file with one key.
///
/// Without a file it prints a key: 32 random bytes in base64, for an environment variable of Envoy's. It serves as a key-encryption key
/// as well.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct GenerateArgs {
    /// The keyring file to make, in JSON, for its owner alone (mode 0600). It must not be there yet
    pub(crate) file: Option<String>,
}

/// Says which keys there are, with their states and ages, and which phase of a rotation this is.
///
/// Secrets are never shown.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ListArgs {
    /// A keyring file; or a configuration of the filter, or of Envoy with the filter inside, whose keys have no age
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) life: LifeArgs,
}

/// Takes a keyring file one phase further in a change of keys.
///
/// From one key, it makes a new one, which verifies (phase 1); then the new one signs (phase 2); then the old one retires, and its
/// tokens are replaced as they come in (phase 3); then the old one goes. Before each step, every Envoy must have the keyring as it
/// is: bring it there with `limpet keys wrap`. The old key goes only when no token of it can be alive any more.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RotateArgs {
    /// The keyring file
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) life: LifeArgs,
    /// Removes retiring keys however young they are, which ends the sessions of their tokens
    #[arg(long)]
    pub(crate) force: bool,
}

// How long a retiring key has to stay. No doc comment: clap would take it for the command's.
#[derive(Debug, Args)]
pub(crate) struct LifeArgs {
    /// A configuration of the filter, or of Envoy with the filter inside: a retiring key stays for the longest life of a token under its policies
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// That life itself [default: of the default `maxIdle`: 168h, a tenth of it, and a minute]
    #[arg(long, value_name = "DURATION", conflicts_with = "config")]
    pub(crate) longest_life: Option<GatewayDuration>,
}

/// Seals a keyring under a key-encryption key, for `wrappedKeys.text` of the filter's configuration.
///
/// The key-encryption key is in an environment variable here, as it is in Envoy's environment.
#[derive(Debug, Args)]
#[command(after_help = format!("{KEYS_FILE}\n\n{EXIT_CODES}"))]
pub(crate) struct WrapArgs {
    /// A keyring file, or another file of keys
    pub(crate) file: String,
    /// The key-encryption key: its id, and the environment variable that holds it [default with --into: the one that the present text is under]
    #[arg(long, value_name = "ID=VARIABLE")]
    pub(crate) key_encryption_key: Option<String>,
    /// A file with a configuration of the filter: its `wrappedKeys.text` is replaced, and nothing else is printed or changed
    #[arg(long, value_name = "FILE")]
    pub(crate) into: Option<String>,
}

/// Checks configurations of the filter, and of Envoy with the filter inside.
///
/// A file is a configuration of the filter (JSON or YAML), or one of Envoy: a bootstrap, listeners, routes, or the file that
/// the filter's configuration is discovered from. All problems are reported, each with its place in the file and the field's path. For
/// Envoy, the chain around the filter and the routes' sessions are checked as well.
///
/// Files that belong together (routes, discovered configuration) are best given together.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CheckArgs {
    /// The files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Requires the keys' environment variables; otherwise a variable that is not set here is merely not checked
    #[arg(long)]
    pub(crate) env: bool,
    /// The Envoy that this is for, as in `1.38`: without it, what depends on Envoy's version is not checked
    #[arg(long, value_name = "VERSION", value_parser = envoy_version)]
    pub(crate) envoy: Option<EnvoyVersion>,
    /// Counts warnings as errors
    #[arg(long)]
    pub(crate) deny_warnings: bool,
}

/// Major and minor version of an Envoy.
pub(crate) type EnvoyVersion = (u32, u32);

/// Reads `1.38`, or `1.38.3`.
fn envoy_version(text: &str) -> Result<EnvoyVersion, &'static str> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if numbers.all(|patch| patch.is_some()) => Ok((major, minor)),
        _ => Err("expected a version as 1.38 or 1.38.3"),
    }
}

// Where keys come from, and what a token is bound to. No doc comment: clap would take it for the command's.
#[derive(Debug, Args)]
pub(crate) struct RealmArgs {
    /// A file of keys
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) keys: Option<String>,
    /// A configuration of the filter, or of Envoy with the filter inside: keys, policies and scopes are taken from it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// The policy of the configuration [default: any]
    #[arg(long, value_name = "NAME", requires = "config")]
    pub(crate) policy: Option<String>,
    /// The scope that the token is for [default: those of the configuration, or `default`]
    #[arg(long)]
    pub(crate) scope: Option<String>,
    /// How the token travels [default: as the policy says, or as the text looks, or cookie]
    #[arg(long, value_parser = modes(), conflicts_with = "config")]
    pub(crate) mode: Option<CarrierMode>,
    /// The cookie's or header's name [default: as the policy or the token's text says]
    #[arg(long, conflicts_with = "config")]
    pub(crate) name: Option<String>,
}

/// Says what a token says, and whether the filter would honour it.
///
/// Without a key, only what anybody can read is said: form and key id, and for a signed token its content, unverified.
#[derive(Debug, Args)]
#[command(after_help = format!("{KEYS_FILE}\n\n{EXIT_CODES}"))]
pub(crate) struct InspectArgs {
    /// The token: a value, `name=value`, or a whole line `Set-Cookie: ...`, `Cookie: ...` or `name: value`, with the application's value behind it or without
    pub(crate) token: String,
    #[command(flatten)]
    pub(crate) realm: RealmArgs,
    /// The policy's absolute timeout, like 8h
    #[arg(long, value_name = "DURATION", conflicts_with = "config")]
    pub(crate) absolute_timeout: Option<GatewayDuration>,
    /// The policy's idle timeout, like 30m
    #[arg(long, value_name = "DURATION", conflicts_with = "config")]
    pub(crate) idle_timeout: Option<GatewayDuration>,
    /// Judge as of this time: RFC 3339 or Unix seconds [default: now]
    #[arg(long, value_name = "TIME", value_parser = time_format::parse)]
    pub(crate) now: Option<Timestamp>,
}

/// Makes a token, for tests, under the signing key.
#[derive(Debug, Args)]
#[command(after_help = format!("{KEYS_FILE}\n\n{EXIT_CODES}"))]
pub(crate) struct IssueArgs {
    #[command(flatten)]
    pub(crate) realm: RealmArgs,
    /// The backend: its IP address and port
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) host: SocketAddr,
    /// The name of the backend's cluster in Envoy
    #[arg(long)]
    pub(crate) cluster: String,
    /// Whether the content is readable [default: as the policy says, or sealed]
    #[arg(long, value_enum)]
    pub(crate) form: Option<TokenForm>,
    /// When the session began: RFC 3339 or Unix seconds [default: now]
    #[arg(long, value_name = "TIME", value_parser = time_format::parse)]
    pub(crate) issued_at: Option<Timestamp>,
    /// When the session was last used [default: when it began]
    #[arg(long, value_name = "TIME", value_parser = time_format::parse)]
    pub(crate) last_seen: Option<Timestamp>,
}

/// [`CarrierMode`] on the command line.
fn modes() -> impl clap::builder::TypedValueParser<Value = CarrierMode> {
    PossibleValuesParser::new(CarrierMode::ALL.map(CarrierMode::name)).map(|name| {
        let mode = CarrierMode::ALL.into_iter().find(|mode| mode.name() == name);
        // Only names of modes get here.
        mode.unwrap_or(CarrierMode::Cookie)
    })
}

/// [`Form`] on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TokenForm {
    /// Nothing is readable
    Sealed,
    /// Address and times are readable
    Signed,
}

impl From<TokenForm> for Form {
    fn from(form: TokenForm) -> Self {
        match form {
            TokenForm::Sealed => Self::Sealed,
            TokenForm::Signed => Self::Signed,
        }
    }
}
