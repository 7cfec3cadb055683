//! The codes of findings: one table.

use serde::{Serialize, Serializer};

use super::severity::FindingSeverity;
use crate::tools::check::report::CheckArea;
use limpet_api::Kind;

/// What kind of problem a finding is. Codes are stable: a number is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FindingCode(usize);

/// A row of the table.
struct Row {
    code: &'static str,
    about: Subject,
    /// Of a condition: its type; else empty.
    condition: &'static str,
    /// Of a condition: its reason; else a word of ours.
    reason: &'static str,
    severity: FindingSeverity,
    /// A page and a heading of it.
    page: &'static str,
}

/// What a problem is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// What is read: files, kinds, documents.
    Input,
    GatewayClass,
    Gateway,
    Listener,
    /// For one of its Gateways.
    Route,
    IngressRoute,
    Policy,
    /// An object whose status has no place for it.
    Unreported,
    Keyring,
    /// The filter and Envoy's configuration around it.
    Configuration,
    Controller,
}

const fn row(
    code: &'static str,
    about: Subject,
    (condition, reason): (&'static str, &'static str),
    severity: FindingSeverity,
    page: &'static str,
) -> Row {
    Row {
        code,
        about,
        condition,
        reason,
        severity,
        page,
    }
}

const STATUS: &str = "docs/reference/status.md#status";
const UNREPORTED_PAGE: &str = "docs/reference/status.md#objects-without-a-place-for-it-in-a-status";
const UNREAD: &str = "docs/reference/status.md#objects-that-cannot-be-read";
const CERTIFICATES: &str = "docs/reference/status.md#last-valid-certificates";
const TLS: &str = "docs/reference/status.md#tls-to-backends";
const CONTOUR: &str = "docs/reference/contour.md#status";
const POLICIES: &str = "docs/reference/annotations.md#status";
const SECRETS: &str = "docs/reference/keyring.md#errors-in-a-secret";
const REVOCATION: &str = "docs/reference/keyring.md#revocation-in-a-cluster";
const ROTATION: &str = "docs/reference/keyring.md#rotation-in-a-cluster";
const OPERATE: &str = "docs/how-to/operate-the-controller.md";
const RIGHTS: &str = "docs/how-to/troubleshoot.md#with-few-rights";
const PROGRAMMED: &str = "docs/how-to/troubleshoot.md#the-gateway-is-not-programmed";
const COMMAND: &str = "docs/reference/commands.md#limpet-analyze";
const GATEWAY_API: &str = "docs/reference/gateway-api.md";
const UNSUPPORTED: &str = "docs/reference/gateway-api.md#not-supported";
const OTHERS: &str = "docs/reference/other-control-planes.md";
const START: &str = "docs/get-started/kubernetes.md";
const CONTROLLER: &str = "docs/reference/controller-configuration.md";
const PARAMETERS: &str = "docs/reference/envoy-deployment.md";
const ADDRESSES: &str = "docs/reference/envoy-deployment.md#addresses";
const ROLLOUTS: &str = "docs/reference/envoy-deployment.md#rollouts";
const FIELDS: &str = "docs/reference/configuration.md#all-fields";
const CHAIN: &str = "docs/reference/envoy-configuration.md#the-chain";
const MODULE: &str = "docs/reference/envoy-configuration.md#the-dynamic-module";
const CLUSTERS: &str = "docs/reference/envoy-configuration.md#which-clusters-hold-sessions";

/// Of fields that have no effect.
const IGNORED: &str = "Ignored";

/// The first two digits are of the subject. A row without condition and reason is for those that are in no other row.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    row("LIMPET0101", Subject::Input, ("", "Unreadable"), FindingSeverity::Error, COMMAND),
    row("LIMPET0102", Subject::Input, ("", "UnknownKind"), FindingSeverity::Error, GATEWAY_API),
    row("LIMPET0103", Subject::Input, ("", "Malformed"), FindingSeverity::Error, UNREAD),
    row("LIMPET0104", Subject::Input, ("", "NotListed"), FindingSeverity::Warning, RIGHTS),
    row("LIMPET0105", Subject::Input, ("", "NotKnown"), FindingSeverity::Warning, RIGHTS),
    row("LIMPET0106", Subject::Input, ("", "NotServed"), FindingSeverity::Info, OTHERS),
    row("LIMPET0107", Subject::Input, ("", "NothingServed"), FindingSeverity::Warning, START),
    row("LIMPET0108", Subject::Input, ("", "NotRead"), FindingSeverity::Info, UNSUPPORTED),
    row("LIMPET0109", Subject::Input, ("", "RefusedByAllReleases"), FindingSeverity::Error, GATEWAY_API),
    row("LIMPET0110", Subject::Input, ("", "RefusedBySomeReleases"), FindingSeverity::Info, GATEWAY_API),
    row("LIMPET0111", Subject::Input, ("", "ControllerConfiguration"), FindingSeverity::Error, CONTROLLER),
    row("LIMPET0112", Subject::Input, ("", "Other"), FindingSeverity::Info, COMMAND),
    row("LIMPET0201", Subject::GatewayClass, ("Accepted", "InvalidParameters"), FindingSeverity::Error, PARAMETERS),
    row("LIMPET0299", Subject::GatewayClass, ("", ""), FindingSeverity::Warning, STATUS),
    row("LIMPET0301", Subject::Gateway, ("Accepted", "Invalid"), FindingSeverity::Error, STATUS),
    row("LIMPET0302", Subject::Gateway, ("Accepted", "InvalidParameters"), FindingSeverity::Error, PARAMETERS),
    row("LIMPET0303", Subject::Gateway, ("Accepted", "ListenersNotValid"), FindingSeverity::Error, STATUS),
    row("LIMPET0304", Subject::Gateway, ("Accepted", "UnsupportedAddress"), FindingSeverity::Error, STATUS),
    row("LIMPET0311", Subject::Gateway, ("Programmed", "Pending"), FindingSeverity::Warning, PROGRAMMED),
    row("LIMPET0312", Subject::Gateway, ("Programmed", "Invalid"), FindingSeverity::Error, PROGRAMMED),
    row("LIMPET0313", Subject::Gateway, ("Programmed", "AddressNotAssigned"), FindingSeverity::Warning, ADDRESSES),
    row("LIMPET0314", Subject::Gateway, ("Programmed", "AddressNotUsable"), FindingSeverity::Warning, ADDRESSES),
    row("LIMPET0315", Subject::Gateway, ("Programmed", "EnvoysNotWritten"), FindingSeverity::Error, PROGRAMMED),
    row("LIMPET0316", Subject::Gateway, ("Programmed", "NoResources"), FindingSeverity::Error, ROLLOUTS),
    row("LIMPET0317", Subject::Gateway, ("", IGNORED), FindingSeverity::Warning, UNSUPPORTED),
    row("LIMPET0399", Subject::Gateway, ("", ""), FindingSeverity::Warning, STATUS),
    row("LIMPET0401", Subject::Listener, ("Accepted", "UnsupportedProtocol"), FindingSeverity::Error, STATUS),
    row("LIMPET0402", Subject::Listener, ("Accepted", "PortUnavailable"), FindingSeverity::Error, STATUS),
    row("LIMPET0403", Subject::Listener, ("Conflicted", "HostnameConflict"), FindingSeverity::Error, STATUS),
    row("LIMPET0404", Subject::Listener, ("Conflicted", "ProtocolConflict"), FindingSeverity::Error, STATUS),
    row("LIMPET0405", Subject::Listener, ("ResolvedRefs", "InvalidCertificateRef"), FindingSeverity::Error, CERTIFICATES),
    row("LIMPET0406", Subject::Listener, ("ResolvedRefs", "RefNotPermitted"), FindingSeverity::Error, STATUS),
    row("LIMPET0407", Subject::Listener, ("ResolvedRefs", "InvalidRouteKinds"), FindingSeverity::Error, STATUS),
    row("LIMPET0499", Subject::Listener, ("", ""), FindingSeverity::Warning, STATUS),
    row("LIMPET0501", Subject::Route, ("Accepted", "NoMatchingParent"), FindingSeverity::Error, STATUS),
    row("LIMPET0502", Subject::Route, ("Accepted", "NotAllowedByListeners"), FindingSeverity::Error, STATUS),
    row("LIMPET0503", Subject::Route, ("Accepted", "NoMatchingListenerHostname"), FindingSeverity::Error, STATUS),
    row("LIMPET0504", Subject::Route, ("Accepted", "UnsupportedValue"), FindingSeverity::Error, UNSUPPORTED),
    row("LIMPET0505", Subject::Route, ("PartiallyInvalid", "UnsupportedValue"), FindingSeverity::Error, STATUS),
    row("LIMPET0506", Subject::Route, ("ResolvedRefs", "BackendNotFound"), FindingSeverity::Error, STATUS),
    row("LIMPET0507", Subject::Route, ("ResolvedRefs", "RefNotPermitted"), FindingSeverity::Error, STATUS),
    row("LIMPET0508", Subject::Route, ("ResolvedRefs", "InvalidKind"), FindingSeverity::Error, STATUS),
    row("LIMPET0509", Subject::Route, ("ResolvedRefs", "InvalidBackendTLSPolicy"), FindingSeverity::Error, TLS),
    row("LIMPET0510", Subject::Route, ("", IGNORED), FindingSeverity::Warning, UNSUPPORTED),
    row("LIMPET0599", Subject::Route, ("", ""), FindingSeverity::Warning, STATUS),
    row("LIMPET0601", Subject::IngressRoute, ("currentStatus", "invalid"), FindingSeverity::Error, CONTOUR),
    row("LIMPET0602", Subject::IngressRoute, ("currentStatus", "orphaned"), FindingSeverity::Warning, CONTOUR),
    row("LIMPET0603", Subject::IngressRoute, ("note", ""), FindingSeverity::Warning, STATUS),
    row("LIMPET0699", Subject::IngressRoute, ("", ""), FindingSeverity::Warning, CONTOUR),
    row("LIMPET0701", Subject::Policy, ("Accepted", "Invalid"), FindingSeverity::Error, POLICIES),
    row("LIMPET0702", Subject::Policy, ("Accepted", "Conflicted"), FindingSeverity::Error, POLICIES),
    row("LIMPET0703", Subject::Policy, ("Accepted", "TargetNotFound"), FindingSeverity::Error, POLICIES),
    row("LIMPET0704", Subject::Policy, ("Accepted", "NoValidCACertificate"), FindingSeverity::Error, TLS),
    row("LIMPET0711", Subject::Policy, ("Programmed", "Invalid"), FindingSeverity::Error, POLICIES),
    row("LIMPET0712", Subject::Policy, ("Programmed", "PartiallyProgrammed"), FindingSeverity::Warning, POLICIES),
    row("LIMPET0713", Subject::Policy, ("Programmed", "Overridden"), FindingSeverity::Warning, POLICIES),
    row("LIMPET0714", Subject::Policy, ("Programmed", "Pending"), FindingSeverity::Warning, POLICIES),
    row("LIMPET0715", Subject::Policy, ("Programmed", "ServiceRefused"), FindingSeverity::Error, POLICIES),
    row("LIMPET0721", Subject::Policy, ("ResolvedRefs", "InvalidCACertificateRef"), FindingSeverity::Error, TLS),
    row("LIMPET0722", Subject::Policy, ("ResolvedRefs", "InvalidKind"), FindingSeverity::Error, TLS),
    row("LIMPET0799", Subject::Policy, ("", ""), FindingSeverity::Warning, POLICIES),
    row("LIMPET0801", Subject::Unreported, ("Accepted", "Invalid"), FindingSeverity::Warning, UNREPORTED_PAGE),
    row("LIMPET0802", Subject::Unreported, ("Accepted", "NoMatchingParent"), FindingSeverity::Error, UNREPORTED_PAGE),
    row("LIMPET0803", Subject::Unreported, ("Accepted", "TargetNotFound"), FindingSeverity::Error, UNREPORTED_PAGE),
    row("LIMPET0804", Subject::Unreported, ("Accepted", "NoValidCACertificate"), FindingSeverity::Error, UNREPORTED_PAGE),
    row("LIMPET0811", Subject::Unreported, ("Programmed", "NoRoute"), FindingSeverity::Warning, UNREPORTED_PAGE),
    row("LIMPET0812", Subject::Unreported, ("Programmed", "PolicyRefused"), FindingSeverity::Error, UNREPORTED_PAGE),
    row("LIMPET0821", Subject::Unreported, ("ResolvedRefs", "TargetNotFound"), FindingSeverity::Warning, UNREPORTED_PAGE),
    row("LIMPET0899", Subject::Unreported, ("", ""), FindingSeverity::Warning, UNREPORTED_PAGE),
    row("LIMPET0901", Subject::Keyring, ("", "Missing"), FindingSeverity::Error, SECRETS),
    row("LIMPET0902", Subject::Keyring, ("", "Invalid"), FindingSeverity::Error, SECRETS),
    row("LIMPET0903", Subject::Keyring, ("", "Revoking"), FindingSeverity::Warning, REVOCATION),
    row("LIMPET0904", Subject::Keyring, ("", "RotationWaits"), FindingSeverity::Warning, ROTATION),
    row("LIMPET0999", Subject::Keyring, ("", ""), FindingSeverity::Warning, SECRETS),
    row("LIMPET1001", Subject::Configuration, ("", "Filter"), FindingSeverity::Error, FIELDS),
    row("LIMPET1002", Subject::Configuration, ("", "Build"), FindingSeverity::Warning, MODULE),
    row("LIMPET1003", Subject::Configuration, ("", "Chain"), FindingSeverity::Error, CHAIN),
    row("LIMPET1004", Subject::Configuration, ("", "Routes"), FindingSeverity::Error, CLUSTERS),
    row("LIMPET1005", Subject::Configuration, ("", "NoFilter"), FindingSeverity::Error, CHAIN),
    row("LIMPET1099", Subject::Configuration, ("", ""), FindingSeverity::Error, CHAIN),
    row("LIMPET1101", Subject::Controller, ("", "NoneKnown"), FindingSeverity::Warning, OPERATE),
    row("LIMPET1102", Subject::Controller, ("", "NotReady"), FindingSeverity::Warning, OPERATE),
    row("LIMPET1103", Subject::Controller, ("", "Silent"), FindingSeverity::Warning, OPERATE),
    row("LIMPET1104", Subject::Controller, ("", "NoneLeads"), FindingSeverity::Error, OPERATE),
    row("LIMPET1105", Subject::Controller, ("", "NoneReady"), FindingSeverity::Error, OPERATE),
    row("LIMPET1199", Subject::Controller, ("", ""), FindingSeverity::Warning, OPERATE),
];

impl FindingCode {
    /// The code of a condition, or of a word of ours (`condition` is empty then).
    pub(crate) fn of(about: Subject, condition: &str, reason: &str) -> Self {
        let of_subject = || TABLE.iter().enumerate().filter(|(_, row)| row.about == about);
        let exact = of_subject().find(|(_, row)| row.condition == condition && row.reason == reason);
        let any = || of_subject().find(|(_, row)| row.condition.is_empty() && row.reason.is_empty());
        Self(exact.or_else(any).map_or(0, |(index, _)| index))
    }

    pub(crate) fn input(word: &str) -> Self {
        Self::of(Subject::Input, "", word)
    }

    pub(crate) fn keyring(word: &str) -> Self {
        Self::of(Subject::Keyring, "", word)
    }

    pub(crate) fn controller(word: &str) -> Self {
        Self::of(Subject::Controller, "", word)
    }

    /// Of fields of a Gateway or of a route that have no effect.
    pub(crate) fn ignored(about: Subject) -> Self {
        Self::of(about, "", IGNORED)
    }

    pub(crate) fn check(area: CheckArea) -> Self {
        let word = match area {
            CheckArea::Filter => "Filter",
            CheckArea::Build => "Build",
            CheckArea::Chain => "Chain",
            CheckArea::Routes => "Routes",
            CheckArea::NoFilter => "NoFilter",
        };
        Self::of(Subject::Configuration, "", word)
    }

    fn row(self) -> Option<&'static Row> {
        TABLE.get(self.0)
    }

    pub(crate) fn as_str(self) -> &'static str {
        self.row().map_or("", |row| row.code)
    }

    pub(crate) fn severity(self) -> FindingSeverity {
        self.row().map_or(FindingSeverity::Error, |row| row.severity)
    }

    pub(crate) fn has_reason(self, reason: &str) -> bool {
        self.row().is_some_and(|row| row.reason == reason)
    }

    pub(crate) fn page(self) -> &'static str {
        self.row().map_or("", |row| row.page)
    }
}

impl Serialize for FindingCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Subject {
    /// Of a condition of an object; `is_of_part`: of a listener, or for one of several Gateways.
    pub(crate) fn of(kind: Kind, is_of_part: bool) -> Self {
        match (kind, is_of_part) {
            (Kind::GatewayClass, _) => Self::GatewayClass,
            (Kind::Gateway, false) => Self::Gateway,
            (Kind::Gateway, true) => Self::Listener,
            (Kind::IngressRoute, _) => Self::IngressRoute,
            (Kind::HttpRoute | Kind::GrpcRoute, true) => Self::Route,
            (Kind::BackendLbPolicy | Kind::BackendTlsPolicy | Kind::XBackendTrafficPolicy | Kind::XBackend, true) => {
                Self::Policy
            }
            _ => Self::Unreported,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use limpet_repo_tests::{Page, checkout};

    use super::*;

    #[test]
    fn two_findings_have_one_code() {
        let codes: BTreeSet<_> = TABLE.iter().map(|row| row.code).collect();
        assert_eq!(codes.len(), TABLE.len());
        let keys: BTreeSet<_> = TABLE.iter().map(|row| (row.about, row.condition, row.reason)).collect();
        assert_eq!(keys.len(), TABLE.len());
        assert!(TABLE.is_sorted_by_key(|row| row.code));
        for row in TABLE {
            let number = row.code.strip_prefix("LIMPET").unwrap();
            assert!(
                number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit()),
                "{}",
                row.code
            );
        }
    }

    #[test]
    fn a_page_or_a_heading_of_a_code_does_not_exist() {
        for row in TABLE {
            let (file, anchor) = row.page.split_once('#').unwrap_or((row.page, ""));
            let text = std::fs::read_to_string(checkout().join(file)).unwrap_or_else(|_| panic!("{file}"));
            let anchors = Page::parse(&text).anchors;
            assert!(
                anchor.is_empty() || anchors.contains(anchor),
                "{}: {}",
                row.code,
                row.page
            );
        }
    }

    #[test]
    fn a_subject_has_no_code_for_other_reasons() {
        for row in TABLE.iter().filter(|row| row.about != Subject::Input) {
            let other = FindingCode::of(row.about, "Other", "Other");
            assert!(other.as_str().ends_with("99"), "{}: {other:?}", row.code);
        }
        assert_eq!(
            FindingCode::of(Subject::Policy, "Accepted", "Conflicted").as_str(),
            "LIMPET0702"
        );
    }
}
