//! Results as a table, as JSON, and as a page with a plot.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use limpet_e2e::tools;
use serde_json::{Value, json};

use crate::UPDATE;
use crate::comparison::Kind;
use crate::h2load;
use crate::measure::{Effort, Run, quartiles};
use crate::plot;
use crate::variants::{COUNTING, EMPTY, HAPROXY, NATIVE, NO_FILTER};

const BUSY: &str = "**This run was on a busy machine.** Its latencies are those of the machine, and its CPU times are \
    rough:\nneither is a result.\n\n";

const PAGES: [(&str, &str); 2] = [
    ("docs/background/benchmarks.md", include_str!("benchmarks.template")),
    ("design/benchmarks.md", include_str!("benchmarks-in-full.template")),
];
const PLOT: &str = "docs/background/benchmarks.svg";

/// Median and 99th percentile of a slice, in microseconds.
pub(crate) type Latency = [f64; 2];

pub(crate) struct Figures {
    pub(crate) variant: String,
    pub(crate) kind: Kind,
    /// Quartiles of the proxy's CPU per request, in microseconds.
    pub(crate) spent: [f64; 3],
    /// The same beyond an Envoy without filters.
    added: [f64; 3],
    /// The same as a multiple of it.
    times: [f64; 3],
    /// Medians over rounds, in microseconds.
    latency: Latency,
}

impl Figures {
    pub(crate) fn new(run: &Run, kind: Kind, baseline: &Run, latencies: &[Latency]) -> Self {
        let of = |choose: fn(&Latency) -> f64| {
            let [_, median, _] = quartiles(&latencies.iter().map(choose).collect::<Vec<_>>());
            median
        };
        Self {
            variant: run.name.clone(),
            kind,
            spent: quartiles(&run.spent),
            added: quartiles(&run.over(baseline)),
            times: quartiles(&run.times(baseline)),
            latency: [of(|[middle, _]| *middle), of(|[_, high]| *high)],
        }
    }

    fn to_json(&self) -> Value {
        let quartiles = |[low, median, high]: [f64; 3]| json!({"lower": low, "median": median, "upper": high});
        let [middle, high] = self.latency;
        json!({
            "variant": self.variant,
            "request": self.kind.name(),
            "cpuMicroseconds": quartiles(self.spent),
            "addedMicroseconds": quartiles(self.added),
            "timesNoFilter": quartiles(self.times),
            "latencyMicroseconds": {"p50": middle, "p99": high},
        })
    }
}

pub(crate) struct Results {
    figures: Vec<Figures>,
    about: Vec<(&'static str, String)>,
    /// Whether other processes wanted the CPUs.
    was_busy: bool,
}

impl Results {
    pub(crate) fn new(figures: Vec<Figures>, effort: Effort, rate: f64) -> Result<Self> {
        let said = |program: &str, arguments: &[&str]| -> Result<String> {
            let output = Command::new(program)
                .args(arguments)
                .output()
                .context(program.to_owned())?;
            let text = String::from_utf8(output.stdout)?;
            Ok(text.lines().next().unwrap_or_default().trim().to_owned())
        };
        let cpu = fs::read_to_string("/proc/cpuinfo")?;
        let model = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let (_, model) = model.unwrap_or(("", "a CPU without a name"));
        let cpus = std::thread::available_parallelism()?;
        // The last 15 minutes' load. The run itself is about 1.5 of a small machine's two CPUs.
        let load = fs::read_to_string("/proc/loadavg")?;
        let load: f64 = load.split(' ').nth(2).context("no load")?.parse()?;
        let was_busy = load > f64::from(u32::try_from(cpus.get())?) * 1.5;
        let (major, minor) = tools::envoy_version()?;
        let mut about = vec![
            ("Date", said("date", &["-u", "+%Y-%m-%d"])?),
            ("Machine", format!("{cpus} x {model}, {}", said("uname", &["-sr"])?)),
            ("Load average of 15 minutes", format!("{load:.1}")),
            ("Envoy", format!("{major}.{minor}")),
            ("Load", h2load::version()?),
            ("Rounds", effort.rounds.to_string()),
            ("Requests in each slice", effort.requests.to_string()),
            ("Half load", format!("{rate:.0} requests a second")),
        ];
        if figures.iter().any(|of| of.variant == HAPROXY) {
            let said = said(&tools::haproxy()?.to_string_lossy(), &["-v"])?;
            about.push(("HAProxy", said.split(' ').nth(2).unwrap_or_default().to_owned()));
        }
        Ok(Self {
            figures,
            about,
            was_busy,
        })
    }

    fn find(&self, variant: &str, kind: Kind) -> Option<&Figures> {
        self.figures.iter().find(|of| of.variant == variant && of.kind == kind)
    }

    fn variants(&self) -> impl Iterator<Item = &Figures> {
        self.figures.iter().filter(|of| of.kind == Kind::Steady)
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "CPU of the whole proxy per request and latency at half load, in us\n\n{}",
            self.table()
        );
        let _ = writeln!(text, "\nIn the steady state, over an Envoy without filters:");
        let added = |name| self.find(name, Kind::Steady).map_or(f64::NAN, |of| of.added[1]);
        for of in self.variants().filter(|of| of.variant.starts_with("Limpet")) {
            let [low, median, high] = of.added;
            let _ = writeln!(
                text,
                "{:50} {median:6.1} ({low:.1} to {high:.1}), {:.2} times Envoy's own filter, {:.2} times the empty one",
                of.variant,
                median / added(NATIVE),
                median / added(EMPTY),
            );
        }
        for [without, with] in COUNTING {
            if let (Some(without), Some(with)) = (self.find(without, Kind::Steady), self.find(with, Kind::Steady)) {
                let _ = writeln!(
                    text,
                    "{}: {:.3} times without",
                    with.variant,
                    with.times[1] / without.times[1]
                );
            }
        }
        text
    }

    fn table(&self) -> String {
        let mut table = String::from("| |");
        for kind in Kind::ALL {
            let _ = write!(table, " {}: CPU | p50, p99 |", kind.name());
        }
        table.push_str("\n|---|---|---|---|---|---|---|\n");
        for variant in self.variants() {
            let _ = write!(table, "| {} |", variant.variant);
            for kind in Kind::ALL {
                match self.find(&variant.variant, kind) {
                    Some(Figures {
                        spent: [low, median, high],
                        latency: [middle, late],
                        ..
                    }) => {
                        let _ = write!(table, " {median:.1} ({low:.1} to {high:.1}) | {middle:.0}, {late:.0} |");
                    }
                    None => table.push_str(" | |"),
                }
            }
            table.push('\n');
        }
        table
    }

    fn added(&self) -> String {
        let mut table = String::from("| | adds, in us | as a multiple of an Envoy without filters |\n|---|---|---|\n");
        for of in self
            .variants()
            .filter(|of| ![NO_FILTER, HAPROXY].contains(&&*of.variant))
        {
            let ([low, median, high], [_, times, _]) = (of.added, of.times);
            let _ = writeln!(
                table,
                "| {} | {median:.1} ({low:.1} to {high:.1}) | {times:.3} |",
                of.variant
            );
        }
        table
    }

    pub(crate) fn write(&self) -> Result<()> {
        let root = tools::checkout();
        let about: serde_json::Map<String, Value> = self
            .about
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone().into()))
            .collect();
        let figures: Vec<Value> = self.figures.iter().map(Figures::to_json).collect();
        let json = json!({"about": about, "figures": figures});
        fs::write(root.join("dist/bench.json"), format!("{json:#}\n"))?;
        let plot = plot::bars(&self.figures);
        fs::write(root.join("dist/bench.svg"), &plot)?;
        println!("\nWrote dist/bench.json and dist/bench.svg");
        if std::env::var_os(UPDATE).is_some() {
            for (page, template) in PAGES {
                fs::write(root.join(page), self.page(template))?;
                println!("Wrote {page}");
            }
            fs::write(root.join(PLOT), plot)?;
        }
        Ok(())
    }

    fn page(&self, template: &str) -> String {
        let mut about = String::from("| | |\n|---|---|\n");
        for (name, value) in &self.about {
            let _ = writeln!(about, "| {name} | {value} |");
        }
        let times = |name| self.find(name, Kind::Steady).map_or(f64::NAN, |of| of.times[1]);
        template
            .replace("{{about}}", about.trim_end())
            .replace("{{busy}}", if self.was_busy { BUSY } else { "" })
            .replace("{{table}}", self.table().trim_end())
            .replace("{{added}}", self.added().trim_end())
            .replace("{{module}}", &format!("{:.2}", times(COUNTING[1][0])))
            .replace("{{wasm}}", &format!("{:.2}", times(COUNTING[0][0])))
            .replace("{{native}}", &format!("{:.2}", times(NATIVE)))
    }
}
