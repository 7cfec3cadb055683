//! The pure part of `make chaos`: how losses and moves get reasons, and how the result is shown.

mod conntrack;
mod counters;
mod judge;
mod page;
mod picture;
mod pods;
mod report;
mod samples;
mod visits;

pub use conntrack::destination;
pub use counters::summed;
pub use judge::{Counts, Row, Verdict, judge};
pub use page::{page, summary};
pub use picture::picture;
pub use pods::{Cause, End, Pod, Role};
pub use report::{MOST_GROWTH, Report};
pub use samples::{Sample, memory_between};
pub use visits::{Loss, Outcome, Protocol, Visit};

#[cfg(test)]
mod tests;
