//! Requests: the methods of data agents and of AIO, over HTTP or a WebSocket.

use std::borrow::Cow;

use gateway_protocol::jsonrpc::{Id, InvalidMessage, Limits};
use serde_json::value::RawValue;

use crate::{
    aio,
    envelope::{Frame, Message, Rejected, read_message},
    execute::{self, Execute},
    failure::Failure,
    heartbeat::{self, Heartbeat},
    registration::{self, Registration},
};

/// A request.
#[derive(Debug)]
pub struct Request<'a> {
    /// The id; `None` if it is absent or `null`.
    pub id: Option<Id<'a>>,
    /// The id of the trace, if the caller has one.
    pub trace_id: Option<Cow<'a, str>>,
    /// The call.
    pub call: Call<'a>,
}

/// A method with its parameters.
#[derive(Debug)]
pub enum Call<'a> {
    /// `server.register`.
    Register(Box<Registration>),
    /// `agent.execute`.
    Execute(Execute<'a>),
    /// `agent.heartbeat`.
    Heartbeat(Heartbeat<'a>),
    /// `agent::method`.
    Aio(aio::Call<'a>),
}

impl<'a> Request<'a> {
    /// Reads the body of `POST /rpc`.
    pub fn read(body: &'a [u8], limits: Limits) -> Result<Self, Rejected<'a>> {
        match read_message(body, limits)? {
            Message::Frame(frame) => Self::of_frame(frame),
            Message::Answer(answer) => Err(Rejected::new(answer.id, InvalidMessage::Kind.into())),
        }
    }

    /// Reads the method and the parameters of a request.
    pub fn of_frame(frame: Frame<'a>) -> Result<Self, Rejected<'a>> {
        let Frame { id, trace_id, method, params } = frame;
        let call = if aio::is_address(&method) {
            aio::Call::read(&method, params).map(Call::Aio)
        } else {
            Call::read(&method, params)
        };
        let call = call.map_err(|failure| Rejected::new(id, failure))?;
        Ok(Self { id, trace_id, call })
    }
}

impl<'a> Call<'a> {
    /// Reads a method of data agents.
    pub fn read(method: &str, params: Option<&'a RawValue>) -> Result<Self, Failure> {
        match method {
            registration::METHOD => {
                Registration::read(params).map(|read| Self::Register(Box::new(read)))
            }
            execute::METHOD => Execute::read(params).map(Self::Execute),
            heartbeat::METHOD => Heartbeat::read(params).map(Self::Heartbeat),
            _ => Err(Failure::method_not_found(method)),
        }
    }
}
