//! Values that placeholders replace in results, by caller. They exist in memory only.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use gateway_policy::QuotaKey;
use inspection::{Classes, Placeholder};
use registry_core::Name;
use registry_core::entity::policy::DataClass;

use crate::random::random_bits;

/// Maximum number of placeholders of one caller. The oldest one is removed for another.
const PER_CALLER: usize = 10_000;
/// Maximum number of placeholders of all callers. Further values are redacted.
const TOTAL: usize = 100_000;
/// Maximum size of a value in bytes. Longer ones are redacted.
const VALUE_BYTES: usize = 1_024;
/// The time until a placeholder expires. It starts again when the value is replaced again.
const LIFETIME: Duration = Duration::from_hours(24);
/// Attempts to find an unused code. Each fails with a probability below 1e-5.
const ATTEMPTS: usize = 4;

/// The placeholders of all callers.
#[derive(Default)]
pub(super) struct Tokens {
    callers: Mutex<Callers>,
    has_issued: AtomicBool,
}

/// A value to replace.
pub(super) struct ReplacedValue<'a> {
    pub(super) value: &'a str,
    /// The class in the placeholder.
    pub(super) class: DataClass,
    /// The classes of all findings in the value.
    pub(super) classes: Classes,
    /// The names of the policies that replace it.
    pub(super) policies: Vec<Name>,
}

/// A replaced value.
#[derive(Clone)]
pub(super) struct Token {
    pub(super) value: Arc<str>,
    /// The classes of all findings in the value.
    pub(super) classes: Classes,
    /// The names of the policies that replaced it.
    pub(super) policies: Vec<Name>,
    /// The position in the order of replacements.
    number: u64,
    expires: Instant,
}

#[derive(Default)]
struct Callers {
    by_key: HashMap<QuotaKey, CallerTokens>,
    /// The number of all placeholders.
    total: usize,
    /// No placeholder expires earlier. Known after a search for expired ones.
    first_expiry: Option<Instant>,
}

/// The placeholders of one caller.
#[derive(Default)]
struct CallerTokens {
    by_placeholder: HashMap<Placeholder, Token>,
    by_value: HashMap<(DataClass, Arc<str>), Placeholder>,
    /// From the oldest to the newest.
    order: BTreeMap<u64, Placeholder>,
    /// The number of the next replacement.
    next: u64,
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
        replaced: ReplacedValue<'_>,
        now: Instant,
    ) -> Option<Placeholder> {
        if replaced.value.len() > VALUE_BYTES {
            return None;
        }
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.total >= TOTAL {
            callers.expire(now);
        }
        if callers.total >= TOTAL {
            return None;
        }
        let tokens = callers.by_key.entry(owner.clone()).or_default();
        let before = tokens.order.len();
        tokens.expire(now);
        let placeholder = tokens.issue(replaced, now);
        let after = tokens.order.len();
        callers.total = callers.total + after - before;
        self.has_issued.fetch_or(placeholder.is_some(), Ordering::Relaxed);
        placeholder
    }

    /// The value of a caller's placeholder.
    pub(super) fn find(
        &self,
        owner: &QuotaKey,
        placeholder: Placeholder,
        now: Instant,
    ) -> Option<Token> {
        let callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let token = callers.by_key.get(owner)?.by_placeholder.get(&placeholder)?;
        (now < token.expires).then(|| token.clone())
    }
}

impl Callers {
    /// Removes the expired placeholders of all callers, unless none can have expired since the last
    /// time.
    fn expire(&mut self, now: Instant) {
        if self.first_expiry.is_some_and(|first| now < first) {
            return;
        }
        self.by_key.retain(|_, tokens| {
            tokens.expire(now);
            !tokens.order.is_empty()
        });
        self.total = self.by_key.values().map(|tokens| tokens.order.len()).sum();
        self.first_expiry = self.by_key.values().filter_map(CallerTokens::first_expiry).min();
    }
}

impl CallerTokens {
    fn issue(&mut self, replaced: ReplacedValue<'_>, now: Instant) -> Option<Placeholder> {
        let ReplacedValue { value, class, classes, policies } = replaced;
        let value: Arc<str> = value.into();
        let known = self.by_value.get(&(class, Arc::clone(&value))).copied();
        let placeholder = match known {
            Some(placeholder) => placeholder,
            None => self.unused(class)?,
        };
        if known.is_none() && self.order.len() >= PER_CALLER {
            self.remove_oldest();
        }
        let number = self.next;
        self.next += 1;
        let token = self.by_placeholder.entry(placeholder).or_insert_with(|| Token {
            value: Arc::clone(&value),
            classes,
            policies: Vec::new(),
            number,
            expires: now,
        });
        self.order.remove(&token.number);
        self.order.insert(number, placeholder);
        (token.number, token.expires) = (number, now + LIFETIME);
        token.classes = token.classes.iter().chain(classes.iter()).collect();
        token.policies.extend(policies);
        token.policies.sort_unstable();
        token.policies.dedup();
        self.by_value.insert((class, value), placeholder);
        Some(placeholder)
    }

    fn unused(&self, class: DataClass) -> Option<Placeholder> {
        let random = |_| {
            let bits = random_bits().ok()? & u128::from(u32::MAX);
            let placeholder = Placeholder::from_random(class, u32::try_from(bits).ok()?);
            (!self.by_placeholder.contains_key(&placeholder)).then_some(placeholder)
        };
        (0..ATTEMPTS).find_map(random)
    }

    fn first_expiry(&self) -> Option<Instant> {
        let (_, oldest) = self.order.first_key_value()?;
        self.by_placeholder.get(oldest).map(|token| token.expires)
    }

    fn expire(&mut self, now: Instant) {
        while self.first_expiry().is_some_and(|expires| expires <= now) {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        let Some((_, oldest)) = self.order.pop_first() else { return };
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

    fn replaced<'a>(value: &'a str, class: DataClass, policy: &str) -> ReplacedValue<'a> {
        let (classes, policies) = ([class].into_iter().collect(), vec![self::policy(policy)]);
        ReplacedValue { value, class: DataClass::Contact, classes, policies }
    }

    fn issue(tokens: &Tokens, owner: &str, value: &str, now: Instant) -> Option<Placeholder> {
        tokens.issue(&Some(owner.into()), replaced(value, DataClass::Contact, "p"), now)
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
        let more = replaced("x@y.org", DataClass::Financial, "q");
        let second = tokens.issue(&Some("a".into()), more, now);
        assert_eq!(second, Some(first));
        let found = tokens.find(&Some("a".into()), first, now).unwrap();
        assert_eq!(found.policies, [policy("p"), policy("q")]);
        assert!(found.classes.iter().eq([DataClass::Financial, DataClass::Contact]));
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
        let of_caller = &callers.by_key[&Some("a".into())];
        assert_eq!(of_caller.by_placeholder.len(), PER_CALLER);
        assert_eq!(of_caller.by_value.len(), PER_CALLER);
        assert_eq!((of_caller.order.len(), callers.total), (PER_CALLER, PER_CALLER));
    }

    #[test]
    fn repeated_value_restarts_the_lifetime() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        let (owner, half) = (Some("a".into()), LIFETIME / 2);
        let placeholder = issue(&tokens, "a", "x@y.org", now).unwrap();
        let other = issue(&tokens, "a", "z@y.org", now).unwrap();
        assert_eq!(issue(&tokens, "a", "x@y.org", now + half), Some(placeholder));
        issue(&tokens, "a", "more", now + LIFETIME).unwrap();
        assert!(tokens.find(&owner, placeholder, now + LIFETIME).is_some());
        assert!(tokens.find(&owner, other, now + LIFETIME).is_none());
        assert!(tokens.find(&owner, placeholder, now + half + LIFETIME).is_none());
        assert_eq!(tokens.callers.lock().unwrap().total, 2);
    }

    #[test]
    fn full_store_issues_again_after_expiry() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        for number in 0..TOTAL {
            let owner = format!("caller {}", number / PER_CALLER);
            issue(&tokens, &owner, &number.to_string(), now).unwrap();
        }
        for _ in 0..PER_CALLER {
            assert_eq!(issue(&tokens, "late", "x@y.org", now), None);
        }
        assert!(issue(&tokens, "late", "x@y.org", now + LIFETIME).is_some());
        assert_eq!(tokens.callers.lock().unwrap().total, 1);
    }

    #[test]
    fn long_values_get_no_placeholder() {
        let value = "x".repeat(VALUE_BYTES + 1);
        assert_eq!(issue(&Tokens::default(), "a", &value, Instant::now()), None);
    }
}
