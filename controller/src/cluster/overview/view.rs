//! What `limpet status` shows. Pure.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cluster::analyze::{AnalyzedGateway, Findings};
use crate::cluster::reconcile::keyring::KeyringReading;
use crate::cluster::survey::ControllerMetrics;
use crate::output::printable;
use crate::time_format;
use crate::tools::keys::rotation;
use limpet_api::ObjectName;
use limpet_core::time::Timestamp;

/// How many findings are shown.
const SHOWN: usize = 3;
/// How many characters a message has at most.
const MOST_OF_MESSAGE: usize = 100;
const MOST_OF_FINDING: usize = 200;

/// Everything on the screen.
#[derive(Debug)]
pub(super) struct Overview {
    /// The controllers'.
    pub(super) namespace: String,
    pub(super) controllers: Vec<ControllerMetrics>,
    pub(super) gateways: Vec<GatewayRow>,
    pub(super) keys: KeysView,
    pub(super) findings: Findings,
}

/// A Gateway, and its Envoys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GatewayRow {
    pub(super) state: AnalyzedGateway,
    /// How many Envoys are connected to all controllers together; `None`: no controller says it.
    pub(super) envoys: Option<u64>,
}

impl GatewayRow {
    pub(super) fn new(state: AnalyzedGateway, controllers: &[ControllerMetrics]) -> Self {
        let name = state.name.to_string();
        let said = controllers
            .iter()
            .filter_map(|controller| controller.said.as_ref().ok());
        let counts = said.map(|said| said.envoys.get(&name).copied().unwrap_or_default());
        let envoys = counts.reduce(|sum, count| sum + count);
        Self { state, envoys }
    }
}

/// What is known of the keyring.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeysView {
    /// 1 to 3; 0: no rotation is under way.
    phase: Option<u64>,
    /// When the newest key was made.
    newest: Option<Timestamp>,
    /// The id of the key that signs.
    signing: Option<u8>,
    is_late: bool,
}

impl KeysView {
    /// From the Secret, if it may be read; else from what controllers say.
    pub(super) fn new(keyring: Option<&KeyringReading>, controllers: &[ControllerMetrics]) -> Self {
        let said = || {
            controllers
                .iter()
                .filter_map(|controller| controller.said.as_ref().ok())
        };
        let is_late = said().any(|said| said.is_rotation_late);
        let Some(document) = keyring.and_then(|keyring| keyring.document.as_ref()) else {
            let created = said().filter_map(|said| said.key_created).max();
            return Self {
                phase: said().filter_map(|said| said.rotation_phase).max(),
                newest: created.map(Timestamp::from_unix_seconds),
                signing: None,
                is_late,
            };
        };
        let phase = rotation::phase(document).ok();
        let signing = document.keys.get(rotation::signing(document));
        Self {
            phase: phase.map(|phase| phase.number().map_or(0, u64::from)),
            newest: document.keys.iter().filter_map(rotation::created).max(),
            signing: signing.map(|key| key.id),
            is_late,
        }
    }

    fn text(&self, now: Timestamp) -> String {
        let phase = match self.phase {
            None => "the phase of the rotation is not known".to_owned(),
            Some(0) => "no rotation is under way".to_owned(),
            Some(phase) => format!("rotation in phase {phase} of 3"),
        };
        let late = if self.is_late {
            ", which has waited for long"
        } else {
            ""
        };
        let signing = self.signing.map(|id| format!(", key {id} signs")).unwrap_or_default();
        let newest = self.newest.map_or_else(
            || ", the age of the newest key is not known".to_owned(),
            |made| format!(", newest key made {}", time_format::distance(made, now)),
        );
        format!("{phase}{late}{signing}{newest}")
    }
}

impl Overview {
    /// For people.
    pub(super) fn text(&self, now: Timestamp) -> String {
        let mut text = format!("Controllers in {}\n", printable(&self.namespace));
        let headings = ["POD", "READY", "VERSION", "LEADS", "ENVOYS"];
        text += &columns(headings, &self.controllers, controller_cells);
        let headings = ["NAMESPACE", "NAME", "PROGRAMMED", "ENVOYS", "WHY"];
        text += "\nGateways\n";
        text += &columns(headings, &self.gateways, gateway_cells);
        // Writing to a String cannot fail.
        let _ = write!(text, "\nKeys\n  {}\n", self.keys.text(now));
        let _ = write!(text, "\nFindings: {}\n", self.findings.summary());
        for finding in self.findings.iter().take(SHOWN) {
            let _ = writeln!(text, "  {}", shortened(&finding.line(), MOST_OF_FINDING));
        }
        if self.findings.iter().count() > SHOWN {
            text += "  all of them: limpet analyze -A\n";
        }
        text
    }

    /// For programs.
    pub(super) fn json(&self, now: Timestamp) -> Value {
        let KeysView {
            phase,
            newest,
            signing,
            is_late,
        } = &self.keys;
        json!({
            "controllers": self.controllers.iter().map(controller_json).collect::<Vec<_>>(),
            "gateways": self.gateways.iter().map(gateway_json).collect::<Vec<_>>(),
            "keys": {
                "phase": phase,
                "signing": signing,
                "newest": newest.map(time_format::exact),
                "newestAgeSeconds": newest.map(|made| now.since(made).as_secs()),
                "late": is_late,
            },
            "findings": self.findings.json_of_worst(SHOWN),
        })
    }
}

fn controller_cells(controller: &ControllerMetrics) -> [String; 5] {
    let said = controller.said.as_ref().ok();
    let unknown = || "-".to_owned();
    [
        printable(&controller.name),
        yes(controller.is_ready),
        said.map_or_else(unknown, |said| printable(said.version.as_deref().unwrap_or("-"))),
        said.map_or_else(unknown, |said| yes(said.leads)),
        said.map_or_else(unknown, |said| said.envoys.values().sum::<u64>().to_string()),
    ]
}

fn controller_json(controller: &ControllerMetrics) -> Value {
    let ControllerMetrics {
        instance,
        name,
        is_ready,
        said,
    } = controller;
    match said {
        Ok(said) => json!({
            "pod": name,
            "instance": instance,
            "ready": is_ready,
            "version": said.version,
            "leads": said.leads,
            "envoys": said.envoys.values().sum::<u64>(),
        }),
        Err(why) => json!({"pod": name, "instance": instance, "ready": is_ready, "why": why}),
    }
}

fn gateway_cells(row: &GatewayRow) -> [String; 5] {
    let AnalyzedGateway { name, programmed, why } = &row.state;
    [
        printable(&name.namespace),
        printable(&name.name),
        programmed.map_or_else(|| "unknown".to_owned(), yes),
        row.envoys.map_or_else(|| "-".to_owned(), |envoys| envoys.to_string()),
        shortened(&printable(why), MOST_OF_MESSAGE),
    ]
}

fn gateway_json(row: &GatewayRow) -> Value {
    let ObjectName { namespace, name } = &row.state.name;
    json!({
        "namespace": namespace.to_string(),
        "name": name.to_string(),
        "programmed": row.state.programmed,
        "why": row.state.why,
        "envoys": row.envoys,
    })
}

fn yes(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most).chain(['…']).collect()
}

/// An indented table.
fn columns<T, const N: usize>(headings: [&str; N], rows: &[T], cells: impl Fn(&T) -> [String; N]) -> String {
    if rows.is_empty() {
        return "  none\n".to_owned();
    }
    let mut lines = vec![headings.map(str::to_owned)];
    lines.extend(rows.iter().map(cells));
    let mut widths = [0; N];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for line in &lines {
        for (cell, width) in line.iter().zip(widths) {
            // Writing to a String cannot fail.
            let _ = write!(text, "  {cell:width$}");
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::survey::ControllerFigures;

    fn controllers() -> Vec<ControllerMetrics> {
        let figures = ControllerFigures {
            version: Some("0.1.0".to_owned()),
            leads: true,
            envoys: [("shop/web".to_owned(), 2)].into(),
            rotation_phase: Some(2),
            key_created: Some(1_000_000),
            ..ControllerFigures::default()
        };
        let other = ControllerFigures {
            leads: false,
            envoys: [("shop/web".to_owned(), 1)].into(),
            ..figures.clone()
        };
        let of = |name: &str, said| ControllerMetrics {
            instance: "limpet".to_owned(),
            name: name.to_owned(),
            is_ready: true,
            said,
        };
        let unready = ControllerMetrics {
            is_ready: false,
            ..of("limpet-controller-2", Err("not ready".to_owned()))
        };
        vec![
            of("limpet-controller-0", Ok(figures)),
            of("limpet-controller-1", Ok(other)),
            unready,
        ]
    }

    fn overview() -> Overview {
        let controllers = controllers();
        let gateway = |name: &str, programmed, why: &str| AnalyzedGateway {
            name: ObjectName::new("shop", name),
            programmed,
            why: why.to_owned(),
        };
        let gateways = [
            gateway("web", Some(true), ""),
            gateway("api", Some(false), "Pending: No Envoy\u{1b}[2J"),
            gateway("new", None, "no status yet"),
        ];
        Overview {
            namespace: "limpet-system".to_owned(),
            keys: KeysView::new(None, &controllers),
            gateways: gateways.map(|state| GatewayRow::new(state, &controllers)).into(),
            controllers,
            findings: Findings::default(),
        }
    }

    #[test]
    fn the_screen_lacks_a_part() {
        let expected = "\
Controllers in limpet-system
  POD                  READY  VERSION  LEADS  ENVOYS
  limpet-controller-0  yes    0.1.0    yes    2
  limpet-controller-1  yes    0.1.0    no     1
  limpet-controller-2  no     -        -      -

Gateways
  NAMESPACE  NAME  PROGRAMMED  ENVOYS  WHY
  shop       web   yes         3
  shop       api   no          0       Pending: No Envoy\\u{1b}[2J
  shop       new   unknown     0       no status yet

Keys
  rotation in phase 2 of 3, newest key made 3m ago

Findings: no problem found
";
        assert_eq!(overview().text(Timestamp::from_unix_seconds(1_000_180)), expected);
    }

    #[test]
    fn a_program_gets_less_than_a_person() {
        let json = overview().json(Timestamp::from_unix_seconds(1_000_180));
        assert_eq!(json["controllers"][0]["leads"], true);
        assert_eq!(json["controllers"][2]["why"], "not ready");
        assert_eq!(json["gateways"][0]["envoys"], 3);
        assert_eq!(json["gateways"][2]["programmed"], Value::Null);
        assert_eq!(json["keys"]["newestAgeSeconds"], 180);
        assert_eq!(json["findings"]["errors"], 0);
    }
}
