//! `cargo fuzz run keyring_document --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| limpet_fuzz::keyring_document(data));
