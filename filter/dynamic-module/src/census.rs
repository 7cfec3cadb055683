use std::sync::LazyLock;

use limpet_core::census::Census;

pub(crate) static CENSUS: LazyLock<Census> = LazyLock::new(|| {
    let mut seed = [0; 16];
    // Without random bytes there are no new sessions either.
    let _ = getrandom::fill(&mut seed);
    Census::new(seed, 0)
});
