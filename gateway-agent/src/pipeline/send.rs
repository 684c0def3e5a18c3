//! Sends an authorized operation to its upstream or composition, and finishes the output.

use std::sync::Arc;

use gateway_compose::{CompositionError, Steps};
use gateway_policy::{Permit, ValidationMode};
use gateway_protocol::mcp::{self, Method, RawResult, ResultType};
use gateway_upstream::{CalledSkill, Request, RequestContext, ResendApproval};
use registry_core::Key;

use super::{
    Error, Gateway, Invocation, OperationResult, Output, Target, TaskNames,
    admit::{Governed, OperationData, SentAdmission, covering_policies},
    approval::{self, ContinuedRound},
    arguments::Arguments,
    input,
    inspect::{CallInspection, Inspecting},
    moment::Moment,
    prepare::prepare,
    projection::{self, ProjectedCall},
    purchase::Outcome,
    revocation::{self, Revocation},
    route::{AuthorizedRoute, FeatureRoute, TaskRoute, ToolBackend},
    steps, task, validate,
};
use crate::{approvals::ConsumedRound, audit::CallRecord, view::ServedTool};

/// Sends an operation and finishes its output.
pub(super) async fn send(
    gateway: &Arc<Gateway>,
    call: &Invocation,
    moment: &Moment,
    governed: Option<&Governed>,
    route: AuthorizedRoute,
    record: &mut CallRecord,
) -> Result<Output, Error> {
    let agent = record.agent();
    let composed = route.composed();
    let inspection = CallInspection::of(gateway, call, moment, governed, composed, agent);
    if let Some(target) = inspection.audited(call) {
        record.set_target(&target);
    }
    let sending = Sending { gateway, call, moment, governed, inspection: &inspection };
    let output = match route {
        // Boxed, because compositions nest.
        AuthorizedRoute::Tool(served, backend) => {
            Box::pin(sending.tool(&served, backend, record)).await
        }
        AuthorizedRoute::Feature(route, permit) => {
            Box::pin(sending.feature(route, permit, record)).await
        }
        AuthorizedRoute::Task(route, permit) => Box::pin(sending.task(route, permit, record)).await,
        AuthorizedRoute::Agent(route, permit) => {
            Box::pin(sending.agent(*route, permit, record)).await
        }
    };
    match output {
        Ok(output) => Ok(output),
        // Boxed, because compositions nest.
        Err(error) => {
            Err(Box::pin(inspection.check_error(sending.inspecting(), error, record)).await)
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Sending<'a> {
    pub(super) gateway: &'a Arc<Gateway>,
    pub(super) call: &'a Invocation,
    pub(super) moment: &'a Moment,
    /// The policies that apply. `None`: none applies.
    pub(super) governed: Option<&'a Governed>,
    pub(super) inspection: &'a CallInspection,
}

impl<'a> Sending<'a> {
    pub(super) fn inspecting(&self) -> Inspecting<'a> {
        let Self { gateway, call, moment, .. } = *self;
        Inspecting { gateway, call, moment }
    }

    /// Inspects a result. `served`: the tool that has an output schema.
    async fn inspected(
        &self,
        served: Option<&ServedTool>,
        result: RawResult,
        record: &mut CallRecord,
    ) -> Result<RawResult, Error> {
        if !self.inspection.has_results() {
            return Ok(result);
        }
        // Boxed, because compositions nest.
        let inspecting = self.inspecting();
        Box::pin(self.inspection.check_result(inspecting, served, result, record)).await
    }

    fn outcome(
        &self,
        result: RawResult,
        server: Option<&Key>,
        tasks: Option<TaskNames>,
    ) -> OperationResult {
        let snapshot = &self.moment.snapshot;
        // The result of a step is not rendered, and most results name no resource.
        let has_names = !matches!(self.call.target, Target::Step(_)) && names_resource(&result);
        let exposed = server.filter(|_| has_names);
        OperationResult {
            result,
            revision: snapshot.catalog.revision(),
            freshness: self.moment.freshness,
            names: exposed.and_then(|server| self.gateway.resource_names(snapshot, server)),
            tasks,
            steps: None,
            shown_steps: None,
        }
    }

    /// Evaluates the policies, and starts sending. `None`: no policy applies.
    pub(super) async fn start(
        &self,
        data: OperationData<'_, '_>,
        record: &mut CallRecord,
    ) -> Result<Option<SentAdmission<'a>>, Error> {
        let Some(governed) = self.governed else { return Ok(None) };
        // Boxed, because compositions nest.
        let (inspecting, inspection) = (self.inspecting(), self.inspection);
        let admitted = governed.admit(inspecting, inspection, data, record);
        Ok(Some(Box::pin(admitted).await?.sent(record)))
    }

    /// Sends a request in the caller's trace.
    async fn ask(
        &self,
        permit: Permit,
        request: Request<'_>,
        record: &mut CallRecord,
    ) -> Result<RawResult, gateway_upstream::Error> {
        let trace = record.onward(request.trace);
        let request = Request { trace: &trace, ..request };
        self.inspection.sent(self.gateway, permit.server());
        let result = self.gateway.upstreams().send(permit, request).await;
        record.end_upstream();
        result
    }

    /// Sends a request for a prompt, resource, completion or task.
    async fn request(
        &self,
        (method, skill): (Method, Option<CalledSkill<'_>>),
        permit: Permit,
        record: &mut CallRecord,
    ) -> Result<RawResult, Error> {
        let Self { call, moment, inspection, .. } = *self;
        let client = call.client.as_ref();
        let (inspecting, server) = (self.inspecting(), Some(permit.server()));
        let filtered =
            client.and_then(|client| inspection.filtered(inspecting, client, server, record));
        let request = Request {
            method,
            skill,
            arguments: None,
            params: &call.params,
            context: &call.context,
            is_repeatable: method.is_read_only(),
            resend: None,
            timeout: None,
            trace: &call.context.trace,
            is_inspected: inspection.inspects_answers(),
            channel: filtered.as_ref().or(client),
            quota_key: &moment.principal,
        };
        let watched = Revocation::new(self.inspecting(), None, record);
        let sent = async |record: &mut CallRecord| Ok(self.ask(permit, request, record).await?);
        revocation::guarded(watched, sent, record).await
    }

    async fn feature(
        &self,
        route: FeatureRoute,
        permit: Permit,
        record: &mut CallRecord,
    ) -> Result<Output, Error> {
        let Self { gateway, call, moment, .. } = *self;
        let FeatureRoute { method, server, .. } = route;
        self.inspecting().check_placeholders(None).await?;
        let admission = self.start(OperationData::default(), record).await?;
        if method == Method::Subscribe {
            let subscription = gateway.upstreams().subscribe(permit, &moment.principal);
            let result = match subscription {
                Ok(subscription) => subscription.agreed().await.map_err(Error::from),
                Err(error) => Err(error.into()),
            };
            let outcome = result.as_ref().err().map_or(Outcome::Sent, Outcome::from);
            SentAdmission::settle(admission, outcome, record);
            return result.map(Output::Subscribed);
        }
        let result = self.request((method, None), permit, record).await;
        SentAdmission::settle(admission, Outcome::of(&result), record);
        let result = result?;
        input::check(&result, &call.context)?;
        let result = self.inspected(None, result, record).await?;
        Ok(Output::Result(self.outcome(result, Some(&server), None)))
    }

    async fn task(
        &self,
        route: TaskRoute,
        permit: Permit,
        record: &mut CallRecord,
    ) -> Result<Output, Error> {
        let Self { gateway, call, .. } = *self;
        let TaskRoute { method, resolved, task, known } = route;
        let names = TaskNames::requested(gateway, &call.caller.claim, &task, &known);
        let admission = self.start(OperationData::default(), record).await?;
        let served = &resolved.served;
        let skill =
            served.skill().map(|(_, name)| CalledSkill { name, takes_text: served.takes_text() });
        let result = self.request((method, skill), permit, record).await;
        let result = result.map_err(|error| match error {
            Error::Upstream(error) => Error::from(names.rewrite_error(error)),
            other => other,
        });
        SentAdmission::settle(admission, Outcome::of(&result), record);
        let result = result?;
        task::settle_price(gateway, &call.caller.claim, (method, &task, &result), record);
        input::check(&result, &call.context)?;
        // The registry can have moved the tool to another server since.
        if resolved.served.server() == Some(&task.server) {
            task::check(gateway, &resolved.served, (method, &call.context, &result), record)
                .await?;
        }
        let result = self.inspected(Some(&resolved.served), result, record).await?;
        Ok(Output::Result(self.outcome(result, Some(&task.server), Some(names))))
    }

    /// Calls a tool: prepares the arguments, sends them, and finishes the result.
    async fn tool(
        &self,
        served: &Arc<ServedTool>,
        backend: ToolBackend,
        record: &mut CallRecord,
    ) -> Result<Output, Error> {
        let Self { gateway, call, .. } = *self;
        // A composition must not start if one of its tools has no target.
        if let Some(server) = served.missing_target() {
            return Err(gateway_upstream::Error::NotConfigured { server: server.clone() }.into());
        }
        let params = task::params(served, call)?;
        let (params, continued) = approval::opened(gateway, &call.caller.claim, params);
        let must_conform = self.governed.is_some_and(Governed::reads_arguments);
        let mut arguments =
            prepare(self.inspecting(), self.inspection, (served, must_conform), record).await?;
        let data = OperationData {
            arguments: Some(&mut arguments),
            continued,
            ..OperationData::default()
        };
        let mut admission = self.start(data, record).await?;
        if served.composed().is_none() {
            arguments.forget_value();
        }
        let is_approved = admission.as_ref().is_some_and(SentAdmission::is_approved);
        let params = if is_approved { approval::bound(params, continued) } else { params };
        // Boxed, because compositions nest.
        let bound = is_approved.then(|| Box::new(call.context.without_meta()));
        let context = bound.as_deref().unwrap_or(&call.context);
        let projected = served.projection().map(|_| ProjectedCall::new(call, context, &params));
        let resend = admission.as_ref().and_then(SentAdmission::resend);
        let forwarded = if let Some(ProjectedCall { params, context, side }) = &projected {
            ForwardedCall { params, context, client: side.as_ref(), resend }
        } else {
            ForwardedCall { params: &params, context, client: call.client.as_ref(), resend }
        };
        let inspecting = self.inspecting();
        let filtered = forwarded.client.and_then(|client| {
            self.inspection.filtered(inspecting, client, served.server(), record)
        });
        let client = filtered.as_ref().or(forwarded.client);
        let forwarded = ForwardedCall { client, ..forwarded };
        let watched = Revocation::new(self.inspecting(), arguments.raw(), record);
        let (result, steps) = match backend {
            ToolBackend::Upstream(permit) => {
                let request = match &call.target {
                    Target::Step(step) => Some(step.scope.begin_request()),
                    Target::Tool(_) | Target::Feature { .. } | Target::Agent(_) => None,
                };
                let sent = async |record: &mut CallRecord| {
                    self.upstream(served, permit, &arguments, forwarded, record).await
                };
                let result = revocation::guarded(watched, sent, record).await;
                let principal = &self.moment.principal;
                let started = task::started(gateway, call, served.server(), principal, &result);
                let outcome =
                    started.as_ref().map_or_else(|| Outcome::of(&result), Outcome::Started);
                if let (Outcome::NotSent, Some(request)) = (outcome, request) {
                    request.withdraw();
                }
                let asked = SentAdmission::take_question(&mut admission, &result);
                SentAdmission::settle(admission, outcome, record);
                let result = match asked {
                    // Boxed, because compositions nest.
                    Some(round) => Box::pin(self.asked(round, result)).await,
                    None => result,
                };
                (result, None)
            }
            ToolBackend::Composition(composed) => {
                let composed = &composed;
                let approved = self.approved(admission.as_ref());
                let run =
                    steps::Composition { gateway, composed, served, call, forwarded, approved };
                let principal = &self.moment.principal;
                let sent =
                    async |record: &mut CallRecord| run.call(arguments, principal, record).await;
                let result = revocation::guarded(watched, sent, record).await;
                let outcome = match &result {
                    // Compositions only compute and combine; tools cause their costs.
                    Ok((_, steps)) if !steps.has_sent => Outcome::NotSent,
                    Ok((result, _)) => Outcome::Result(result),
                    Err(error) => error.into(),
                };
                SentAdmission::settle(admission, outcome, record);
                let (result, steps) = result?;
                (Ok(result), Some(steps))
            }
        };
        self.complete(served, result, steps, record).await
    }

    /// The policies whose approval covers the steps of a composition.
    fn approved(&self, admission: Option<&SentAdmission<'_>>) -> Arc<[Key]> {
        let own = admission.map(SentAdmission::approved_policies).unwrap_or_default();
        covering_policies(self.call).iter().chain(own).cloned().collect()
    }

    /// Records that the server of an approved call asks for input, so that the caller can continue.
    async fn asked(
        &self,
        round: ConsumedRound,
        result: Result<RawResult, Error>,
    ) -> Result<RawResult, Error> {
        let next = ContinuedRound { request: round.request(), round: round.round() + 1 };
        round.await_input().await;
        let Self { gateway, call, .. } = *self;
        result.map(|asked| approval::sealed(gateway, &call.caller.claim, next, asked))
    }

    /// Validates and inspects the result of a tool. Separate, because compositions nest: the frame of
    /// [`Self::tool`] stays on the stack while their steps run.
    async fn complete(
        &self,
        served: &Arc<ServedTool>,
        result: Result<RawResult, Error>,
        steps: Option<Steps>,
        record: &mut CallRecord,
    ) -> Result<Output, Error> {
        let Self { gateway, call, .. } = *self;
        let result = match self.finish(served, result, record).await {
            Ok(result) => result,
            Err(error) => {
                let Some(steps) = steps else { return Err(error) };
                // Boxed, because compositions nest.
                let inspecting = self.inspecting();
                let error = Box::pin(self.inspection.without_values(inspecting, error)).await;
                let error = error.to_step(&served.name().to_string());
                let rejected = CompositionError::rejected_result(served.name(), error, steps);
                return Err(Error::Composition(Box::new(rejected)));
            }
        };
        let result = self.inspected(Some(served), result, record).await?;
        let shown_steps = match &steps {
            Some(steps) => {
                let inspecting = self.inspecting();
                Box::pin(self.inspection.check_steps(inspecting, steps, record)).await?
            }
            None => None,
        };
        let begins = served.server().filter(|_| result.result_type == ResultType::Task);
        let tasks = match (&call.target, begins) {
            (Target::Tool(tool), Some(key)) => {
                let tool = (&*tool.name, key);
                Some(TaskNames::begun(gateway, &call.caller.claim, tool, &result.result))
            }
            _ => None,
        };
        let outcome = self.outcome(result, served.server(), tasks);
        Ok(Output::Result(OperationResult { steps, shown_steps, ..outcome }))
    }

    async fn upstream(
        &self,
        served: &ServedTool,
        permit: Permit,
        arguments: &Arguments<'_>,
        forwarded: ForwardedCall<'_>,
        record: &mut CallRecord,
    ) -> Result<RawResult, Error> {
        let Self { gateway, moment, .. } = *self;
        let ForwardedCall { params, context, client, .. } = forwarded;
        let request = Request {
            method: served.method(),
            skill: None,
            arguments: arguments.raw(),
            params,
            context,
            is_repeatable: served.is_repeatable(),
            resend: forwarded.resend,
            timeout: Some(gateway.settings().call_timeout(served.key())),
            trace: &context.trace,
            is_inspected: self.inspection.inspects_answers(),
            channel: client,
            quota_key: &moment.principal,
        };
        Ok(self.ask(permit, request, record).await?)
    }

    /// Projects and validates the result of a tool.
    async fn finish(
        &self,
        served: &ServedTool,
        result: Result<RawResult, Error>,
        record: &mut CallRecord,
    ) -> Result<RawResult, Error> {
        let Self { gateway, call, .. } = *self;
        let context = &call.context;
        let result = match served.projection() {
            Some(mappings) => {
                let max_bytes = gateway.settings().upstream.response_bytes;
                projection::outcome(mappings, (result, context), max_bytes)?
            }
            None => result?,
        };
        input::check(&result, context)?;
        let is_checked = result.result_type.is_final() && !result.is_error;
        if is_checked && served.checks().output != ValidationMode::Ignore {
            validate::output(gateway, served, (&result.result, context), record).await?;
        }
        Ok(result)
    }
}

/// Whether a result can have names of resources.
fn names_resource(result: &RawResult) -> bool {
    result.result.get().contains(r#""uri""#)
}

/// The parts of a call for the upstream, without the arguments. For a projected tool they exclude
/// everything that could bypass the projection.
#[derive(Clone, Copy)]
pub(super) struct ForwardedCall<'a> {
    params: &'a [mcp::Param],
    pub(super) context: &'a RequestContext,
    pub(super) client: Option<&'a gateway_upstream::ClientChannel>,
    /// The approval of sending the call again.
    resend: Option<&'a dyn ResendApproval>,
}
