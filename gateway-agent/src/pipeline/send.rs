//! Sends an authorized operation to its upstream or composition, and finishes the output.

use std::sync::Arc;

use gateway_compose::CompositionError;
use gateway_policy::{Permit, ValidationMode};
use gateway_protocol::mcp::{self, Method, RawResult, ResultType};
use gateway_upstream::{Request, RequestContext};
use registry_core::Key;

use super::{
    Error, Gateway, Invocation, OperationResult, Output, Target, TaskNames,
    arguments::Arguments,
    input,
    moment::Moment,
    prepare::prepare,
    projection::{self, ProjectedCall},
    route::{AuthorizedRoute, FeatureRoute, TaskRoute},
    steps, task, validate,
};
use crate::{
    audit::CallRecord,
    view::{Composed, ServedTool},
};

/// Sends an operation and finishes its output.
pub(super) async fn send(
    gateway: &Arc<Gateway>,
    call: &Invocation,
    moment: &Moment,
    route: AuthorizedRoute,
    record: &mut CallRecord,
) -> Result<Output, Error> {
    let sending = Sending { gateway, call, moment };
    match route {
        AuthorizedRoute::Tool(served, permit) => {
            sending.tool(&served, ToolBackend::Upstream(permit), record).await.map(Output::Result)
        }
        AuthorizedRoute::Composition(served, composed) => {
            let backend = ToolBackend::Composition(composed);
            sending.tool(&served, backend, record).await.map(Output::Result)
        }
        AuthorizedRoute::Feature(route, permit) if route.method == Method::Subscribe => {
            let subscription = gateway.upstreams().subscribe(permit, &moment.principal)?;
            Ok(Output::Subscribed(subscription.agreed().await?))
        }
        AuthorizedRoute::Feature(FeatureRoute { method, server, .. }, permit) => {
            let result = sending.request(method, permit, record).await?;
            input::check(&result, &call.context)?;
            Ok(Output::Result(sending.outcome(result, Some(&server), None)))
        }
        AuthorizedRoute::Task(route, permit) => {
            sending.task(route, permit, record).await.map(Output::Result)
        }
    }
}

/// The upstream or composition that runs a tool.
enum ToolBackend {
    Upstream(Permit),
    Composition(Arc<Composed>),
}

#[derive(Clone, Copy)]
struct Sending<'a> {
    gateway: &'a Arc<Gateway>,
    call: &'a Invocation,
    moment: &'a Moment,
}

impl Sending<'_> {
    fn outcome(
        &self,
        result: RawResult,
        server: Option<&Key>,
        tasks: Option<TaskNames>,
    ) -> OperationResult {
        let snapshot = &self.moment.snapshot;
        OperationResult {
            result,
            revision: snapshot.catalog.revision(),
            freshness: self.moment.freshness,
            names: server.and_then(|server| self.gateway.resource_names(snapshot, server)),
            tasks,
            steps: None,
        }
    }

    /// Sends a request in the caller's trace.
    async fn ask(
        &self,
        permit: Permit,
        request: Request<'_>,
        record: &mut CallRecord,
    ) -> Result<RawResult, gateway_upstream::Error> {
        let trace = record.onward(&self.call.context.trace);
        let request = Request { trace: &trace, ..request };
        let result = self.gateway.upstreams().send(permit, request).await;
        record.end_upstream();
        result
    }

    /// Sends a request for a prompt, resource, completion or task.
    async fn request(
        &self,
        method: Method,
        permit: Permit,
        record: &mut CallRecord,
    ) -> Result<RawResult, gateway_upstream::Error> {
        let Self { call, moment, .. } = *self;
        let request = Request {
            method,
            arguments: None,
            params: &call.params,
            context: &call.context,
            is_repeatable: method.is_read_only(),
            timeout: None,
            trace: &call.context.trace,
            channel: call.client.as_ref(),
            quota_key: &moment.principal,
        };
        self.ask(permit, request, record).await
    }

    async fn task(
        &self,
        route: TaskRoute,
        permit: Permit,
        record: &mut CallRecord,
    ) -> Result<OperationResult, Error> {
        let Self { gateway, call, .. } = *self;
        let TaskRoute { method, resolved, task, known } = route;
        let names = TaskNames::asked(gateway, &call.caller.claim, &task, &known);
        let result = self.request(method, permit, record).await;
        let result = result.map_err(|error| names.rewrite_error(error))?;
        input::check(&result, &call.context)?;
        // The registry can have moved the tool to another server since.
        if resolved.served.server() == Some(&task.server) {
            task::check(gateway, &resolved.served, (method, &call.context, &result), record)
                .await?;
        }
        Ok(self.outcome(result, Some(&task.server), Some(names)))
    }

    /// Calls a tool: prepares the arguments, sends them, and finishes the result.
    async fn tool(
        &self,
        served: &Arc<ServedTool>,
        backend: ToolBackend,
        record: &mut CallRecord,
    ) -> Result<OperationResult, Error> {
        let Self { gateway, call, .. } = *self;
        // A composition must not start if one of its tools has no target.
        if let Some(server) = served.missing_target() {
            return Err(gateway_upstream::Error::NotConfigured { server: server.clone() }.into());
        }
        let params = task::params(served, call)?;
        let arguments = prepare(gateway, served, call, record).await?;
        let projected = served.projection().map(|_| ProjectedCall::new(call, &params));
        let forwarded = if let Some(ProjectedCall { params, context, side }) = &projected {
            ForwardedCall { params, context, client: side.as_ref() }
        } else {
            ForwardedCall { params: &params, context: &call.context, client: call.client.as_ref() }
        };
        let (result, steps) = match backend {
            ToolBackend::Upstream(permit) => {
                (self.upstream(served, permit, (&arguments, forwarded), record).await, None)
            }
            ToolBackend::Composition(composed) => {
                let composed = &composed;
                let run = steps::Composition { gateway, composed, served, call, forwarded };
                let (result, steps) = run.call(arguments, &self.moment.principal, record).await?;
                (Ok(result), Some(steps))
            }
        };
        let result = match self.finish(served, result, record).await {
            Ok(result) => result,
            Err(error) => {
                let Some(steps) = steps else { return Err(error) };
                let error = error.to_step(&served.name().to_string());
                let rejected = CompositionError::rejected_result(served.name(), error, steps);
                return Err(Error::Composition(Box::new(rejected)));
            }
        };
        let begins = served.server().filter(|_| result.result_type == ResultType::Task);
        let tasks = match (&call.target, begins) {
            (Target::Tool(tool), Some(key)) => {
                let tool = (&*tool.name, key);
                Some(TaskNames::begun(gateway, &call.caller.claim, tool, &result.result))
            }
            _ => None,
        };
        Ok(OperationResult { steps, ..self.outcome(result, served.server(), tasks) })
    }

    async fn upstream(
        &self,
        served: &ServedTool,
        permit: Permit,
        (arguments, forwarded): (&Arguments<'_>, ForwardedCall<'_>),
        record: &mut CallRecord,
    ) -> Result<RawResult, Error> {
        let Self { gateway, call, moment } = *self;
        let ForwardedCall { params, context, client } = forwarded;
        let request = Request {
            method: served.method(),
            arguments: arguments.raw(),
            params,
            context,
            is_repeatable: served.is_repeatable(),
            timeout: Some(gateway.settings().call_timeout(served.key())),
            trace: &call.context.trace,
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

/// The parts of a call for the upstream, without the arguments. For a projected tool they exclude
/// everything that could bypass the projection.
#[derive(Clone, Copy)]
pub(super) struct ForwardedCall<'a> {
    params: &'a [mcp::Param],
    pub(super) context: &'a RequestContext,
    pub(super) client: Option<&'a gateway_upstream::ClientChannel>,
}
