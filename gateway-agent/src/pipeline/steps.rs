//! The steps of compositions. Each runs through the pipeline as the composition's caller.

use std::sync::Arc;

use agent_rpc::{graph::Status, help::AgentType};
use gateway_compose::{
    BoxFuture, CompositionError, ResultOrigin, RunOwner, RunScope, Step, StepError, StepOutput,
    StepRunner, Steps,
};
use gateway_policy::{Denial, QuotaKey};
use gateway_protocol::{jsonrpc::ObjectWriter, mcp::RawResult};
use gateway_upstream::{ClientChannel, RequestContext};
use registry_core::Key;
use serde_json::value::RawValue;

use super::{
    Error, Gateway, InputHandling, Invocation, OperationResult, Output, StepCall, Target,
    admit::purpose, arguments::Arguments, invoke, send::ForwardedCall,
};
use crate::{
    audit::{AuditParent, CallRecord},
    graphs::{EndedCall, GATEWAY, RunningCall, StartedCall, agent_type},
    identity::authenticator::Authentication,
    view::{Composed, ServedTool},
};

/// The protocol of steps in graphs.
const PROTOCOL: &str = "composition";

pub(super) struct Composition<'a> {
    pub(super) gateway: &'a Arc<Gateway>,
    pub(super) composed: &'a Arc<Composed>,
    pub(super) served: &'a ServedTool,
    pub(super) call: &'a Invocation,
    pub(super) forwarded: ForwardedCall<'a>,
    /// The policies whose approval covers the steps.
    pub(super) approved: Arc<[Key]>,
}

impl Composition<'_> {
    pub(super) async fn call(
        self,
        mut arguments: Arguments<'_>,
        principal: &QuotaKey,
        record: &mut CallRecord,
    ) -> Result<(RawResult, Steps), Error> {
        let Self { gateway, composed, served, call, forwarded, approved } = self;
        let ForwardedCall { context, client, .. } = forwarded;
        let trace = record.inward(&context.trace);
        let owner = RunOwner {
            identity: (*call.caller.claim).clone(),
            quota_key: principal.clone(),
            revision: record.revision(),
        };
        let runner = Runner {
            gateway: Arc::clone(gateway),
            composed: Arc::clone(composed),
            owner: owner.clone(),
            context: RequestContext {
                trace,
                hops: context.hops.map(|hops| hops.saturating_add(1)),
                ..context.without_tasks()
            },
            client: client.cloned(),
            parent: record.as_parent(served.key()),
            approved,
        };
        let scope = if let Target::Step(step) = &call.target { Some(&step.scope) } else { None };
        let run = gateway_compose::CompositionCall {
            tool: served.key(),
            plan: composed.plan(),
            runner: Arc::new(runner),
            state: gateway.compositions(),
            owner,
            scope,
            response_bytes: gateway.settings().upstream.response_bytes,
            buffered: context.buffered.as_ref(),
        };
        match gateway_compose::execute(run, arguments.value()?).await {
            (Ok(result), steps) => Ok((result, steps)),
            (Err(failure), steps) => {
                Err(Error::Composition(Box::new(CompositionError { failure, steps, shown: None })))
            }
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Runner {
    pub(super) gateway: Arc<Gateway>,
    pub(super) composed: Arc<Composed>,
    pub(super) owner: RunOwner,
    /// The context of every step. Its trace is the span of the composition.
    pub(super) context: RequestContext,
    /// The client of the composition, for progress and questions.
    pub(super) client: Option<ClientChannel>,
    pub(super) parent: AuditParent,
    /// The policies whose approval covers the steps.
    pub(super) approved: Arc<[Key]>,
}

impl Runner {
    /// The call of a step.
    pub(super) fn invocation(
        &self,
        served: &Arc<ServedTool>,
        arguments: Box<RawValue>,
        scope: &RunScope,
    ) -> Invocation {
        Invocation {
            caller: Authentication::without_request(self.owner.identity.clone()),
            target: Target::Step(StepCall {
                served: Arc::clone(served),
                arguments,
                quota_key: self.owner.quota_key.clone(),
                approved: Arc::clone(&self.approved),
                scope: scope.clone(),
            }),
            params: Vec::new(),
            // Steps drop their results before they end, so their buffers count for the step only.
            context: self.context.of_step(),
            client: self.client.as_ref().map(ClientChannel::for_questions),
            input: InputHandling::AskClient,
        }
    }
}

impl Runner {
    /// Adds a step to the graph of the client's trace.
    fn begin_in_graph(&self, served: &ServedTool, arguments: &RawValue) -> Option<RunningCall> {
        let trace = self.parent.trace()?;
        let snapshot = self.gateway.views().now();
        let catalog = &snapshot.catalog;
        let (agent, method, kind) = match (served.skill(), served.server()) {
            (Some((agent, skill)), _) => (agent.name.as_str(), skill, Some(AgentType::Http)),
            (None, Some(provider)) => {
                let agent = provider.name.as_str();
                let method = served.function_of(agent).unwrap_or(served.name().as_str());
                // The catalog can have changed since the composition began.
                let is_known = catalog.find(provider).is_some();
                (agent, method, is_known.then(|| agent_type(catalog, agent)))
            }
            (None, None) => {
                (GATEWAY, served.key().name.as_str(), Some(agent_type(catalog, GATEWAY)))
            }
        };
        let input = arguments.get();
        trace.begin_step(&StartedCall { agent, method, kind, protocol: PROTOCOL, input })
    }
}

impl StepRunner for Runner {
    fn run<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, StepOutput> {
        Box::pin(async move {
            let tool = step.target.to_string();
            let Some(served) = self.composed.part(step.target) else {
                let error = Error::from(Denial::NoSuchTool).to_step(&tool);
                return StepOutput { result: Err(error), steps: None };
            };
            let span = self.gateway.tracer().begin(&self.context.trace);
            let running = self.begin_in_graph(served, &step.arguments);
            let request_bytes = step.arguments.get().len();
            let mut call = self.invocation(served, step.arguments, step.scope);
            let mut record = self.parent.begin(&tool, purpose(&call), request_bytes, span);
            let output = invoke(&self.gateway, &mut call, &mut record).await;
            let cost = record.charged();
            match output.and_then(Output::into_result) {
                Ok(OperationResult { result, steps, .. }) => {
                    record.answered(result.result.get().len());
                    if let Some(running) = running {
                        let status = if result.is_error { Status::Error } else { Status::Ok };
                        let output = Some(result.result.get());
                        running.finish(EndedCall { status, output, cost });
                    }
                    StepOutput { result: Ok(result), steps }
                }
                Err(error) => {
                    if let Some(running) = running {
                        let status = Status::Error;
                        running.finish(EndedCall { status, output: None, cost });
                    }
                    let result = Err(error.to_step(&tool));
                    let steps = match error {
                        Error::Composition(inner) => Some(inner.steps),
                        _ => None,
                    };
                    StepOutput { result, steps }
                }
            }
        })
    }

    fn authorize_stored(&self, origin: &ResultOrigin, scope: &RunScope) -> Result<(), StepError> {
        self.check_stored(origin, scope)
    }

    fn may_reuse(&self, origin: &ResultOrigin, scope: &RunScope) -> bool {
        self.may_reuse_stored(origin, scope)
    }

    fn progress(&self, finished: u32, at: &str, outcome: &str) {
        let Some(client) = &self.client else { return };
        let mut told = ObjectWriter::with_capacity(96);
        // The surface replaces the token by the client's own.
        told.raw("progressToken", "0").raw("progress", &finished.to_string());
        told.string("message", &format!("{at}: {outcome}"));
        let told = RawValue::from_string(told.finish_string()).ok();
        client.try_notify("notifications/progress", told.as_deref());
    }

    fn detached(&self) -> Arc<dyn StepRunner> {
        Arc::new(Self { client: None, ..self.clone() })
    }
}
