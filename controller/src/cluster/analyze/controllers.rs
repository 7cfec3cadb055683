//! Findings of the controllers themselves, as they answer `limpet status`. Pure.

use super::code::FindingCode;
use super::finding::{Finding, FindingPlace};
use crate::cluster::survey::ControllerMetrics;

/// `controllers`: what they say, or why none is known.
pub(crate) fn of_controllers(namespace: &str, controllers: &Result<Vec<ControllerMetrics>, String>) -> Vec<Finding> {
    let place = |pod: &str| FindingPlace {
        kind: "Pod".to_owned(),
        namespace: namespace.to_owned(),
        name: pod.to_owned(),
        ..FindingPlace::default()
    };
    let controllers = match controllers {
        Ok(controllers) => controllers,
        Err(why) => {
            return vec![Finding::new(
                FindingPlace::default(),
                FindingCode::controller("NoneKnown"),
                why,
            )];
        }
    };
    let mut found = Vec::new();
    for ControllerMetrics {
        name, is_ready, said, ..
    } in controllers
    {
        if !is_ready {
            let message = "this controller is not ready: `/readyz` and its log say why";
            found.push(Finding::new(place(name), FindingCode::controller("NotReady"), message));
        } else if let Err(why) = said {
            found.push(Finding::new(place(name), FindingCode::controller("Silent"), why));
        }
    }
    let said = || {
        controllers
            .iter()
            .filter_map(|controller| controller.said.as_ref().ok())
    };
    if !controllers.iter().any(|controller| controller.is_ready) {
        let message = format!("no controller is ready in the namespace {namespace}");
        found.push(Finding::new(
            FindingPlace::default(),
            FindingCode::controller("NoneReady"),
            message,
        ));
    } else if said().next().is_some() && !said().any(|said| said.leads) && said().count() == controllers.len() {
        let message = "no controller leads, so none writes statuses and keys";
        found.push(Finding::new(
            FindingPlace::default(),
            FindingCode::controller("NoneLeads"),
            message,
        ));
    }
    if said().any(|said| said.is_rotation_late) {
        let message = "a rotation or a revocation of keys has waited for long: an Event of the keyring's Secret names \
                       the Envoy or the object that it waits for";
        found.push(Finding::new(
            FindingPlace::default(),
            FindingCode::keyring("RotationWaits"),
            message,
        ));
    }
    found
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
