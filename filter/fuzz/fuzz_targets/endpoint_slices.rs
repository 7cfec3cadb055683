//! `cargo fuzz run endpoint_slices --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| limpet_fuzz::endpoint_slices(data));
