//! The configuration that the controller makes of graphs, in a real Envoy.

mod discovered;
mod draining;
mod expressions;
mod fuzzed;
mod graphs;
mod overload;
mod paths;
mod readiness;
mod redispatch;
mod rendered;
mod sessions;
mod shares;
mod tls;
mod validate;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use limpet_core::config::schema::{KeyConfig, KeyStateConfig};
use limpet_e2e::{Backend, Build, Config, Envoy, Request, tools};
use limpet_model::Graph;
use limpet_model::endpoints::{Endpoint, EndpointState};
use limpet_model::graph::ClusterName;
use limpet_outputs::envoy::{
    EnvoyOptions, FilterBuild, ModuleFilter, OverloadLimits, WasmFilter, load_assignment, resources, static_bootstrap,
};
use limpet_outputs::{FilterInputs, FilterKeys, json};
use limpet_resources::Resource;

use self::graphs::gateway;

pub(crate) const LIMITS: OverloadLimits = OverloadLimits {
    heap: 512 << 20,
    connections: 1000,
};

pub(crate) fn options() -> Result<EnvoyOptions> {
    let filter = match Build::tested()? {
        Build::Wasm => {
            let file = tools::wasm()?;
            FilterBuild::Wasm(WasmFilter::File(file.to_string_lossy().into_owned()))
        }
        Build::Module => FilterBuild::Module(ModuleFilter::Name("limpet".to_owned())),
    };
    Ok(EnvoyOptions {
        filter,
        access_log: true,
        listen_address: Ipv4Addr::LOCALHOST.into(),
        ..EnvoyOptions::default()
    })
}

pub(crate) fn inputs() -> FilterInputs {
    FilterInputs::with_keys(FilterKeys::Listed(vec![KeyConfig {
        id: 1,
        env: Some("LIMPET_KEY".to_owned()),
        inline: None,
        state: KeyStateConfig::Signing,
    }]))
}

fn all(graph: &Graph, endpoints: &[(&str, &[Backend])]) -> Result<Vec<Resource>> {
    let mut all = resources(graph, &gateway(), &options()?, &inputs());
    all.extend(assignments(endpoints));
    Ok(all)
}

pub(crate) fn assignments(endpoints: &[(&str, &[Backend])]) -> Vec<Resource> {
    let assignment = |(cluster, backends): &(&str, &[Backend])| {
        let endpoints = backends.iter().map(|backend| Endpoint {
            address: backend.address(),
            state: EndpointState::Ready,
            owner: None,
            pod: None,
        });
        let endpoints: Vec<Endpoint> = endpoints.collect();
        load_assignment(&ClusterName((*cluster).into()), &endpoints)
    };
    endpoints.iter().map(assignment).collect()
}

pub(crate) fn config(graph: &Graph, endpoints: &[(&str, &[Backend])]) -> Result<Config> {
    let all = all(graph, endpoints)?;
    Ok(Config::made(json::typed(&static_bootstrap(&all, 0)?)?))
}

/// An Envoy for a graph, with services v1 and v2 of two backends each.
#[derive(Debug)]
pub(crate) struct GraphSite {
    pub(crate) envoy: Envoy,
    v1: [Backend; 2],
    v2: [Backend; 2],
}

impl GraphSite {
    pub(crate) async fn start(graph: &Graph) -> Result<Self> {
        let pair = |name: &str| {
            anyhow::Ok([
                Backend::start(&format!("{name}/a"))?,
                Backend::start(&format!("{name}/b"))?,
            ])
        };
        let (v1, v2) = (pair("v1")?, pair("v2")?);
        let envoy = Envoy::serve(config(graph, &[("v1", &v1), ("v2", &v2)])?).await?;
        Ok(Self { envoy, v1, v2 })
    }

    /// A new Envoy with another graph and the same backends.
    pub(crate) async fn change(self, graph: &Graph) -> Result<Self> {
        let Self { envoy, v1, v2 } = self;
        drop(envoy);
        let envoy = Envoy::serve(config(graph, &[("v1", &v1), ("v2", &v2)])?).await?;
        Ok(Self { envoy, v1, v2 })
    }

    pub(crate) fn get(&self, listener: &str, path: &str) -> Result<Request> {
        Ok(Request::get(self.envoy.listener(listener)?, path))
    }

    /// Counts requests by the backend that answered, or by Envoy's status.
    pub(crate) async fn shares(&self, requests: usize, path: &str) -> Result<BTreeMap<String, usize>> {
        let mut shares = BTreeMap::new();
        for _ in 0..requests {
            let answer = self.get("http-80", path)?.send().await?;
            let who = answer
                .backend()
                .map_or_else(|| answer.status.to_string(), str::to_owned);
            let service = who.split('/').next().context("no name")?.to_owned();
            *shares.entry(service).or_default() += 1;
        }
        Ok(shares)
    }
}
