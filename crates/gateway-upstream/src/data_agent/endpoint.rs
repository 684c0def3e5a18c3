//! The calls of a data agent at its endpoint: one request of JSON-RPC per POST.

use std::sync::Arc;

use agent_rpc::{
    envelope::{Answer, Message, read_message},
    execute::{Execute, METHOD},
};
use gateway_protocol::jsonrpc::{Id, Limits};

use super::{AgentEndpoint, connection::Answered, http};
use crate::{
    TargetId,
    error::{Error, ProtocolViolation},
    events::EventPublisher,
    http::{Client, InvalidAddress, Transport, read_whole, status_error},
    message::Outgoing,
};

/// The id of each request. An exchange has one request.
const ID: &str = "1";

/// The link to an endpoint.
#[derive(Debug)]
pub(super) struct EndpointLink {
    transport: Transport,
    pub(super) endpoint: Arc<AgentEndpoint>,
}

impl EndpointLink {
    /// Creates a link without connecting. Must be called inside a Tokio runtime.
    pub(super) fn new(
        (publisher, server): (&Arc<EventPublisher>, &TargetId),
        endpoint: &Arc<AgentEndpoint>,
        shared: &Client,
    ) -> Result<Self, InvalidAddress> {
        let config = http(&endpoint.url);
        let transport = Transport::new(server.clone(), Arc::clone(publisher), &config, shared)?;
        Ok(Self { transport, endpoint: Arc::clone(endpoint) })
    }

    /// Sends a call and waits for its answer.
    pub(super) async fn call(
        &self,
        execute: &Execute<'_>,
        outgoing: &Outgoing<'_>,
    ) -> Result<Answered, Error> {
        let id = Id::parse(ID).map_err(ProtocolViolation::from)?;
        let address = &self.transport.address;
        let mut request = address.post(address.headers.clone(), execute.write(id));
        if let Some(send_state) = outgoing.send_state() {
            request.body_mut().track(send_state);
        }
        let response = self.transport.send(request, &None).await?;
        let status = response.status();
        let limit_bytes = self.transport.client.limits().response_bytes;
        let buffered = outgoing.request().and_then(|request| request.context.buffered.as_deref());
        let body = read_whole(response.into_body(), limit_bytes, buffered).await?.bytes;
        match read_message(&body, Limits::with_max_bytes(limit_bytes)) {
            Ok(Message::Answer(Answer { id, outcome, .. })) => {
                if id.is_some_and(|id| id.as_raw() != ID) {
                    return Err(ProtocolViolation::WrongId.into());
                }
                Ok(outcome.map(ToOwned::to_owned))
            }
            _ if !status.is_success() => Err(status_error(status)),
            Ok(Message::Frame(_)) | Err(_) => Err(ProtocolViolation::Shape(METHOD).into()),
        }
    }
}
