//! One structured event per call, the metrics of calls, and log lines about denied and failed calls.
//!
//! A call's record is written when it is dropped, so that cancelled calls are audited, too. Values
//! of arguments and results are never logged, and callers cannot choose label values.

mod failed_call;
mod label;
mod metric;
mod origin;
mod parent;
mod verdicts;

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
    time::Duration,
};

use gateway_policy::{CallOutcome, Denial, PolicyFinding};
use gateway_protocol::{
    mcp::Era,
    trace_context::{TraceContext, TraceId},
};
use http::{HeaderMap, HeaderName, HeaderValue};
use ledger::{BudgetKey, usage::UsageTotals};
use policy::{ApplicablePolicies, Finding, Purpose};
use registry_core::{Amount, Catalog, Key, Kind, Revision};

pub use self::metric::{Gauge, GaugeGuard, count_list, count_rejection};
pub use self::origin::origin;
pub use self::parent::AuditParent;
use self::verdicts::StoredVerdicts;
use crate::{
    freshness::{Freshness, StalenessLevel},
    graphs::RequestTrace,
    identity::Caller,
    inspection::{InspectionLog, Inspections},
    trace::{Span, SpanSummary},
    usage::{CallMeter, Usage},
    view::ServedTool,
};

/// The header with the id of an HTTP request.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of a logged name of a tool or id of a task, in bytes.
const KEPT_BYTES: usize = 128;

/// The outcome of a validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// No validation.
    Skipped,
    /// The value conforms to the schema.
    Valid,
    /// The value violates the schema.
    Violated,
    /// The schema is invalid.
    Unusable,
}

impl Check {
    fn as_str(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Valid => "valid",
            Self::Violated => "violated",
            Self::Unusable => "unusable-schema",
        }
    }
}

/// The record of one call, written on drop.
#[derive(Debug)]
pub struct CallRecord {
    event: &'static str,
    /// The `X-Request-Id` of the HTTP request, which shares its text.
    request_id: Option<HeaderValue>,
    span: Span,
    /// The trace with the caller's own id.
    client_trace: Option<RequestTrace>,
    /// The id of the caller's task.
    task_id: Option<Box<str>>,
    era: Era,
    revision: Revision,
    caller: Option<Caller>,
    freshness: Option<Freshness>,
    tool: Arc<str>,
    /// The composition that this step belongs to.
    composition: Option<Key>,
    /// The purpose of a step.
    purpose: Option<Purpose>,
    served: Option<Arc<ServedTool>>,
    /// The server of an operation without a tool.
    server: Option<Key>,
    finding: Option<PolicyFinding>,
    denial: Option<Denial>,
    /// The verdicts of policies.
    policies: Option<Arc<str>>,
    policy_denial: Option<&'static str>,
    /// The verdicts behind stored results. Only compositions have some.
    stored: OnceLock<Arc<StoredVerdicts>>,
    /// The policy of the price: `NAME@VERSION`.
    price_policy: Option<Box<str>>,
    /// The price that the call reserves.
    price: Option<Amount>,
    /// The charges of all rounds. For a call in flight, the reserved price.
    charged: Option<Amount>,
    /// The charged budgets: `POLICY/BUDGET`, separated by spaces.
    budgets: Option<String>,
    /// The actions of inspections. Empty without an inspection.
    inspection: OnceLock<InspectionLog>,
    /// Hides values in texts of clients. `None`: no policy inspects data.
    hiding: Option<Arc<Inspections>>,
    /// The id of a denied call in its response.
    invocation: Option<Box<str>>,
    /// The id of the approval that the call used, needs or was denied.
    approval: Option<Box<str>>,
    input: Check,
    output: Check,
    outcome: CallOutcome,
    error: Option<String>,
    /// The reason of a denial that the caller must not learn.
    concealed: Option<String>,
    request_bytes: usize,
    response_bytes: usize,
    /// Counts the call in the usage of its caller.
    meter: Option<CallMeter>,
}

impl CallRecord {
    /// Starts a record.
    pub fn begin(
        event: &'static str,
        era: Era,
        tool: impl Into<Arc<str>>,
        request_bytes: usize,
        span: Span,
    ) -> Self {
        let tool = tool.into();
        Self {
            event,
            request_id: None,
            span,
            client_trace: None,
            task_id: None,
            era,
            revision: Revision::default(),
            caller: None,
            freshness: None,
            tool: if tool.len() > KEPT_BYTES { kept(&tool).into() } else { tool },
            composition: None,
            purpose: None,
            served: None,
            server: None,
            finding: None,
            denial: None,
            policies: None,
            policy_denial: None,
            stored: OnceLock::new(),
            price_policy: None,
            price: None,
            charged: None,
            budgets: None,
            inspection: OnceLock::new(),
            hiding: None,
            invocation: None,
            approval: None,
            input: Check::Skipped,
            output: Check::Skipped,
            outcome: CallOutcome::Cancelled,
            error: None,
            concealed: None,
            request_bytes,
            response_bytes: 0,
            meter: None,
        }
    }

    /// Adds the request id of the HTTP request.
    #[must_use]
    pub fn of_request(mut self, headers: &HeaderMap) -> Self {
        self.request_id = headers.get(&REQUEST_ID).cloned();
        self
    }

    /// Adds the trace with the caller's own id.
    #[must_use]
    pub(crate) fn of_client_trace(mut self, trace: RequestTrace) -> Self {
        self.client_trace = Some(trace);
        self
    }

    /// Sets the id of the caller's task.
    pub(crate) fn set_task(&mut self, id: &str) {
        self.task_id = Some(kept(id).into());
    }

    /// Replaces the name of the called prompt or resource.
    pub(crate) fn set_target(&mut self, target: &str) {
        self.tool = kept(target).into();
    }

    /// Sets the caller, and the catalog revision at the start of the call.
    pub fn set_caller(&mut self, revision: Revision, caller: &Caller) {
        self.revision = revision;
        self.caller = Some(caller.clone());
    }

    /// Counts the call in the usage of its caller. `method`: that of an operation that is no call of a
    /// tool.
    pub fn set_usage(
        &mut self,
        usage: &Arc<Usage>,
        catalog: &Catalog,
        method: Option<&'static str>,
    ) {
        if self.meter.is_none() {
            self.meter = Some(CallMeter::new(usage, catalog, self.caller.as_ref(), method));
        }
    }

    /// Sets the age of the catalog that authorizes the call.
    pub fn set_freshness(&mut self, freshness: Freshness) {
        self.freshness = Some(freshness);
    }

    /// Sets the route of an authorized operation.
    pub fn set_route(
        &mut self,
        tool: Option<&Arc<ServedTool>>,
        server: Option<&Key>,
        finding: Option<PolicyFinding>,
    ) {
        self.served = tool.cloned();
        self.server = server.cloned();
        self.finding = finding;
    }

    fn server(&self) -> Option<&Key> {
        self.served.as_ref().and_then(|served| served.server()).or(self.server.as_ref())
    }

    /// Sets the verdicts of the policies that apply.
    pub fn set_verdicts(
        &mut self,
        policies: &ApplicablePolicies,
        denial: Option<&Finding>,
        audit: &[Finding],
    ) {
        self.policies = Some(policies.verdicts(denial, audit));
        self.policy_denial = denial.map(|denial| denial.reason.as_str());
        let audit = audit.iter().map(|found| ("audit", found.reason.as_str()));
        let verdict = self.policy_denial.map_or(("allow", ""), |reason| ("deny", reason));
        for (verdict, reason) in audit.chain([verdict]) {
            metric::count_policy(verdict, reason);
        }
    }

    /// Records the denial of a target that the caller must not learn of. The event has its reason, not
    /// the error of the response.
    pub fn conceal(&mut self, policies: &ApplicablePolicies, denial: &Finding, audit: &[Finding]) {
        self.set_verdicts(policies, Some(denial), audit);
        self.concealed = Some(denied(denial));
    }

    /// Adds the violations by a result to the verdicts.
    pub fn add_verdicts(&mut self, denial: Option<&Finding>, audit: &[Finding]) {
        let denied = denial.map(|denial| ("deny", denial));
        for (verdict, finding) in audit.iter().map(|finding| ("audit", finding)).chain(denied) {
            let verdicts = self.policies.as_deref().unwrap_or_default();
            self.policies = Some(verdicts::with(verdicts, verdict, finding).into());
            metric::count_policy(verdict, finding.reason.as_str());
        }
        self.policy_denial = denial.map(|denial| denial.reason.as_str()).or(self.policy_denial);
    }

    /// Hides values in texts of clients.
    pub(crate) fn hide_values(&mut self, inspections: &Arc<Inspections>) {
        self.hiding = Some(Arc::clone(inspections));
    }

    /// A text of a client for logs.
    pub(crate) fn shown<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.hiding {
            Some(inspections) => inspections.logged(text),
            None => text.into(),
        }
    }

    /// The actions of the inspections of the call.
    pub(crate) fn inspection(&self) -> &InspectionLog {
        self.inspection.get_or_init(InspectionLog::default)
    }

    /// Sets the price and its policy: `NAME@VERSION`.
    pub fn set_price(&mut self, policy: &str, price: Amount) {
        self.price_policy = Some(policy.into());
        self.price = Some(price);
    }

    /// Sets the budgets that the price charges.
    pub fn set_budgets<'a>(&mut self, budgets: impl Iterator<Item = &'a BudgetKey>) {
        let mut names = String::new();
        for BudgetKey { policy, budget, .. } in budgets {
            if !names.is_empty() {
                names.push(' ');
            }
            names.push_str(policy);
            names.push('/');
            names.push_str(budget);
        }
        self.budgets = (!names.is_empty()).then_some(names);
    }

    /// Adds a charge; a negative one corrects an earlier charge.
    pub fn charge(&mut self, amount: Amount) {
        self.charged = Some(self.charged.unwrap_or_default().saturating_add(amount));
    }

    /// The charges of all rounds. `None`: the call has no price.
    pub(crate) fn charged(&self) -> Option<Amount> {
        self.charged
    }

    /// Sets the id of the approval that the call used, needs or was denied.
    pub fn set_approval(&mut self, id: &str) {
        self.approval = Some(id.into());
    }

    /// Sets the id of a denied call.
    pub fn set_invocation(&mut self, id: &str) {
        self.invocation = Some(id.into());
    }

    /// The revision of the catalog at the start of the call.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// The registered agent that calls.
    pub fn agent(&self) -> Option<&Key> {
        self.caller.as_ref().and_then(Caller::agent)
    }

    /// The id of the trace.
    pub fn trace_id(&self) -> TraceId {
        self.span.context().trace
    }

    /// Starts the span of an upstream request. Returns the trace context for the upstream.
    pub fn onward(&mut self, caller: &TraceContext) -> TraceContext {
        self.span.onward(caller)
    }

    /// The trace context for the steps of a composition.
    pub fn inward(&self, caller: &TraceContext) -> TraceContext {
        self.span.inward(caller)
    }

    /// Ends the span of an upstream request.
    pub fn end_upstream(&mut self) {
        self.span.end_upstream();
    }

    /// Sets the outcome of argument validation.
    pub fn input(&mut self, check: Check) {
        self.input = check;
    }

    /// Sets the outcome of result validation.
    pub fn output(&mut self, check: Check) {
        self.output = check;
    }

    /// Continues the operation. Until its next output it counts as cancelled.
    pub fn reopen(&mut self) {
        self.outcome = CallOutcome::Cancelled;
        self.error = None;
        self.denial = None;
    }

    /// Sets the outcome of a completed operation.
    pub fn finished(&mut self, outcome: CallOutcome) {
        self.outcome = outcome;
    }

    /// Sets the failure of an operation. `denial` is the policy decision that caused it.
    pub fn failed(&mut self, outcome: CallOutcome, error: String, denial: Option<Denial>) {
        self.outcome = outcome;
        self.error = Some(self.concealed.take().unwrap_or(error));
        self.denial = denial.or(self.denial);
    }

    /// Sets the size of the response.
    pub fn answered(&mut self, response_bytes: usize) {
        self.response_bytes = response_bytes;
    }

    /// The reason code of a denial.
    fn denial_reason(&self) -> Option<&'static str> {
        self.policy_denial.or_else(|| self.denial.map(Denial::as_str))
    }

    fn permit(&self) -> Cow<'static, str> {
        match (self.denial_reason(), self.finding) {
            (Some(reason), _) => format!("deny:{reason}").into(),
            (None, Some(finding)) => format!("warn:{}", finding.as_str()).into(),
            (None, None) => "allow".into(),
        }
    }

    /// Counts schema violations per tool for the contract report.
    fn observe(&self) {
        let Some(served) = &self.served else { return };
        if self.input == Check::Violated {
            served.observed().count_arguments();
        }
        if self.output == Check::Violated {
            served.observed().count_result();
        }
    }

    /// The name of the registered tool or skill.
    fn registered_tool(&self) -> Option<&str> {
        self.served.as_ref().map(|served| match served.server() {
            // The key of a skill is its agent's.
            Some(server) if server.kind == Kind::Agent => &*self.tool,
            _ => served.key().name.as_str(),
        })
    }

    /// Counts the call by registered tool and server.
    fn measure(&self, seconds: f64) {
        let tool = self.registered_tool();
        let bytes = [self.request_bytes, self.response_bytes];
        metric::count_tool(tool, self.outcome, (seconds, bytes));
        if let (Some(server), Some(took)) = (self.server(), self.span.upstream_took()) {
            metric::count_upstream(&name_of(server), self.outcome, took);
        }
    }

    /// Counts the call in the usage of its caller.
    fn count_usage(&mut self, took: Duration) {
        let Some(meter) = self.meter.take() else { return };
        let cost = self.charged.unwrap_or_default();
        let totals = UsageTotals {
            calls: 1,
            cost,
            duration: took,
            request_bytes: self.request_bytes as u64,
            response_bytes: self.response_bytes as u64,
            findings: self.inspection.get().map_or(0, InspectionLog::count),
        };
        // Only the result of a task has a cost without a route to a tool. The gateway issued the task, so that its tool
        // is registered.
        let called = self.registered_tool();
        let called = called.or_else(|| (cost != Amount::ZERO).then_some(&*self.tool));
        meter.count(called, &self.permit(), &totals);
    }

    fn span_summary(&self) -> SpanSummary<'_> {
        let agent = self.caller.as_ref().and_then(Caller::agent);
        SpanSummary {
            method: self.event,
            target: &self.tool,
            agent: agent.map(|key| format!("{}@{}", key.name, key.version)),
            server: self.server().map(|key| format!("{}@{}", name_of(key), key.version)),
            client_trace: self.client_trace.as_ref().map(|trace| self.shown(trace.id())),
            task_id: self.task_id.as_deref().map(|id| self.shown(id)),
            outcome: self.outcome.as_str(),
            is_failure: !matches!(self.outcome, CallOutcome::Ok),
            revision: self.revision.0,
        }
    }

    /// Calls without a result have no cost.
    fn cost(&self) -> Option<f64> {
        let has_result = matches!(
            self.outcome,
            CallOutcome::Ok | CallOutcome::ToolError | CallOutcome::InvalidOutput
        );
        self.served.as_ref().filter(|_| has_result)?.cost()
    }

    fn write(&self, seconds: f64) {
        let caller = self.caller.as_ref();
        let agent = caller.and_then(Caller::agent);
        let client = caller.and_then(Caller::client);
        let client_trace = self.client_trace.as_ref().map(|trace| self.shown(trace.id()));
        let (claimed, name, version) = (
            caller.and_then(Caller::claimed).map(|claimed| self.shown(claimed)),
            client.map(|client| self.shown(&client.name)),
            client.map(|client| self.shown(&client.version)),
        );
        let task_id = self.task_id.as_deref().map(|id| self.shown(id));
        let tool = self.served.as_ref().map(|served| served.key());
        let server = self.server();
        let context = self.span.context();
        let stored = self.stored.get().and_then(|stored| stored.text());
        let age = self.freshness.and_then(|freshness| freshness.age);
        tracing::info!(
            target: "audit",
            event = self.event,
            request_id = self.request_id.as_ref().and_then(|id| id.to_str().ok()),
            trace_id = %context.trace,
            span_id = %context.span,
            client_trace = client_trace.as_deref(),
            task_id = task_id.as_deref(),
            agent = agent.map(|key| tracing::field::display(&key.name)),
            agent_version = agent.map(|key| tracing::field::display(&key.version)),
            claimed_agent = claimed.as_deref(),
            principal = caller.and_then(Caller::log_name),
            identified_by = caller.map(|caller| caller.auth_method().as_str()),
            client = name.as_deref(),
            client_version = version.as_deref(),
            tool = &*self.tool,
            composition = self.composition.as_ref().map(|key| tracing::field::display(&key.name)),
            composition_version =
                self.composition.as_ref().map(|key| tracing::field::display(&key.version)),
            purpose = self.purpose.map(Purpose::as_str),
            tool_version = tool.map(|key| tracing::field::display(&key.version)),
            server = server.map(|key| tracing::field::display(name_of(key))),
            server_version = server.map(|key| tracing::field::display(&key.version)),
            revision = self.revision.0,
            // Rounded to 0.1 s.
            catalog_age_seconds = age.map(|age| (age.as_secs_f64() * 10.0).round() / 10.0),
            staleness = self.freshness.map(|freshness| freshness.level.as_str()),
            era = self.era.as_str(),
            permit = &*self.permit(),
            policies = self.policies.as_deref(),
            stored_policies = stored.as_deref(),
            invocation = self.invocation.as_deref(),
            approval = self.approval.as_deref(),
            price = self.price.map(tracing::field::display),
            price_policy = self.price_policy.as_deref(),
            charged = self.charged.map(tracing::field::display),
            budgets = self.budgets.as_deref(),
            inspection = self.inspection.get().and_then(InspectionLog::text),
            input = self.input.as_str(),
            output = self.output.as_str(),
            outcome = self.outcome.as_str(),
            cost = self.cost(),
            error = self.error.as_deref(),
            // Rounded to microseconds.
            duration_ms = (seconds * 1e6).round() / 1e3,
            request_bytes = self.request_bytes,
            response_bytes = self.response_bytes,
        );
    }
}

/// The reason of a denial in events.
pub fn denied(denial: &Finding) -> String {
    format!("{} denies the call: {}", denial.policy, denial.reason.as_str())
}

/// The logged part of a name.
fn kept(name: &str) -> &str {
    &name[..name.floor_char_boundary(KEPT_BYTES)]
}

/// The name of a server, or `agent/NAME`.
fn name_of(server: &Key) -> Cow<'_, str> {
    if server.kind == Kind::Agent {
        return format!("agent/{}", server.name).into();
    }
    server.name.as_str().into()
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        let took = self.span.age();
        let seconds = took.as_secs_f64();
        // Steps are counted by tool and server only.
        if self.composition.is_none() {
            metric::count_call(self.era, self.outcome, seconds);
        }
        if let Some(finding) = self.finding {
            metric::count_finding(finding.as_str());
        }
        if let Some(freshness) = self.freshness.filter(|found| found.level != StalenessLevel::Serve)
        {
            metric::count_stale(freshness.level.as_str(), self.denial.is_some());
        }
        for (check, which) in [(self.input, "input"), (self.output, "output")] {
            if !matches!(check, Check::Skipped | Check::Valid) {
                metric::count_violation(which, check.as_str());
            }
        }
        self.observe();
        self.measure(seconds);
        self.count_usage(took);
        self.write(seconds);
        self.log_failure();
        self.span.end(|| self.span_summary());
    }
}
