//! Selects the policies of one operation, and evaluates them.

use std::{sync::Arc, time::Instant};

use a2a::{Operation, extensions::Extensions};
use gateway_policy::{AuthMethod, CallerIdentity, CountedRate, Denial, QuotaKey, Standing};
use gateway_protocol::mcp::{Method, RawResult, ResultType};
use gateway_upstream::ResendApproval;
use policy::{
    Action, ApplicablePolicies, ApprovalRule, CallContext, Called, Finding, InspectionRules,
    PartialDecision, Payer, Purpose, RateRule, Reason, ResourceKind,
};
use registry_core::{
    Amount, Key, Revision,
    entity::policy::{Mode, Rate, RateKey},
};
use serde_json::{Map, Value, value::RawValue};

use super::{
    Error, FeatureSubject, Gateway, Invocation, Target,
    approval::{ApprovalOrder, Approved, ContinuedRound},
    arguments::Arguments,
    error::PolicyDenial,
    inspect::{CallInspection, Inspecting},
    moment::Moment,
    purchase::{Order, Outcome, Purchase, TraceCost},
    rates::TakenRates,
    route::{ResolvedTool, Route},
};
use crate::{
    approvals::ConsumedRound, audit::CallRecord, clock, governance::Governance, view::ServedTool,
};

/// The policies that apply to one operation.
#[derive(Debug)]
pub(super) struct Governed {
    policies: Arc<ApplicablePolicies>,
    action: Action,
    purpose: Purpose,
    /// Whether it is about a task, whose call was decided and took its rates and its price.
    is_about_task: bool,
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

/// The data of an operation that policies decide about.
#[derive(Debug, Default)]
pub(super) struct OperationData<'d, 'a> {
    /// The arguments of a tool or skill.
    pub(super) arguments: Option<&'d mut Arguments<'a>>,
    /// The other parameters of a request to an agent.
    pub(super) rest: Option<&'d RawValue>,
    /// The extensions that a request to an agent activates.
    pub(super) extensions: Option<&'d Extensions>,
    /// The tasks and the context that a message continues.
    pub(super) continues: ContinuedIds<'d>,
    /// The round of an approved call after a question of the server.
    pub(super) continued: Option<ContinuedRound>,
}

/// The agent's ids that a message refers to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ContinuedIds<'d> {
    pub(super) task: Option<&'d str>,
    pub(super) context: Option<&'d str>,
    /// The ids of other tasks, as JSON.
    pub(super) references: Option<&'d Value>,
}

/// An operation that the policies admit. Dropping it before the operation is sent returns its rates
/// and releases its price. Its approval is used.
#[derive(Debug)]
pub(super) struct Admission<'a> {
    rates: Option<TakenRates<'a>>,
    // Boxed, because compositions nest.
    purchase: Option<Box<Purchase<'a>>>,
    approval: Option<Box<UsedApproval>>,
    /// Whether the approval of an enclosing composition covers the operation.
    is_covered: bool,
}

/// An admitted operation that is being sent. Dropping it keeps the rates and charges the reserved
/// price. The outcome of an approved call is then unknown.
#[derive(Debug)]
pub(super) struct SentAdmission<'a> {
    rates: Option<TakenRates<'a>>,
    // Boxed, because compositions nest.
    purchase: Option<Box<Purchase<'a>>>,
    approval: Option<Box<UsedApproval>>,
    /// Whether the approval of an enclosing composition covers the operation.
    is_covered: bool,
}

/// The approval of an operation.
#[derive(Debug)]
struct UsedApproval {
    round: ConsumedRound,
    /// The policies that demanded it.
    policies: Vec<Key>,
}

/// An approved call is sent once, also if it is idempotent.
#[derive(Debug)]
struct NoResend;

impl ResendApproval for NoResend {
    fn approve(&self) -> bool {
        false
    }
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
            Route::Agent(route) => {
                let ResolvedTool { served, standing } = &route.resolved;
                let governed = Self::of_tool(served, governance, agent, Purpose::Call)?;
                let operation = route.request.operation;
                let action = match operation {
                    Operation::CancelTask => Action::Cancel,
                    _ => governed.action,
                };
                let is_about_task = !operation.sends_message();
                let is_disclosed = *standing == Standing::Declared;
                Some(Self { action, is_about_task, is_disclosed, ..governed })
            }
            Route::Task(task) => {
                let served = &task.resolved.served;
                let governed = Self::of_tool(served, governance, agent, Purpose::Call)?;
                let action = match task.method {
                    Method::CancelTask => Action::Cancel,
                    _ => governed.action,
                };
                Some(Self { action, is_about_task: true, ..governed })
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
                    is_about_task: false,
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
        Some(Self { policies, action, purpose, is_about_task: false, target, is_disclosed: true })
    }

    /// Rejects calls of a hidden target by callers that must not learn of it. For them it does not
    /// exist; the record has the policy.
    pub(super) fn conceal(&self, record: &mut CallRecord) -> Result<(), Error> {
        match self.policies.hidden(self.action).filter(|_| !self.is_disclosed) {
            Some(finding) => {
                record.conceal(&self.policies, finding, &self.policies.audited(self.action));
                Err(Denial::NoSuchTool.into())
            }
            None => Ok(()),
        }
    }

    /// The inspection of the operation. `None`: nothing is inspected.
    pub(super) fn inspection(&self) -> Option<&Arc<InspectionRules>> {
        self.policies.inspection()
    }

    /// Whether conditions read arguments, which must therefore conform to their schema.
    pub(super) fn reads_arguments(&self) -> bool {
        self.policies.reads_arguments()
    }

    /// Evaluates the policies with the final arguments, inspects these, finds the approval, takes the
    /// rates, reserves the price, and consumes the approval.
    pub(super) async fn admit<'a>(
        &'a self,
        inspecting: Inspecting<'a>,
        inspection: &CallInspection,
        mut data: OperationData<'_, '_>,
        record: &mut CallRecord,
    ) -> Result<Admission<'a>, Error> {
        let Inspecting { gateway, call, moment } = inspecting;
        let mut audit = Vec::new();
        let mut decided = self.check_call(call, moment, data.arguments.as_deref_mut(), &mut audit);
        if decided.is_ok() {
            let raw = data.arguments.as_deref().and_then(Arguments::raw);
            let (inspected, log) = ([raw, data.rest], record.inspection());
            let found = inspection.check_arguments(inspecting, inspected, log, &mut audit).await?;
            decided = found.map_or(Ok(()), Err);
        }
        let mut demanded = Ok(None);
        if let Err(finding) = decided {
            demanded = Err(finding);
        } else if let Some(rules) = self.demanded_approvals(call, &mut audit) {
            let found = self.find_approval(inspecting, &rules, &data, record.agent());
            demanded = Box::pin(found).await?.map(Some);
        }
        let decided = match demanded {
            Ok(approved) => {
                let reserved = self.reserve(gateway, call, moment, record, &mut audit).await;
                match (reserved, approved) {
                    (Ok(admission), Some(approved)) => {
                        Box::pin(admission.consume(gateway, approved)).await
                    }
                    (reserved, _) => reserved,
                }
            }
            Err(finding) => Err(finding),
        };
        match decided {
            Ok(mut admission) => {
                admission.is_covered = self.is_covered(call);
                if let Some(used) = &admission.approval {
                    record.set_approval(&used.round.request().to_string());
                }
                record.set_verdicts(&self.policies, None, &audit);
                Ok(admission)
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
        audit: &[Finding],
        moment: &Moment,
        record: &mut CallRecord,
    ) -> Error {
        let mut denial = self.denial(finding, audit, moment, record);
        denial.was_running = true;
        Error::Policy(Box::new(denial))
    }

    /// The error of an operation that was not admitted.
    pub(super) fn denied(
        &self,
        finding: Finding,
        moment: &Moment,
        record: &mut CallRecord,
    ) -> Error {
        Error::Policy(Box::new(self.denial(finding, &[], moment, record)))
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
        if let Some(id) = finding.reason.approval() {
            record.set_approval(id);
        }
        let registry = moment.snapshot.catalog.registry();
        let denial = PolicyDenial::new(finding, registry, record.agent(), self.target.name());
        record.set_invocation(&denial.invocation_id);
        denial
    }

    /// Checks the age of the catalog, and the conditions with the final arguments.
    fn check_call(
        &self,
        call: &Invocation,
        moment: &Moment,
        arguments: Option<&mut Arguments<'_>>,
        audit: &mut Vec<Finding>,
    ) -> Result<(), Finding> {
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
        self.authorize_call(call, moment, members, audit)
    }

    /// Takes the rates and reserves the price, or neither.
    async fn reserve<'a>(
        &'a self,
        gateway: &'a Gateway,
        call: &Invocation,
        moment: &Moment,
        record: &mut CallRecord,
        audit: &mut Vec<Finding>,
    ) -> Result<Admission<'a>, Finding> {
        let mut admission =
            Admission { rates: None, purchase: None, approval: None, is_covered: false };
        if self.is_about_task {
            return Ok(admission);
        }
        let agent = record.agent().cloned();
        let mut trace = None;
        if self.purpose.is_limited() {
            trace = self.count_trace(gateway, call, record, audit)?;
            let enforced = self.rates(Mode::Enforce, call, moment, agent.as_ref());
            let audited = self.rates(Mode::Audit, call, moment, agent.as_ref());
            if !audited.is_empty() {
                // Boxed, because few policies are in audit mode.
                Box::pin(count_audited(gateway, audited, audit)).await;
            }
            if !enforced.is_empty() {
                admission.rates = Some(TakenRates::take(gateway, enforced).await?);
            }
        }
        if self.concerns_spending() {
            let payer = Payer {
                agent: agent.as_ref().map(|agent| agent.name.as_str()),
                team: self.policies.team(),
                principal: verified_principal(call),
                tool: self.target.name_in_counts(),
            };
            let is_compensation = !self.purpose.is_limited();
            let order = Order { policies: &self.policies, payer, is_compensation };
            let purchase = order.reserve(gateway.spending(), trace, audit, record).await?;
            admission.purchase = Some(Box::new(purchase));
        }
        Ok(admission)
    }

    /// The approvals that the call needs, without those of its compositions. `None`: it needs none.
    fn demanded_approvals(
        &self,
        call: &Invocation,
        audit: &mut Vec<Finding>,
    ) -> Option<Vec<ApprovalRule<'_>>> {
        let is_call = matches!(self.action, Action::Call | Action::Send);
        if !is_call || self.is_about_task || !self.purpose.is_limited() {
            return None;
        }
        audit.extend(self.policies.approvals(Mode::Audit).map(|rule| Finding {
            policy: rule.policy.key().clone(),
            reason: Reason::ApprovalRequired(None),
        }));
        let covered = covering_policies(call);
        let rules = self.policies.approvals(Mode::Enforce);
        let rules: Vec<_> = rules.filter(|rule| !covered.contains(rule.policy.key())).collect();
        (!rules.is_empty()).then_some(rules)
    }

    /// Whether the approval of an enclosing composition covers the call.
    fn is_covered(&self, call: &Invocation) -> bool {
        let covered = covering_policies(call);
        let mut rules = self.policies.approvals(Mode::Enforce);
        rules.any(|rule| covered.contains(rule.policy.key()))
    }

    /// Finds the approval of the call, or requests one.
    async fn find_approval(
        &self,
        inspecting: Inspecting<'_>,
        rules: &[ApprovalRule<'_>],
        data: &OperationData<'_, '_>,
        agent: Option<&Key>,
    ) -> Result<Result<Approved, Finding>, Error> {
        // Only tools and skills are called.
        let GovernedTarget::Tool(served) = &self.target else {
            return Err(Denial::NoSuchTool.into());
        };
        let team = self.policies.team();
        let order = ApprovalOrder { inspecting, served, agent, team, rules };
        let policies = rules.iter().map(|rule| rule.policy.key().clone()).collect();
        let found = order.find(data).await?;
        Ok(found.map(|round| Approved { round, policies }))
    }

    /// Whether prices or budgets apply. Calls of prompts and resources have no price.
    fn concerns_spending(&self) -> bool {
        matches!(self.action, Action::Call | Action::Send) && self.policies.concerns_spending()
    }

    /// Counts the call in its trace.
    fn count_trace<'a>(
        &self,
        gateway: &'a Gateway,
        call: &Invocation,
        record: &CallRecord,
        audit: &mut Vec<Finding>,
    ) -> Result<Option<TraceCost<'a>>, Finding> {
        let policies = &self.policies;
        if !policies.limits_traces() {
            return Ok(None);
        }
        let (traces, trace) = (gateway.traces(), record.trace_id().as_u128());
        let price = policies.price(Mode::Enforce, None).filter(|_| self.concerns_spending());
        let price = price.map_or(Amount::ZERO, |rule| rule.price.reserved());
        let totals = traces.count(trace, price, Instant::now());
        let cost = TraceCost::new(traces, trace, price);
        let hops = call.context.hops.unwrap_or_default();
        let spent = totals.cost.saturating_sub(price);
        let violation = |mode| {
            let violation = policies.trace_violation(mode, totals.calls, hops);
            violation.or_else(|| policies.trace_cost_violation(mode, spent, price))
        };
        audit.extend(violation(Mode::Audit));
        violation(Mode::Enforce).map_or(Ok(Some(cost)), Err)
    }

    /// The rates of the policies in a mode.
    fn rates(
        &self,
        mode: Mode,
        call: &Invocation,
        moment: &Moment,
        agent: Option<&Key>,
    ) -> Vec<CountedRate<'_>> {
        let counted = |rule: RateRule<'_>| self.rate_key(rule.rate, call, moment, agent);
        self.policies.rates(mode).map(|rule| CountedRate { rule, key: counted(rule) }).collect()
    }

    /// Decides whether the caller may receive a stored result of the target. Its arguments are
    /// unknown: a policy that reads them denies it, unless it decided about the caller's own call.
    /// `own_since`: the revision of the catalog at that call.
    pub(super) fn check_stored(
        &self,
        call: &Invocation,
        moment: &Moment,
        own_since: Option<Revision>,
    ) -> Result<(), Finding> {
        let policies = &self.policies;
        policies.stale(Mode::Enforce, moment.freshness.age).map_or(Ok(()), Err)?;
        let context = context(call, self.purpose, call.context.hops.unwrap_or_default());
        let known: &[&[&str]] = &[&["caller"], &["purpose"], &["hops"], &["time"]];
        let undecided = match policies.decide_partially(self.action, &context, known) {
            PartialDecision::Denied(finding) => return Err(finding),
            PartialDecision::Undecided(policies) => policies,
            PartialDecision::Allowed => Vec::new(),
        };
        let catalog = &moment.snapshot.catalog;
        let has_decided = |policy: &Key| {
            let in_force_since = catalog.find(policy).map(|record| record.lifecycle.revision);
            in_force_since.zip(own_since).is_some_and(|(from, own)| from <= own)
        };
        match undecided.into_iter().find(|policy| !has_decided(policy)) {
            Some(policy) => Err(Finding { policy, reason: Reason::Unauthorized }),
            None => Ok(()),
        }
    }

    /// The policies.
    pub(super) fn policies(&self) -> &ApplicablePolicies {
        &self.policies
    }

    /// The purpose of the call.
    pub(super) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The violation by arguments that cannot be read.
    pub(super) fn unusable(&self, error: String) -> Option<Finding> {
        self.policies.unusable(error)
    }

    /// Checks the age of the catalog and the conditions. Running operations are checked again. No rate is
    /// taken.
    pub(super) fn authorize_call(
        &self,
        call: &Invocation,
        moment: &Moment,
        arguments: &Map<String, Value>,
        audit: &mut Vec<Finding>,
    ) -> Result<(), Finding> {
        let Self { policies, action, purpose, is_about_task, .. } = self;
        let age = moment.freshness.age;
        audit.extend(policies.stale(Mode::Audit, age));
        let stale = policies.stale(Mode::Enforce, age);
        // Polls of a task repeat a call whose context and arguments were decided.
        if *is_about_task && *action != Action::Cancel {
            return stale.or_else(|| policies.hidden(*action).cloned()).map_or(Ok(()), Err);
        }
        // Policies in audit mode are also evaluated for a call that the age denies.
        let context = context(call, *purpose, call.context.hops.unwrap_or_default());
        let verdict = policies.evaluate(*action, &context, arguments);
        audit.extend(verdict.audit);
        stale.or(verdict.denial).map_or(Ok(()), Err)
    }

    /// The text that the calls with the same rate share: a JSON list, which is unambiguous.
    fn rate_key(
        &self,
        rate: &Rate,
        call: &Invocation,
        moment: &Moment,
        agent: Option<&Key>,
    ) -> String {
        let agent = agent.map(|agent| agent.name.as_str());
        let part = |key: &RateKey| match key {
            RateKey::Agent => agent,
            RateKey::Tool => Some(self.target.name_in_counts()),
            RateKey::Caller => agent.or(principal(&moment.principal)),
            RateKey::Principal => verified_principal(call),
        };
        let parts: Vec<_> = rate.per.iter().map(part).collect();
        // A list of texts always serializes.
        serde_json::to_string(&parts).unwrap_or_default()
    }
}

/// Counts a call in the rates of policies in audit mode.
async fn count_audited(gateway: &Gateway, audited: Vec<CountedRate<'_>>, audit: &mut Vec<Finding>) {
    match TakenRates::take(gateway, audited).await {
        Ok(mut taken) => taken.set_sent(),
        Err(finding) => audit.push(finding),
    }
}

impl GovernedTarget {
    fn name(&self) -> &str {
        match self {
            Self::Tool(served) => served.name().as_str(),
            Self::Feature(subject) => subject,
        }
    }

    /// The name that rates and budgets per tool count.
    fn name_in_counts(&self) -> &str {
        match self {
            Self::Tool(served) => served.name_in_counts(),
            Self::Feature(subject) => subject,
        }
    }
}

fn principal(key: &QuotaKey) -> Option<&str> {
    key.as_deref()
}

/// The owner of a verified credential.
fn verified_principal(call: &Invocation) -> Option<&str> {
    match &*call.caller.claim {
        CallerIdentity::Verified { principal, .. } => Some(&**principal),
        _ => None,
    }
}

/// The policies whose approval of enclosing compositions covers the call.
pub(super) fn covering_policies(call: &Invocation) -> &[Key] {
    match &call.target {
        Target::Step(step) => &step.approved,
        Target::Tool(_) | Target::Feature { .. } | Target::Agent(_) => &[],
    }
}

/// The purpose of a call or step.
pub(super) fn purpose(call: &Invocation) -> Purpose {
    match &call.target {
        Target::Step(step) if step.scope.is_compensation => Purpose::Compensation,
        Target::Step(_) => Purpose::Step,
        Target::Tool(_) | Target::Feature { .. } | Target::Agent(_) => Purpose::Call,
    }
}

fn context(call: &Invocation, purpose: Purpose, hops: u32) -> CallContext<'_> {
    let method = match &*call.caller.claim {
        CallerIdentity::Verified { auth_method, .. } => *auth_method,
        CallerIdentity::Asserted { .. } | CallerIdentity::Malformed => AuthMethod::Headers,
        CallerIdentity::Anonymous => AuthMethod::None,
    };
    let ((issuer, subject), scopes) = (call.caller.subject(), call.caller.scopes());
    let method = method.as_str();
    CallContext { issuer, subject, method, scopes, purpose, hops, time: clock::now() }
}

impl<'a> Admission<'a> {
    /// Consumes the approval.
    async fn consume(
        mut self,
        gateway: &Gateway,
        Approved { round, policies }: Approved,
    ) -> Result<Self, Finding> {
        match gateway.approvals().consume(round).await {
            Ok(round) => {
                self.approval = Some(Box::new(UsedApproval { round, policies }));
                Ok(self)
            }
            Err(failure) => {
                let reason = Reason::ApprovalUnavailable { problem: failure.to_string() };
                Err(Finding { policy: policies[0].clone(), reason })
            }
        }
    }

    /// Starts sending.
    pub(super) fn sent(mut self, record: &mut CallRecord) -> SentAdmission<'a> {
        if let Some(rates) = &mut self.rates {
            rates.set_sent();
        }
        if let Some(purchase) = &mut self.purchase {
            purchase.set_sent(record);
        }
        if let Some(used) = &mut self.approval {
            used.round.set_sent();
        }
        let Self { rates, purchase, approval, is_covered } = self;
        SentAdmission { rates, purchase, approval, is_covered }
    }
}

impl SentAdmission<'_> {
    /// The approval of sending the operation again.
    pub(super) fn resend(&self) -> Option<&dyn ResendApproval> {
        if self.approval.is_some() || self.is_covered {
            return Some(&NoResend);
        }
        self.purchase.as_deref().map(|purchase| purchase as &dyn ResendApproval)
    }

    /// Whether the operation has an approval.
    pub(super) fn is_approved(&self) -> bool {
        self.approval.is_some()
    }

    /// The policies that approved the operation.
    pub(super) fn approved_policies(&self) -> &[Key] {
        self.approval.as_deref().map_or(&[][..], |used| &used.policies[..])
    }

    /// Takes the round of an approved call whose server asks for input. The caller must record it
    /// before it sends the question on.
    pub(super) fn take_question(
        admission: &mut Option<Self>,
        result: &Result<RawResult, Error>,
    ) -> Option<ConsumedRound> {
        let result_type = result.as_ref().ok()?.result_type;
        let used = &mut admission.as_mut()?.approval;
        used.take_if(|_| result_type == ResultType::InputRequired).map(|used| used.round)
    }

    /// Charges the price of the outcome. Returns the rates of an operation that certainly was not
    /// sent.
    pub(super) fn settle(admission: Option<Self>, outcome: Outcome<'_>, record: &mut CallRecord) {
        let Some(Self { rates, purchase, approval, .. }) = admission else { return };
        if let Some(used) = approval {
            used.round.settle(outcome.of_approved());
        }
        if let (Outcome::NotSent, Some(rates)) = (outcome, rates) {
            rates.release();
        }
        if let Some(purchase) = purchase {
            purchase.settle(outcome, record);
        }
    }
}
