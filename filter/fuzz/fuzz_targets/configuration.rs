//! `cargo fuzz run configuration --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| limpet_fuzz::configuration(data));
