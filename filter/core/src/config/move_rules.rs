use super::Problem;
use super::carrier_rules::header_name_problem;
use super::compiled::{Carrier, CarrierKind};
use super::schema::PolicyConfig;
use crate::moves::Moves;

/// Checks `move`. `keeps_up`: whether a token reaches its client with any response. Adds to `problems`.
pub(super) fn moves(
    field: &str,
    config: &PolicyConfig,
    own: &Carrier,
    keeps_up: bool,
    problems: &mut Vec<Problem>,
) -> Option<Moves> {
    let name = config.r#move.as_ref()?.header.to_ascii_lowercase();
    let mut problem = |at: &str, message: String| {
        let field = format!("{field}.{at}");
        problems.push(Problem { field, message });
    };
    if let Some(message) = header_name_problem(&name).or_else(|| taken(&name, config, own)) {
        problem("move.header", message);
    }
    if !keeps_up && own.source().is_none() {
        let message = match own {
            Carrier::Query { .. } => {
                "remove it or add tell: a token gets to its client only in redirects, so most responses could \
                 not move a session"
            }
            _ => {
                "remove it in this mode: a token is sent only when the application sets its cookie or header, so \
                 other responses could not move a session"
            }
        };
        problem("move", message.to_owned());
    }
    Some(Moves::new(name))
}

fn taken(name: &str, config: &PolicyConfig, own: &Carrier) -> Option<String> {
    let of_own = own.place() == Some(CarrierKind::Header) && own.name() == name;
    let tell = config.tell.as_ref().map(|tell| &tell.header.name);
    let of_tell = tell.is_some_and(|tell| tell.eq_ignore_ascii_case(name));
    (of_own || of_tell).then(|| format!("expected a header of its own, found {name:?}: responses have tokens in it"))
}
