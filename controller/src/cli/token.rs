use std::net::SocketAddr;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand, ValueEnum};

use crate::time_format;
use limpet_core::time::{GatewayDuration, Timestamp};
use limpet_core::token::{CarrierMode, PayloadForm};

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    Inspect(InspectArgs),
    Issue(IssueArgs),
}

// Where keys come from, and what a token is bound to. No doc comment: clap would take it for the command's.
#[derive(Debug, Args)]
pub(crate) struct RealmArgs {
    /// A file of keys: a keyring file, the `keys` list of the filter's configuration, or a whole configuration. Keys
    /// given by `env` are read from the environment of this command
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) keys: Option<String>,
    /// A configuration with the filter, which has the keys, policies and scopes
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// A policy of the configuration [default: any]
    #[arg(long, value_name = "NAME", requires = "config")]
    pub(crate) policy: Option<String>,
    /// The scope of the token [default: any of the configuration, or `default`]
    #[arg(long)]
    pub(crate) scope: Option<String>,
    /// How the token travels [default: as the policy says, or as the text looks, or cookie]
    #[arg(long, value_parser = modes(), conflicts_with = "config")]
    pub(crate) mode: Option<CarrierMode>,
    /// The name of the cookie or header [default: as the policy or the token's text says]
    #[arg(long, conflicts_with = "config")]
    pub(crate) name: Option<String>,
}

/// Show the content of a token, and whether the filter would honour it
///
/// Without a key, show the readable parts: form and key id, and the content of a signed token, unverified.
///
/// A line with several tokens gets a part for each one. A row `counts` says which token of a session counts: the one
/// that was issued last. A row `moving` says that the application has named the backend, which has not answered yet.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet token inspect EQAAAAAA
  limpet token inspect --config envoy.yaml \"Cookie: a=1; limpet-session=EQAAAAAA\"
  limpet token inspect --keys keyring.json --name session --idle-timeout 30m EQAAAAAA")]
pub(crate) struct InspectArgs {
    /// The token: a value, `name=value`, or a whole line `Set-Cookie: ...`, `Cookie: ...` or `name: value`; the
    /// application's own value may follow it
    pub(crate) token: String,
    #[command(flatten)]
    pub(crate) realm: RealmArgs,
    /// The absolute timeout of the policy, for example 8h
    #[arg(long, value_name = "DURATION", conflicts_with = "config")]
    pub(crate) absolute_timeout: Option<GatewayDuration>,
    /// The idle timeout of the policy, for example 30m
    #[arg(long, value_name = "DURATION", conflicts_with = "config")]
    pub(crate) idle_timeout: Option<GatewayDuration>,
    /// Judge the token as of this time: RFC 3339 or Unix seconds [default: now]
    #[arg(long, value_name = "TIME", value_parser = time_format::parse)]
    pub(crate) time: Option<Timestamp>,
}

/// Issue a token under the signing key, for tests
///
/// The options that name a session must name exactly one. With --keys, --name is required.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet token issue --config envoy-configs/cookie.yaml --host 10.0.0.7:8080 --cluster backends
  limpet token issue --keys keyring.json --name session --scope shop --host 10.0.0.7:8080 --cluster backends")]
pub(crate) struct IssueArgs {
    #[command(flatten)]
    pub(crate) realm: RealmArgs,
    /// The IP address and port of the backend
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
    /// When the session was last used: RFC 3339 or Unix seconds [default: when it began]
    #[arg(long, value_name = "TIME", value_parser = time_format::parse)]
    pub(crate) last_seen: Option<Timestamp>,
}

fn modes() -> impl clap::builder::TypedValueParser<Value = CarrierMode> {
    PossibleValuesParser::new(CarrierMode::ALL.map(CarrierMode::name)).map(|name| {
        let mode = CarrierMode::ALL.into_iter().find(|mode| mode.name() == name);
        // Only names of modes get here.
        mode.unwrap_or(CarrierMode::Cookie)
    })
}

/// [`PayloadForm`] on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TokenForm {
    /// Nothing is readable
    Sealed,
    /// Address and times are readable
    Signed,
}

impl From<TokenForm> for PayloadForm {
    fn from(form: TokenForm) -> Self {
        match form {
            TokenForm::Sealed => Self::Sealed,
            TokenForm::Signed => Self::Signed,
        }
    }
}
