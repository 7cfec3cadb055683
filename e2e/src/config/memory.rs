//! A limit to the wasm VM's memory, so that tests can fill it.

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::Config;
use super::json::each_wasm;
use crate::tools;

/// The section of memory limits (WebAssembly, "Binary Format", "Modules").
const MEMORY_SECTION: u8 = 5;

impl Config {
    /// Lets the VM's memory grow by at most this many pages of 64 KiB.
    ///
    /// # Errors
    /// If the wasm filter is not built, or has no memory of its own.
    pub fn vm_may_grow_by(mut self, pages: u32) -> Result<Self> {
        let limited = STANDARD.encode(limited(&std::fs::read(tools::wasm()?)?, pages)?);
        self.each_file(|file| {
            each_wasm(file, &mut |wasm| {
                wasm["config"]["vm_config"]["code"] = json!({"local": {"inline_bytes": limited}});
            });
        });
        Ok(self)
    }
}

fn limited(module: &[u8], pages: u32) -> Result<Vec<u8>> {
    // Behind magic number and version.
    let mut at = 8;
    while let Some(id) = module.get(at) {
        let (length, content) = number(module, at + 1)?;
        let end = content + length as usize;
        if *id == MEMORY_SECTION {
            let (count, limits) = number(module, content)?;
            ensure!(count == 1, "expected one memory, found {count}");
            // Behind the flags, which say whether there is a limit.
            let (initial, _) = number(module, limits + 1)?;
            let mut section = vec![1, 1];
            section.extend(encoded(initial));
            section.extend(encoded(initial + pages));
            let length = encoded(u32::try_from(section.len())?);
            return Ok([&module[..=at], &length, &section, &module[end..]].concat());
        }
        at = end;
    }
    anyhow::bail!("no memory section")
}

/// A LEB128 number and the position behind it.
fn number(module: &[u8], mut at: usize) -> Result<(u32, usize)> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = *module.get(at).context("the module is cut off")?;
        value |= u32::from(byte & 0x7f) << shift;
        at += 1;
        shift += 7;
        if byte < 0x80 {
            return Ok((value, at));
        }
        ensure!(shift < 32, "a number of more than 32 bits");
    }
}

fn encoded(mut value: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            bytes.push(low & 0x7f);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}
