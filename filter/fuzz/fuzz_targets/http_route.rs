//! `cargo fuzz run http_route --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| limpet_fuzz::http_route(data));
