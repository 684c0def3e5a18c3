//! The path of every operation of every surface, and of the steps of compositions: resolve the
//! caller, find the route, authorize, prepare the input, send, and finish the output.
//!
//! Surfaces parse requests and render responses. Operations on tools have the form of MCP, those on
//! agents the internal form of A2A; other surfaces translate to them.

mod admit;
mod agent;
mod approval;
pub mod arguments;
mod directory;
pub mod error;
mod gateway;
mod handle;
mod input;
mod inspect;
mod invocation;
pub mod mcp_headers;
pub(crate) mod message;
mod moment;
mod prepare;
pub mod projection;
mod purchase;
mod rates;
mod revocation;
mod route;
mod sagas;
mod self_registration;
mod send;
mod settings;
mod steps;
mod stored;
mod streams;
mod task;
mod validate;

use std::sync::Arc;

pub(crate) use self::approval::{sealed_for, trace_owner, withdraw as withdraw_approval};
use self::{admit::Governed, moment::Moment, send::send};
pub(crate) use self::{
    agent::{ComparedTask, PushAddress, sent_event},
    directory::{Directory, VisibleAgent},
    input::{QUESTIONS, answers_questions},
    inspect::InspectionThread,
    invocation::{
        AgentCall, FeatureSubject, InputHandling, Invocation, Output, PushEndpoint, PushRole,
        RequestedAgent, StepCall, Target, ToolCall,
    },
    moment::{check_call_scopes, check_method_scopes, record_caller},
    sagas::{recover_sagas, retry_saga},
    self_registration::{
        RegisteredAgent, RegistrationError, is_registered_version, owns_data_agent,
        register_data_agent, serve_data_agents,
    },
    stored::check_own_result,
    streams::EventStreamPlace,
    task::TaskOwner,
};
pub use self::{
    error::{Error, PolicyDenial, RetiredDependency},
    gateway::{Gateway, GatewayParts},
    handle::GatewayHandle,
    invocation::OperationResult,
    settings::{AgentBridges, DenialForm, PushSettings, Settings, ToolLimits},
    task::{Task, TaskNames},
};
use serde_json::Map;

use crate::{audit::CallRecord, identity::authenticator::Authentication};

/// Runs an operation to its end. Dropping the future cancels the operation.
///
/// Each round of input uses the current catalog and is authorized again. The record receives the
/// final output or the error; a dropped operation is recorded as cancelled.
pub(crate) async fn invoke(
    gateway: &Arc<Gateway>,
    call: &mut Invocation,
    record: &mut CallRecord,
) -> Result<Output, Error> {
    let output = run(gateway, call, record).await;
    output.inspect_err(|error| error.record_in(record))
}

/// Whether the current policies still admit the updates of a subscription.
pub(crate) fn admits_updates(gateway: &Gateway, caller: &Authentication, uri: &str) -> bool {
    let call = Invocation::subscription(caller.clone(), uri);
    let moment = Moment::now(gateway, &call);
    let Ok(route) = moment.route(gateway, &call) else { return false };
    let governed = Governed::find(&moment, &call, &route, moment.agent());
    governed.is_none_or(|found| {
        found.authorize_call(&call, &moment, &Map::new(), &mut Vec::new()).is_ok()
    })
}

async fn run(
    gateway: &Arc<Gateway>,
    call: &mut Invocation,
    record: &mut CallRecord,
) -> Result<Output, Error> {
    call.bind_caller(gateway);
    if let Some(task_id) = call.context.task_id() {
        record.set_task(&task_id);
    }
    let mut rounds = 0;
    loop {
        let moment = Moment::now(gateway, call);
        moment.record_in(gateway, record);
        if let Some(usage) = gateway.usage() {
            record.set_usage(usage, &moment.snapshot.catalog, call.target.method());
        }
        let route = moment
            .route(gateway, call)
            .inspect_err(|_| inspect::record_unknown_target(gateway, call, &moment, record))?;
        if let Some(skill) = route.skill_name() {
            record.set_target(&skill);
        }
        if moment.snapshot.governance.as_ref().is_some_and(|governance| governance.counts_hops()) {
            call.context.hops.get_or_insert(0);
        }
        let governed = Governed::find(&moment, call, &route, record.agent());
        if let Some(governed) = &governed {
            governed
                .conceal(record)
                .inspect_err(|_| inspect::record_unknown_target(gateway, call, &moment, record))?;
        }
        let (mut route, finding) =
            route::authorize_route(gateway.policy(), &moment.freshness, route)?;
        record.set_route(route.served(), route.server(), finding);
        route.take_request(call);
        let output = send(gateway, call, &moment, governed.as_ref(), route, record).await?;
        let (Some(asked), InputHandling::AskClient) = (output.needs_input(), call.input) else {
            record.finished(output.outcome());
            return Ok(output);
        };
        let client = call.client.as_ref().ok_or(Error::UnknownInput)?;
        input::ask(client, asked, (&mut call.params, rounds)).await?;
        rounds += 1;
    }
}
