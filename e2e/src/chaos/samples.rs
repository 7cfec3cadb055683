//! Resource usage of processes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Role;

/// A process's usage until a moment.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// The time since the run's begin.
    pub at: Duration,
    /// Its role.
    pub role: Role,
    /// Its id.
    pub process: u32,
    /// Its memory in bytes.
    pub memory: u64,
    /// Its CPU time since it began.
    pub cpu: Duration,
}

/// A new process does not have its later memory yet.
const SETTLED: Duration = Duration::from_secs(20);

/// The median memory of a role in a part of the run, given as fractions.
#[must_use]
pub fn memory_between(samples: &[Sample], role: Role, from: f64, to: f64) -> Option<u64> {
    let end = samples.last()?.at;
    let mut begun = BTreeMap::new();
    let mut found = Vec::new();
    for sample in samples.iter().filter(|sample| sample.role == role) {
        let first = *begun.entry(sample.process).or_insert(sample.at);
        let within = sample.at >= end.mul_f64(from) && sample.at <= end.mul_f64(to);
        if within && sample.at >= first + SETTLED {
            found.push(sample.memory);
        }
    }
    found.sort_unstable();
    found.get(found.len() / 2).copied()
}

pub(super) fn lines(samples: &[Sample], role: Role) -> BTreeMap<u32, Vec<&Sample>> {
    let mut lines = BTreeMap::<u32, Vec<&Sample>>::new();
    for sample in samples.iter().filter(|sample| sample.role == role) {
        lines.entry(sample.process).or_default().push(sample);
    }
    lines
}

pub(super) fn cpus(samples: &[Sample], role: Role, step: Duration) -> Vec<f64> {
    let mut used = Vec::new();
    for line in lines(samples, role).values() {
        for (before, after) in line.iter().zip(line.iter().skip(1)) {
            let index = usize::try_from(after.at.as_secs() / step.as_secs().max(1)).unwrap_or_default();
            if used.len() <= index {
                used.resize(index + 1, 0.0);
            }
            if let Some(used) = used.get_mut(index) {
                *used += after.cpu.saturating_sub(before.cpu).as_secs_f64() / step.as_secs_f64();
            }
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, process: u32, memory: u64, cpu: u64) -> Sample {
        Sample {
            at: Duration::from_secs(at),
            role: Role::Envoy,
            process,
            memory,
            cpu: Duration::from_secs(cpu),
        }
    }

    #[test]
    fn a_process_counts_once_it_has_settled() {
        let samples: Vec<_> = (0..=100)
            .map(|at| sample(at, 1, if at < 10 { 1 } else { at }, 0))
            .collect();
        assert_eq!(memory_between(&samples, Role::Envoy, 0.0, 0.4), Some(30));
        assert_eq!(memory_between(&samples, Role::Envoy, 0.0, 0.1), None);
        assert_eq!(memory_between(&samples, Role::Controller, 0.0, 1.0), None);
    }

    #[test]
    fn cpus_are_summed_over_processes() {
        let samples = [
            sample(0, 1, 0, 3),
            sample(0, 2, 0, 0),
            sample(4, 1, 0, 5),
            sample(4, 2, 0, 2),
            sample(6, 1, 0, 10),
        ];
        assert_eq!(cpus(&samples, Role::Envoy, Duration::from_secs(5)), [0.8, 1.0]);
    }
}
