//! `cargo fuzz run cookie_names --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| limpet_fuzz::cookie_names(data));
