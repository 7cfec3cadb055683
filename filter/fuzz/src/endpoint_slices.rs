use std::collections::BTreeSet;

use limpet_api::ObjectName;
use limpet_model::endpoints::{EndpointSlice, EndpointState, RawEndpoint, RawPort, endpoints};

type Raw = (Option<Vec<RawPort>>, Option<Vec<RawEndpoint>>);

/// The slices in the bytes: a list of pairs of ports and endpoints, in JSON.
#[must_use]
pub fn slices(data: &[u8]) -> Option<Vec<EndpointSlice>> {
    let raw: Vec<Raw> = serde_json::from_slice(data).ok()?;
    let read = |(ports, endpoints): Raw| {
        let service = ObjectName::new("web", "shop");
        EndpointSlice::read(service, ports.unwrap_or_default(), endpoints.unwrap_or_default())
    };
    Some(raw.into_iter().map(read).collect())
}

/// Takes the bytes as slices of one Service.
///
/// # Panics
/// If a property of endpoints does not hold.
pub fn endpoint_slices(data: &[u8]) {
    let Some(slices) = slices(data) else {
        return;
    };
    let names: BTreeSet<&String> = slices.iter().flat_map(|slice| slice.ports.keys()).collect();
    for name in names {
        let all = endpoints(&slices, name, |_| false);
        assert!(
            all.is_sorted_by(|a, b| a.address < b.address),
            "each address once, in order"
        );
        assert_eq!(
            all,
            endpoints(slices.iter().rev(), name, |_| false),
            "the order of slices counts"
        );
        let own: Vec<_> = slices
            .iter()
            .flat_map(|slice| endpoints([slice], name, |_| false))
            .collect();
        for endpoint in &own {
            let found = all.iter().find(|found| found.address == endpoint.address);
            let found = found.expect("an endpoint of a slice is lost");
            assert!(
                found.state == EndpointState::Ready || endpoint.state == EndpointState::Draining,
                "an endpoint that is ready drains"
            );
        }
        assert!(
            all.iter().all(|endpoint| own.contains(endpoint)),
            "an endpoint of no slice"
        );
    }
}
