//! Explanations: the part of each policy in the decision about one call.

use std::sync::Arc;

use registry_core::entity::policy::Mode;
use serde_json::{Map, Value};

use crate::{
    Action, ApplicablePolicies, CallContext, Caller, InspectionRules, PoliciesInForce,
    PolicyInForce, Reason, Resource, Verdict,
    applicable::ApplicablePolicy,
    arguments::ArgumentType,
    cedar::{CallEntities, Conditions, Request, Statement, StatementSet},
    facts::CallerMatch,
};

/// The decision about a call.
#[derive(Debug)]
pub struct Explanation {
    /// The decision of all policies together.
    pub verdict: Verdict,
    /// The part of each policy in force, by name.
    pub policies: Vec<PolicyPart>,
    /// The inspection of arguments and results, which the decision does not contain.
    pub inspection: Option<Arc<InspectionRules>>,
}

/// The part of one policy in a decision.
#[derive(Debug)]
pub struct PolicyPart {
    /// The policy.
    pub policy: Arc<PolicyInForce>,
    /// Whether it selects the call.
    pub selection: Selection,
    /// The statements, if it selects the call.
    pub statements: Vec<StatementPart>,
    /// The violation of this policy, in either mode.
    pub violation: Option<Reason>,
}

/// The part of a `permit` or `forbid` in a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementPart {
    /// Whether it is a `permit`.
    pub is_permit: bool,
    /// Its line in the Cedar text, from 1.
    pub line: usize,
    /// Its result.
    pub outcome: StatementOutcome,
}

/// Whether a policy selects a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// It selects the call.
    Selected,
    /// No list of tools, skills or servers matches.
    OtherResource,
    /// `destructive` has the other value.
    OtherEffect,
    /// No caller matches.
    OtherCaller,
}

/// The result of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatementOutcome {
    /// Its scope and its conditions match.
    Satisfied,
    /// Its scope or a condition does not match.
    Unsatisfied,
    /// It has no result, for this reason. The call is denied.
    Failed(String),
}

impl Selection {
    /// The name in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Selected => "selected",
            Self::OtherResource => "other-resource",
            Self::OtherEffect => "other-effect",
            Self::OtherCaller => "other-caller",
        }
    }

    fn of(policy: &PolicyInForce, caller: &Caller, resource: &Resource) -> Self {
        let selector = &policy.policy().applies_to;
        if !resource.is_named(selector) {
            Self::OtherResource
        } else if !resource.has_effect(selector) {
            Self::OtherEffect
        } else if caller.matches(selector) == CallerMatch::No {
            Self::OtherCaller
        } else {
            Self::Selected
        }
    }
}

/// Explains the decision about a call: conditions, limits on hops, and demanded approvals. Rates, the
/// calls of a trace and the age of the catalog depend on the state of a gateway. `types` is the type of
/// the arguments.
pub fn explain(
    policies: &PoliciesInForce,
    caller: &Caller,
    resource: &Resource,
    action: Action,
    context: &CallContext<'_>,
    types: &ArgumentType,
    arguments: &Map<String, Value>,
) -> Explanation {
    let applicable = policies.applicable(caller, resource, || types.clone());
    let inspection = applicable.as_ref().and_then(|applicable| applicable.inspection().cloned());
    let verdict = applicable.map(|applicable| decide(&applicable, action, context, arguments));
    let request = Request { action, context, arguments: Some((types, arguments)) };
    let part = |policy: &Arc<PolicyInForce>| {
        let selection = Selection::of(policy, caller, resource);
        let (mut statements, mut violation) = (Vec::new(), None);
        if selection == Selection::Selected {
            let entities = CallEntities::new(caller, resource);
            let parsed = policy.conditions().and_then(|conditions| conditions.as_ref().ok());
            let parsed = parsed.map(Conditions::statements).unwrap_or_default();
            statements.extend(
                parsed.iter().map(|statement| statement_part(statement, &entities, request)),
            );
            let alone = ApplicablePolicy {
                policy: Arc::clone(policy),
                caller: caller.matches(&policy.policy().applies_to),
                release: None,
            };
            let alone = ApplicablePolicies::new(vec![alone], caller, resource, || types.clone());
            let Verdict { denial, audit } = decide(&alone, action, context, arguments);
            violation = denial.into_iter().chain(audit).next().map(|finding| finding.reason);
        }
        PolicyPart { policy: Arc::clone(policy), selection, statements, violation }
    };
    Explanation {
        verdict: verdict.unwrap_or_default(),
        policies: policies.iter().map(part).collect(),
        inspection,
    }
}

/// Evaluates the conditions, then the limits on hops, and then the demanded approvals as a gateway does
/// for a call without an approval.
fn decide(
    applicable: &ApplicablePolicies,
    action: Action,
    context: &CallContext<'_>,
    arguments: &Map<String, Value>,
) -> Verdict {
    let mut verdict = applicable.evaluate(action, context, arguments);
    if verdict.denial.is_none() && context.purpose.is_limited() {
        // Every trace has at least this call.
        let calls = 1;
        verdict.audit.extend(applicable.trace_violation(Mode::Audit, calls, context.hops));
        verdict.denial = applicable.trace_violation(Mode::Enforce, calls, context.hops);
        let demanded = |mode| applicable.demanded_approval(action, mode);
        verdict.audit.extend(demanded(Mode::Audit));
        verdict.denial = verdict.denial.or_else(|| demanded(Mode::Enforce));
    }
    verdict
}

fn statement_part(
    statement: &Statement,
    entities: &CallEntities,
    request: Request<'_>,
) -> StatementPart {
    let evaluation = StatementSet::new([(0, statement)]).map(|set| set.evaluate(entities, request));
    let outcome = match evaluation {
        None => StatementOutcome::Unsatisfied,
        Some(Err(error)) => StatementOutcome::Failed(error),
        Some(Ok(mut evaluation)) => match evaluation.errors.remove(&0) {
            Some(error) => StatementOutcome::Failed(error),
            None if evaluation.permits.is_empty() && evaluation.forbids.is_empty() => {
                StatementOutcome::Unsatisfied
            }
            None => StatementOutcome::Satisfied,
        },
    };
    StatementPart { is_permit: statement.is_permit(), line: statement.line(), outcome }
}
