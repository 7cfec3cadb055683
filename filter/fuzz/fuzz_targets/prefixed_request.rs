//! `cargo fuzz run prefixed_request --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| limpet_fuzz::prefixed_request(data));
