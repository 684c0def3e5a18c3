//! Inspects the data of operations by their policies: arguments before they are sent, and everything
//! that callers receive.
//!
//! The steps of a composition exchange values unchanged. The result of the composition has the
//! strictest rules of its steps.

mod copies;
mod filter;

use std::sync::Arc;

use a2a::Failure;
use gateway_compose::{CompositionError, ShownFailure};
use gateway_protocol::{mcp::RawResult, trace_context::TraceContext};
use gateway_upstream::{ClientChannel, RequestContext};
use policy::{ApplicablePolicies, Direction, Finding, InspectionRules};
use registry_core::Key;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use self::filter::Filter;
use super::{
    Error, FeatureSubject, Gateway, Invocation, PolicyDenial, Target, admit::Governed, agent,
    arguments::InvalidArguments, message, moment::Moment, validate,
};
use crate::{
    audit::{CallRecord, origin},
    governance::Governance,
    inspection::{ChangedText, Inspected, Inspection, InspectionLog, UnknownPlaceholder},
    view::{Composed, ServedTool},
};

/// Maximum size of a text that is inspected on the connection's thread, in bytes: about 1 ms.
const MAX_INLINE_BYTES: usize = 64 * 1024;
/// The text that replaces an error message which a policy blocks in a step.
const BLOCKED: &str = "[blocked by a policy]";

/// The inspections of one operation.
#[derive(Debug, Default)]
pub(super) struct CallInspection {
    /// Of the data for the upstream.
    arguments: Option<Inspection>,
    /// Of the data for the caller. `None` also for a step: its composition needs the values.
    results: Option<Inspection>,
    /// Of the messages of errors, also in steps.
    errors: Option<Inspection>,
}

/// The operation whose data is inspected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inspecting<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) call: &'a Invocation,
    pub(super) moment: &'a Moment,
}

impl CallInspection {
    /// The inspections of an operation. `composed`: the called composition.
    pub(super) fn of(
        gateway: &Gateway,
        call: &Invocation,
        moment: &Moment,
        governed: Option<&Governed>,
        composed: Option<&Composed>,
        agent: Option<&Key>,
    ) -> Self {
        let governance = moment.snapshot.governance.as_ref();
        let Some(governance) = governance.filter(|governance| governance.inspects()) else {
            return Self::default();
        };
        let own = governed.and_then(Governed::inspection);
        let merged = match composed {
            None => own.cloned(),
            Some(composed) => {
                let mut steps = Vec::new();
                collect_steps(composed, governance, agent, &mut steps);
                let steps = steps.iter().filter_map(|policies| policies.inspection());
                InspectionRules::with_results_of(own.map(|own| &**own), steps.map(|rules| &**rules))
            }
        };
        let of = |rules: Option<&Arc<InspectionRules>>, direction| {
            gateway.inspections().of(rules?, direction, &moment.principal)
        };
        let errors = of(merged.as_ref(), Direction::Results);
        let is_step = matches!(call.target, Target::Step(_));
        let results = errors.clone().filter(|_| !is_step);
        Self { arguments: of(own, Direction::Arguments), results, errors }
    }

    /// The name of a prompt or resource for the audit, without values of inspected classes. `None`: it
    /// is not inspected.
    pub(super) fn audited(&self, call: &Invocation) -> Option<String> {
        let inspection = self.arguments.as_ref()?;
        let Target::Feature { subject, .. } = &call.target else { return None };
        match subject {
            FeatureSubject::Prompt(name) => Some(inspection.without_inspected(name)),
            FeatureSubject::Resource(uri) => Some(origin(&inspection.without_inspected(uri))),
            FeatureSubject::Task(..) => None,
        }
    }

    /// The arguments of a tool with the values of the caller's placeholders. A value stays a
    /// placeholder if results can return it to the caller. `None`: nothing is restored.
    pub(super) fn restored(
        &self,
        inspecting: Inspecting<'_>,
        served: &ServedTool,
        arguments: Option<&RawValue>,
    ) -> Result<Option<Box<RawValue>>, Error> {
        let Some(arguments) = arguments else { return Ok(None) };
        let Inspecting { gateway, moment, .. } = inspecting;
        let governance = moment.snapshot.governance.as_ref();
        let tokenizes = governance.is_some_and(|governance| governance.tokenizes());
        let text = arguments.get();
        // Brackets can be written as escapes.
        let may_contain = || text.contains("[[") || text.contains(r"\u005");
        if !(tokenizes || gateway.inspections().has_issued()) || !may_contain() {
            return Ok(None);
        }
        let may_restore = |class, policies: &[_]| {
            let is_hidden = self.errors.as_ref().is_some_and(|results| results.hides(class));
            is_hidden
                && governance
                    .is_some_and(|governance| governance.restores(policies, served.called()))
        };
        let restored = gateway.inspections().restore(&moment.principal, text, may_restore);
        let unknown = |UnknownPlaceholder(placeholder)| Error::UnknownPlaceholder {
            placeholder: placeholder.to_string(),
        };
        Ok(restored.map_err(unknown)?.and_then(|restored| RawValue::from_string(restored).ok()))
    }

    /// Inspects the data for the upstream: the arguments, and the rest of a message to an agent.
    /// Returns the violation that rejects the operation.
    pub(super) async fn check_arguments(
        &self,
        gateway: &Gateway,
        call: &Invocation,
        [arguments, message]: [Option<&RawValue>; 2],
        log: &InspectionLog,
        audit: &mut Vec<Finding>,
    ) -> Result<(), Finding> {
        let Some(inspection) = &self.arguments else { return Ok(()) };
        let mut check = |inspected: Inspected| {
            log.add(&inspected.actions);
            for finding in inspected.audit {
                if !audit.iter().any(|known| known.policy == finding.policy) {
                    audit.push(finding);
                }
            }
            inspected.violation.map_or(Ok(()), Err)
        };
        if let Some(arguments) = arguments {
            let excepting = inspection.with_exceptions();
            check(inspected(gateway, &call.context, &excepting, arguments, "").await)?;
        }
        if let Some(message) = message {
            check(inspected(gateway, &call.context, inspection, message, "").await)?;
        }
        // The state is that of the server, and opaque.
        for param in call.params.iter().filter(|param| &*param.name != "requestState") {
            let place = format!("/{}", param.name);
            check(inspected(gateway, &call.context, inspection, &param.value, &place).await)?;
        }
        for param in &call.context.meta {
            let place = format!("/_meta/{}", param.name.replace('~', "~0").replace('/', "~1"));
            check(inspected(gateway, &call.context, inspection, &param.value, &place).await)?;
        }
        let TraceContext { state, baggage, .. } = &call.context.trace;
        for (text, place) in [(state, "/_meta/tracestate"), (baggage, "/_meta/baggage")] {
            if let Some(text) = text {
                check(inspection.text(text, place))?;
            }
        }
        if let Target::Feature { subject, .. } = &call.target {
            match subject {
                FeatureSubject::Prompt(name) => check(inspection.text(name, "/name"))?,
                FeatureSubject::Resource(uri) => check(inspection.text(uri, "/uri"))?,
                FeatureSubject::Task(..) => {}
            }
        }
        Ok(())
    }

    /// Whether results are inspected.
    pub(super) fn has_results(&self) -> bool {
        self.results.is_some()
    }

    /// Inspects a result. A changed result of a tool with an output schema must still conform to it.
    pub(super) async fn check_result(
        &self,
        inspecting: Inspecting<'_>,
        served: Option<&ServedTool>,
        result: RawResult,
        record: &mut CallRecord,
    ) -> Result<RawResult, Error> {
        let Some(inspection) = &self.results else { return Ok(result) };
        let Inspecting { gateway, call, .. } = inspecting;
        let context = &call.context;
        let found = inspected(gateway, context, inspection, &result.result, "").await;
        let Inspected { changed, .. } = inspecting.record(found, record)?;
        let Some(ChangedText { text, finding }) = changed else { return Ok(result) };
        let text = copies::aligned(result.result.get(), text);
        context.buffer(text.len()).map_err(gateway_upstream::Error::from)?;
        let Ok(changed) = RawValue::from_string(text) else {
            return Err(inspecting.denial(finding, &[], record));
        };
        let is_final = result.result_type.is_final() && !result.is_error;
        if let Some(served) = served.filter(|_| is_final)
            && !validate::fits(gateway, served, &changed, context).await
        {
            return Err(inspecting.denial(finding, &[], record));
        }
        Ok(RawResult { result: changed, ..result })
    }

    /// Inspects an answer or event of an agent without its ids. Changed data must still conform to the
    /// output schema of the skill.
    pub(super) async fn check_answer(
        &self,
        inspecting: Inspecting<'_>,
        served: &ServedTool,
        answer: Value,
        record: &mut CallRecord,
    ) -> Result<Value, Error> {
        let Some(inspection) = &self.results else { return Ok(answer) };
        let Inspecting { gateway, call, .. } = inspecting;
        let context = &call.context;
        // JSON values always serialize.
        let Ok(text) = to_raw_value(&answer) else { return Ok(answer) };
        let inspect = |inspection: &Inspection, text: &RawValue| inspection.answer(text.get());
        let found = on_worker_if_long(gateway, context, inspection, &text, inspect).await;
        let Inspected { changed, .. } = inspecting.record(found, record)?;
        let Some(ChangedText { text, finding }) = changed else { return Ok(answer) };
        context.buffer(text.len()).map_err(gateway_upstream::Error::from)?;
        let Ok(changed) = serde_json::from_str::<Value>(&text) else {
            return Err(inspecting.denial(finding, &[], record));
        };
        let data = agent::data_of_answer(&changed);
        if !validate::answer_fits(gateway, served, (&data, context)).await {
            return Err(inspecting.denial(finding, &[], record));
        }
        drop(data);
        Ok(changed)
    }

    /// Inspects the report about the steps of a composition. Returns its JSON text if it changes.
    pub(super) fn check_steps(
        &self,
        inspecting: Inspecting<'_>,
        steps: &gateway_compose::Steps,
        record: &mut CallRecord,
    ) -> Result<Option<Box<str>>, Error> {
        let Some(inspection) = &self.results else { return Ok(None) };
        let steps = serde_json::to_string(steps).unwrap_or_default();
        let found = inspection.json(&steps, "/_meta/registry~1steps");
        let Inspected { changed, .. } = inspecting.record(found, record)?;
        Ok(changed.map(|changed| changed.text.into()))
    }

    /// The error without values in the pointers and messages of violations of a schema, and in repeated
    /// names of members.
    pub(super) fn without_values(&self, mut error: Error) -> Error {
        let inspection = self.errors.as_ref().or(self.arguments.as_ref());
        let Some(inspection) = inspection else { return error };
        match &mut error {
            Error::InvalidInput { violations } | Error::InvalidOutput { violations } => {
                for violation in violations {
                    violation.pointer = inspection.pointer_without_values(&violation.pointer);
                    violation.message = inspection.without_values(&violation.message);
                }
            }
            Error::Arguments(InvalidArguments::Ambiguous(reason)) => {
                *reason = inspection.without_values(reason);
            }
            _ => {}
        }
        error
    }

    /// Inspects the messages of an error.
    pub(super) fn check_error(
        &self,
        inspecting: Inspecting<'_>,
        error: Error,
        record: &mut CallRecord,
    ) -> Error {
        let error = self.without_values(error);
        let Some(inspection) = &self.errors else { return error };
        let is_step = self.results.is_none();
        match error {
            Error::Upstream(gateway_upstream::Error::Rpc { code, mut message, mut data }) => {
                let mut found = inspection.text(&message, "/error/message");
                let in_data = data.as_ref().map(|data| inspection.json(data.get(), "/error/data"));
                if let Some(changed) = found.changed.take() {
                    message = changed.text;
                }
                if let Some(mut in_data) = in_data {
                    if let Some(changed) = in_data.changed.take() {
                        data = RawValue::from_string(changed.text).ok();
                    }
                    found.merge(in_data);
                }
                if is_step && found.violation.take().is_some() {
                    (message, data) = (BLOCKED.to_owned(), None);
                }
                let error = gateway_upstream::Error::Rpc { code, message, data }.into();
                inspecting.record(found, record).err().unwrap_or(error)
            }
            Error::Upstream(gateway_upstream::Error::Agent(failure)) => {
                let (failure, mut found) = check_failure(inspection, failure);
                let failure = if is_step && found.violation.take().is_some() {
                    Box::new(Failure::new(failure.kind, BLOCKED))
                } else {
                    failure
                };
                let error = gateway_upstream::Error::Agent(failure).into();
                inspecting.record(found, record).err().unwrap_or(error)
            }
            Error::Upstream(gateway_upstream::Error::OpenTask { why, said: Some(mut said) }) => {
                let mut found = inspection.text(&said, "/status/message");
                if let Some(changed) = found.changed.take() {
                    said = changed.text;
                }
                if is_step && found.violation.take().is_some() {
                    BLOCKED.clone_into(&mut said);
                }
                let said = Some(said);
                let error = gateway_upstream::Error::OpenTask { why, said }.into();
                inspecting.record(found, record).err().unwrap_or(error)
            }
            Error::Composition(mut failed) if !is_step => {
                let shown = shown(inspecting.target(), &failed);
                let found = inspection.json(&shown, "/error");
                let changed = match inspecting.record(found, record) {
                    Err(denial) => return denial,
                    Ok(Inspected { changed: None, .. }) => return Error::Composition(failed),
                    Ok(Inspected { changed: Some(changed), .. }) => changed,
                };
                let Some(shown) = read_shown(&changed.text) else {
                    return inspecting.denial(changed.finding, &[], record);
                };
                failed.shown = Some(shown);
                Error::Composition(failed)
            }
            other => other,
        }
    }

    /// The channel to the client whose messages are inspected.
    pub(super) fn filtered(
        &self,
        channel: &ClientChannel,
        record: &CallRecord,
    ) -> Option<ClientChannel> {
        let (arguments, results) = (self.arguments.clone(), self.errors.clone());
        let is_inspected = arguments.is_some() || results.is_some();
        let filter = || Filter { arguments, results, log: record.inspection().clone() };
        is_inspected.then(|| channel.filtered(Arc::new(filter())))
    }
}

impl<'a> Inspecting<'a> {
    /// The called tool, prompt or resource.
    fn target(self) -> &'a str {
        match &self.call.target {
            Target::Tool(tool) => &tool.name,
            Target::Step(step) => step.served.name().as_str(),
            Target::Feature { subject, .. } => subject.known(),
            Target::Agent(call) => call.agent.name.as_str(),
        }
    }

    /// Records an inspection. A violation becomes a denial.
    fn record(self, inspected: Inspected, record: &mut CallRecord) -> Result<Inspected, Error> {
        record.inspection().add(&inspected.actions);
        if let Some(finding) = inspected.violation {
            Err(self.denial(finding, &inspected.audit, record))
        } else {
            record.add_verdicts(None, &inspected.audit);
            Ok(inspected)
        }
    }

    fn denial(self, finding: Finding, audit: &[Finding], record: &mut CallRecord) -> Error {
        record.add_verdicts(Some(&finding), audit);
        let registry = self.moment.snapshot.catalog.registry();
        let mut denial = PolicyDenial::new(finding, registry, record.agent(), self.target());
        denial.was_running = true;
        record.set_invocation(&denial.invocation_id);
        Error::Policy(Box::new(denial))
    }
}

/// Records the name of a target without a route, which no policy selects, without values.
pub(super) fn record_unknown_target(
    gateway: &Gateway,
    call: &Invocation,
    moment: &Moment,
    record: &mut CallRecord,
) {
    if !moment.snapshot.governance.as_ref().is_some_and(|governance| governance.inspects()) {
        return;
    }
    let without_values = |name: &str| gateway.inspections().without_values(name);
    let name = match &call.target {
        Target::Tool(tool) => without_values(&tool.name),
        Target::Feature { subject: FeatureSubject::Prompt(name), .. } => without_values(name),
        Target::Feature { subject: FeatureSubject::Resource(uri), .. } => {
            origin(&without_values(uri))
        }
        Target::Agent(call) => without_values(&call.agent.name.to_string()),
        Target::Feature { subject: FeatureSubject::Task(..), .. } | Target::Step(_) => return,
    };
    record.set_target(&name);
}

/// Inspects a JSON text; a long one on a worker thread.
async fn inspected(
    gateway: &Gateway,
    context: &RequestContext,
    inspection: &Inspection,
    text: &RawValue,
    place: &str,
) -> Inspected {
    let place = place.to_owned();
    let inspect =
        move |inspection: &Inspection, text: &RawValue| inspection.json(text.get(), &place);
    on_worker_if_long(gateway, context, inspection, text, inspect).await
}

async fn on_worker_if_long(
    gateway: &Gateway,
    context: &RequestContext,
    inspection: &Inspection,
    text: &RawValue,
    inspect: impl FnOnce(&Inspection, &RawValue) -> Inspected + Send + 'static,
) -> Inspected {
    if text.get().len() <= MAX_INLINE_BYTES {
        return inspect(inspection, text);
    }
    let (inspection, text) = (inspection.clone(), text.to_owned());
    gateway.workers().run(context.payer(), move || inspect(&inspection, &text)).await
}

/// Inspects the message, the metadata and the details of an agent's error.
fn check_failure(inspection: &Inspection, mut failure: Box<Failure>) -> (Box<Failure>, Inspected) {
    let mut found = inspection.text(&failure.message, "/error/message");
    if let Some(changed) = found.changed.take() {
        failure.message = changed.text;
    }
    let data = serde_json::json!({ "metadata": failure.metadata, "details": failure.details });
    let mut in_data = inspection.json(&data.to_string(), "/error/data");
    if let Some(changed) = in_data.changed.take() {
        let data: Value = serde_json::from_str(&changed.text).unwrap_or_default();
        let read = |name: &str| data[name].clone();
        failure.metadata = serde_json::from_value(read("metadata")).unwrap_or_default();
        failure.details = serde_json::from_value(read("details")).unwrap_or_default();
    }
    found.merge(in_data);
    (failure, found)
}

/// Collects the policies of all tools and skills that a composition calls.
fn collect_steps(
    composed: &Composed,
    governance: &Governance,
    agent: Option<&Key>,
    found: &mut Vec<Arc<ApplicablePolicies>>,
) {
    for (_, served) in composed.parts() {
        found.extend(served.policies(governance, agent));
        if let Some(inner) = served.composed() {
            collect_steps(inner, governance, agent, found);
        }
    }
}

/// The failure of a composition as callers see it, as JSON text.
fn shown(tool: &str, failed: &CompositionError) -> String {
    let message = message::failed_composition(tool, failed);
    serde_json::json!({
        "message": message, "failure": failed.failure.to_value(), "steps": failed.steps,
    })
    .to_string()
}

fn read_shown(text: &str) -> Option<Box<ShownFailure>> {
    let shown: serde_json::Value = serde_json::from_str(text).ok()?;
    Some(Box::new(ShownFailure {
        message: shown["message"].as_str()?.to_owned(),
        failure: shown["failure"].to_string(),
        steps: shown["steps"].to_string(),
    }))
}
