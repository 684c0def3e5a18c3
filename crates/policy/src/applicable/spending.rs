//! The price of a call, and the budgets that limit it.

use std::sync::Arc;

use registry_core::entity::policy::{Budget, BudgetScope, Mode, Price};

use super::ApplicablePolicies;
use crate::PolicyInForce;

/// The price of a call, with its policy.
#[derive(Debug, Clone, Copy)]
pub struct PriceRule<'a> {
    /// The policy.
    pub policy: &'a Arc<PolicyInForce>,
    /// The price.
    pub price: &'a Price,
}

/// A budget that applies, with its policy.
#[derive(Debug, Clone, Copy)]
pub struct BudgetRule<'a> {
    /// The policy. Its name and that of the budget are parts of the budget's identity.
    pub policy: &'a Arc<PolicyInForce>,
    /// The budget.
    pub budget: &'a Budget,
}

/// The properties of a call that determine the subjects of its budgets.
#[derive(Debug, Clone, Copy)]
pub struct Payer<'a> {
    /// The name of the calling agent, if it is registered.
    pub agent: Option<&'a str>,
    /// The team that owns the agent.
    pub team: Option<&'a str>,
    /// The owner of the credential, if it was verified.
    pub principal: Option<&'a str>,
    /// The name of the called tool or skill.
    pub tool: &'a str,
}

/// The subject of calls without the property that a budget separates. Names cannot have its
/// parentheses.
const UNKNOWN: &str = "(unknown)";
/// The subject of budgets for all calls.
const FLEET: &str = "fleet";

impl BudgetRule<'_> {
    /// The subject whose spending the budget limits.
    pub fn subject<'p>(&self, payer: &Payer<'p>) -> &'p str {
        let Payer { agent, team, principal, tool } = *payer;
        match self.budget.per {
            BudgetScope::Agent => agent.unwrap_or(UNKNOWN),
            BudgetScope::Team => team.unwrap_or(UNKNOWN),
            BudgetScope::Principal => principal.unwrap_or(UNKNOWN),
            BudgetScope::Tool => tool,
            BudgetScope::Fleet => FLEET,
        }
    }
}

impl ApplicablePolicies {
    /// Whether a policy prices calls or limits their spending.
    pub fn concerns_spending(&self) -> bool {
        self.policies.iter().any(|applied| applied.policy.policy().concerns_spending())
    }

    /// The pre-releases. They are evaluated in audit mode.
    pub fn pre_releases(&self) -> impl Iterator<Item = &Arc<PolicyInForce>> {
        self.policies.iter().map(|applied| &applied.policy).filter(|policy| policy.is_pre_release())
    }

    /// The highest price of the enforced policies; in audit mode, of all releases. The price of a
    /// pre-release applies to its own budgets only: those of `candidate`. Of equal prices, the first
    /// one by policy name.
    pub fn price(
        &self,
        mode: Mode,
        candidate: Option<&Arc<PolicyInForce>>,
    ) -> Option<PriceRule<'_>> {
        let policies = self.policies.iter().map(|applied| &applied.policy);
        let policies = policies.filter(|policy| mode == Mode::Audit || policy.mode() == mode);
        let is_candidate =
            |policy: &Arc<PolicyInForce>| candidate.is_some_and(|of| Arc::ptr_eq(of, policy));
        let policies =
            policies.filter(move |policy| !policy.is_pre_release() || is_candidate(policy));
        let prices = policies.filter_map(|policy| {
            Some(PriceRule { policy, price: policy.policy().price.as_ref()? })
        });
        // Of equal elements, `max_by_key` returns the last one.
        prices.rev().max_by_key(|rule| rule.price.reserved())
    }

    /// The budgets that calls charge. Those that a pre-release has in common with its release are
    /// budgets of the release.
    pub fn charged_budgets(&self, mode: Mode) -> impl Iterator<Item = BudgetRule<'_>> {
        self.budgets(mode).filter(move |rule| {
            let mut policies = self.policies.iter();
            let applicable =
                policies.find(|applicable| Arc::ptr_eq(&applicable.policy, rule.policy));
            let release = applicable.and_then(|applicable| applicable.release.as_ref());
            let budgets = release.map(|release| &*release.policy().budgets).unwrap_or_default();
            budgets.iter().all(|of_release| of_release.name != rule.budget.name)
        })
    }

    /// The budgets of the policies.
    pub fn budgets(&self, mode: Mode) -> impl Iterator<Item = BudgetRule<'_>> {
        let policies = self.policies.iter().map(|applied| &applied.policy);
        policies.filter(move |policy| policy.mode() == mode).flat_map(|policy| {
            policy.policy().budgets.iter().map(move |budget| BudgetRule { policy, budget })
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::applicable::testing::applicable;

    fn priced(mode: &str, price: &Value) -> Value {
        json!({ "mode": mode, "price": price })
    }

    /// The policy and the reservation of a call.
    fn price(applicable: &ApplicablePolicies, mode: Mode) -> Option<(String, String)> {
        let PriceRule { policy, price } = applicable.price(mode, None)?;
        Some((policy.key().name.to_string(), price.reserved().to_string()))
    }

    #[test]
    fn highest_price_applies() {
        let fixed = |amount: &str| priced("enforce", &json!({ "perCall": amount }));
        let reported = json!({ "reportedBy": "_meta.cost", "maximum": "0.5", "perCall": "0.1" });
        let policies = [fixed("0.4"), priced("enforce", &reported), fixed("0.5"), fixed("0.1")];
        let expected = Some(("p1".to_owned(), "0.5".to_owned()));
        assert_eq!(price(&applicable(&policies), Mode::Enforce), expected);
        assert_eq!(price(&applicable(&[json!({})]), Mode::Enforce), None);
    }

    #[test]
    fn price_in_audit_mode_is_not_enforced() {
        let amount = |amount: &str| json!({ "perCall": amount });
        let policies =
            applicable(&[priced("enforce", &amount("1")), priced("audit", &amount("2"))]);
        let found = |mode| price(&policies, mode).map(|(policy, _)| policy);
        assert_eq!(found(Mode::Enforce).as_deref(), Some("p0"));
        assert_eq!(found(Mode::Audit).as_deref(), Some("p1"));
        assert_eq!(price(&applicable(&[priced("audit", &amount("2"))]), Mode::Enforce), None);
    }

    #[test]
    fn price_of_pre_release_is_its_own() {
        let priced = |version: &str, amount: &str| {
            json!({ "name": "p", "version": version, "mode": "audit",
                "price": { "perCall": amount } })
        };
        let policies = applicable(&[priced("1.0.0", "1"), priced("1.1.0-rc.1", "3")]);
        let reserved = |candidate| {
            policies.price(Mode::Audit, candidate).unwrap().price.reserved().to_string()
        };
        let candidates: Vec<_> = policies.pre_releases().collect();
        assert_eq!((candidates.len(), reserved(None)), (1, "1".to_owned()));
        assert_eq!(reserved(Some(candidates[0])), "3");
    }

    #[test]
    fn budget_has_the_subject_of_its_scope() {
        let budget = |per: &str| json!({ "name": per, "per": per, "limit": "1", "window": "day" });
        let scopes = ["agent", "team", "principal", "tool", "fleet"];
        let budgets: Vec<_> = scopes.into_iter().map(budget).collect();
        let applicable = applicable(&[json!({ "budgets": budgets })]);
        let subjects = |payer: &Payer<'_>| {
            let subjects =
                applicable.budgets(Mode::Enforce).map(|rule| rule.subject(payer).to_owned());
            subjects.collect::<Vec<_>>()
        };
        let known = Payer { agent: Some("a"), team: Some("t"), principal: Some("p"), tool: "pay" };
        assert_eq!(subjects(&known), ["a", "t", "p", "pay", "fleet"]);
        let unknown = Payer { agent: None, team: None, principal: None, tool: "pay" };
        assert_eq!(subjects(&unknown), [UNKNOWN, UNKNOWN, UNKNOWN, "pay", "fleet"]);
        assert_eq!(applicable.budgets(Mode::Audit).count(), 0);
    }

    #[test]
    fn release_counts_what_its_pre_release_shares() {
        let version = |version: &str, names: &[&str], limits: &[u32]| {
            let budget =
                |name| json!({ "name": name, "per": "fleet", "limit": "1", "window": "day" });
            let budgets: Vec<_> = names.iter().map(budget).collect();
            let rate = |limit| json!({ "limit": limit, "window": "PT1M" });
            let rates: Vec<_> = limits.iter().map(rate).collect();
            json!({ "name": "p", "version": version, "mode": "audit", "budgets": budgets,
                "rates": rates })
        };
        let policies =
            [version("1.0.0", &["a"], &[1]), version("1.1.0-rc.1", &["a", "b"], &[1, 2])];
        let applicable = applicable(&policies);
        let version = |policy: &PolicyInForce| policy.key().version.to_string();
        let charged: Vec<_> = applicable
            .charged_budgets(Mode::Audit)
            .map(|rule| format!("{} {}", version(rule.policy), rule.budget.name))
            .collect();
        assert_eq!(charged, ["1.0.0 a", "1.1.0-rc.1 b"]);
        let counted: Vec<_> = applicable
            .rates(Mode::Audit)
            .map(|rule| format!("{} {}", version(rule.policy), rule.rate.limit))
            .collect();
        assert_eq!(counted, ["1.0.0 1", "1.1.0-rc.1 2"]);
    }
}
