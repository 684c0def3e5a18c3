//! `server.register` and `agent.heartbeat`.

use std::{sync::Arc, time::Duration};

use agent_rpc::{
    Failure, Reason,
    heartbeat::Heartbeat,
    registration::{self, Endpoint, EndpointProtocol, Registration},
};
use gateway_policy::CallOutcome;
use gateway_protocol::mcp::Era;
use gateway_upstream::{AgentDescription, AgentSession};
use registry_core::{Key, Kind};
use serde_json::json;
use tokio::time::timeout;

use super::{
    Answer, Received, Refusal,
    failure::{Refused, denied},
};
use crate::{
    audit::CallRecord,
    ingress::{authentication, request_context},
    pipeline::{self, RegisteredAgent, RegistrationError},
    registrations::{self, NotRegistered},
};

/// Maximum wait until callers see the tools of a connected agent.
const LISTED_WITHIN: Duration = Duration::from_secs(2);
/// The reason of a request beyond the rate of its connection or account.
const RATE_LIMITED: &str = "RATE_LIMITED";
/// The reason of a registration that an operator retired.
const AGENT_RETIRED: &str = "AGENT_RETIRED";
/// The reason of an account with the maximum of agents.
const TOO_MANY_AGENTS: &str = "TOO_MANY_AGENTS";

impl Received<'_> {
    /// Registers an agent. Over a WebSocket, its calls are sent on the connection.
    pub(super) async fn register(&self, registration: &Registration) -> Result<Answer, Refusal> {
        let agent_id = registration.agent_id.as_str();
        let caller = authentication(self.parts);
        let span = self.gateway.tracer().begin(&request_context(self.parts).trace);
        let mut record =
            CallRecord::begin(registration::METHOD, Era::Modern, agent_id, self.bytes, span)
                .of_request(&self.parts.headers);
        pipeline::record_caller(self.gateway, &caller, &mut record);
        if let Err(failure) = self.check_transport(registration) {
            record.failed(CallOutcome::InvalidInput, failure.message.to_string(), None);
            return Ok(self.failed(&failure));
        }
        let registering = pipeline::register_data_agent(self.gateway, &caller, registration);
        let registered = match Box::pin(registering).await {
            Ok(registered) => registered,
            Err(error) => {
                record.failed(outcome(&error), error.to_string(), None);
                return match refused(error) {
                    Refused::Failure(failure) => Ok(self.failed(&failure)),
                    Refused::Request(refusal) => Err(refusal),
                };
            }
        };
        Box::pin(self.attach(registration, &registered)).await;
        record.finished(CallOutcome::Ok);
        let status = if registered.is_new { "registered" } else { "unchanged" };
        let result = json!({
            "agent_id": agent_id, "status": status, "version": registered.version.to_string(),
            "heartbeat_interval": registration.heartbeat_interval.as_secs_f64(),
        });
        let answer = self.succeeded(&result.to_string());
        record.answered(answer.body.len());
        Ok(answer)
    }

    /// Counts a heartbeat or registration. Returns whether the connection, or the caller over HTTP,
    /// sends too many.
    fn is_flooding(&self) -> bool {
        match self.peer {
            Some(peer) => peer.is_flooding(),
            None => self.gateway.registrations().is_flooding(&authentication(self.parts).payer),
        }
    }

    /// Checks the rate of messages. An agent has an endpoint or a connection.
    fn check_transport(&self, registration: &Registration) -> Result<(), Failure> {
        if self.is_flooding() {
            return Err(too_fast());
        }
        let invalid = |problem: &str| Err(Failure::invalid_params("/endpoint", problem));
        match (self.peer, &registration.endpoint) {
            (None, None) => invalid(
                "the URL of the agent is required; without one, register over the WebSocket",
            ),
            (Some(_), Some(_)) => {
                invalid("the calls of this agent are sent on the WebSocket; omit the member")
            }
            (None, Some(_)) => Ok(()),
            (Some(peer), None) => {
                let room = peer.check_room(registration.agent_id.name());
                room.map_err(|full| Failure::new(Reason::InvalidRequest, full.to_string()))
            }
        }
    }

    /// Begins the session of an agent that sends heartbeats, with its calls on the WebSocket or at its
    /// endpoint, and waits until callers see its tools.
    async fn attach(&self, registration: &Registration, registered: &RegisteredAgent) {
        let protocol = registration.endpoint.as_ref().map(|Endpoint { protocol, .. }| *protocol);
        if protocol == Some(EndpointProtocol::Mcp) {
            return;
        }
        let Some(functions) = registrations::functions(registration) else { return };
        let name = registration.agent_id.name().clone();
        let server = Key::new(Kind::Server, name, registered.version.clone());
        let description = AgentDescription {
            server: server.clone(),
            functions,
            call_timeout: registration.constraints.timeout,
            heartbeat_interval: registration.heartbeat_interval,
        };
        let upstreams = self.gateway.upstreams();
        match self.peer {
            Some(peer) => peer.attach(upstreams, description),
            None => upstreams.attach_agent(&AgentSession::at_endpoint(description)),
        }
        let (_, mut definitions) = self.gateway.views().subscribe();
        let listed = definitions
            .wait_for(|listed| listed.find(&server).is_some() && listed.is_available(&server));
        // The agent is registered in any case.
        let _ = timeout(LISTED_WITHIN, listed).await;
    }

    /// Records a heartbeat.
    pub(super) fn heartbeat(&self, heartbeat: &Heartbeat<'_>) -> Answer {
        if self.is_flooding() {
            return self.failed(&too_fast());
        }
        let agent = heartbeat.agent_id.name();
        let own = self.peer.and_then(|peer| peer.session(agent));
        let caller = authentication(self.parts);
        if own.is_none() && !pipeline::owns_data_agent(self.gateway, &caller, agent) {
            return self.failed(&Failure::agent_not_found(heartbeat.agent_id.as_str()));
        }
        let upstreams = self.gateway.upstreams();
        // Another connection of the agent may have replaced this one and ended.
        let is_registered =
            |own: &&Arc<AgentSession>| pipeline::is_registered_version(self.gateway, own.server());
        if let Some(own) = own.as_ref().filter(is_registered) {
            upstreams.restore_agent(own);
        }
        // An agent that serves MCP has no session: the gateway checks its target.
        if let Some(session) = own.or_else(|| upstreams.data_agent(agent)) {
            let refusing = (!heartbeat.is_available()).then_some(&*heartbeat.status);
            upstreams.heartbeat(&session, refusing);
        }
        let result = json!({ "agent_id": agent.as_str(), "status": heartbeat.status });
        self.succeeded(&result.to_string())
    }
}

fn too_fast() -> Failure {
    rate_limited("too many heartbeats and registrations; wait 1 s")
}

fn rate_limited(message: impl Into<Box<str>>) -> Failure {
    let mut failure = Failure::new(Reason::InvalidRequest, message);
    failure.reason = RATE_LIMITED.into();
    failure
}

fn outcome(error: &RegistrationError) -> CallOutcome {
    match error {
        RegistrationError::Off
        | RegistrationError::Endpoint
        | RegistrationError::Scopes(_)
        | RegistrationError::Approval(_)
        | RegistrationError::Rejected(
            NotRegistered::Taken { .. }
            | NotRegistered::SimilarName(_)
            | NotRegistered::Retired(_)
            | NotRegistered::TooMany,
        ) => CallOutcome::Denied,
        RegistrationError::Rejected(
            NotRegistered::Invalid(_) | NotRegistered::TooLarge | NotRegistered::TooFast,
        ) => CallOutcome::InvalidInput,
        RegistrationError::Rejected(
            NotRegistered::NoStore | NotRegistered::OutsideScope(_) | NotRegistered::Forbidden(_),
        )
        | RegistrationError::NotVisible(_) => CallOutcome::Misconfigured,
        RegistrationError::NoCatalog
        | RegistrationError::Rejected(
            NotRegistered::Unavailable(_) | NotRegistered::Conflict { .. },
        ) => CallOutcome::UpstreamFailed,
    }
}

fn refused(error: RegistrationError) -> Refused {
    let message = error.to_string();
    Refused::Failure(match error {
        RegistrationError::Scopes(refusal) => {
            return Refused::Request(Refusal::of_scopes(refusal));
        }
        RegistrationError::Rejected(
            rejection @ (NotRegistered::Taken { .. }
            | NotRegistered::SimilarName(_)
            | NotRegistered::Retired(_)
            | NotRegistered::TooMany),
        ) => {
            let mut failure = Failure::new(Reason::AgentIdTaken, message);
            // Another agent_id would not help.
            match rejection {
                NotRegistered::Retired(_) => failure.reason = AGENT_RETIRED.into(),
                NotRegistered::TooMany => failure.reason = TOO_MANY_AGENTS.into(),
                _ => {}
            }
            return Refused::Request(Refusal::conflict(failure));
        }
        RegistrationError::Approval(denial) => denied(&denial),
        RegistrationError::Off => Failure::new(Reason::MethodNotFound, message),
        RegistrationError::NoCatalog => Failure::new(Reason::Unreachable, message),
        RegistrationError::Endpoint => Failure::invalid_params("/endpoint", message),
        RegistrationError::Rejected(NotRegistered::Invalid(_)) => {
            Failure::invalid_params("", message)
        }
        RegistrationError::Rejected(NotRegistered::TooLarge) => {
            Failure::new(Reason::TooLarge, message)
        }
        RegistrationError::Rejected(NotRegistered::TooFast) => rate_limited(message),
        RegistrationError::Rejected(
            NotRegistered::NoStore
            | NotRegistered::OutsideScope(_)
            | NotRegistered::Forbidden(_)
            | NotRegistered::Unavailable(_)
            | NotRegistered::Conflict { .. },
        )
        | RegistrationError::NotVisible(_) => Failure::new(Reason::Internal, message),
    })
}
