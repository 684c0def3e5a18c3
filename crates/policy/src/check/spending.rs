//! Warnings about prices and budgets: `budget-unpriced` and `price-overlap`.

use std::collections::BTreeMap;

use registry_core::{
    Code, Diagnostic, Document, Entity, Key,
    entity::{
        Policy, Tool,
        policy::{Decision, Mode},
    },
};

use super::{After, FINDINGS, Selectable, SelectableResources, indexed::IndexedPolicies};
use crate::{
    Resource, ResourceKind,
    catalog::{self, Find},
};

/// The calls of a resource that have no price under a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unpriced {
    All,
    /// Prices are for some callers only.
    OtherCallers,
}

/// The policies in force with a price or budgets.
pub(super) struct SpendingPolicies<'a>(IndexedPolicies<'a>);

impl<'a> SpendingPolicies<'a> {
    pub(super) fn new(after: &After<'a>) -> Self {
        Self(IndexedPolicies::new(after, Policy::concerns_spending))
    }

    /// The calls of a resource without a price that a policy selects. `None`: all calls have one.
    fn unpriced(&self, resource: &Resource, of: &Policy) -> Option<Unpriced> {
        if of.price.is_some() {
            return None;
        }
        let is_price =
            |other: &Policy| other.price.is_some() && (is_enforced(other) || !is_enforced(of));
        let mut unpriced = Unpriced::All;
        for (_, other) in self.0.select(resource).filter(|(_, other)| is_price(other)) {
            let callers = &other.applies_to.callers;
            if callers.is_empty() || *callers == of.applies_to.callers {
                return None;
            }
            unpriced = Unpriced::OtherCallers;
        }
        Some(unpriced)
    }

    /// The warnings about a new policy.
    pub(super) fn check_policy(
        &self,
        document: &Document,
        resources: &SelectableResources<'_>,
    ) -> Vec<Diagnostic> {
        let Entity::Policy(policy) = document.entity() else { return Vec::new() };
        if !policy.concerns_spending() {
            return Vec::new();
        }
        let mut unpriced = Vec::new();
        let mut overlaps: BTreeMap<&Key, &Key> = BTreeMap::new();
        for Selectable { resource, tool, key, .. } in resources.select(&policy.applies_to) {
            let others = self
                .0
                .select(resource)
                .filter(|(other, _)| other.name != document.key().name)
                .filter(|(_, other)| prices_overlap(policy, other));
            for (other, _) in others {
                overlaps.entry(other).or_insert(*key);
            }
            if needs_price(resource, tool)
                && let Some(calls) = self.unpriced(resource, policy)
            {
                unpriced.push((calls, *key));
            }
        }
        let overlaps = overlaps.into_iter().take(FINDINGS).map(|(other, key)| {
            let message = format!("{other} prices the same tools or skills, such as {key}");
            let help = "select other tools in one of the policies; the highest price applies";
            Diagnostic::warning(Code::PriceOverlap, "/price", message).with_help(help)
        });
        let unpriced = [Unpriced::All, Unpriced::OtherCallers].into_iter().filter_map(|calls| {
            let keys = unpriced.iter().filter(|(found, _)| *found == calls).map(|(_, key)| *key);
            budget_without_prices(policy, calls, &keys.collect::<Vec<_>>())
        });
        overlaps.chain(unpriced).collect()
    }

    /// The warnings about a new tool or agent under budgets in force.
    pub(super) fn check_resources(&self, find: Find<'_>, document: &Document) -> Vec<Diagnostic> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut budgets: BTreeMap<&Key, (&Policy, Unpriced)> = BTreeMap::new();
        catalog::each_resource(find, document, &mut |resource, tool| {
            if needs_price(&resource, &tool) {
                let all = self.0.select(&resource).filter(|(_, policy)| !policy.budgets.is_empty());
                budgets.extend(all.filter_map(|(key, policy)| {
                    Some((key, (policy, self.unpriced(&resource, policy)?)))
                }));
            }
        });
        let warning = |(key, (policy, calls)): (&Key, (&Policy, Unpriced))| {
            let outcome = outcome(denies_unpriced(policy));
            let (calls, help) = match calls {
                Unpriced::All => {
                    ("calls", "register a policy with a `price` for this tool or skill")
                }
                Unpriced::OtherCallers => ("calls of some callers", PRICE_FOR_ALL),
            };
            let message = format!("{calls} have no price and {outcome} by a budget of {key}");
            Diagnostic::warning(Code::BudgetUnpriced, "", message).with_help(help)
        };
        budgets.into_iter().take(FINDINGS).map(warning).collect()
    }
}

/// The remedy for prices of some callers only.
const PRICE_FOR_ALL: &str = "register a `price` for all callers, or select the same callers in the policies of the price and \
     of the budget";

/// The warning about resources without a price under the budgets of a policy.
fn budget_without_prices(
    policy: &Policy,
    calls: Unpriced,
    unpriced: &[&Key],
) -> Option<Diagnostic> {
    let first = unpriced.first()?;
    let denying = policy.budgets.iter().position(|budget| budget.unpriced == Decision::Deny);
    let position = denying.unwrap_or_default();
    let budget = policy.budgets.get(position)?;
    let (which, calls, help) = match calls {
        Unpriced::All => {
            ("without a price", "their calls", "register a policy with a `price` for them")
        }
        Unpriced::OtherCallers => {
            ("with a price for some callers only", "calls of other callers", PRICE_FOR_ALL)
        }
    };
    let (name, outcome) = (&budget.name, outcome(denying.is_some()));
    let message = match unpriced.len() {
        1 => format!("the budget `{name}` selects {first} {which}; {calls} {outcome}"),
        count => format!(
            "the budget `{name}` selects {count} tools or skills {which}, such as {first}; {calls} \
             {outcome}"
        ),
    };
    let pointer = format!("/budgets/{position}");
    Some(Diagnostic::warning(Code::BudgetUnpriced, pointer, message).with_help(help))
}

fn outcome(is_denied: bool) -> &'static str {
    if is_denied { "are denied" } else { "are not limited" }
}

fn denies_unpriced(policy: &Policy) -> bool {
    policy.budgets.iter().any(|budget| budget.unpriced == Decision::Deny)
}

/// Whether calls of a resource spend nothing without a price. The steps of a composition have prices
/// of their own.
fn needs_price(resource: &Resource, tool: &Tool) -> bool {
    resource.kind == ResourceKind::Skill || tool.source().is_some()
}

fn is_enforced(policy: &Policy) -> bool {
    policy.mode == Mode::Enforce && !policy.version.is_prerelease()
}

/// Whether two policies price calls of the same callers. Different patterns count as different
/// callers.
fn prices_overlap(one: &Policy, other: &Policy) -> bool {
    let (callers, others) = (&one.applies_to.callers, &other.applies_to.callers);
    let is_everyone = callers.is_empty() || others.is_empty();
    one.price.is_some()
        && other.price.is_some()
        && is_enforced(one) == is_enforced(other)
        && (is_everyone || callers.iter().any(|caller| others.contains(caller)))
}

#[cfg(test)]
mod tests {
    use registry_core::rules::{Proposed, plan};
    use registry_fixtures::entities::{agent, catalog, policy, server, source_tool, tool, with};
    use serde_json::{Value, json};

    use crate::{PolicyBreaks, check};

    /// The warnings about spending: `CODE ENTITY POINTER`.
    fn found(registered: &[Proposed], batch: &[Proposed]) -> Vec<String> {
        let catalog = catalog(registered);
        let mut plan = plan(&catalog, batch);
        check(&catalog, batch, PolicyBreaks::Reject, &mut plan);
        assert!(plan.is_acceptable(), "{:?}", plan.diagnostics);
        let about_spending = plan.diagnostics.iter().filter_map(|found| {
            let (code, entity) = (found.code.as_str(), found.entity.as_ref()?);
            let is_about_spending = matches!(code, "budget-unpriced" | "price-overlap");
            is_about_spending.then(|| format!("{code} {entity} {}", found.pointer))
        });
        about_spending.collect()
    }

    fn bank() -> [Proposed; 3] {
        [server("bank", &["pay", "read"]), source_tool("pay", "bank"), source_tool("read", "bank")]
    }

    fn priced(name: &str, applies_to: &Value) -> Proposed {
        policy(name, json!({ "appliesTo": applies_to, "price": { "perCall": "1" } }))
    }

    fn limited(name: &str, applies_to: &Value) -> Proposed {
        let budget = json!({ "name": "b", "per": "agent", "limit": "1", "window": "day" });
        policy(name, json!({ "appliesTo": applies_to, "budgets": [budget] }))
    }

    #[test]
    fn budget_warns_about_tools_without_price() {
        let everything = json!({});
        let budget = || limited("limit", &json!({ "servers": ["bank"] }));
        let world = |price: &Value| [bank().to_vec(), vec![priced("fees", price)]].concat();
        let warning = ["budget-unpriced policy/limit@1.0.0 /budgets/0"];
        assert_eq!(found(&bank(), &[budget()]), warning);
        assert_eq!(found(&world(&json!({ "tools": ["pay"] })), &[budget()]), warning);
        assert_eq!(found(&world(&json!({ "tools": ["pay", "read"] })), &[budget()]), [""; 0]);
        assert_eq!(found(&world(&everything), &[budget()]), [""; 0]);
        let own = with(&budget(), json!({ "price": { "perCall": "0" } }));
        assert_eq!(found(&bank(), &[own]), [""; 0]);
    }

    #[test]
    fn budget_names_the_part_that_denies_calls() {
        let part = |name: &str, unpriced: &str| {
            json!({ "name": name, "per": "fleet", "limit": "1", "window": "day",
                "unpriced": unpriced })
        };
        let budgets = json!([part("a", "allow"), part("b", "deny")]);
        let budget = with(&limited("limit", &json!({})), json!({ "budgets": budgets }));
        let warning = ["budget-unpriced policy/limit@1.0.0 /budgets/1"];
        assert_eq!(found(&bank(), &[budget]), warning);
    }

    #[test]
    fn price_for_other_callers_covers_no_budget() {
        let about = |caller: &str| json!({ "callers": [caller], "servers": ["bank"] });
        let clerks = [
            agent("clerk", &json!([])),
            agent("cook", &json!([])),
            priced("fees", &about("clerk")),
        ];
        let world = [bank().to_vec(), clerks.to_vec()].concat();
        assert_eq!(found(&world, &[limited("limit", &about("clerk"))]), [""; 0]);
        let warning = ["budget-unpriced policy/limit@1.0.0 /budgets/0"];
        assert_eq!(found(&world, &[limited("limit", &about("cook"))]), warning);
    }

    #[test]
    fn audited_price_does_not_cover_an_enforced_budget() {
        let audited = with(&priced("fees", &json!({})), json!({ "mode": "audit" }));
        let world = [bank().to_vec(), vec![audited]].concat();
        let enforced = limited("limit", &json!({ "servers": ["bank"] }));
        let in_audit = with(&enforced, json!({ "mode": "audit" }));
        assert_eq!(found(&world, &[in_audit]), [""; 0]);
        assert_eq!(found(&world, &[enforced]).len(), 1);
    }

    #[test]
    fn new_tool_under_a_budget_needs_a_price() {
        let world = [bank().to_vec(), vec![limited("limit", &json!({ "tools": ["*"] }))]].concat();
        let refund = json!({
            "source": { "server": "bank", "serverVersion": "1.0.0", "tool": "pay" },
        });
        let new = tool("refund", refund);
        assert_eq!(
            found(&world, std::slice::from_ref(&new)),
            ["budget-unpriced tool/refund@1.0.0 "]
        );
        assert_eq!(found(&world, &[new, priced("fees", &json!({}))]), [""; 0]);
    }

    #[test]
    fn price_overlap_is_a_warning_at_the_price() {
        let world = [bank().to_vec(), vec![priced("fees", &json!({ "tools": ["pay"] }))]].concat();
        let overlapping = priced("more", &json!({ "servers": ["bank"] }));
        assert_eq!(found(&world, &[overlapping]), ["price-overlap policy/more@1.0.0 /price"]);
        let other = priced("more", &json!({ "tools": ["read"] }));
        assert_eq!(found(&world, &[other]), [""; 0]);
        let next =
            with(&priced("fees", &json!({ "tools": ["pay"] })), json!({ "version": "2.0.0" }));
        assert_eq!(found(&world, &[next]), [""; 0], "it replaces the other price");
    }
}
