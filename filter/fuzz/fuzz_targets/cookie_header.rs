//! `cargo fuzz run cookie_header --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| limpet_fuzz::cookie_header(data));
