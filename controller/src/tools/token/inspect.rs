//! `limpet token inspect`.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::candidates::{CandidateSession, Candidates, session_json};
use super::counting::counting;
use super::token_argument::TokenArgument;
use super::verification::{self, TokenOpening, TokenRequest};
use crate::cli::InspectArgs;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output, Rows};
use crate::time_format;
use limpet_core::outcome::RequestOutcome;
use limpet_core::time::Timestamp;
use limpet_core::token::{CarrierMode, Claims, TokenAge, TokenRefusal, UnverifiedToken};

pub(crate) fn run(args: &InspectArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let arguments = TokenArgument::parse(&args.token);
    let now = args.time.unwrap_or_else(time_format::now);
    let (mut all, mut verdicts) = (Vec::new(), Vec::new());
    for (at, argument) in arguments.iter().enumerate() {
        let timeouts = [args.absolute_timeout, args.idle_timeout];
        let candidates = Candidates::from_args(&args.realm, Some(argument), timeouts)?;
        let mut inspection = TokenInspection::new(now);
        if arguments.len() > 1 {
            let name = argument.name.unwrap_or_default();
            inspection.add("number", format!("{} of {}, {name}", at + 1, arguments.len()));
        }
        verdicts.push(inspection.inspect(argument.token, &candidates)?);
        all.push(inspection);
    }
    if all.len() > 1 {
        mark_newest(&mut all);
    }
    match form {
        Output::Text { .. } => {
            let texts: Vec<String> = all.iter().map(|inspection| inspection.rows.text()).collect();
            output::print(&texts.join("\n"))?;
        }
        Output::Document(format) => {
            let mut values: Vec<Value> = all
                .into_iter()
                .map(|inspection| Value::Object(inspection.json))
                .collect();
            let whole = if values.len() > 1 {
                json!({"tokens": values})
            } else {
                values.remove(0)
            };
            output::print_document(format, &whole)?;
        }
    }
    // A request needs one token that counts.
    let of_importance = [CommandVerdict::Good, CommandVerdict::Bad];
    let verdict = of_importance.into_iter().find(|verdict| verdicts.contains(verdict));
    Ok(verdict.unwrap_or(CommandVerdict::Warned))
}

/// Of several tokens of a session, says which one counts.
fn mark_newest(all: &mut [TokenInspection]) {
    let honoured: Vec<_> = all.iter().map(|inspection| inspection.honoured.clone()).collect();
    for (at, inspection) in all.iter_mut().enumerate() {
        let Some((session, _)) = &inspection.honoured else {
            continue;
        };
        let counting = counting(&honoured, session).unwrap_or(at);
        inspection.add_json("counts", counting == at);
        let words = if counting == at {
            "yes: of the tokens of this session, it was issued last".to_owned()
        } else {
            format!("no: token {} of the same session was issued later", counting + 1)
        };
        inspection.add("counts", words);
    }
}

/// The output, in both formats.
struct TokenInspection {
    now: Timestamp,
    rows: Rows,
    json: Map<String, Value>,
    /// The policy and the scope that honour the token, and its age.
    honoured: Option<((String, String), TokenAge)>,
}

impl TokenInspection {
    fn new(now: Timestamp) -> Self {
        Self {
            now,
            rows: Rows::default(),
            json: Map::new(),
            honoured: None,
        }
    }

    fn add(&mut self, label: &'static str, text: impl Into<String>) {
        self.rows.add(label, text);
    }

    fn add_json(&mut self, name: &str, value: impl Into<Value>) {
        self.json.insert(name.to_owned(), value.into());
    }

    fn inspect(&mut self, token: &str, candidates: &Candidates) -> Result<CommandVerdict, CommandFailure> {
        self.add_json("length", token.len());
        let unverified = match UnverifiedToken::parse(token.as_bytes()) {
            Ok(unverified) => unverified,
            Err(refusal) => {
                self.add("token", format!("{} characters", token.len()));
                let length = token.chars().count();
                let reason =
                    format!("not a token of Limpet: expected 60 or 76 characters of base64url, found {length}");
                return Ok(self.refused(refusal, &reason));
            }
        };
        let form = unverified.form.name();
        self.add(
            "token",
            format!("{form}, {} characters, key {}", token.len(), unverified.key_id),
        );
        self.add_json("form", form);
        self.add_json("keyId", unverified.key_id.0);
        if candidates.list.is_empty() {
            return Ok(self.not_verified(&unverified, "neither --keys nor --config was given", candidates));
        }
        match verification::open(candidates, token, unverified.key_id) {
            TokenOpening::NoKey(reason) => Ok(self.not_verified(&unverified, &reason.to_string(), candidates)),
            TokenOpening::Refused(TokenRefusal::UnknownKey) => Ok(self.refused(
                TokenRefusal::UnknownKey,
                &format!("no key {} is among the keys", unverified.key_id),
            )),
            TokenOpening::Refused(TokenRefusal::RevokedKey) => Ok(self.refused(
                TokenRefusal::RevokedKey,
                &format!("key {} is revoked", unverified.key_id),
            )),
            TokenOpening::Refused(refusal) => {
                let tried = candidates.words();
                let reason = format!("changed, or made with another key, or for another session than {tried}");
                Ok(self.refused(refusal, &reason))
            }
            TokenOpening::Opened(candidate, claims) => {
                self.add("session", candidate.words(candidates));
                self.add_json("session", session_json(&candidate, candidates));
                let outcome = verification::evaluate(
                    &candidate,
                    TokenRequest::new(&candidate, token),
                    unverified.key_id,
                    self.now,
                )?;
                let verdict = match outcome {
                    RequestOutcome::Refused(refusal) => self.refused(refusal, meaning(refusal)),
                    // The token is there, so the request has one.
                    RequestOutcome::Steered | RequestOutcome::Rebalanced | RequestOutcome::NoToken => {
                        let session = (candidate.policy.clone(), candidate.scope.clone());
                        self.honoured = Some((session, claims.age()));
                        self.honoured()
                    }
                };
                self.claims(&claims, candidates);
                self.left(&candidate, &claims, candidates);
                Ok(verdict)
            }
        }
    }

    fn honoured(&mut self) -> CommandVerdict {
        self.add("verdict", "honoured");
        self.add_json("verdict", "honoured");
        CommandVerdict::Good
    }

    fn refused(&mut self, refusal: TokenRefusal, reason: &str) -> CommandVerdict {
        // Counters and access logs have the same word.
        let word = RequestOutcome::Refused(refusal).as_str();
        let word = word.trim_start_matches("refused.");
        self.add("verdict", format!("refused: {word} ({reason})"));
        self.add_json("verdict", "refused");
        self.add_json("reason", word);
        CommandVerdict::Bad
    }

    fn not_verified(&mut self, unverified: &UnverifiedToken, reason: &str, candidates: &Candidates) -> CommandVerdict {
        self.add("verdict", format!("not verified: {reason}"));
        self.add_json("verdict", "not verified");
        self.add_json("reason", reason);
        match &unverified.claims {
            Some(claims) => {
                self.add("content", "UNVERIFIED: any program can have written the following");
                self.claims(claims, candidates);
            }
            None => self.add("content", "sealed: nothing of it can be read without the key"),
        }
        CommandVerdict::Warned
    }

    fn claims(&mut self, claims: &Claims, candidates: &Candidates) {
        let now = self.now;
        let cluster = candidates.cluster(claims.destination);
        self.add("backend", claims.host.to_string());
        self.add(
            "cluster",
            match cluster {
                Some(name) => format!("{name} ({})", claims.destination),
                None => format!("the one whose name has the hash {}", claims.destination),
            },
        );
        self.add("issued", time_format::words(claims.issued_at, now));
        self.add("last seen", time_format::words(claims.last_seen, now));
        if claims.is_moving() {
            self.add(
                "moving",
                "the application named the backend, which has not answered yet",
            );
        }
        self.add_json(
            "claims",
            json!({
                "host": claims.host.to_string(),
                "destination": claims.destination.to_string(),
                "cluster": cluster,
                "issuedAt": time_format::exact(claims.issued_at),
                "lastSeen": time_format::exact(claims.last_seen),
                "moving": claims.is_moving(),
                "ageSeconds": now.since(claims.issued_at).as_secs(),
                "idleSeconds": now.since(claims.last_seen).as_secs(),
            }),
        );
    }

    /// The time that is left until the absolute timeout, and until the session has been idle for too long.
    fn left(&mut self, candidate: &CandidateSession, claims: &Claims, candidates: &Candidates) {
        let Some(policy) = candidate.policy_config() else {
            return;
        };
        let absolute = policy
            .absolute_timeout
            .map(|timeout| (claims.issued_at.after(timeout.get()), timeout));
        if let Some((end, timeout)) = absolute {
            self.add(
                "absolute",
                format!("{}  (absoluteTimeout {timeout})", time_format::words(end, self.now)),
            );
        }
        let is_meant = |(_, field): &(_, &str)| candidates.has_policies || *field != "maxIdle";
        let idle = candidate.idle_bound().filter(is_meant).map(|(bound, field)| {
            let end = claims.last_seen.after(bound.get());
            // Only the application renews a token in its own cookie or header.
            let kept = match candidate.carrier().0 {
                CarrierMode::Cookie | CarrierMode::Header | CarrierMode::Query => "up to a tenth later",
                CarrierMode::CookiePrefix | CarrierMode::CookieRewrite | CarrierMode::HeaderPrefix => {
                    "from when the application last set it"
                }
            };
            self.add(
                "idle",
                format!("{}  ({field} {bound}, {kept})", time_format::words(end, self.now)),
            );
            end
        });
        let seconds = |end: Timestamp| end.since(self.now).max(Duration::ZERO).as_secs();
        self.add_json(
            "left",
            json!({
                "absoluteSeconds": absolute.map(|(end, _)| seconds(end)),
                "idleSeconds": idle.map(seconds),
            }),
        );
    }
}

/// The reason for a refusal, where nothing more is known of it.
fn meaning(refusal: TokenRefusal) -> &'static str {
    match refusal {
        TokenRefusal::Malformed => "not a token of this version",
        TokenRefusal::UnknownKey => "its key is not among the keys",
        TokenRefusal::RevokedKey => "its key is revoked",
        TokenRefusal::BadSignature => "changed, or made with another key, or for another session",
        TokenRefusal::Expired => "older than absoluteTimeout",
        TokenRefusal::Idle => "unused for longer than the session may be idle",
        TokenRefusal::FromTheFuture => "its times are further ahead than clockSkew",
        TokenRefusal::Fenced => "issued before its address got its present owner",
        TokenRefusal::UnknownDestination => "the route does not lead to its destination",
    }
}
