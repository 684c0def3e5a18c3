//! Inspects the data of operations by their policies: arguments before they are sent, and everything
//! that callers receive.
//!
//! The steps of a composition exchange values unchanged. The result of the composition has the
//! strictest rules of its steps.

mod copies;
mod filter;
mod texts;
mod thread;

use std::sync::Arc;

use a2a::Failure;
use gateway_compose::{CompositionError, ShownFailure};
use gateway_policy::{BufferReservation, QuotaExceeded};
use gateway_protocol::{
    content,
    mcp::{Method, RawResult, ResultType},
    trace_context::TraceContext,
};
use gateway_upstream::ClientChannel;
use policy::{ApplicablePolicies, Direction, Finding, InspectionRules};
use registry_core::{Key, Name};
use schema_compat::{pointer::pointer_join, schema_compile::Violation};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use self::filter::{CalledServer, Filter};
pub(crate) use self::thread::InspectionThread;
use super::{
    Error, FeatureSubject, Gateway, Invocation, PolicyDenial, Target, admit::Governed, agent,
    arguments::InvalidArguments, message, moment::Moment, validate,
};
use crate::{
    audit::{CallRecord, origin},
    governance::Governance,
    inspection::{ChangedText, Form, Inspected, Inspection, InspectionLog, RestoreError},
    view::{Composed, ServedTool},
};

/// The text that replaces an error message which a policy blocks in a step.
const BLOCKED: &str = "[blocked by a policy]";

/// The inspections of one operation.
#[derive(Debug, Default)]
pub(super) struct CallInspection {
    /// Of the data for the upstream.
    arguments: Option<Arc<Inspection>>,
    /// Of the data for the caller. `None` also for a step: its composition needs the values.
    results: Option<Arc<Inspection>>,
    /// Of the messages of errors, also in steps.
    errors: Option<Arc<Inspection>>,
    /// The rules of all of these.
    rules: Option<Arc<InspectionRules>>,
}

/// The operation whose data is inspected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inspecting<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) call: &'a Invocation,
    pub(super) moment: &'a Moment,
}

/// A part of the data for the upstream. All but the arguments have the pointer of their place.
#[derive(Debug)]
enum UpstreamData<'a> {
    Arguments(&'a RawValue),
    Json(&'a RawValue, String),
    Text(&'a str, String),
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
            let inspection = gateway.inspections().of(rules?, direction, &moment.principal);
            inspection.map(Arc::new)
        };
        let errors = of(merged.as_ref(), Direction::Results);
        let is_step = matches!(call.target, Target::Step(_));
        let results = errors.clone().filter(|_| !is_step);
        Self { arguments: of(own, Direction::Arguments), results, errors, rules: merged }
    }

    /// The name of a prompt or resource for the audit, without values of inspected classes. `None`: it
    /// is not inspected.
    pub(super) fn audited(&self, call: &Invocation) -> Option<String> {
        let inspection = self.arguments.as_ref()?;
        let Target::Feature { subject, .. } = &call.target else { return None };
        match subject {
            FeatureSubject::Prompt(name) => Some(inspection.logged(name)),
            FeatureSubject::Resource(uri) => Some(origin(&inspection.logged(uri))),
            FeatureSubject::Task(..) => None,
        }
    }

    /// The arguments of a tool with the values of the caller's placeholders. A value stays a
    /// placeholder if results can return it to the caller. `None`: nothing is restored.
    pub(super) async fn restored(
        &self,
        inspecting: Inspecting<'_>,
        served: &Arc<ServedTool>,
        arguments: Option<&RawValue>,
    ) -> Result<Option<Box<RawValue>>, Error> {
        let Inspecting { gateway, call, moment } = inspecting;
        let Some(arguments) = arguments.filter(|raw| inspecting.may_have_placeholders(raw)) else {
            return Ok(None);
        };
        let (governance, results) = (moment.snapshot.governance.clone(), self.errors.clone());
        let (served, principal) = (Arc::clone(served), moment.principal.clone());
        let (inspections, arguments) = (Arc::clone(gateway.inspections()), arguments.to_owned());
        let max_bytes = gateway.settings().request_bytes;
        let bytes = arguments.get().len();
        let restore = move || {
            let may_restore = |classes, policies: &[Name]| {
                results.as_ref().is_some_and(|results| results.hides_all(classes))
                    && governance
                        .as_ref()
                        .is_some_and(|governance| governance.restores(policies, served.called()))
            };
            inspections.restore(&principal, arguments.get(), max_bytes, may_restore)
        };
        let restored = inspecting.thread().run(bytes, restore).await.map_err(exceeded)?;
        let Some(restored) = restored.map_err(|error| unrestored(&error, max_bytes))? else {
            return Ok(None);
        };
        call.context.buffer(content::tree_bytes(&restored)).map_err(exceeded)?;
        Ok(RawValue::from_string(restored).ok())
    }

    /// Inspects the data for the upstream: the arguments, and the rest of a request to an agent.
    /// Returns the violation that rejects the operation.
    pub(super) async fn check_arguments(
        &self,
        inspecting: Inspecting<'_>,
        [arguments, rest]: [Option<&RawValue>; 2],
        log: &InspectionLog,
        audit: &mut Vec<Finding>,
    ) -> Result<Option<Finding>, Error> {
        let Some(inspection) = &self.arguments else { return Ok(None) };
        let call = inspecting.call;
        let mut parts = Vec::new();
        parts.extend(arguments.map(UpstreamData::Arguments));
        parts.extend(rest.map(|rest| UpstreamData::Json(rest, String::new())));
        // The state is that of the server, and opaque.
        for param in call.params.iter().filter(|param| &*param.name != "requestState") {
            parts.push(UpstreamData::Json(&param.value, format!("/{}", param.name)));
        }
        for param in &call.context.meta {
            parts.push(UpstreamData::Json(&param.value, pointer_join("/_meta", &param.name)));
        }
        let mut add = |text, place: &str| parts.push(UpstreamData::Text(text, place.to_owned()));
        let TraceContext { state, baggage, .. } = &call.context.trace;
        for (text, place) in [(state, "/_meta/tracestate"), (baggage, "/_meta/baggage")] {
            if let Some(text) = text {
                add(text, place);
            }
        }
        if let Target::Agent(sent) = &call.target {
            for uri in sent.extensions.iter() {
                add(uri, "/A2A-Extensions");
            }
        }
        if let Target::Feature { subject, .. } = &call.target {
            match subject {
                FeatureSubject::Prompt(name) => add(name, "/name"),
                FeatureSubject::Resource(uri) => add(uri, "/uri"),
                FeatureSubject::Task(..) => {}
            }
        }
        for data in parts {
            let found = inspecting.inspect(inspection, data).await?;
            log.add(&found.actions);
            for finding in found.audit {
                if !audit.iter().any(|known| known.policy == finding.policy) {
                    audit.push(finding);
                }
            }
            if found.violation.is_some() {
                return Ok(found.violation);
            }
        }
        Ok(None)
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
        let Some(inspection) = self.results.clone() else { return Ok(result) };
        let Inspecting { gateway, call, .. } = inspecting;
        let context = &call.context;
        let opaque = opaque_members(call, result.result_type);
        let bytes = result.result.get().len();
        let inspect = move || {
            let text = result.result.get();
            let mut found = inspection.json(text, Form::Message { opaque });
            if let Some(changed) = &mut found.changed {
                changed.text = copies::aligned(text, std::mem::take(&mut changed.text));
            }
            (result, found)
        };
        let (result, found) = inspecting.thread().run(bytes, inspect).await.map_err(exceeded)?;
        let Inspected { changed, .. } = inspecting.record(found, record)?;
        let Some(ChangedText { text, finding }) = changed else { return Ok(result) };
        context.buffer(text.len()).map_err(exceeded)?;
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

    /// Inspects an answer or event of an agent without its sealed ids. Changed data must still conform
    /// to the output schema of the skill. `buffered`: the memory of the answer, which grows by a changed
    /// one.
    pub(super) async fn check_answer(
        &self,
        inspecting: Inspecting<'_>,
        served: &ServedTool,
        answer: Value,
        buffered: Option<&BufferReservation>,
        record: &mut CallRecord,
    ) -> Result<Value, Error> {
        let Some(inspection) = self.results.clone() else { return Ok(answer) };
        let Inspecting { gateway, call, .. } = inspecting;
        let context = &call.context;
        // JSON values always serialize.
        let Ok(text) = to_raw_value(&answer) else { return Ok(answer) };
        let bytes = text.get().len();
        let inspect = move || inspection.json(text.get(), Form::Answer);
        let found = inspecting.thread().run(bytes, inspect).await.map_err(exceeded)?;
        let Inspected { changed, .. } = inspecting.record(found, record)?;
        let Some(ChangedText { text, finding }) = changed else { return Ok(answer) };
        if let Some(buffered) = buffered {
            buffered.reserve(content::tree_bytes(&text)).map_err(exceeded)?;
        }
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

    /// Inspects the adjacent texts of messages and artifacts in an inspected answer or event.
    pub(super) async fn check_texts(
        &self,
        inspecting: Inspecting<'_>,
        mut answer: Value,
        record: &mut CallRecord,
    ) -> Result<Value, Error> {
        let Some(inspection) = self.results.clone() else { return Ok(answer) };
        let bytes = texts::adjacent_bytes(&mut answer);
        if bytes == 0 {
            return Ok(answer);
        }
        let log = record.inspection().clone();
        let inspect = move || {
            let found = texts::inspect(&inspection, &mut answer, &log);
            (answer, found)
        };
        let (answer, found) = inspecting.thread().run(bytes, inspect).await.map_err(exceeded)?;
        inspecting.record(found, record)?;
        Ok(answer)
    }

    /// Inspects texts of a stream with `inspect`, which receives the inspection of results. Returns its
    /// value.
    pub(super) async fn check_stream<T: Send + 'static>(
        &self,
        inspecting: Inspecting<'_>,
        bytes: usize,
        inspect: impl FnOnce(Option<&Inspection>) -> (T, Inspected) + Send + 'static,
        record: &mut CallRecord,
    ) -> Result<T, Error> {
        let inspection = self.results.clone();
        // Without an inspection, only addresses are replaced, as in other answers.
        let bytes = if inspection.is_some() { bytes } else { 0 };
        let inspect = move || inspect(inspection.as_deref());
        let (value, found) = inspecting.thread().run(bytes, inspect).await.map_err(exceeded)?;
        inspecting.record(found, record)?;
        Ok(value)
    }

    /// Inspects the report about the steps of a composition. Returns its JSON text if it changes.
    pub(super) async fn check_steps(
        &self,
        inspecting: Inspecting<'_>,
        steps: &gateway_compose::Steps,
        record: &mut CallRecord,
    ) -> Result<Option<Box<str>>, Error> {
        let Some(inspection) = self.results.clone() else { return Ok(None) };
        let steps = serde_json::to_string(steps).unwrap_or_default();
        let inspect =
            move |steps: &str| inspection.json(steps, Form::Part("/_meta/registry~1steps"));
        let found = inspecting.text(steps, inspect).await?;
        let Inspected { changed, .. } = inspecting.record(found, record)?;
        Ok(changed.map(|changed| changed.text.into()))
    }

    /// The error without values in the pointers and messages of violations of a schema, and in repeated
    /// names of members.
    pub(super) async fn without_values(&self, inspecting: Inspecting<'_>, error: Error) -> Error {
        let Some(inspection) = self.errors.as_ref().or(self.arguments.as_ref()).cloned() else {
            return error;
        };
        let bytes = match &error {
            Error::InvalidInput { violations } | Error::InvalidOutput { violations } => {
                violations.iter().map(|found| found.pointer.len() + found.message.len()).sum()
            }
            Error::Arguments(InvalidArguments::Ambiguous(reason)) => reason.len(),
            _ => return error,
        };
        let hide = move || error_without_values(&inspection, error);
        inspecting.thread().run(bytes, hide).await.unwrap_or_else(exceeded)
    }

    /// Inspects the messages of an error.
    pub(super) async fn check_error(
        &self,
        inspecting: Inspecting<'_>,
        error: Error,
        record: &mut CallRecord,
    ) -> Error {
        let is_step = self.results.is_none();
        match (error, self.errors.clone()) {
            (Error::Upstream(error), Some(inspection)) => {
                let bytes = upstream_bytes(&error);
                let inspect = move || {
                    let (error, mut found) = check_upstream(&inspection, error);
                    let is_hidden = is_step && found.violation.take().is_some();
                    (if is_hidden { blocked(error) } else { error }, found)
                };
                let checked = inspecting.thread().run(bytes, inspect).await;
                let (error, found) = match checked {
                    Ok(checked) => checked,
                    Err(full) => return exceeded(full),
                };
                inspecting.record(found, record).err().unwrap_or(error.into())
            }
            (Error::Composition(failed), Some(inspection)) if !is_step => {
                self.check_failed(inspecting, inspection, failed, record).await
            }
            (error, _) => self.without_values(inspecting, error).await,
        }
    }

    /// Inspects the failure of a composition as callers see it.
    async fn check_failed(
        &self,
        inspecting: Inspecting<'_>,
        inspection: Arc<Inspection>,
        mut failed: Box<CompositionError>,
        record: &mut CallRecord,
    ) -> Error {
        let inspect = move |shown: &str| inspection.json(shown, Form::Part("/error"));
        let found = inspecting.text(shown(inspecting.target(), &failed), inspect).await;
        let found = found.and_then(|found| inspecting.record(found, record));
        let changed = match found {
            Err(error) => return error,
            Ok(Inspected { changed: None, .. }) => return Error::Composition(failed),
            Ok(Inspected { changed: Some(changed), .. }) => changed,
        };
        let Some(shown) = read_shown(&changed.text) else {
            return inspecting.denial(changed.finding, &[], record);
        };
        failed.shown = Some(shown);
        Error::Composition(failed)
    }

    /// Whether the results or errors of the operation are inspected, also in a step.
    pub(super) fn inspects_answers(&self) -> bool {
        self.errors.is_some()
    }

    /// Records that a request is sent to a server.
    pub(super) fn sent(&self, gateway: &Gateway, server: &Key) {
        if let Some(rules) = &self.rules {
            gateway.inspections().called(&server.name, rules);
        }
    }

    /// The channel to the client whose messages are inspected. Without rules of its own, an operation
    /// still receives questions that can have data of inspected calls of its server.
    pub(super) fn filtered(
        &self,
        inspecting: Inspecting<'_>,
        channel: &ClientChannel,
        server: Option<&Key>,
        record: &CallRecord,
    ) -> Option<ClientChannel> {
        let Inspecting { gateway, moment, .. } = inspecting;
        let governance = moment.snapshot.governance.as_ref();
        governance.filter(|governance| governance.inspects())?;
        if self.rules.is_none() && server.is_none() {
            return None;
        }
        let filter = Filter {
            arguments: self.arguments.clone(),
            results: self.errors.clone(),
            log: record.inspection().clone(),
            server: server.map(|server| CalledServer {
                inspections: Arc::clone(gateway.inspections()),
                name: server.name.clone(),
                owner: moment.principal.clone(),
            }),
        };
        Some(channel.filtered(Arc::new(filter)))
    }
}

impl<'a> Inspecting<'a> {
    /// Where the data of the operation is inspected.
    pub(super) fn thread(self) -> InspectionThread<'a> {
        InspectionThread::of(self.gateway, &self.call.context)
    }

    async fn text(
        self,
        text: String,
        inspect: impl FnOnce(&str) -> Inspected + Send + 'static,
    ) -> Result<Inspected, Error> {
        let inspected = self.thread().run(text.len(), move || inspect(&text)).await;
        inspected.map_err(exceeded)
    }

    /// Inspects a part of the data for the upstream.
    async fn inspect(
        self,
        inspection: &Arc<Inspection>,
        data: UpstreamData<'_>,
    ) -> Result<Inspected, Error> {
        let thread = self.thread();
        let inspected = match data {
            UpstreamData::Arguments(json) => {
                let inspect =
                    |inspection: &Inspection, json: &str| inspection.json(json, Form::Arguments);
                thread.inspect(inspection, json.get(), inspect).await
            }
            UpstreamData::Json(json, place) => {
                let inspect = move |inspection: &Inspection, json: &str| {
                    inspection.json(json, Form::Part(&place))
                };
                thread.inspect(inspection, json.get(), inspect).await
            }
            UpstreamData::Text(text, place) => {
                let inspect =
                    move |inspection: &Inspection, text: &str| inspection.text(text, &place);
                thread.inspect(inspection, text, inspect).await
            }
        };
        inspected.map_err(exceeded)
    }

    /// Whether arguments can have placeholders of values.
    pub(super) fn may_have_placeholders(self, json: &RawValue) -> bool {
        let governance = self.moment.snapshot.governance.as_ref();
        let tokenizes = governance.is_some_and(|governance| governance.tokenizes());
        // Brackets can be written as escapes.
        (tokenizes || self.gateway.inspections().has_issued())
            && (json.get().contains("[[") || json.get().contains(r"\u005"))
    }

    /// Checks the placeholders in the parameters of a prompt, resource or completion, and in the rest
    /// of a request to an agent. They are not restored.
    pub(super) async fn check_placeholders(self, rest: Option<&RawValue>) -> Result<(), Error> {
        let Self { gateway, call, moment } = self;
        let mut values: Vec<&RawValue> = call.params.iter().map(|param| &*param.value).collect();
        values.extend(rest);
        for value in values.into_iter().filter(|value| self.may_have_placeholders(value)) {
            let (inspections, value) = (Arc::clone(gateway.inspections()), value.to_owned());
            let principal = moment.principal.clone();
            let bytes = value.get().len();
            let check = move || inspections.check_placeholders(&principal, value.get());
            let checked = self.thread().run(bytes, check).await.map_err(exceeded)?;
            checked.map_err(|error| unrestored(&error, gateway.settings().request_bytes))?;
        }
        Ok(())
    }

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
    let without_values = |name: &str| gateway.inspections().logged(name).into_owned();
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

/// The opaque members of a result, which callers return unchanged to the server.
fn opaque_members(call: &Invocation, result_type: ResultType) -> &'static [&'static str] {
    let is_about_task = match &call.target {
        // This result is that of the tool.
        Target::Feature { method: Method::TaskResult, .. } => false,
        Target::Feature { subject: FeatureSubject::Task(..), .. } => true,
        _ => false,
    };
    match result_type {
        ResultType::InputRequired if is_about_task => &["/requestState", "/taskId"],
        ResultType::InputRequired => &["/requestState"],
        ResultType::Task => &["/taskId", "/task/taskId"],
        ResultType::Absent | ResultType::Complete if is_about_task => &["/taskId"],
        ResultType::Absent | ResultType::Complete => &[],
    }
}

fn exceeded(full: QuotaExceeded) -> Error {
    gateway_upstream::Error::from(full).into()
}

fn unrestored(error: &RestoreError, limit_bytes: usize) -> Error {
    match error {
        RestoreError::Unknown(placeholder) => {
            Error::UnknownPlaceholder { placeholder: placeholder.to_string() }
        }
        RestoreError::TooLong => InvalidArguments::TooLong { limit_bytes }.into(),
    }
}

fn error_without_values(inspection: &Inspection, mut error: Error) -> Error {
    match &mut error {
        Error::InvalidInput { violations } | Error::InvalidOutput { violations } => {
            for Violation { pointer, message } in violations {
                *pointer = inspection.pointer_without_values(pointer);
                *message = inspection.without_values(message);
            }
        }
        Error::Arguments(InvalidArguments::Ambiguous(reason)) => {
            *reason = inspection.without_values(reason);
        }
        _ => {}
    }
    error
}

/// The size of the inspected texts of an error, in bytes.
fn upstream_bytes(error: &gateway_upstream::Error) -> usize {
    match error {
        gateway_upstream::Error::Rpc { message, data, .. } => {
            message.len() + data.as_ref().map_or(0, |data| data.get().len())
        }
        gateway_upstream::Error::Agent(failure) => {
            let metadata = failure.metadata.iter().map(|(name, value)| name.len() + value.len());
            let details = failure.details.iter().map(content::value_bytes);
            failure.message.len() + metadata.sum::<usize>() + details.sum::<usize>()
        }
        gateway_upstream::Error::OpenTask { said, .. } => said.as_ref().map_or(0, String::len),
        _ => 0,
    }
}

/// Inspects the messages of an upstream's error.
fn check_upstream(
    inspection: &Inspection,
    error: gateway_upstream::Error,
) -> (gateway_upstream::Error, Inspected) {
    match error {
        gateway_upstream::Error::Rpc { code, mut message, mut data } => {
            let mut found = inspection.text(&message, "/error/message");
            if let Some(changed) = found.changed.take() {
                message = changed.text;
            }
            if let Some(raw) = &data {
                let mut in_data = inspection.json(raw.get(), Form::Part("/error/data"));
                if let Some(changed) = in_data.changed.take() {
                    data = RawValue::from_string(changed.text).ok();
                }
                found.merge(in_data);
            }
            (gateway_upstream::Error::Rpc { code, message, data }, found)
        }
        gateway_upstream::Error::Agent(failure) => {
            let (failure, found) = check_failure(inspection, failure);
            (gateway_upstream::Error::Agent(failure), found)
        }
        gateway_upstream::Error::OpenTask { why, said: Some(mut said) } => {
            let mut found = inspection.text(&said, "/status/message");
            if let Some(changed) = found.changed.take() {
                said = changed.text;
            }
            (gateway_upstream::Error::OpenTask { why, said: Some(said) }, found)
        }
        error => (error, Inspected::default()),
    }
}

/// The error of a step with a constant message.
fn blocked(error: gateway_upstream::Error) -> gateway_upstream::Error {
    match error {
        gateway_upstream::Error::Rpc { code, .. } => {
            gateway_upstream::Error::Rpc { code, message: BLOCKED.to_owned(), data: None }
        }
        gateway_upstream::Error::Agent(failure) => {
            let Failure { kind, reason, .. } = *failure;
            Failure { reason, ..Failure::new(kind, BLOCKED) }.into()
        }
        gateway_upstream::Error::OpenTask { why, .. } => {
            gateway_upstream::Error::OpenTask { why, said: Some(BLOCKED.to_owned()) }
        }
        error => error,
    }
}

/// Inspects the message, the metadata and the details of an agent's error.
fn check_failure(inspection: &Inspection, mut failure: Box<Failure>) -> (Box<Failure>, Inspected) {
    let mut found = inspection.text(&failure.message, "/error/message");
    if let Some(changed) = found.changed.take() {
        failure.message = changed.text;
    }
    let Failure { reason, metadata, details, .. } = &*failure;
    let data = serde_json::json!({ "reason": reason, "metadata": metadata, "details": details });
    let mut in_data = inspection.json(&data.to_string(), Form::Part("/error/data"));
    if let Some(changed) = in_data.changed.take() {
        let data: Value = serde_json::from_str(&changed.text).unwrap_or_default();
        let read = |name: &str| data[name].clone();
        failure.reason = serde_json::from_value(read("reason")).unwrap_or_default();
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
