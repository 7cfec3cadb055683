//! Findings of a build: what `limpet render` reports. Pure.

use std::collections::BTreeMap;

use super::code::{FindingCode, Subject};
use super::finding::{AnalysisFinding, FindingPlace};
use super::severity::FindingSeverity;
use crate::cluster::controller::ObjectVerdicts;
use crate::cluster::gateway_api::GatewayApi;
use crate::cluster::render::RenderResult;
use crate::tools::check::report::{self, CheckReport};
use limpet_api::{Kind, ObjectRef};
use limpet_model::Reports;

/// The conditions that say what is wrong.
pub(super) fn of_reports(reports: &Reports) -> Vec<AnalysisFinding> {
    let mut found = Vec::new();
    for (object, condition) in ObjectVerdicts::new(reports).wrong() {
        let subject = Subject::of(object.kind, condition.about.is_some());
        let code = FindingCode::of(subject, condition.kind, condition.reason);
        let place = FindingPlace {
            part: condition.about.unwrap_or_default(),
            ..FindingPlace::object(object)
        };
        found.push(AnalysisFinding::new(place, code, condition.message));
    }
    found.extend(of_ignored(reports));
    found
}

/// Fields of accepted objects that have no effect, such as misspelt ones. The status of a policy says so by itself.
fn of_ignored(reports: &Reports) -> impl Iterator<Item = AnalysisFinding> {
    let gateways = reports.gateways.iter();
    let gateways = gateways.map(|(name, report)| (Kind::Gateway, name, &report.ignored));
    let routes = [
        (Kind::HttpRoute, &reports.http_routes),
        (Kind::GrpcRoute, &reports.grpc_routes),
    ];
    let routes = routes.into_iter().flat_map(|(kind, routes)| {
        let of_kind = routes.iter();
        of_kind.map(move |(name, report)| (kind, name, &report.ignored))
    });
    let all = gateways.chain(routes).filter(|(.., ignored)| !ignored.is_empty());
    all.map(|(kind, name, ignored)| {
        let object = ObjectRef {
            kind,
            name: name.clone(),
        };
        let code = FindingCode::ignored(Subject::of(kind, kind != Kind::Gateway));
        let message = format!("not supported and ignored: {}", ignored.join(", "));
        AnalysisFinding::new(FindingPlace::object(&object), code, message)
    })
}

/// What a build says of objects, wherever they come from.
pub(super) fn of_built(rendered: &RenderResult) -> Vec<AnalysisFinding> {
    let mut found = of_reports(&rendered.reports);
    // Only a cluster assigns addresses, and its statuses say so.
    found.retain(|finding| !finding.code.has_reason("AddressNotAssigned"));
    for (object, error) in &rendered.malformed {
        let place = FindingPlace::object(object);
        // Its conditions repeat it.
        found.retain(|finding| !finding.place.is_of(&place));
        found.push(AnalysisFinding::new(
            place,
            FindingCode::input("Malformed"),
            error.to_string(),
        ));
    }
    if rendered.serves_nothing() {
        let why = rendered.unserved().get("all").map_or("", String::as_str);
        found.push(AnalysisFinding::new(
            FindingPlace::default(),
            FindingCode::input("NothingServed"),
            why,
        ));
    }
    found
}

/// Everything that is said of objects in files.
pub(super) fn of_rendered(rendered: &RenderResult) -> Vec<AnalysisFinding> {
    let mut found = of_built(rendered);
    for (place, problem) in &rendered.unknown {
        let code = FindingCode::input("UnknownKind");
        found.push(AnalysisFinding::new(FindingPlace::file(place), code, problem));
    }
    for (kind, count) in &rendered.skipped {
        let place = FindingPlace {
            kind: kind.clone(),
            ..FindingPlace::default()
        };
        let objects = if *count == 1 { "object" } else { "objects" };
        let message = format!("{count} {objects} of this kind are in the files, and Limpet does not read it");
        found.push(AnalysisFinding::new(place, FindingCode::input("NotRead"), message));
    }
    for (object, why) in rendered.unserved().iter().filter(|(object, _)| *object != "all") {
        let place = FindingPlace::words(object);
        found.push(AnalysisFinding::new(place, FindingCode::input("NotServed"), why));
    }
    found.extend(of_definitions(rendered));
    found
}

/// What releases of the Gateway API refuse. It is wrong only if all of them refuse something.
fn of_definitions(rendered: &RenderResult) -> Vec<AnalysisFinding> {
    let is_refused_by_all = GatewayApi::all().all(|release| rendered.refused_by.contains_key(&release));
    let code = FindingCode::input(if is_refused_by_all {
        "RefusedByAllReleases"
    } else {
        "RefusedBySomeReleases"
    });
    let mut releases: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for (range, refusals) in rendered.refused_by_range() {
        for refusal in refusals {
            releases.entry(refusal).or_default().push(range.clone());
        }
    }
    let finding = |(refusal, ranges): (&String, Vec<String>)| {
        // `HTTPRoute shop/web: the field: what is wrong`
        let (object, message) = refusal.split_once(": ").unwrap_or(("", refusal));
        let message = format!("{message} (Gateway API {})", ranges.join(", "));
        AnalysisFinding::new(FindingPlace::words(object), code, message)
    };
    releases.into_iter().map(finding).collect()
}

/// What `limpet check` says.
pub(super) fn of_check(checked: &CheckReport) -> Vec<AnalysisFinding> {
    let finding = |finding: &report::Finding| AnalysisFinding {
        severity: match finding.severity {
            report::Severity::Error => FindingSeverity::Error,
            report::Severity::Warning => FindingSeverity::Warning,
            report::Severity::Note => FindingSeverity::Info,
        },
        place: FindingPlace {
            part: finding.path.clone(),
            ..FindingPlace::file(&finding.file)
        },
        code: FindingCode::check(finding.area),
        message: match &finding.field {
            Some(field) => format!("{field}: {}", finding.message),
            None => finding.message.clone(),
        },
    };
    checked.findings.iter().map(finding).collect()
}
