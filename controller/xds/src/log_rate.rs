//! Logs by rate: what a client can cause any number of times is logged a few times, then counted.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long [`LogRate::LINES`] last.
const WINDOW: Duration = Duration::from_secs(10);

/// The rate of one kind of log lines.
#[derive(Debug, Default)]
pub struct LogRate(Mutex<LogWindow>);

#[derive(Debug, Default)]
struct LogWindow {
    began_at: Option<Instant>,
    logged: u64,
    left_out: u64,
}

impl LogRate {
    /// Lines of one window.
    pub(super) const LINES: u64 = 5;

    fn window(&self) -> MutexGuard<'_, LogWindow> {
        // A panic leaves no half change that matters.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `Some` to log now, with the number of lines that were left out since the last one.
    pub fn permit(&self) -> Option<u64> {
        self.permit_at(Instant::now())
    }

    fn permit_at(&self, now: Instant) -> Option<u64> {
        let mut window = self.window();
        if window.began_at.is_none_or(|began| now.duration_since(began) >= WINDOW) {
            window.began_at = Some(now);
            window.logged = 0;
        }
        if window.logged == Self::LINES {
            window.left_out += 1;
            return None;
        }
        window.logged += 1;
        Some(std::mem::take(&mut window.left_out))
    }

    /// The number of lines that were left out a while ago, which no later line reports.
    pub(super) fn rest(&self) -> Option<u64> {
        self.rest_at(Instant::now())
    }

    fn rest_at(&self, now: Instant) -> Option<u64> {
        let mut window = self.window();
        let over = window.began_at.is_some_and(|began| now.duration_since(began) >= WINDOW);
        (over && window.left_out > 0).then(|| std::mem::take(&mut window.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_often_is_told_a_few_times_and_counted() {
        let rate = LogRate::default();
        let now = Instant::now();
        let told = (0..1000).filter(|_| rate.permit_at(now).is_some()).count();
        assert_eq!(told as u64, LogRate::LINES);
        assert_eq!(rate.rest_at(now), None);
        assert_eq!(rate.permit_at(now + WINDOW), Some(1000 - LogRate::LINES));
        assert_eq!(rate.permit_at(now + WINDOW), Some(0));
        assert_eq!(rate.rest_at(now + 2 * WINDOW), None);
        for _ in 0..LogRate::LINES {
            let _ = rate.permit_at(now + WINDOW);
        }
        assert_eq!(rate.rest_at(now + 2 * WINDOW), Some(2));
        assert_eq!(rate.rest_at(now + 2 * WINDOW), None);
    }
}
