//! A genuine Prometheus, and what it answers.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kube::Daemon;
use crate::{Request, tools};

/// A target to scrape.
#[derive(Debug, Clone)]
pub struct Target {
    /// The label `job`.
    pub job: &'static str,
    /// The path of the metrics.
    pub path: &'static str,
    /// The addresses.
    pub addresses: Vec<SocketAddr>,
}

/// A Prometheus that scrapes and evaluates rules every second.
#[derive(Debug)]
pub struct Prometheus {
    address: SocketAddr,
    _process: Daemon,
    _directory: TempDir,
}

impl Prometheus {
    /// Starts it and waits until it is ready. Metrics' labels win over targets', as in the chart's `PodMonitor`.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(address: SocketAddr, targets: &[Target], rules: &Path) -> Result<Self> {
        let directory = TempDir::with_prefix("limpet-e2e-")?;
        let jobs = targets.iter().map(|target| {
            json!({
                "job_name": target.job,
                "metrics_path": target.path,
                "honor_labels": true,
                "static_configs": [{"targets": target.addresses}],
            })
        });
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": jobs.collect::<Vec<_>>(),
        });
        let file = directory.path().join("prometheus.yaml");
        std::fs::write(&file, config.to_string())?;
        let mut command = Command::new(tools::prometheus("prometheus")?);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                directory.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"));
        let mut process = Daemon::start("prometheus", &mut command, directory.path())?;
        let ready = async || {
            let answer = Request::get(address, "/-/ready").send().await;
            answer.ok().filter(|answer| answer.status == 200)
        };
        process.until_ready(ready).await?;
        Ok(Self {
            address,
            _process: process,
            _directory: directory,
        })
    }

    /// The series of a query, in the API's form: `{"metric": {…}, "value": [TIME, "VALUE"]}`.
    ///
    /// # Errors
    /// If it refuses the query.
    pub async fn query(&self, expression: &str) -> Result<Vec<Value>> {
        let mut data = self
            .get(&format!("/api/v1/query?query={}", escaped(expression)))
            .await?;
        match data["result"].take() {
            Value::Array(series) => Ok(series),
            other => Ok(vec![other]),
        }
    }

    /// The sum of a query; `None` if it finds nothing.
    ///
    /// # Errors
    /// As [`Prometheus::query`].
    pub async fn sum(&self, expression: &str) -> Result<Option<f64>> {
        let series = self.query(expression).await?;
        let values = series
            .iter()
            .map(|one| one["value"][1].as_str()?.parse::<f64>().ok())
            .collect::<Option<Vec<_>>>()
            .context("no numbers")?;
        Ok((!values.is_empty()).then(|| values.iter().sum()))
    }

    /// All rules, in the API's form.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn rules(&self) -> Result<Vec<Value>> {
        let data = self.get("/api/v1/rules").await?;
        let groups = data["groups"].as_array().context("no groups")?;
        let rules = groups.iter().filter_map(|group| group["rules"].as_array());
        Ok(rules.flatten().cloned().collect())
    }

    /// The scraped targets, in the API's form.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn targets(&self) -> Result<Vec<Value>> {
        let data = self.get("/api/v1/targets").await?;
        Ok(data["activeTargets"].as_array().context("no targets")?.clone())
    }

    async fn get(&self, path: &str) -> Result<Value> {
        let answer = Request::get(self.address, path).send().await?;
        let text = String::from_utf8_lossy(&answer.body);
        ensure!(answer.status == 200, "{path}: {text}");
        let mut said: Value = serde_json::from_str(&text)?;
        Ok(said["data"].take())
    }
}

fn escaped(text: &str) -> String {
    let escaped = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    escaped.collect()
}
