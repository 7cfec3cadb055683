//! `cargo fuzz run wrapped_keyring --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| limpet_fuzz::wrapped_keyring(data));
