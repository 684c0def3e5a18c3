//! Sends an authorized operation to its upstream or composition, and finishes the output.

use std::sync::Arc;

use gateway_policy::{Denial, Mode, Permit};
use gateway_protocol::mcp::{self, Method, RawResult, ResultType};
use gateway_upstream::{Context, Request};
use registry_core::Key;

use super::{
    Error, Gateway, Invocation, OperationResult, Output, Target, TaskNames,
    arguments::Arguments,
    input,
    moment::Moment,
    prepare::prepare,
    projection::{self, Shielded},
    route::{Admission, FeatureRoute, Offered, Route, TaskRoute},
    steps, task, validate,
};
use crate::{audit::CallRecord, view::Offer};

/// Sends an operation and finishes its output.
pub(super) async fn send(
    gateway: &Arc<Gateway>,
    call: &Invocation,
    moment: &Moment,
    admission: Admission,
    record: &mut CallRecord,
) -> Result<Output, Error> {
    let sending = Sending { gateway, call, moment };
    match (admission.route, admission.permit) {
        (Route::Tool(Offered { offer, .. }), permit) => {
            sending.tool(&offer, permit, record).await.map(Output::Result)
        }
        (Route::Feature(route), Some(permit)) if route.method == Method::Subscribe => {
            let watching = gateway.upstreams().watch(&permit, &moment.principal)?;
            Ok(Output::Subscribed(watching.agreed().await?))
        }
        (Route::Feature(FeatureRoute { method, server, .. }), Some(permit)) => {
            let result = sending.request(method, permit, record).await?;
            input::check(&result, &call.context)?;
            Ok(Output::Result(sending.outcome(result, Some(&server), None)))
        }
        (Route::Task(route), Some(permit)) => {
            sending.task(route, permit, record).await.map(Output::Result)
        }
        (Route::Feature(_) | Route::Task(_), None) => Err(Denial::NoSuchTool.into()),
    }
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
        record.returned();
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
            is_repeatable: method.only_reads(),
            timeout: None,
            trace: &call.context.trace,
            side: call.client.as_ref(),
            principal: &moment.principal,
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
        let TaskRoute { method, offered, task, known } = route;
        let names = TaskNames::asked(gateway, &call.caller.claim, &task, &known);
        let result = self.request(method, permit, record).await;
        let result = result.map_err(|error| names.in_error(error))?;
        input::check(&result, &call.context)?;
        // The registry can have moved the tool to another server since.
        if offered.offer.server() == Some(&task.server) {
            task::check(gateway, &offered.offer, (method, &call.context, &result), record).await?;
        }
        Ok(self.outcome(result, Some(&task.server), Some(names)))
    }

    /// Calls a tool: prepares the arguments, sends them, and finishes the result.
    async fn tool(
        &self,
        offer: &Arc<Offer>,
        permit: Option<Permit>,
        record: &mut CallRecord,
    ) -> Result<OperationResult, Error> {
        let Self { gateway, call, .. } = *self;
        // A composition must not start if one of its tools has no target.
        if let Some(server) = offer.missing_target() {
            return Err(gateway_upstream::Error::NotConfigured { server: server.clone() }.into());
        }
        let params = task::params(offer, call)?;
        let arguments = prepare(gateway, offer, call, record).await?;
        let shielded = offer.projection().map(|_| Shielded::of(call, &params));
        let onward = if let Some(Shielded { params, context, side }) = &shielded {
            Onward { params, context, client: side.as_ref() }
        } else {
            Onward { params: &params, context: &call.context, client: call.client.as_ref() }
        };
        let (result, steps) = match (permit, offer.composed()) {
            (Some(permit), _) => {
                (self.upstream(offer, permit, (&arguments, onward), record).await, None)
            }
            (None, Some(composed)) => {
                let run = steps::Composition { gateway, composed, offer, call, onward };
                let (result, steps) = run.call(arguments, &self.moment.principal, record).await?;
                (Ok(result), Some(steps))
            }
            (None, None) => (Err(Denial::NoSuchTool.into()), None),
        };
        let result = match self.finish(offer, result, record).await {
            Ok(result) => result,
            Err(error) => {
                let Some(steps) = steps else { return Err(error) };
                let error = error.to_step(&offer.name().to_string());
                let rejected = gateway_compose::rejected(offer.name(), error, steps);
                return Err(Error::Composition(Box::new(rejected)));
            }
        };
        let begins = offer.server().filter(|_| result.result_type == ResultType::Task);
        let tasks = match (&call.target, begins) {
            (Target::Tool(tool), Some(server)) => {
                let tool = (&*tool.name, server);
                Some(TaskNames::begun(gateway, &call.caller.claim, tool, &result.result))
            }
            _ => None,
        };
        Ok(OperationResult { steps, ..self.outcome(result, offer.server(), tasks) })
    }

    async fn upstream(
        &self,
        offer: &Offer,
        permit: Permit,
        (arguments, onward): (&Arguments<'_>, Onward<'_>),
        record: &mut CallRecord,
    ) -> Result<RawResult, Error> {
        let Self { gateway, call, moment } = *self;
        let Onward { params, context, client } = onward;
        let request = Request {
            method: offer.method(),
            arguments: arguments.raw(),
            params,
            context,
            is_repeatable: offer.is_repeatable(),
            timeout: Some(gateway.settings().call_timeout(offer.key())),
            trace: &call.context.trace,
            side: client,
            principal: &moment.principal,
        };
        Ok(self.ask(permit, request, record).await?)
    }

    /// Projects and validates the result of a tool.
    async fn finish(
        &self,
        offer: &Offer,
        result: Result<RawResult, Error>,
        record: &mut CallRecord,
    ) -> Result<RawResult, Error> {
        let Self { gateway, call, .. } = *self;
        let context = &call.context;
        let result = match offer.projection() {
            Some(mappings) => {
                let max_bytes = gateway.settings().upstream.response_bytes;
                projection::outcome(mappings, (result, context), max_bytes)?
            }
            None => result?,
        };
        input::check(&result, context)?;
        let is_checked = result.result_type.is_final() && !result.is_error;
        if is_checked && offer.checks().output != Mode::Ignore {
            validate::output(gateway, offer, (&result.result, context), record).await?;
        }
        Ok(result)
    }
}

/// The parts of a call for the upstream, beside the arguments. For a projected tool they exclude
/// everything that could bypass the projection.
#[derive(Clone, Copy)]
pub(super) struct Onward<'a> {
    params: &'a [mcp::Param],
    pub(super) context: &'a Context,
    pub(super) client: Option<&'a gateway_upstream::Side>,
}
