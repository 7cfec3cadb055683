//! `cargo fuzz run set_cookie --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| limpet_fuzz::set_cookie(data));
