//! Writes policies.

mod approval;
mod inspection;
mod spending;

use registry_core::entity::policy::{
    AppliesTo, Authorization, Decision, Limits, Mode, Policy, Rate, RateKey, Reach, TraceLimits,
};

use super::open_text;
use crate::{convert::time::duration, v1};

impl From<&Policy> for v1::Policy {
    fn from(policy: &Policy) -> Self {
        let Policy {
            name,
            version,
            description,
            applies_to,
            mode,
            default,
            authorization,
            price,
            budgets,
            rates,
            limits,
            inspection,
            approval,
            max_staleness,
            metadata,
        } = policy;
        let cedar = |Authorization { cedar }: &Authorization| v1::PolicyAuthorization {
            cedar: cedar.clone(),
        };
        Self {
            name: name.to_string(),
            version: version.to_string(),
            description: description.clone(),
            applies_to: (!applies_to.is_everything()).then(|| applies_to.into()),
            mode: v1::PolicyMode::from(*mode).into(),
            default: v1::PolicyDecision::from(*default).into(),
            authorization: authorization.as_ref().map(cedar),
            rates: rates.iter().map(v1::PolicyRate::from).collect(),
            limits: limits.as_ref().map(v1::PolicyLimits::from),
            max_staleness: max_staleness.map(duration),
            metadata: open_text(metadata),
            price: price.as_ref().map(v1::PolicyPrice::from),
            budgets: budgets.iter().map(v1::PolicyBudget::from).collect(),
            inspection: inspection.as_ref().map(v1::PolicyInspection::from),
            approval: approval.as_ref().map(v1::PolicyApproval::from),
        }
    }
}

impl From<&AppliesTo> for v1::PolicySelector {
    fn from(applies_to: &AppliesTo) -> Self {
        let AppliesTo { callers, tools, skills, servers, destructive } = applies_to;
        Self {
            callers: callers.iter().map(ToString::to_string).collect(),
            tools: tools.iter().map(ToString::to_string).collect(),
            skills: skills.iter().map(ToString::to_string).collect(),
            servers: servers.iter().map(ToString::to_string).collect(),
            destructive: *destructive,
        }
    }
}

impl From<Mode> for v1::PolicyMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Enforce => Self::Enforce,
            Mode::Audit => Self::Audit,
        }
    }
}

impl From<Decision> for v1::PolicyDecision {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Allow => Self::Allow,
            Decision::Deny => Self::Deny,
        }
    }
}

impl From<RateKey> for v1::PolicyRateKey {
    fn from(key: RateKey) -> Self {
        match key {
            RateKey::Caller => Self::Caller,
            RateKey::Agent => Self::Agent,
            RateKey::Principal => Self::Principal,
            RateKey::Tool => Self::Tool,
        }
    }
}

impl From<Reach> for v1::PolicyRateReach {
    fn from(reach: Reach) -> Self {
        match reach {
            Reach::Gateway => Self::Gateway,
            Reach::Fleet => Self::Fleet,
        }
    }
}

impl From<&Rate> for v1::PolicyRate {
    fn from(Rate { per, limit, window, burst, reach }: &Rate) -> Self {
        Self {
            per: per.iter().map(|key| v1::PolicyRateKey::from(*key).into()).collect(),
            limit: Some(*limit),
            window: Some(duration(*window)),
            burst: *burst,
            reach: v1::PolicyRateReach::from(*reach).into(),
        }
    }
}

impl From<&Limits> for v1::PolicyLimits {
    fn from(Limits { trace }: &Limits) -> Self {
        let trace = trace.as_ref().map(|TraceLimits { calls, hops, cost }| v1::PolicyTraceLimits {
            calls: *calls,
            hops: *hops,
            cost: cost.map(|cost| cost.to_string()),
        });
        Self { trace }
    }
}
