//! Whether the cost of a request grows from one route to many with their own scopes.
//!
//! Each baseline has the same routes and requests without a filter, which leaves out Envoy's route matching. Routes
//! have a virtual host each, found by name, or share one, where Envoy tries a thousand in turn.

use anyhow::{Context, Result};
use limpet_e2e::{Envoy, filter_with};
use serde_json::{Value, json};

use crate::load::{Get, Load};
use crate::measure::{Effort, Run, print_added};
use crate::{Filter, cookie_policy, next_request};

const MANY: usize = 1000;
const VERY_MANY: usize = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Routes {
    One,
    /// One in each virtual host.
    Apart(usize),
    /// A thousand in one virtual host.
    InARow,
}

#[derive(Debug, Clone, Copy)]
enum RequestedRoutes {
    All,
    Last,
}

const LAYOUTS: [Routes; 4] = [
    Routes::One,
    Routes::Apart(MANY),
    Routes::Apart(VERY_MANY),
    Routes::InARow,
];

const LOADS: [(&str, Routes, RequestedRoutes); 7] = [
    ("1 route", Routes::One, RequestedRoutes::Last),
    (
        "1,000 virtual hosts, all asked",
        Routes::Apart(MANY),
        RequestedRoutes::All,
    ),
    (
        "1,000 virtual hosts, the last asked",
        Routes::Apart(MANY),
        RequestedRoutes::Last,
    ),
    (
        "20,000 virtual hosts, all asked",
        Routes::Apart(VERY_MANY),
        RequestedRoutes::All,
    ),
    (
        "20,000 virtual hosts, the last asked",
        Routes::Apart(VERY_MANY),
        RequestedRoutes::Last,
    ),
    ("1,000 routes of one, all asked", Routes::InARow, RequestedRoutes::All),
    (
        "1,000 routes of one, the last asked",
        Routes::InARow,
        RequestedRoutes::Last,
    ),
];

impl Routes {
    fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::Apart(count) => count,
            Self::InARow => MANY,
        }
    }

    fn virtual_hosts(self) -> Value {
        let session = |number| format!("web/HTTPRoute/shop/route-{number:04}/all");
        match self {
            Self::Apart(count) => apart(count, session),
            Self::One | Self::InARow => {
                let routes = (0..self.count()).map(|number| route(number, &session(number)));
                json!([virtual_host(0, "*", &routes.collect::<Vec<_>>())])
            }
        }
    }
}

pub(crate) fn apart(count: usize, session: impl Fn(usize) -> String) -> Value {
    let host = |number| virtual_host(number, &host_name(number), &[route(number, &session(number))]);
    (0..count).map(host).collect()
}

fn virtual_host(number: usize, domain: &str, routes: &[Value]) -> Value {
    json!({"name": format!("host-{number}"), "domains": [domain], "routes": routes})
}

fn host_name(number: usize) -> String {
    format!("host-{number:04}.example")
}

fn path(number: usize) -> String {
    format!("/routes/{number:04}")
}

fn route(number: usize, session: &str) -> Value {
    json!({
        "name": format!("route-{number:04}"),
        "match": {"path": path(number)},
        "route": {"cluster": "backends"},
        "metadata": {"filter_metadata": {"limpet": {"session": session}}},
    })
}

pub(crate) async fn run(backends: &Envoy, effort: Effort) -> Result<()> {
    let mut envoys = Vec::new();
    for filter in Filter::ALL {
        for layout in LAYOUTS {
            let config = filter.config(&filter_with(&cookie_policy()))?.workers(1);
            let config = config.backend_addresses(&backends.addresses());
            let config = config.route_configuration(|routes| routes["virtual_hosts"] = layout.virtual_hosts());
            envoys.push((filter, layout, Envoy::start(config).await?));
        }
    }
    let mut runs = Vec::new();
    for of_filter in envoys.chunks(LAYOUTS.len()) {
        for (what, layout, requested) in LOADS {
            let found = of_filter.iter().find(|(_, present, _)| *present == layout);
            let (filter, _, envoy) = found.context("no Envoy with these routes")?;
            let requests = match requested {
                RequestedRoutes::All => requests(envoy, *filter, layout.count()).await?,
                RequestedRoutes::Last => vec![request(envoy, *filter, layout.count() - 1).await?],
            };
            let load = Load::new(envoy.address(), &requests);
            runs.push(Run::new(format!("{}, {what}", filter.name()), envoy.pid(), load));
        }
    }
    effort.measure(&mut runs.iter_mut().collect::<Vec<_>>()).await?;
    print_added(&runs, LOADS.len(), "1 route")
}

/// A request for a session of each route, in an order that no cache could learn.
pub(crate) async fn requests(envoy: &Envoy, filter: Filter, routes: usize) -> Result<Vec<Get>> {
    let mut requests = Vec::new();
    for number in 0..routes {
        requests.push(request(envoy, filter, number * 617 % routes).await?);
    }
    Ok(requests)
}

async fn request(envoy: &Envoy, filter: Filter, number: usize) -> Result<Get> {
    next_request(envoy, filter, host_name(number), path(number)).await
}
