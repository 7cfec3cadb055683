//! One route with a policy, and a thousand, each with a scope of its own: whether what a request costs grows with their number.
//!
//! What Envoy itself does to find a route is not ours: the baseline of each variant is an Envoy with the same routes and without a filter, asked
//! for the same paths. The thousand stand in virtual hosts of their own, which Envoy finds by name; and once more in one virtual host, whose
//! routes it goes through one after the other.

use anyhow::{Context, Result};
use limpet_e2e::{Config, Envoy};
use serde_json::{Value, json};

use crate::load::{Get, Load};
use crate::measure::{Effort, Run, quartiles};
use crate::{cookie, module, without_filters};

const MANY: usize = 1000;

/// What an Envoy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Routes {
    One,
    /// Each in a virtual host of its own.
    Apart,
    /// All in one virtual host.
    InARow,
}

/// Which of them are asked.
#[derive(Debug, Clone, Copy)]
enum Asked {
    All,
    Last,
}

const LAYOUTS: [Routes; 3] = [Routes::One, Routes::Apart, Routes::InARow];

/// What each build is measured with, against no filter with the same.
const LOADS: [(&str, Routes, Asked); 5] = [
    ("1 route", Routes::One, Asked::Last),
    ("1,000 virtual hosts, all asked", Routes::Apart, Asked::All),
    ("1,000 virtual hosts, the last asked", Routes::Apart, Asked::Last),
    ("1,000 routes of one, all asked", Routes::InARow, Asked::All),
    ("1,000 routes of one, the last asked", Routes::InARow, Asked::Last),
];

impl Routes {
    fn count(self) -> usize {
        if self == Self::One { 1 } else { MANY }
    }

    /// The virtual hosts.
    fn virtual_hosts(self) -> Value {
        let host = |number: usize, domain: &str, routes: Vec<Value>| json!({"name": format!("host-{number}"), "domains": [domain], "routes": routes});
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

/// Measures no filter and both builds, and prints what they add.
pub(crate) async fn run(backends: &Envoy, effort: Effort) -> Result<()> {
    let mut envoys = Vec::new();
    for (build, config) in [
        ("no filter", without_filters()?),
        ("module", module()?),
        ("wasm", Config::load("cookie.yaml")?),
    ] {
        for layout in LAYOUTS {
            let config = config.clone().backend_addresses(&backends.addresses()).workers(1);
            let config = config.route_configuration(|routes| routes["virtual_hosts"] = layout.virtual_hosts());
            envoys.push((build, layout, Envoy::start(config).await?));
        }
    }
    let mut runs = Vec::new();
    for of_build in envoys.chunks(LAYOUTS.len()) {
        for (what, layout, asked) in LOADS {
            let found = of_build.iter().find(|(_, present, _)| *present == layout);
            let (build, _, envoy) = found.context("no Envoy with these routes")?;
            let load = load(envoy, layout.count(), asked).await?;
            runs.push(Run::new(format!("{build}, {what}"), envoy, load));
        }
    }
    effort.measure(&mut runs).await?;
    report(&runs)
}

/// A session for each route that is asked; for all of them in an order without a pattern that a cache could learn.
async fn load(envoy: &Envoy, routes: usize, asked: Asked) -> Result<Load> {
    let numbers: Vec<usize> = match asked {
        Asked::All => (0..routes).map(|number| number * 617 % routes).collect(),
        Asked::Last => vec![routes - 1],
    };
    let mut requests = Vec::new();
    for number in numbers {
        let (host, path) = (host_name(number), path(number));
        let cookie = cookie(envoy, &host, &path).await?;
        requests.push(Get { host, path, cookie });
    }
    Ok(Load::new(envoy.address(), &requests))
}

fn report(runs: &[Run<'_>]) -> Result<()> {
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
