//! The rates of policies, as token buckets (the generic cell rate algorithm).
//!
//! The rates of one call are taken together or not at all, so that a rejected call uses none.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use policy::RateRule;
use registry_core::{Name, Version, entity::policy::Rate};

/// Maximum number of buckets. Full buckets are dropped first.
const BUCKETS: usize = 1_000_000;

/// The buckets of all rates at one gateway.
#[derive(Debug, Default)]
pub struct Rates(Mutex<Buckets>);

#[derive(Debug, Default)]
struct Buckets {
    /// The rates by policy. A new release with the same rate keeps its buckets.
    policies: HashMap<Name, Vec<RateBuckets>>,
    /// The number of buckets.
    count: usize,
}

#[derive(Debug)]
struct RateBuckets {
    /// The version of a pre-release, which has buckets of its own.
    pre_release: Option<Version>,
    rate: Rate,
    /// The end of refilling, by the text that the calls of a bucket share.
    full_at: HashMap<Box<str>, Instant>,
}

/// A rate that applies to a call.
#[derive(Debug, Clone)]
pub struct CountedRate<'a> {
    /// The rate, with its policy.
    pub rule: RateRule<'a>,
    /// The text that the calls with the same rate share.
    pub key: String,
}

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
    pub fn take(&self, rates: &[CountedRate<'_>], now: Instant) -> Result<(), RateExceeded> {
        let mut taken = Vec::with_capacity(rates.len());
        let mut known = self.lock();
        for (rate, counted) in rates.iter().enumerate() {
            let full_at = known.find(counted).copied();
            let next = next(counted.rule.rate, full_at, now);
            taken.push(next.map_err(|retry_after| RateExceeded { rate, retry_after })?);
        }
        if known.count + rates.len() > BUCKETS {
            known.forget_full(now);
        }
        for (counted, full_at) in rates.iter().zip(taken) {
            known.set(counted, full_at, now);
        }
        Ok(())
    }

    /// Returns the rates of a call that was not sent.
    pub fn release(&self, rates: &[CountedRate<'_>]) {
        let mut known = self.lock();
        for counted in rates {
            let interval = interval(counted.rule.rate);
            if let (Some(full_at), Some(interval)) = (known.find(counted), interval) {
                *full_at = full_at.checked_sub(interval).unwrap_or(*full_at);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Buckets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buckets {
    fn find(&mut self, CountedRate { rule, key }: &CountedRate<'_>) -> Option<&mut Instant> {
        let rates = self.policies.get_mut(&rule.policy.key().name)?;
        let buckets = rates.iter_mut().find(|buckets| buckets.are_of(rule))?;
        buckets.full_at.get_mut(key.as_str())
    }

    fn set(&mut self, counted: &CountedRate<'_>, full_at: Instant, now: Instant) {
        if let Some(known) = self.find(counted) {
            *known = full_at;
            return;
        }
        let CountedRate { rule, key } = counted;
        let rates = self.policies.entry(rule.policy.key().name.clone()).or_default();
        let position = rates.iter().position(|buckets| buckets.are_of(rule));
        let position = position.unwrap_or_else(|| {
            // Ended pre-releases and changed rates leave buckets that only refill.
            rates.retain(|buckets| {
                let is_used = buckets.full_at.values().any(|full_at| *full_at > now);
                if !is_used {
                    self.count -= buckets.full_at.len();
                }
                is_used
            });
            rates.push(RateBuckets::new(rule));
            rates.len() - 1
        });
        rates[position].full_at.insert(key.as_str().into(), full_at);
        self.count += 1;
    }

    /// Drops the full buckets.
    fn forget_full(&mut self, now: Instant) {
        self.policies.retain(|_, rates| {
            rates.retain_mut(|buckets| {
                buckets.full_at.retain(|_, full_at| *full_at > now);
                !buckets.full_at.is_empty()
            });
            !rates.is_empty()
        });
        self.count = self.policies.values().flatten().map(|buckets| buckets.full_at.len()).sum();
    }
}

impl RateBuckets {
    fn new(rule: &RateRule<'_>) -> Self {
        let pre_release = pre_release(rule).cloned();
        Self { pre_release, rate: rule.rate.clone(), full_at: HashMap::new() }
    }

    /// Whether the calls of a rate use these buckets, given the same name of the policy.
    fn are_of(&self, rule: &RateRule<'_>) -> bool {
        self.rate == *rule.rate && self.pre_release.as_ref() == pre_release(rule)
    }
}

fn pre_release<'a>(rule: &RateRule<'a>) -> Option<&'a Version> {
    Some(&rule.policy.key().version).filter(|version| version.is_prerelease())
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

    fn counted<'a>(policy: &'a Arc<PolicyInForce>, key: &str) -> Vec<CountedRate<'a>> {
        let rules = policy.policy().rates.iter().map(|rate| RateRule { policy, rate });
        rules.map(|rule| CountedRate { rule, key: key.to_owned() }).collect()
    }

    fn take(rates: &Rates, policy: &Arc<PolicyInForce>, now: Instant) -> Result<(), RateExceeded> {
        rates.take(&counted(policy, "a"), now)
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
        take(&rates, &policy, now).unwrap();
        rates.release(&counted(&policy, "a"));
        assert!(take(&rates, &policy, now).is_ok());
        assert!(take(&rates, &policy, now).is_err());
    }

    #[test]
    fn other_keys_and_rates_have_their_own_buckets() {
        let once = policy(&json!([{ "limit": 1, "window": "PT1M" }]));
        let other = policy(&json!([{ "limit": 1, "window": "PT1H" }]));
        let same = policy(&json!([{ "limit": 1, "window": "PT1M" }]));
        let (rates, now) = (Rates::default(), Instant::now());
        assert!(take(&rates, &once, now).is_ok());
        assert!(take(&rates, &other, now).is_ok());
        assert!(rates.take(&counted(&once, "b"), now).is_ok());
        assert!(take(&rates, &same, now).is_err(), "a new version keeps the bucket");
    }

    #[test]
    fn full_buckets_are_forgotten() {
        let policies = [
            policy(&json!([{ "limit": 1, "window": "PT1M" }])),
            policy(&json!([{ "limit": 1, "window": "PT1H" }])),
        ];
        let (rates, now) = (Rates::default(), Instant::now());
        for policy in &policies {
            take(&rates, policy, now).unwrap();
        }
        rates.lock().forget_full(now + Duration::from_mins(2));
        let known = rates.lock();
        let is_kept = |policy: &Arc<PolicyInForce>| {
            known.policies.values().flatten().any(|kept| kept.rate == policy.policy().rates[0])
        };
        assert_eq!((known.count, policies.each_ref().map(is_kept)), (1, [false, true]));
    }

    #[test]
    fn new_rate_replaces_full_buckets_of_its_policy() {
        let first = policy(&json!([{ "limit": 1, "window": "PT1M" }]));
        let second = policy(&json!([{ "limit": 1, "window": "PT1H" }]));
        let third = policy(&json!([{ "limit": 2, "window": "PT1H" }]));
        let (rates, now) = (Rates::default(), Instant::now());
        take(&rates, &first, now).unwrap();
        take(&rates, &second, now + Duration::from_mins(2)).unwrap();
        take(&rates, &third, now + Duration::from_mins(3)).unwrap();
        let known = rates.lock();
        let kept: Vec<_> = known.policies.values().flatten().map(|kept| &kept.rate).collect();
        let wanted = [&second, &third].map(|policy| &policy.policy().rates[0]);
        assert_eq!((known.count, kept), (2, wanted.to_vec()));
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
