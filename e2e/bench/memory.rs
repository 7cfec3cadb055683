//! An Envoy's memory with one policy and with a thousand, by number of workers.
//!
//! `Private_Dirty` counts: written memory that no other process shares, so without code. The filter binds a policy to a
//! scope at each worker's first request, so each worker gets requests of all sessions. With one policy, all routes
//! share a scope: the difference is the policies' memory.

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Envoy, kibibytes};

use crate::load::Load;
use crate::measure::quartiles;
use crate::workers::{balanced, count, ensure_each_had};
use crate::{Filter, cookie_policy, policy_name, scale, with_policies};

const POLICIES: [usize; 2] = [1, 1000];
const WORKERS: [u8; 3] = [1, 4, 8];
/// The same for all, so that Envoys without a filter are alike.
const ROUTES: usize = 1000;
/// Allocators differ from process to process.
const PROCESSES: usize = 5;

struct Measured {
    filter: Filter,
    workers: u8,
    policies: usize,
    kibibytes: Vec<f64>,
}

struct Memory(Vec<Measured>);

pub(crate) async fn run(backends: &Envoy) -> Result<()> {
    println!("\nPrivate memory of an Envoy in KiB, medians and quartiles of {PROCESSES} processes\n");
    let mut memory = Vec::new();
    for filter in Filter::ALL {
        for workers in WORKERS {
            for policies in POLICIES {
                memory.push(Measured {
                    filter,
                    workers,
                    policies,
                    kibibytes: Vec::new(),
                });
            }
        }
    }
    for process in 1..=PROCESSES {
        for measured in &mut memory {
            let kibibytes = measured.process(backends).await?;
            measured.kibibytes.push(kibibytes);
        }
        eprint!("\rmemory, process {process} of {PROCESSES} ");
    }
    eprintln!();
    Memory(memory).print()
}

impl Measured {
    async fn process(&self, backends: &Envoy) -> Result<f64> {
        let session = |route: usize| {
            let number = route % self.policies;
            format!("{}/HTTPRoute/shop/route-{number:04}/all", policy_name(number))
        };
        let config = self.filter.config(&with_policies(&cookie_policy(), self.policies))?;
        let config = config.backend_addresses(&backends.addresses());
        let config = config.route_configuration(|routes| routes["virtual_hosts"] = scale::apart(ROUTES, session));
        let envoy = Envoy::start(balanced(config, self.workers)).await?;
        let requests = scale::requests(&envoy, self.filter, ROUTES).await?;
        let load = Load::new(envoy.address(), &requests);
        load.send_all(2 * usize::from(self.workers)).await?;
        ensure_each_had(1, &envoy, self.workers).await?;
        let kibibytes = kibibytes(&envoy.pid().to_string(), "smaps_rollup", "Private_Dirty:")?;
        Ok(f64::from(u32::try_from(kibibytes)?))
    }
}

impl Memory {
    fn of(&self, filter: Filter, workers: u8, policies: usize) -> Result<[f64; 3]> {
        let is_it = |of: &&Measured| (of.filter, of.workers, of.policies) == (filter, workers, policies);
        let found = self.0.iter().find(is_it).context("not measured")?;
        ensure!(found.kibibytes.len() == PROCESSES, "not measured");
        Ok(quartiles(&found.kibibytes))
    }

    fn added(&self, filter: Filter, workers: u8) -> Result<[f64; 2]> {
        let added = |policies| {
            let [_, without, _] = self.of(Filter::None, workers, policies)?;
            let [_, with, _] = self.of(filter, workers, policies)?;
            anyhow::Ok(with - without)
        };
        let [few, many] = POLICIES;
        Ok([added(few)?, added(many)?])
    }

    fn print(&self) -> Result<()> {
        let [few, many] = POLICIES;
        let further = f64::from(u32::try_from(many - few)?);
        let of_policy = |[few, many]: [f64; 2]| (many - few) * 1024.0 / further;
        println!(
            "{:20} {:>26} {:>26} {:>8} {:>8} {:>14}",
            "", "1 policy", "1,000 policies", "adds", "adds", "bytes a policy"
        );
        for filter in Filter::ALL {
            for workers in WORKERS {
                let name = format!("{}, {}", filter.name(), count(workers));
                let cell = |policies| -> Result<String> {
                    let [low, median, high] = self.of(filter, workers, policies)?;
                    Ok(format!("{median:.0} ({low:.0} to {high:.0})"))
                };
                print!("{name:20} {:>26} {:>26}", cell(few)?, cell(many)?);
                if filter == Filter::None {
                    println!();
                    continue;
                }
                let added = self.added(filter, workers)?;
                let [adds_few, adds_many] = added;
                println!(" {adds_few:8.0} {adds_many:8.0} {:14.0}", of_policy(added));
            }
        }
        println!();
        let [least, .., most] = WORKERS;
        for filter in [Filter::Module, Filter::Wasm] {
            let (at_least, at_most) = (self.added(filter, least)?, self.added(filter, most)?);
            let of_worker = |at_least: f64, at_most: f64| (at_most - at_least) / f64::from(most - least);
            let policy = of_worker(of_policy(at_least), of_policy(at_most));
            let once = of_policy(at_least) - policy * f64::from(least);
            let ([few_at_least, _], [few_at_most, _]) = (at_least, at_most);
            println!(
                "{}: a policy takes {policy:.0} bytes in each worker and {once:.0} once, and a worker with one policy \
                {:.0} KiB",
                filter.name(),
                of_worker(few_at_least, few_at_most),
            );
        }
        Ok(())
    }
}
