//! An attempt that one makes for all who need what comes of it: a handshake, a look at what an upstream
//! speaks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as AsyncMutex;

use super::{error::Error, routing::TargetId};

/// The attempts at one upstream.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    turn: AsyncMutex<()>,
    /// How many failed, and the last one why.
    failures: Mutex<(u64, Option<Arc<Error>>)>,
}

impl Attempts {
    /// What is known, or else what an attempt gives, which is to make it known. Who waits for the attempt
    /// of somebody else is told that it failed, and makes none: a queue of attempts would help nobody.
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
    async fn who_waits_for_an_attempt_shares_its_failure_and_who_comes_later_makes_another() {
        let (attempts, target) = (Attempts::default(), "server/s@1.0.0".parse().unwrap());
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
