//! The `limpet` command. What it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    limpet::run()
}
