//! What `make chaos` makes of what it saw: clients send requests all the time, while pods and processes end. Here is
//! what is pure of it: the rules by which a failure or a move has a reason, and how the result is shown.

mod judge;
mod pods;
mod visits;

pub use judge::{Counts, Row, Verdict, judge};
pub use pods::{Cause, End, Pod, Role};
pub use visits::{Loss, Outcome, Protocol, Visit};
