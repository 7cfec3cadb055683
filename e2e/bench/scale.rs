//! One route with a policy, and a thousand routes with their own scopes: does the cost of a request grow with their
//! number?
//!
//! The filter is not charged for Envoy's own route matching: the baseline of each variant is an Envoy with the same
//! routes and without a filter, and with the same requests. The thousand routes are in one virtual host each, which
//! Envoy finds by name; and then all in one virtual host, whose routes Envoy tries one after the other.

use anyhow::{Context, Result};
use limpet_e2e::Envoy;
use serde_json::{Value, json};

use crate::load::Load;
use crate::measure::{Effort, Run, quartiles};
use crate::{cookie_policy, module, next_request, wasm, without_filters};

const MANY: usize = 1000;

/// The routes of an Envoy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Routes {
    One,
    /// A thousand routes, one in each virtual host.
    Apart,
    /// A thousand routes in one virtual host.
    InARow,
}

/// The routes that requests ask for.
#[derive(Debug, Clone, Copy)]
enum RequestedRoutes {
    All,
    Last,
}

const LAYOUTS: [Routes; 3] = [Routes::One, Routes::Apart, Routes::InARow];

/// The loads that each build is measured with. The baseline is the same load without a filter.
const LOADS: [(&str, Routes, RequestedRoutes); 5] = [
    ("1 route", Routes::One, RequestedRoutes::Last),
    ("1,000 virtual hosts, all asked", Routes::Apart, RequestedRoutes::All),
    (
        "1,000 virtual hosts, the last asked",
        Routes::Apart,
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
        if self == Self::One { 1 } else { MANY }
    }

    /// The virtual hosts with these routes.
    fn virtual_hosts(self) -> Value {
        let host = |number: usize, domain: &str, routes: Vec<Value>| {
            let name = format!("host-{number}");
            json!({"name": name, "domains": [domain], "routes": routes})
        };
        match self {
            Self::Apart => (0..MANY)
                .map(|number| host(number, &host_name(number), vec![route(number)]))
                .collect(),
            _ => json!([host(0, "*", (0..self.count()).map(route).collect())]),
        }
    }
}

fn host_name(number: usize) -> String {
    format!("host-{number:04}.example")
}

fn path(number: usize) -> String {
    format!("/routes/{number:04}")
}

fn route(number: usize) -> Value {
    json!({
        "name": format!("route-{number:04}"),
        "match": {"path": path(number)},
        "route": {"cluster": "backends"},
        "metadata": {"filter_metadata": {"limpet": {"session": format!("web/HTTPRoute/shop/route-{number:04}/all")}}},
    })
}

/// Measures both builds and the baseline, and prints what the builds add.
pub(crate) async fn run(backends: &Envoy, effort: Effort) -> Result<()> {
    let mut envoys = Vec::new();
    for (build, config) in [
        ("no filter", without_filters()?),
        ("module", module(&cookie_policy())?),
        ("wasm", wasm(&cookie_policy())?),
    ] {
        for layout in LAYOUTS {
            let config = config.clone().backend_addresses(&backends.addresses()).workers(1);
            let config = config.route_configuration(|routes| routes["virtual_hosts"] = layout.virtual_hosts());
            envoys.push((build, layout, Envoy::start(config).await?));
        }
    }
    let mut runs = Vec::new();
    for of_build in envoys.chunks(LAYOUTS.len()) {
        for (what, layout, requested) in LOADS {
            let found = of_build.iter().find(|(_, present, _)| *present == layout);
            let (build, _, envoy) = found.context("no Envoy with these routes")?;
            let load = load(envoy, layout.count(), requested).await?;
            runs.push(Run::new(format!("{build}, {what}"), envoy.pid(), load));
        }
    }
    effort.measure(&mut runs.iter_mut().collect::<Vec<_>>()).await?;
    report(&runs)
}

/// A load with a session for each requested route. The order of routes has no pattern that a cache could learn.
async fn load(envoy: &Envoy, routes: usize, requested: RequestedRoutes) -> Result<Load> {
    let numbers: Vec<usize> = match requested {
        RequestedRoutes::All => (0..routes).map(|number| number * 617 % routes).collect(),
        RequestedRoutes::Last => vec![routes - 1],
    };
    let mut requests = Vec::new();
    for number in numbers {
        let (host, path) = (host_name(number), path(number));
        requests.push(next_request(envoy, host, path).await?);
    }
    Ok(Load::new(envoy.address(), &requests))
}

fn report(runs: &[Run]) -> Result<()> {
    let (baselines, builds) = runs.split_at_checked(LOADS.len()).context("no baseline")?;
    println!(
        "{:45} {:>10} {:>20} {:>22}",
        "", "added us", "quartiles", "times that of 1 route"
    );
    for build in builds.chunks(LOADS.len()) {
        let added: Vec<_> = build
            .iter()
            .zip(baselines)
            .map(|(run, base)| quartiles(&run.over(base)))
            .collect();
        let [_, one, _] = added.first().copied().context("nothing measured")?;
        for (run, [low, median, high]) in build.iter().zip(&added) {
            let quartiles = format!("{low:.1} to {high:.1}");
            println!("{:45} {median:10.2} {quartiles:>20} {:22.2}", run.name, median / one);
        }
    }
    println!();
    for run in baselines {
        println!("{:45} {:10.1}", run.name, quartiles(&run.spent)[1]);
    }
    Ok(())
}
