//! What controllers say of themselves in their metrics. Pure.

use std::collections::BTreeMap;

/// The figures that are read.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ControllerFigures {
    /// `None`: it is of a version that does not say it.
    pub(crate) version: Option<String>,
    /// Whether it writes.
    pub(crate) leads: bool,
    /// The connected Envoys, by the Gateway's name.
    pub(crate) envoys: BTreeMap<String, u64>,
    /// The connected Envoys, by version.
    pub(crate) versions: BTreeMap<String, u64>,
    /// The phase of the rotation; 0: there is none.
    pub(crate) rotation_phase: Option<u64>,
    /// When the signing key was made, in Unix seconds.
    pub(crate) key_created: Option<u64>,
    /// Whether a rotation or a revocation has waited for long.
    pub(crate) is_rotation_late: bool,
}

impl ControllerFigures {
    /// Reads the text format of `OpenMetrics`, as the controller writes it.
    pub(super) fn read(text: &str) -> Self {
        let mut figures = Self::default();
        for (name, label, value) in text.lines().filter_map(sample) {
            // Counts are small, and a time has no fraction that matters.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
            let count = value as u64;
            match (name, label) {
                ("limpet_build_info", Some(version)) => figures.version = Some(version),
                ("limpet_leader", _) => figures.leads = count > 0,
                ("limpet_clients", Some(gateway)) => drop(figures.envoys.insert(gateway, count)),
                ("limpet_envoys", Some(version)) => drop(figures.versions.insert(version, count)),
                ("limpet_key_rotation_phase", _) => figures.rotation_phase = Some(count),
                ("limpet_key_created_timestamp_seconds", _) if value.is_finite() => figures.key_created = Some(count),
                ("limpet_key_rotation_late", _) => figures.is_rotation_late = count > 0,
                _ => {}
            }
        }
        figures
    }
}

/// The name of a sample, the value of its only label, and its value.
fn sample(line: &str) -> Option<(&str, Option<String>, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, labels)) = series.split_once('{') else {
        return Some((series, None, value));
    };
    let label = labels.strip_suffix("\"}")?.split_once("=\"")?.1;
    let label = label.replace("\\\"", "\"").replace("\\\\", "\\");
    Some((name, Some(label), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_of_a_controller_was_not_read() {
        let text = "\
# HELP limpet_leader Whether this replica writes.
# TYPE limpet_leader gauge
limpet_leader 1
limpet_build_info{version=\"0.1.0\"} 1
limpet_clients{gateway=\"shop/web\"} 2
limpet_clients{gateway=\"pay/web\"} 0
limpet_envoys{version=\"1.40.0\"} 2
limpet_objects{kind=\"Service\",state=\"read\"} 7
limpet_key_rotation_phase 2
limpet_key_created_timestamp_seconds 1769860800.5
limpet_key_rotation_late 0
# EOF
";
        let expected = ControllerFigures {
            version: Some("0.1.0".to_owned()),
            leads: true,
            envoys: [("shop/web".to_owned(), 2), ("pay/web".to_owned(), 0)].into(),
            versions: [("1.40.0".to_owned(), 2)].into(),
            rotation_phase: Some(2),
            key_created: Some(1_769_860_800),
            is_rotation_late: false,
        };
        assert_eq!(ControllerFigures::read(text), expected);
        let old = ControllerFigures::read("limpet_leader 0\nlimpet_key_created_timestamp_seconds NaN\n");
        assert_eq!(
            old,
            ControllerFigures {
                ..ControllerFigures::default()
            }
        );
    }
}
