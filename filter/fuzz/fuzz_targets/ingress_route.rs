//! `cargo fuzz run ingress_route --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| limpet_fuzz::ingress_route(data));
