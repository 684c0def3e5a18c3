//! `budget-redefined` and `budget-alert-above-limit`: definitions and thresholds of budgets.

use super::proposal::{NewEntity, Proposal};
use crate::{
    Timestamp,
    diagnostic::{Code, Diagnostic},
    entity::{
        Entity,
        policy::{Budget, Fraction, Mode, Policy},
    },
    kind::Kind,
    reference::Key,
    version::Version,
};

/// The default time zone of windows.
const UTC: &str = "UTC";

/// A budget keeps its spending in new versions of its policy. The spending of other calls, or of
/// another window, cannot continue it.
pub(super) fn check_definitions(proposal: &Proposal<'_>, found: &mut Vec<Diagnostic>) {
    for (new, policy) in policies(proposal).filter(|(_, policy)| !policy.budgets.is_empty()) {
        let versions = other_versions(proposal, new.key());
        for (i, budget) in policy.budgets.iter().enumerate() {
            let same_name =
                |policy: &&Policy| policy.budgets.iter().any(|other| other.name == budget.name);
            let Some(earlier) = versions.iter().copied().find(same_name) else { continue };
            let changed = earlier.budgets.iter().find_map(|other| Redefined::find(other, budget));
            if let Some(Redefined { member, before, after }) = changed {
                let message = format!(
                    "the budget `{}` has {member} {after:?}, but {before:?} in version {}",
                    budget.name, earlier.version
                );
                let help = format!("keep {before:?}, or choose a new name, which starts at zero");
                let pointer = format!("/budgets/{i}/{member}");
                let problem = Diagnostic::error(Code::BudgetRedefined, pointer, message);
                new.report(found, problem.with_help(help));
            }
        }
    }
}

/// Spending rarely exceeds the limit of an enforced budget.
pub(super) fn check_alerts(proposal: &Proposal<'_>, found: &mut Vec<Diagnostic>) {
    for (new, policy) in policies(proposal).filter(|(_, policy)| policy.mode == Mode::Enforce) {
        for (i, budget) in policy.budgets.iter().enumerate() {
            let Some(highest) = budget.alert_at.last().filter(|at| **at > Fraction::ONE) else {
                continue;
            };
            let (name, fraction) = (&budget.name, f64::from(*highest));
            let message =
                format!("the threshold {fraction} of the budget `{name}` is above its limit");
            let pointer = format!("/budgets/{i}/alertAt");
            let warning = Diagnostic::warning(Code::BudgetAlertAboveLimit, pointer, message);
            new.report(found, warning.with_help("write fractions of the limit, at most 1"));
        }
    }
}

fn policies<'p, 'a>(
    proposal: &'p Proposal<'a>,
) -> impl Iterator<Item = (&'p NewEntity<'a>, &'a Policy)> {
    let new = proposal.new.iter().filter(|new| new.key().kind == Kind::Policy);
    new.filter_map(|new| match new.entity() {
        Entity::Policy(policy) => Some((new, &**policy)),
        _ => None,
    })
}

/// The registered versions of a policy, and the lower ones of the batch, highest first.
fn other_versions<'a>(proposal: &Proposal<'a>, key: &Key) -> Vec<&'a Policy> {
    let other = |version: &Version| Key::new(key.kind, key.name.clone(), version.clone());
    let versions = proposal.versions(key.kind, &key.name);
    let mut others: Vec<_> = versions
        .map(other)
        .filter(|other| *other != *key)
        .filter(|other| other.version < key.version || proposal.position(other).is_none())
        .collect();
    others.sort_unstable();
    let policy = |other: &Key| match proposal.find(other) {
        Some(Entity::Policy(policy)) => Some(&**policy),
        _ => None,
    };
    others.iter().rev().filter_map(policy).collect()
}

/// A member that two budgets with one name have with different values.
struct Redefined {
    member: &'static str,
    before: String,
    after: String,
}

impl Redefined {
    fn find(before: &Budget, after: &Budget) -> Option<Self> {
        if before.name != after.name {
            return None;
        }
        let zone = |budget: &Budget| budget.window.time_zone().unwrap_or(UTC).to_owned();
        let anchor =
            |budget: &Budget| budget.window.anchor().unwrap_or(Timestamp::EPOCH).to_string();
        let members = [
            ("per", before.per.as_str().to_owned(), after.per.as_str().to_owned()),
            ("window", before.window.to_string(), after.window.to_string()),
            ("timeZone", zone(before), zone(after)),
            ("anchor", anchor(before), anchor(after)),
        ];
        let (member, before, after) =
            members.into_iter().find(|(_, before, after)| before != after)?;
        Some(Self { member, before, after })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::rules::testing::{found_of, policy, versioned};

    /// The pointers of a registration of versions `1.0.0` and `2.0.0` with these budgets.
    fn redefined(before: &Value, after: &Value) -> Vec<String> {
        let first = policy("p", json!({ "budgets": before }));
        let second = versioned(&policy("p", json!({ "budgets": after })), "2.0.0");
        let later = pointers(&found_of(
            Code::BudgetRedefined,
            std::slice::from_ref(&first),
            std::slice::from_ref(&second),
        ));
        let together = pointers(&found_of(Code::BudgetRedefined, &[], &[second, first]));
        assert_eq!(later, together, "one batch has the same rule");
        later
    }

    fn pointers(found: &str) -> Vec<String> {
        let pointer = |line: &str| line.split('"').nth(1).unwrap_or_default().to_owned();
        found.lines().map(pointer).collect()
    }

    fn budget(members: &Value) -> Value {
        let mut budget = json!({ "name": "b", "per": "agent", "limit": "1", "window": "day" });
        budget.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        budget
    }

    #[test]
    fn budget_keeps_its_window_and_scope() {
        for (members, pointer) in [
            (json!({ "per": "team" }), "/budgets/0/per"),
            (json!({ "window": "week" }), "/budgets/0/window"),
            (json!({ "window": "total" }), "/budgets/0/window"),
            (json!({ "timeZone": "Europe/Berlin" }), "/budgets/0/timeZone"),
        ] {
            let before = json!([budget(&json!({}))]);
            assert_eq!(redefined(&before, &json!([budget(&members)])), [pointer], "{members}");
        }
        let fixed = |anchor: &str| json!([budget(&json!({ "window": "P7D", "anchor": anchor }))]);
        let (sunday, monday) = (fixed("2026-01-04T00:00:00Z"), fixed("2026-01-05T00:00:00Z"));
        assert_eq!(redefined(&sunday, &monday), ["/budgets/0/anchor"]);
        assert_eq!(redefined(&monday, &monday), [""; 0]);
    }

    #[test]
    fn other_members_of_a_budget_may_change() {
        let before = json!([budget(&json!({ "name": "a" })), budget(&json!({}))]);
        let changed = json!({ "limit": "0", "timeZone": "UTC", "unpriced": "deny",
            "onUnavailable": { "allow": "1" }, "alertAt": [0.5] });
        let renamed = json!({ "name": "c", "window": "year", "per": "fleet" });
        let after = json!([budget(&changed), budget(&renamed)]);
        assert_eq!(redefined(&before, &after), [""; 0]);
    }

    #[test]
    fn removed_budget_keeps_its_definition() {
        let with = |budgets: Value| policy("p", json!({ "budgets": budgets }));
        let registered = [with(json!([budget(&json!({}))])), versioned(&with(json!([])), "2.0.0")];
        let back = with(json!([budget(&json!({ "window": "year" }))]));
        let found = found_of(Code::BudgetRedefined, &registered, &[versioned(&back, "3.0.0")]);
        assert_eq!(pointers(&found), ["/budgets/0/window"]);
    }

    #[test]
    fn threshold_above_the_limit_is_a_warning() {
        let found = |mode: &str, alerts: Value| {
            let budgets = json!([budget(&json!({ "alertAt": alerts }))]);
            let new = policy("p", json!({ "mode": mode, "budgets": budgets }));
            found_of(Code::BudgetAlertAboveLimit, &[], &[new])
        };
        assert_eq!(found("enforce", json!([0.5, 1])), "");
        assert_eq!(found("audit", json!([1.2])), "");
        let warning = found("enforce", json!([0.5, 1.2]));
        assert!(warning.starts_with("warning["), "{warning}");
        assert_eq!(pointers(&warning), ["/budgets/0/alertAt"]);
    }
}
