//! The rates of policies, as token buckets (the generic cell rate algorithm).
//!
//! The rates of one call are taken together or not at all, so that a rejected call uses none.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use policy::RateRule;
use registry_core::{Key, Name, Version, entity::policy::Rate};

/// Maximum number of buckets. Full buckets are dropped first.
const BUCKETS: usize = 1_000_000;

/// The buckets of all rates at one gateway.
#[derive(Debug, Default)]
pub struct Rates(Mutex<HashMap<Bucket, Instant>>);

/// The calls that share a rate. A new release of a policy with the same rate keeps its buckets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Bucket {
    policy: Name,
    /// The version of a pre-release, which has buckets of its own.
    pre_release: Option<Version>,
    rate: Rate,
    key: Box<str>,
}

/// A rate that applies to a call.
#[derive(Debug, Clone)]
pub struct CountedRate<'a> {
    /// The rate, with its policy.
    pub rule: RateRule<'a>,
    /// The text that the calls with the same rate share.
    pub key: Box<str>,
}

/// The rates that a call has taken.
#[derive(Debug, Default)]
pub struct TakenRates(Vec<Bucket>);

/// A rate is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateExceeded {
    /// The number of the rate among those of the call.
    pub rate: usize,
    /// The time until the next call is allowed. `None`: never.
    pub retry_after: Option<Duration>,
}

impl Rates {
    /// Takes the rates of a call.
    pub fn take(
        &self,
        rates: &[CountedRate<'_>],
        now: Instant,
    ) -> Result<TakenRates, RateExceeded> {
        let buckets: Vec<_> = rates.iter().map(Bucket::of).collect();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::with_capacity(buckets.len());
        for (rate, bucket) in buckets.iter().enumerate() {
            let next = next(&bucket.rate, known.get(bucket).copied(), now);
            taken.push(next.map_err(|retry_after| RateExceeded { rate, retry_after })?);
        }
        if known.len() + buckets.len() > BUCKETS {
            known.retain(|_, full_at| *full_at > now);
        }
        known.extend(buckets.iter().cloned().zip(taken));
        Ok(TakenRates(buckets))
    }

    /// Returns the rates of a call that was not sent.
    pub fn release(&self, taken: TakenRates) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for bucket in taken.0 {
            let interval = interval(&bucket.rate);
            if let (Some(full_at), Some(interval)) = (known.get_mut(&bucket), interval) {
                *full_at = full_at.checked_sub(interval).unwrap_or(*full_at);
            }
        }
    }
}

impl Bucket {
    fn of(CountedRate { rule, key }: &CountedRate<'_>) -> Self {
        let Key { name, version, .. } = rule.policy.key();
        Self {
            policy: name.clone(),
            pre_release: version.is_prerelease().then(|| version.clone()),
            rate: rule.rate.clone(),
            key: key.clone(),
        }
    }
}

/// The mean time between calls; `None` if no calls are allowed.
fn interval(rate: &Rate) -> Option<Duration> {
    rate.window.checked_div(rate.limit)
}

/// The end of refilling after one more call, or the time to wait.
fn next(rate: &Rate, full_at: Option<Instant>, now: Instant) -> Result<Instant, Option<Duration>> {
    let interval = interval(rate).ok_or(None)?;
    let burst = rate.burst.unwrap_or(rate.limit);
    let tolerance = interval.checked_mul(burst.checked_sub(1).ok_or(None)?).ok_or(None)?;
    let full_at = full_at.map_or(now, |full_at| full_at.max(now));
    let wait = full_at.duration_since(now).saturating_sub(tolerance);
    if wait.is_zero() { Ok(full_at + interval) } else { Err(Some(wait)) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use policy::PolicyInForce;
    use registry_core::{Document, Kind};
    use serde_json::{Value, json};

    use super::*;

    fn policy(rates: &Value) -> Arc<PolicyInForce> {
        let document = json!({ "name": "p", "version": "1.0.0", "rates": rates });
        let document = Document::parse(Kind::Policy, &document).unwrap();
        Arc::new(PolicyInForce::new(Arc::new(document)).unwrap())
    }

    fn take(
        rates: &Rates,
        policy: &Arc<PolicyInForce>,
        now: Instant,
    ) -> Result<TakenRates, RateExceeded> {
        let rules = policy.policy().rates.iter().map(|rate| RateRule { policy, rate });
        let counted: Vec<_> = rules.map(|rule| CountedRate { rule, key: "a".into() }).collect();
        rates.take(&counted, now)
    }

    #[test]
    fn burst_passes_and_refills_with_time() {
        let policy = policy(&json!([{ "limit": 60, "window": "PT1M", "burst": 2 }]));
        let (rates, start) = (Rates::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        assert!(take(&rates, &policy, at(0)).is_ok());
        assert!(take(&rates, &policy, at(0)).is_ok());
        let exceeded = take(&rates, &policy, at(400)).unwrap_err();
        assert_eq!(
            exceeded,
            RateExceeded { rate: 0, retry_after: Some(Duration::from_millis(600)) }
        );
        assert!(take(&rates, &policy, at(1_000)).is_ok());
        assert!(take(&rates, &policy, at(1_999)).is_err());
        assert!(take(&rates, &policy, at(10_000)).is_ok());
        assert!(take(&rates, &policy, at(10_000)).is_ok());
        assert!(take(&rates, &policy, at(10_000)).is_err());
    }

    #[test]
    fn rejected_call_takes_no_rate() {
        let policy = policy(&json!([
            { "limit": 2, "window": "PT1M" }, { "limit": 1, "window": "PT1S" },
        ]));
        let (rates, now) = (Rates::default(), Instant::now());
        assert!(take(&rates, &policy, now).is_ok());
        assert_eq!(take(&rates, &policy, now).unwrap_err().rate, 1);
        assert!(take(&rates, &policy, now + Duration::from_secs(1)).is_ok());
        assert_eq!(take(&rates, &policy, now + Duration::from_secs(2)).unwrap_err().rate, 0);
    }

    #[test]
    fn released_call_can_be_repeated() {
        let policy = policy(&json!([{ "limit": 1, "window": "PT1M" }]));
        let (rates, now) = (Rates::default(), Instant::now());
        let taken = take(&rates, &policy, now).unwrap();
        rates.release(taken);
        assert!(take(&rates, &policy, now).is_ok());
        assert!(take(&rates, &policy, now).is_err());
    }

    #[test]
    fn limit_of_zero_allows_no_call() {
        for rates in [
            json!([{ "limit": 0, "window": "PT1M" }]),
            json!([{ "limit": 1, "window": "PT1M", "burst": 0 }]),
        ] {
            let policy = policy(&rates);
            let exceeded = take(&Rates::default(), &policy, Instant::now()).unwrap_err();
            assert_eq!(exceeded.retry_after, None);
        }
    }
}
