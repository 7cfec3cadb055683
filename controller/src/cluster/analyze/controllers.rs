//! Findings of the controllers themselves, as they answer `limpet status`. Pure.

use super::code::FindingCode;
use super::finding::{AnalysisFinding, FindingPlace};
use crate::cluster::survey::ControllerMetrics;

/// `controllers`: what they say, or why none is known.
pub(crate) fn of_controllers(
    namespace: &str,
    controllers: &Result<Vec<ControllerMetrics>, String>,
) -> Vec<AnalysisFinding> {
    let controllers = match controllers {
        Ok(controllers) => controllers,
        Err(why) => return vec![of_all(FindingCode::controller("NoneKnown"), why)],
    };
    let mut found: Vec<AnalysisFinding> = controllers
        .iter()
        .filter_map(|controller| of_one(namespace, controller))
        .collect();
    let said = || {
        controllers
            .iter()
            .filter_map(|controller| controller.said.as_ref().ok())
    };
    if !controllers.iter().any(|controller| controller.is_ready) {
        let message = format!("no controller is ready in the namespace {namespace}");
        found.push(of_all(FindingCode::controller("NoneReady"), &message));
    } else if said().count() == controllers.len() && !said().any(|said| said.leads) {
        let message = "no controller leads, so none writes statuses and keys";
        found.push(of_all(FindingCode::controller("NoneLeads"), message));
    }
    if said().any(|said| said.is_rotation_late) {
        let message = "a rotation or a revocation of keys has waited for long: an Event of the keyring's Secret names \
                       the Envoy or the object that it waits for";
        found.push(of_all(FindingCode::keyring("RotationWaits"), message));
    }
    found
}

fn of_all(code: FindingCode, message: &str) -> AnalysisFinding {
    AnalysisFinding::new(FindingPlace::default(), code, message)
}

/// What is wrong with one of them.
fn of_one(namespace: &str, controller: &ControllerMetrics) -> Option<AnalysisFinding> {
    let place = FindingPlace {
        kind: "Pod".to_owned(),
        namespace: namespace.to_owned(),
        name: controller.name.clone(),
        ..FindingPlace::default()
    };
    if !controller.is_ready {
        let message = "this controller is not ready: `/readyz` and its log say why";
        return Some(AnalysisFinding::new(
            place,
            FindingCode::controller("NotReady"),
            message,
        ));
    }
    let why = controller.said.as_ref().err()?;
    Some(AnalysisFinding::new(place, FindingCode::controller("Silent"), why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::survey::ControllerFigures;

    fn codes(controllers: &Result<Vec<ControllerMetrics>, String>) -> Vec<&'static str> {
        let found = of_controllers("limpet-system", controllers);
        found.iter().map(|finding| finding.code.as_str()).collect()
    }

    fn controller(is_ready: bool, said: Result<ControllerFigures, String>) -> ControllerMetrics {
        ControllerMetrics {
            instance: String::new(),
            name: "controller-0".to_owned(),
            is_ready,
            said,
        }
    }

    #[test]
    fn a_controller_that_does_not_work_was_no_finding() {
        let follows = ControllerFigures::default();
        let leads = ControllerFigures {
            leads: true,
            ..follows.clone()
        };
        let late = ControllerFigures {
            is_rotation_late: true,
            ..leads.clone()
        };
        let silent = || Err("cannot ask".to_owned());
        let both = |one, other| Ok(vec![controller(true, one), controller(true, other)]);
        assert_eq!(codes(&both(Ok(leads.clone()), Ok(follows.clone()))), [""; 0]);
        assert_eq!(codes(&both(Ok(follows.clone()), Ok(follows.clone()))), ["LIMPET1104"]);
        assert_eq!(codes(&both(Ok(follows), silent())), ["LIMPET1103"]);
        assert_eq!(codes(&both(Ok(late), Ok(leads))), ["LIMPET0904"]);
        assert_eq!(
            codes(&Ok(vec![controller(false, silent())])),
            ["LIMPET1102", "LIMPET1105"]
        );
        assert_eq!(codes(&Err("no controller".to_owned())), ["LIMPET1101"]);
    }
}
