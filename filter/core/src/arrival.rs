use std::borrow::Cow;
use std::net::SocketAddr;

use crate::address;
use crate::envoy::VIA_UPSTREAM;
use crate::outcome::{RequestOutcome, ResponseOutcome};
use crate::route_session::Split;
use crate::token::{DestinationId, TokenRefusal};
use crate::view::{RequestView, ResponseView, ViewError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    There,
    Elsewhere,
    /// Known only with the response.
    Unknown,
}

/// Leads a request of a split route to its session's destination. Elsewhere, the session is over: its backend is in
/// another cluster, so a strict request could only fail.
pub(crate) fn arrival(
    split: Option<Split>,
    strict: bool,
    destination: DestinationId,
    request: &mut impl RequestView,
) -> Result<Arrival, ViewError> {
    let cluster = match split {
        Some(Split::Routes) => request.reroute(destination)?,
        Some(Split::Specifier) => {
            let cluster = request.cluster_name()?;
            if cluster.is_some_and(|cluster| DestinationId::of_cluster(&cluster) == destination) {
                // The weights have chosen it.
                return Ok(Arrival::There);
            }
            request.choose_again(destination)?
        }
        Some(Split::Destinations) | None if strict => request.cluster_name()?.or(Some(Cow::default())),
        // Envoy looks for the host in the routed cluster, and else load-balances there.
        Some(Split::Destinations) | None => return Ok(Arrival::There),
    };
    Ok(match cluster {
        None => Arrival::Unknown,
        Some(cluster) if DestinationId::of_cluster(&cluster) == destination => Arrival::There,
        Some(_) => Arrival::Elsewhere,
    })
}

pub(crate) fn settled(destination: DestinationId, response: &impl ResponseView) -> Result<RequestOutcome, ViewError> {
    let cluster = response.cluster_name()?.unwrap_or_default();
    Ok(if DestinationId::of_cluster(&cluster) == destination {
        RequestOutcome::Steered
    } else {
        RequestOutcome::Refused(TokenRefusal::UnknownDestination)
    })
}

/// The host of a response with these code details, or the outcome without one. Envoy's own reply may have the address
/// of a host that refused or timed out.
pub(crate) fn answering_host(
    details: &[u8],
    response: &impl ResponseView,
) -> Result<Result<SocketAddr, ResponseOutcome>, ViewError> {
    if *details != *VIA_UPSTREAM.as_bytes() {
        return Ok(Err(ResponseOutcome::Unchanged));
    }
    let host = response.upstream_address()?;
    let host = host.and_then(|host| address::addressable(&host));
    Ok(host.ok_or(ResponseOutcome::Unaddressable))
}
