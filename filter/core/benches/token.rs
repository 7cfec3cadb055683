//! What a token costs in native code.
fn main() {
    divan::main();
}
