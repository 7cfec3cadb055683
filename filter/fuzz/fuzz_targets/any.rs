//! `LIMPET_FUZZ_TARGET=token cargo fuzz run --fuzz-dir filter/fuzz any`. Without cargo-fuzz's `--cfg fuzzing`, this
//! does nothing.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    static BODY: std::sync::LazyLock<limpet_fuzz::Body> = std::sync::LazyLock::new(|| {
        let name = std::env::var("LIMPET_FUZZ_TARGET").unwrap_or_default();
        let target = limpet_fuzz::TARGETS.into_iter().find(|(each, _)| *each == name);
        let names = limpet_fuzz::TARGETS.map(|(name, _)| name).join(", ");
        target.map_or_else(
            || panic!("LIMPET_FUZZ_TARGET={name}: it must be one of {names}"),
            |(_, body)| body,
        )
    });
    BODY(data);
});

#[cfg(not(fuzzing))]
fn main() {}
