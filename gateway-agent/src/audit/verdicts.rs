//! The verdicts of policies in audit events.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use policy::Finding;

/// The verdicts about the tools behind the stored results that a call of a composition returns.
#[derive(Debug, Default)]
pub(super) struct StoredVerdicts(Mutex<BTreeSet<Box<str>>>);

impl StoredVerdicts {
    /// Adds verdicts, separated by spaces.
    pub(super) fn add(&self, verdicts: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(verdicts.split_whitespace().map(Box::<str>::from));
    }

    /// The different verdicts, separated by spaces. `None`: there are none.
    pub(super) fn text(&self) -> Option<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let verdicts: Vec<&str> = known.iter().map(|verdict| &**verdict).collect();
        (!verdicts.is_empty()).then(|| verdicts.join(" "))
    }
}

/// The verdicts with that of one policy about a result replaced, or added. A denial stays one, and the
/// other policies have admitted the call.
pub(super) fn with(verdicts: &str, verdict: &str, finding: &Finding) -> String {
    let label = format!("{}@{}", finding.policy.name, finding.policy.version);
    let new = format!("{label}:{verdict}:{}", finding.reason.as_str());
    let mut is_known = false;
    let replaced = verdicts.split_whitespace().map(|known| {
        let old = known.strip_prefix(&*label).and_then(|rest| rest.strip_prefix(':'));
        is_known |= old.is_some();
        match old {
            Some(old) if !old.starts_with("deny") => &*new,
            _ => known,
        }
    });
    let mut verdicts: Vec<_> = replaced.collect();
    if !is_known {
        verdicts.push(&new);
    }
    verdicts.join(" ")
}

#[cfg(test)]
mod tests {
    use policy::{Direction, Reason};

    use super::*;

    #[test]
    fn verdict_replaces_that_of_its_policy() {
        let finding = |policy: &str| Finding {
            policy: format!("policy/{policy}@1.0.0").parse().unwrap(),
            reason: Reason::PiiDetected {
                class: "contact",
                direction: Direction::Results,
                pointer: String::new(),
            },
        };
        let known = "a@1.0.0:allow ab@1.0.0:allow";
        let denied = "a@1.0.0:deny:PII_DETECTED ab@1.0.0:allow";
        assert_eq!(with(known, "deny", &finding("a")), denied);
        assert_eq!(with(denied, "audit", &finding("a")), denied);
        assert_eq!(with("", "audit", &finding("a")), "a@1.0.0:audit:PII_DETECTED");
        let added = "a@1.0.0:allow ab@1.0.0:allow b@1.0.0:deny:PII_DETECTED";
        assert_eq!(with(known, "deny", &finding("b")), added);
    }
}
