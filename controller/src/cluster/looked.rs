//! How many items this thread has looked at, for tests of what many of them cost.

use std::cell::Cell;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

pub(super) fn at_one() {
    COUNT.set(COUNT.get() + 1);
}

/// How many since the last call.
pub(super) fn take_count() -> usize {
    COUNT.replace(0)
}
