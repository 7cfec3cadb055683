use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};

/// Waits between tries: longer each time, and with jitter, so that several controllers do not come back at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    builder: ExponentialBuilder,
    delays: ExponentialBackoff,
    longest: Duration,
}

impl Backoff {
    /// Waits at least half, at most all, of `first`, twice that, and so on up to `longest`.
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        // backon's jitter adds between nothing and the whole delay.
        let builder = ExponentialBuilder::new()
            .with_min_delay(first / 2)
            .with_max_delay(longest / 2)
            .with_factor(2.0)
            .with_jitter()
            .without_max_times();
        Self {
            builder,
            delays: builder.build(),
            longest,
        }
    }

    /// Short, so that an API server that is back is noticed within seconds.
    pub(super) const LONGEST: Duration = Duration::from_secs(8);

    /// For calls to the API server.
    pub(crate) fn of_the_api() -> Self {
        Self::new(Duration::from_millis(250), Self::LONGEST)
    }

    pub(crate) fn reset(&mut self) {
        self.delays = self.builder.build();
    }

    pub(crate) fn next(&mut self) -> Duration {
        self.delays.next().unwrap_or(self.longest)
    }

    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.next()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_to_its_longest_and_starts_again() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for full in [100, 200, 400, 800, 1000, 1000] {
            let full = Duration::from_millis(full);
            let wait = backoff.next();
            assert!(wait >= full / 2 && wait <= full, "{wait:?} of {full:?}");
        }
        for _ in 0..1000 {
            assert!(backoff.next() <= Duration::from_secs(1));
        }
        backoff.reset();
        assert!(backoff.next() <= Duration::from_millis(100));
    }

    #[test]
    fn two_controllers_do_not_wait_for_the_same_times() {
        let waits = || {
            let mut backoff = Backoff::of_the_api();
            let waits: Vec<_> = (0..8).map(|_| backoff.next()).collect();
            waits
        };
        assert_ne!(waits(), waits());
    }
}
