//! The rates, the limits on traces and the maximum ages of the catalog that apply.

use std::{sync::Arc, time::Duration};

use registry_core::{
    Amount,
    entity::policy::{Mode, Rate},
};

use super::{ApplicablePolicies, ApplicablePolicy, finding};
use crate::{BudgetShortage, Finding, PolicyInForce, Reason, UsedBudget};

/// A rate that applies, with its policy.
#[derive(Debug, Clone, Copy)]
pub struct RateRule<'a> {
    /// The policy.
    pub policy: &'a Arc<PolicyInForce>,
    /// The rate.
    pub rate: &'a Rate,
}

impl ApplicablePolicies {
    /// The rates that count calls. Those that a pre-release has in common with its release are rates
    /// of the release.
    pub fn rates(&self, mode: Mode) -> impl Iterator<Item = RateRule<'_>> {
        let applicable = self.policies.iter();
        applicable.filter(move |applicable| applicable.policy.mode() == mode).flat_map(
            |ApplicablePolicy { policy, release, .. }| {
                let of_release = release.as_ref().map(|release| &*release.policy().rates);
                let of_release = of_release.unwrap_or_default();
                let own =
                    policy.policy().rates.iter().filter(move |rate| !of_release.contains(rate));
                own.map(move |rate| RateRule { policy, rate })
            },
        )
    }

    /// Whether a policy limits traces.
    pub fn limits_traces(&self) -> bool {
        self.policies.iter().any(|applicable| {
            let limits = applicable.policy.policy().limits.as_ref();
            limits.is_some_and(|limits| limits.trace.is_some())
        })
    }

    /// The violation of the first policy whose limit on traces is exceeded.
    pub fn trace_violation(&self, mode: Mode, calls: u32, hops: u32) -> Option<Finding> {
        self.in_mode(mode).find_map(|policy| {
            let trace = policy.policy().limits.as_ref()?.trace.as_ref()?;
            let exceeded = |what, limit: Option<u32>, count| {
                let limit = limit.filter(|limit| count > *limit)?;
                Some(finding(policy, Reason::TraceLimited { what, limit }))
            };
            exceeded("calls", trace.calls, calls).or_else(|| exceeded("hops", trace.hops, hops))
        })
    }

    /// The violation of the first policy whose cost limit does not cover a call in a trace that has
    /// cost `spent` before.
    pub fn trace_cost_violation(
        &self,
        mode: Mode,
        spent: Amount,
        requested: Amount,
    ) -> Option<Finding> {
        self.in_mode(mode).find_map(|policy| {
            let trace = policy.policy().limits.as_ref()?.trace.as_ref()?;
            let limit = trace.cost.filter(|limit| spent.saturating_add(requested) > *limit)?;
            let shortage = BudgetShortage {
                budget: None,
                scope: "trace",
                limit,
                used: Some(UsedBudget { spent, reserved: Amount::ZERO, in_doubt: Amount::ZERO }),
                requested,
                resets_at: None,
                is_unavailable: false,
                is_recovering: false,
                is_timeout: false,
            };
            Some(finding(policy, Reason::BudgetExceeded(Box::new(shortage))))
        })
    }

    /// The violation of the first policy whose `maxStaleness` is exceeded.
    pub fn stale(&self, mode: Mode, age: Option<Duration>) -> Option<Finding> {
        self.in_mode(mode).find_map(|policy| {
            let limit = policy.policy().max_staleness?;
            let is_stale = age.is_none_or(|age| age > limit);
            is_stale.then(|| finding(policy, Reason::StalePolicy { age, limit }))
        })
    }
}
