use std::time::Duration;

/// How long to wait before the next try: longer each time, and never the same for two controllers, so that they do not all come back at once.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// From about `first` to about `longest`.
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        let failures = 0;
        Self {
            first,
            longest,
            failures,
        }
    }

    /// Of calls to the API server: soon enough that a server that is back is noticed within seconds.
    pub(crate) fn of_the_api() -> Self {
        Self::new(Duration::from_millis(250), Duration::from_secs(8))
    }

    /// It worked.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// It failed again: half of the time to all of it, at random.
    pub(crate) fn next(&mut self) -> Duration {
        let full = self.first.saturating_mul(1 << self.failures.min(16)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        let half = full / 2;
        // Without randomness there is no jitter, and no harm.
        let random = getrandom::u32().unwrap_or(u32::MAX);
        half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
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
        backoff.failures = u32::MAX;
        assert!(backoff.next() <= Duration::from_secs(1));
        backoff.reset();
        assert!(backoff.next() <= Duration::from_millis(100));
    }
}
