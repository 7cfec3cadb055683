use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use limpet_core::Filter;
use limpet_core::config::{self, FencesAhead};
use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{BufferType, ContextType, LogLevel, Status};

use crate::host;
use crate::plugin::{self, WasmPlugin, log};
use crate::reporter::{self, WasmReporter};
use crate::stream::WasmStream;
use crate::table::{self, BucketTable};
use crate::tick::{self, TICK};

thread_local! {
    /// Fences of the worker's VM, which outlives configurations.
    static FENCES_AHEAD: RefCell<FencesAhead> = const { RefCell::new(FencesAhead::new()) };
}

/// A configured filter. Envoy makes a new one for a new configuration, and keeps the old one if that is refused.
#[derive(Default)]
pub(crate) struct WasmRoot {
    plugin: Option<Rc<WasmPlugin>>,
    reporter: Option<WasmReporter>,
}

impl Drop for WasmRoot {
    fn drop(&mut self) {
        tick::stop();
    }
}

impl Context for WasmRoot {
    fn on_grpc_call_response(&mut self, call: u32, status: u32, size: usize) {
        if let Some(reporter) = &mut self.reporter {
            reporter.on_answer(call, status, size);
        }
    }
}

impl RootContext for WasmRoot {
    fn on_configure(&mut self, size: usize) -> bool {
        match configure(size) {
            Ok((plugin, reporter)) => {
                // Without ticks, requests ask the host.
                let _: Result<(), Status> = hostcalls::set_tick_period(TICK);
                self.reporter = reporter;
                self.plugin = Some(Rc::new(plugin));
                true
            }
            Err(error) => {
                log(LogLevel::Error, &format!("limpet: configuration refused: {error}"));
                false
            }
        }
    }

    fn on_tick(&mut self) {
        tick::tick();
        if let Some(reporter) = &mut self.reporter {
            reporter.tick();
        }
    }

    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        reporter::mark_serving();
        Some(Box::new(WasmStream::new(self.plugin.clone())))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

fn configure(size: usize) -> Result<(WasmPlugin, Option<WasmReporter>), String> {
    let json = hostcalls::get_buffer(BufferType::PluginConfiguration, 0, size)
        .map_err(|status| format!("Envoy did not hand it over (status {})", status as u32))?
        .unwrap_or_default();
    let environment = |name: &str| std::env::var(name).ok();
    let mut config = config::parse(&json).map_err(|error| error.to_string())?;
    let now = host::now().map_err(|error| error.to_string())?;
    let ahead = FENCES_AHEAD.with_borrow_mut(|fences| fences.bound(&mut config, now));
    let (filter, warnings) = Filter::new(&config, &environment).map_err(|error| error.to_string())?;
    let seed = table::seed().map_err(|error| error.to_string())?;
    filter.remember_tokens();
    filter.set_tables(|_, rules| Arc::new(BucketTable::new(*rules, seed)));
    let counters = plugin::counters(&filter).map_err(|status| format!("no counters (status {})", status as u32))?;
    let reporter = filter.report_sessions().map(|rules| {
        let started = WasmReporter::start(rules, seed);
        started.map_err(|status| format!("no clock or queue for reportSessions (status {})", status as u32))
    });
    let reporter = reporter.transpose()?;
    for warning in warnings.into_iter().chain(ahead) {
        plugin::warn_once(&format!("{}: {warning}", warning.field()));
    }
    let plugin = WasmPlugin {
        exact_time: !filter.tolerates_late_time(TICK),
        filter,
        counters,
    };
    Ok((plugin, reporter))
}
