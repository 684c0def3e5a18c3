//! Single flight: concurrent callers share one attempt and its failure, for a handshake or a
//! version probe.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as AsyncMutex;

use super::{error::Error, routing::TargetId};

/// The shared attempts at one upstream.
#[derive(Debug, Default)]
pub(super) struct SingleFlight {
    turn: AsyncMutex<()>,
    /// The number of failures and the last error.
    failures: Mutex<(u64, Option<Arc<Error>>)>,
}

impl SingleFlight {
    /// Returns the known value, or makes an attempt that stores it. Callers that waited for a
    /// failed attempt get its error and make no attempt of their own, so that a queue of attempts
    /// cannot build up.
    pub(super) async fn make<T>(
        &self,
        target: &TargetId,
        known: impl Fn() -> Option<T>,
        attempt: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        if let Some(known) = known() {
            return Ok(known);
        }
        let before = self.failures().0;
        let _only_one = self.turn.lock().await;
        if let Some(known) = known() {
            return Ok(known);
        }
        let (now, last) = self.failures().clone();
        if let Some(last) = last.filter(|_| now > before) {
            return Err(last.again(target));
        }
        let outcome = attempt.await;
        if let Err(error) = &outcome {
            let mut failures = self.failures();
            *failures = (failures.0 + 1, Some(Arc::new(error.again(target))));
        }
        outcome
    }

    fn failures(&self) -> MutexGuard<'_, (u64, Option<Arc<Error>>)> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test]
    async fn single_flight_shares_failures_and_retries_later() {
        let (attempts, target) = (SingleFlight::default(), "server/s@1.0.0".parse().unwrap());
        let (count, known) = (AtomicU64::new(0), AtomicU64::new(0));
        let make = || {
            let attempt = async {
                tokio::task::yield_now().await;
                match count.fetch_add(1, Ordering::Relaxed) {
                    0 => Err(Error::Refused { status: 403 }),
                    n => {
                        known.store(n, Ordering::Relaxed);
                        Ok(n)
                    }
                }
            };
            let known = || Some(known.load(Ordering::Relaxed)).filter(|known| *known > 0);
            attempts.make(&target, known, attempt)
        };
        let (first, second) = tokio::join!(make(), make());
        assert!(matches!(first, Err(Error::Refused { status: 403 })));
        assert!(matches!(second, Err(Error::Unavailable { .. })));
        let (third, fourth) = tokio::join!(make(), make());
        assert_eq!((third.unwrap(), fourth.unwrap()), (1, 1));
        assert_eq!(make().await.unwrap(), 1);
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }
}
