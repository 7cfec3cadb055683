//! Counting with valgrind. A program repeats an operation, and then twice as often: the difference leaves out its
//! start, so it needs no symbols.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

const OFTEN: usize = 1000;

pub(crate) struct Counts {
    pub(crate) instructions: u64,
    /// Callbacks and allocations of the module's requests.
    pub(crate) module: Option<[u64; 2]>,
}

impl Counts {
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    pub(crate) fn growth(&self, former: &Self) -> f64 {
        self.instructions as f64 / former.instructions as f64 - 1.0
    }

    pub(crate) fn to_json(&self) -> Value {
        match self.module {
            None => json!({"instructions": self.instructions}),
            Some([callbacks, allocations]) => json!({
                "instructions": self.instructions, "callbacks": callbacks, "allocations": allocations,
            }),
        }
    }

    pub(crate) fn from_json(json: &Value) -> Option<Self> {
        let number = |name| json.get(name).and_then(Value::as_u64);
        Some(Self {
            instructions: number("instructions")?,
            module: number("callbacks")
                .zip(number("allocations"))
                .map(|(one, other)| [one, other]),
        })
    }
}

/// The program's last argument is the number of repetitions.
pub(crate) fn count(program: &[&str]) -> Result<Counts> {
    let (once, twice) = (Total::of(program, OFTEN)?, Total::of(program, 2 * OFTEN)?);
    let each = |often: u64, more: u64| more.saturating_sub(often) / OFTEN as u64;
    let module = once.module.zip(twice.module);
    Ok(Counts {
        instructions: each(once.instructions, twice.instructions),
        module: module.map(|(once, twice)| [each(once[0], twice[0]), each(once[1], twice[1])]),
    })
}

struct Total {
    instructions: u64,
    module: Option<[u64; 2]>,
}

impl Total {
    fn of(program: &[&str], count: usize) -> Result<Self> {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .args(program)
            .arg(count.to_string())
            .output()
            .context("expected valgrind (Debian: valgrind)")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{program:?}: {said}");
        let collected = said.lines().find_map(|line| line.split_once("Collected : "));
        let (_, instructions) = collected.with_context(|| format!("valgrind counted nothing: {said}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let mut numbers = said.split_whitespace().filter_map(|word| word.parse().ok());
        Ok(Self {
            instructions: instructions.trim().parse()?,
            module: numbers.next().zip(numbers.next()).map(|(one, other)| [one, other]),
        })
    }
}
