//! Values that placeholders replace in results, by caller. They exist in memory only.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use gateway_policy::QuotaKey;
use inspection::Placeholder;
use registry_core::Name;
use registry_core::entity::policy::DataClass;

use crate::random::random_bits;

/// Maximum number of placeholders of one caller. The oldest one is removed for another.
const PER_CALLER: usize = 10_000;
/// Maximum number of placeholders of all callers. Further values are redacted.
const TOTAL: usize = 100_000;
/// Maximum size of a value in bytes. Longer ones are redacted.
const VALUE_BYTES: usize = 1_024;
/// The time until a placeholder expires.
const LIFETIME: Duration = Duration::from_hours(24);
/// Attempts to find an unused code. Each fails with a probability below 1e-5.
const ATTEMPTS: usize = 4;

/// The placeholders of all callers.
#[derive(Default)]
pub(super) struct Tokens {
    callers: Mutex<HashMap<QuotaKey, CallerTokens>>,
    has_issued: AtomicBool,
}

/// A replaced value.
#[derive(Clone)]
pub(super) struct Token {
    pub(super) value: Arc<str>,
    /// The names of the policies that replaced it.
    pub(super) policies: Vec<Name>,
    expires: Instant,
}

/// The placeholders of one caller.
#[derive(Default)]
struct CallerTokens {
    by_placeholder: HashMap<Placeholder, Token>,
    by_value: HashMap<(DataClass, Arc<str>), Placeholder>,
    /// From the oldest to the newest.
    order: VecDeque<Placeholder>,
}

impl Tokens {
    /// Whether a placeholder was issued.
    pub(super) fn has_issued(&self) -> bool {
        self.has_issued.load(Ordering::Relaxed)
    }

    /// The placeholder of a value. The same value of a caller has the same placeholder. `None`: the
    /// value is too long, or the store is full.
    pub(super) fn issue(
        &self,
        owner: &QuotaKey,
        class: DataClass,
        value: &str,
        policies: impl Iterator<Item = Name>,
        now: Instant,
    ) -> Option<Placeholder> {
        if value.len() > VALUE_BYTES {
            return None;
        }
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |callers: &HashMap<QuotaKey, CallerTokens>| {
            callers.values().map(|tokens| tokens.order.len()).sum::<usize>() >= TOTAL
        };
        if is_full(&callers) {
            callers.retain(|_, tokens| {
                tokens.expire(now);
                !tokens.order.is_empty()
            });
            if is_full(&callers) {
                return None;
            }
        }
        let tokens = callers.entry(owner.clone()).or_default();
        tokens.expire(now);
        let placeholder = tokens.issue(class, value, policies, now)?;
        self.has_issued.store(true, Ordering::Relaxed);
        Some(placeholder)
    }

    /// The value of a caller's placeholder.
    pub(super) fn find(
        &self,
        owner: &QuotaKey,
        placeholder: Placeholder,
        now: Instant,
    ) -> Option<Token> {
        let callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let token = callers.get(owner)?.by_placeholder.get(&placeholder)?;
        (now < token.expires).then(|| token.clone())
    }
}

impl CallerTokens {
    fn issue(
        &mut self,
        class: DataClass,
        value: &str,
        policies: impl Iterator<Item = Name>,
        now: Instant,
    ) -> Option<Placeholder> {
        let value: Arc<str> = value.into();
        let known = self.by_value.get(&(class, Arc::clone(&value))).copied();
        if let Some(placeholder) = known
            && let Some(token) = self.by_placeholder.get_mut(&placeholder)
        {
            token.policies.extend(policies);
            token.policies.sort_unstable();
            token.policies.dedup();
            return Some(placeholder);
        }
        let random = |_| {
            let bits = random_bits().ok()? & u128::from(u32::MAX);
            let placeholder = Placeholder::from_random(class, u32::try_from(bits).ok()?);
            (!self.by_placeholder.contains_key(&placeholder)).then_some(placeholder)
        };
        let placeholder = (0..ATTEMPTS).find_map(random)?;
        if self.order.len() >= PER_CALLER {
            self.remove_oldest();
        }
        let mut policies: Vec<_> = policies.collect();
        policies.sort_unstable();
        policies.dedup();
        let token = Token { value: Arc::clone(&value), policies, expires: now + LIFETIME };
        self.by_placeholder.insert(placeholder, token);
        self.by_value.insert((class, value), placeholder);
        self.order.push_back(placeholder);
        Some(placeholder)
    }

    fn expire(&mut self, now: Instant) {
        let is_expired = |tokens: &Self| {
            let oldest = tokens.order.front().and_then(|oldest| tokens.by_placeholder.get(oldest));
            oldest.is_some_and(|token| token.expires <= now)
        };
        while is_expired(self) {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        let Some(oldest) = self.order.pop_front() else { return };
        if let Some(token) = self.by_placeholder.remove(&oldest) {
            self.by_value.remove(&(oldest.class, token.value));
        }
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The values must not reach logs.
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use registry_core::Kind;

    use super::*;

    fn policy(name: &str) -> Name {
        Name::parse(Kind::Policy, name).unwrap()
    }

    fn issue(tokens: &Tokens, owner: &str, value: &str, now: Instant) -> Option<Placeholder> {
        let policies = std::iter::once(policy("p"));
        tokens.issue(&Some(owner.into()), DataClass::Contact, value, policies, now)
    }

    #[test]
    fn placeholder_belongs_to_its_caller() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        assert!(!tokens.has_issued());
        let placeholder = issue(&tokens, "a", "x@y.org", now).unwrap();
        assert!(tokens.has_issued());
        let found = tokens.find(&Some("a".into()), placeholder, now).unwrap();
        assert_eq!((&*found.value, found.policies), ("x@y.org", vec![policy("p")]));
        assert!(tokens.find(&Some("b".into()), placeholder, now).is_none());
    }

    #[test]
    fn equal_values_of_a_caller_share_a_placeholder() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        let first = issue(&tokens, "a", "x@y.org", now).unwrap();
        let more = std::iter::once(policy("q"));
        let second = tokens.issue(&Some("a".into()), DataClass::Contact, "x@y.org", more, now);
        assert_eq!(second, Some(first));
        let found = tokens.find(&Some("a".into()), first, now).unwrap();
        assert_eq!(found.policies, [policy("p"), policy("q")]);
        assert_ne!(issue(&tokens, "b", "x@y.org", now), Some(first));
    }

    #[test]
    fn placeholder_expires_after_its_lifetime() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        let placeholder = issue(&tokens, "a", "x@y.org", now).unwrap();
        let last = (now + LIFETIME).checked_sub(Duration::from_nanos(1)).unwrap();
        assert!(tokens.find(&Some("a".into()), placeholder, last).is_some());
        assert!(tokens.find(&Some("a".into()), placeholder, now + LIFETIME).is_none());
        assert_ne!(issue(&tokens, "a", "x@y.org", now + LIFETIME), Some(placeholder));
    }

    #[test]
    fn oldest_placeholder_of_a_full_caller_is_removed() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        let first = issue(&tokens, "a", "first", now).unwrap();
        for number in 1..=PER_CALLER {
            issue(&tokens, "a", &number.to_string(), now).unwrap();
        }
        assert!(tokens.find(&Some("a".into()), first, now).is_none());
        let callers = tokens.callers.lock().unwrap();
        let of_caller = &callers[&Some("a".into())];
        assert_eq!(of_caller.by_placeholder.len(), PER_CALLER);
        assert_eq!(of_caller.by_value.len(), PER_CALLER);
    }

    #[test]
    fn long_values_get_no_placeholder() {
        let value = "x".repeat(VALUE_BYTES + 1);
        assert_eq!(issue(&Tokens::default(), "a", &value, Instant::now()), None);
    }
}
