//! Selects the policies of one operation, and evaluates them.

use std::{sync::Arc, time::Instant};

use gateway_policy::{AuthMethod, CallerIdentity, Denial, QuotaKey, Rates, Standing, TakenRates};
use gateway_protocol::mcp::Method;
use policy::{
    Action, ApplicablePolicies, CallContext, Called, Finding, Purpose, Reason, ResourceKind,
};
use registry_core::{
    Key,
    entity::policy::{Mode, Rate, RateKey},
};
use serde_json::{Map, Value};

use super::{
    Error, FeatureSubject, Gateway, Invocation, Target, arguments::Arguments, error::PolicyDenial,
    moment::Moment, route::Route,
};
use crate::{audit::CallRecord, clock, governance::Governance, view::ServedTool};

/// The policies that apply to one operation.
#[derive(Debug)]
pub(super) struct Governed {
    policies: Arc<ApplicablePolicies>,
    action: Action,
    purpose: Purpose,
    target: GovernedTarget,
    /// Whether the caller may know that a hidden target exists.
    is_disclosed: bool,
}

/// The target of an operation, as denials name it and rates count it.
#[derive(Debug)]
enum GovernedTarget {
    Tool(Arc<ServedTool>),
    /// A prompt or resource.
    Feature(Arc<str>),
}

/// An operation that the policies admit. Dropping it before the operation is sent returns its
/// rates.
#[derive(Debug)]
pub(super) struct Admission<'a> {
    rates: &'a Rates,
    taken: Option<TakenRates>,
}

/// An admitted operation that is being sent. Dropping it keeps the rates.
#[derive(Debug)]
pub(super) struct SentAdmission<'a> {
    rates: &'a Rates,
    taken: Option<TakenRates>,
}

impl Governed {
    /// Finds the policies of a route. `None`: none applies.
    pub(super) fn find(
        moment: &Moment,
        call: &Invocation,
        route: &Route,
        agent: Option<&Key>,
    ) -> Option<Self> {
        let governance = moment.snapshot.governance.as_ref()?;
        match route {
            Route::Tool(resolved) => {
                let served = &resolved.served;
                let governed = Self::of_tool(served, governance, agent, purpose(call));
                let is_declared = resolved.standing == Standing::Declared;
                governed.map(|governed| Self { is_disclosed: is_declared, ..governed })
            }
            Route::Task(task) => {
                let served = &task.resolved.served;
                let governed = Self::of_tool(served, governance, agent, Purpose::Poll);
                let cancels = task.method == Method::CancelTask;
                governed.map(|governed| {
                    if cancels { Self { action: Action::Cancel, ..governed } } else { governed }
                })
            }
            Route::Feature(feature) => {
                let kind = match &call.target {
                    Target::Feature { subject: FeatureSubject::Prompt(_), .. } => {
                        ResourceKind::Prompt
                    }
                    _ => ResourceKind::Resource,
                };
                let called = Called::Feature(kind, &feature.server, &feature.subject);
                let action = match feature.method {
                    Method::Complete => Action::Complete,
                    Method::Subscribe => Action::Subscribe,
                    _ => called.action(),
                };
                let policies = governance.applicable_policies(agent, called);
                policies.map(|policies| Self {
                    policies,
                    action,
                    purpose: purpose(call),
                    target: GovernedTarget::Feature(Arc::clone(&feature.subject)),
                    is_disclosed: agent.is_some(),
                })
            }
        }
    }

    fn of_tool(
        served: &Arc<ServedTool>,
        governance: &Governance,
        agent: Option<&Key>,
        purpose: Purpose,
    ) -> Option<Self> {
        let policies = served.policies(governance, agent)?;
        let (action, target) = (served.called().action(), GovernedTarget::Tool(Arc::clone(served)));
        Some(Self { policies, action, purpose, target, is_disclosed: true })
    }

    /// Rejects calls of a hidden target by callers that must not learn of it. For them it does not
    /// exist; the record has the policy.
    pub(super) fn conceal(&self, record: &mut CallRecord) -> Result<(), Error> {
        match self.policies.hidden(self.action).filter(|_| !self.is_disclosed) {
            Some(finding) => {
                record.set_verdicts(&self.policies, Some(finding), &[]);
                Err(Denial::NoSuchTool.into())
            }
            None => Ok(()),
        }
    }

    /// Whether a policy limits the hops of a trace, so that upstreams must count them.
    pub(super) fn counts_hops(&self) -> bool {
        self.policies.limits_traces()
    }

    /// Whether conditions read arguments, which must therefore conform to their schema.
    pub(super) fn reads_arguments(&self) -> bool {
        self.policies.reads_arguments()
    }

    /// Evaluates the policies with the final arguments, and takes the rates.
    pub(super) fn admit<'a>(
        &self,
        gateway: &'a Gateway,
        call: &Invocation,
        moment: &Moment,
        arguments: Option<&mut Arguments<'_>>,
        record: &mut CallRecord,
    ) -> Result<Admission<'a>, Error> {
        let mut audit = Vec::new();
        match self.decide(gateway, call, moment, arguments, record, &mut audit) {
            Ok(taken) => {
                record.set_verdicts(&self.policies, None, &audit);
                Ok(Admission { rates: gateway.rates(), taken })
            }
            Err(finding) => {
                let denial = self.denial(finding, &audit, moment, record);
                Err(Error::Policy(Box::new(denial)))
            }
        }
    }

    /// The error of a running operation that a new policy denies.
    pub(super) fn revoked(
        &self,
        finding: Finding,
        moment: &Moment,
        record: &mut CallRecord,
    ) -> Error {
        let mut denial = self.denial(finding, &[], moment, record);
        denial.was_running = true;
        Error::Policy(Box::new(denial))
    }

    /// Records a violation.
    fn denial(
        &self,
        finding: Finding,
        audit: &[Finding],
        moment: &Moment,
        record: &mut CallRecord,
    ) -> PolicyDenial {
        record.set_verdicts(&self.policies, Some(&finding), audit);
        let registry = moment.snapshot.catalog.registry();
        let denial = PolicyDenial::new(finding, registry, record.agent(), self.target.name());
        record.set_invocation(&denial.invocation_id);
        denial
    }

    fn decide(
        &self,
        gateway: &Gateway,
        call: &Invocation,
        moment: &Moment,
        arguments: Option<&mut Arguments<'_>>,
        record: &CallRecord,
        audit: &mut Vec<Finding>,
    ) -> Result<Option<TakenRates>, Finding> {
        let policies = &self.policies;
        let nothing = Map::new();
        let members = match arguments.filter(|_| policies.reads_arguments()).map(Arguments::members)
        {
            Some(Ok(members)) => members,
            Some(Err(error)) => match policies.unusable(error.to_string()) {
                Some(finding) => return Err(finding),
                None => &nothing,
            },
            None => &nothing,
        };
        self.authorize_call(call, moment, members, audit)?;
        if !self.purpose.is_limited() {
            return Ok(None);
        }
        if policies.limits_traces() {
            let hops = call.context.hops.unwrap_or_default();
            let calls = gateway.traces().count(record.trace_id().as_u128(), Instant::now());
            audit.extend(policies.trace_violation(Mode::Audit, calls, hops));
            policies.trace_violation(Mode::Enforce, calls, hops).map_or(Ok(()), Err)?;
        }
        let key = |rate: &Rate| self.rate_key(rate, call, moment, record.agent());
        let take = |mode| {
            let rules: Vec<_> = policies.rates(mode).collect();
            if rules.is_empty() {
                return Ok(None);
            }
            let taken = gateway.rates().take(rules.iter().copied(), key, Instant::now());
            taken.map(Some).map_err(|exceeded| {
                let reason = Reason::RateLimited { retry_after: exceeded.retry_after };
                let policy = rules[exceeded.rate].policy.key().clone();
                Finding { policy, reason }
            })
        };
        if let Err(finding) = take(Mode::Audit) {
            audit.push(finding);
        }
        take(Mode::Enforce)
    }

    /// Evaluates the policies again for an operation that was admitted. No rate is taken.
    pub(super) fn check(
        &self,
        call: &Invocation,
        moment: &Moment,
        arguments: &Map<String, Value>,
    ) -> Result<(), Finding> {
        self.authorize_call(call, moment, arguments, &mut Vec::new())
    }

    /// The violation by arguments that cannot be read.
    pub(super) fn unusable(&self, error: String) -> Option<Finding> {
        self.policies.unusable(error)
    }

    /// Checks the age of the catalog, and the conditions.
    fn authorize_call(
        &self,
        call: &Invocation,
        moment: &Moment,
        arguments: &Map<String, Value>,
        audit: &mut Vec<Finding>,
    ) -> Result<(), Finding> {
        let Self { policies, action, purpose, .. } = self;
        let age = moment.freshness.age;
        audit.extend(policies.stale(Mode::Audit, age));
        policies.stale(Mode::Enforce, age).map_or(Ok(()), Err)?;
        // Polls of a task repeat a call whose arguments were decided.
        if *purpose == Purpose::Poll && *action != Action::Cancel {
            return policies.hidden(*action).cloned().map_or(Ok(()), Err);
        }
        let context = context(call, *purpose, call.context.hops.unwrap_or_default());
        let verdict = policies.evaluate(*action, &context, arguments);
        audit.extend(verdict.audit);
        verdict.denial.map_or(Ok(()), Err)
    }

    /// The text that the calls with the same rate share.
    fn rate_key(
        &self,
        rate: &Rate,
        call: &Invocation,
        moment: &Moment,
        agent: Option<&Key>,
    ) -> Box<str> {
        let agent = || agent.map(|agent| agent.name.as_str());
        let mut text = String::new();
        for key in &rate.per {
            let part = match key {
                RateKey::Agent => agent().unwrap_or_default(),
                RateKey::Tool => self.target.push_counted(&mut text),
                RateKey::Caller => agent().or(principal(&moment.principal)).unwrap_or_default(),
                RateKey::Principal => match &call.caller.claim {
                    CallerIdentity::Verified { principal, .. } => principal,
                    _ => "",
                },
            };
            text.push_str(part);
            text.push('\n');
        }
        text.into()
    }
}

impl GovernedTarget {
    fn name(&self) -> &str {
        match self {
            Self::Tool(served) => served.name().as_str(),
            Self::Feature(subject) => subject,
        }
    }

    /// The name that rates per tool count. Aliases of one upstream tool share it: its server is
    /// written to `text`, and the name there is returned.
    fn push_counted(&self, text: &mut String) -> &str {
        match self {
            Self::Tool(served) => match served.upstream() {
                Some((key, upstream)) => {
                    text.push_str(key.name.as_str());
                    text.push('\n');
                    upstream
                }
                None => self.name(),
            },
            Self::Feature(_) => self.name(),
        }
    }
}

fn principal(key: &QuotaKey) -> Option<&str> {
    key.as_deref()
}

fn purpose(call: &Invocation) -> Purpose {
    match &call.target {
        Target::Step(step) if step.scope.is_compensation => Purpose::Compensation,
        Target::Step(_) => Purpose::Step,
        Target::Tool(_) | Target::Feature { .. } => Purpose::Call,
    }
}

fn context(call: &Invocation, purpose: Purpose, hops: u32) -> CallContext<'_> {
    let method = match &call.caller.claim {
        CallerIdentity::Verified { auth_method, .. } => *auth_method,
        CallerIdentity::Asserted { .. } | CallerIdentity::Malformed => AuthMethod::Headers,
        CallerIdentity::Anonymous => AuthMethod::None,
    };
    let ((issuer, subject), scopes) = (call.caller.subject(), call.caller.scopes());
    let method = method.as_str();
    CallContext { issuer, subject, method, scopes, purpose, hops, time: clock::now() }
}

impl<'a> Admission<'a> {
    /// Starts sending.
    pub(super) fn sent(mut self) -> SentAdmission<'a> {
        SentAdmission { rates: self.rates, taken: self.taken.take() }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.rates.release(taken);
        }
    }
}

impl SentAdmission<'_> {
    /// Returns the rates of an operation that certainly was not sent.
    pub(super) fn settle<T>(admission: Option<Self>, result: &Result<T, Error>) {
        if let (Err(error), Some(Self { rates, taken: Some(taken) })) = (result, admission)
            && !error.was_sent()
        {
            rates.release(taken);
        }
    }
}
