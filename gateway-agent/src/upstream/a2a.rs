//! Agents over A2A's JSON-RPC binding: a step's input goes as one message to a skill, and its result is what
//! the agent's message, or its task, comes to.
//!
//! The agent is asked to answer at once, and its task until it ends: so it is known which task to cancel
//! when nobody waits any more. Deliberately absent: streams and push notifications, the other bindings,
//! answers to an agent that wants more input, and agents as callers.

mod dialect;
mod result;
mod task;
#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use registry_core::Key;
use registry_follow::jittered;
use serde_json::value::RawValue;

use self::{
    dialect::{Call, Dialect, Outbound},
    task::{Said, State, Task},
};
use super::{
    announce::Announcer,
    error::{Breach, Error},
    http::{Client, Expected, InvalidAddress, OnBehalf, Way, read_one},
    message::{Era, Outgoing},
    reply::{Reply, RpcError},
    request::{Method, Request},
};
use crate::{config::TransportConfig, jsonrpc, seal::random_text};

const VERSION: HeaderName = HeaderName::from_static("a2a-version");
/// What an agent lists besides its skills, which are registered.
const NO_TOOLS: &str = r#"{"tools":[]}"#;
/// The id of a task that nobody has begun: to ask for it changes nothing.
const NO_TASK: &str = "none";
/// Before a task is asked for the first time; each wait is half as long again as the one before.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The way to one agent.
#[derive(Debug)]
pub(super) struct AgentLink {
    way: Arc<Way>,
    dialect: ArcSwapOption<Dialect>,
    next_id: AtomicU64,
}

/// In whose name an exchange goes, and the headers of its trace.
type Manner<'a> = (&'a OnBehalf, &'a [(HeaderName, HeaderValue)]);

impl AgentLink {
    /// A link that does nothing until it is used. Must be called inside a runtime.
    pub(super) fn new(
        announcer: Arc<Announcer>,
        agent: Key,
        transport: &TransportConfig,
        shared: &Client,
    ) -> Result<Self, InvalidAddress> {
        let way = Arc::new(Way::new(agent, announcer, transport, shared)?);
        Ok(Self { way, dialect: ArcSwapOption::empty(), next_id: AtomicU64::new(1) })
    }

    /// What the agent speaks, as far as it is known.
    pub(super) fn speaks(&self) -> Option<&'static str> {
        self.dialect.load().as_deref().map(|dialect| dialect.name())
    }

    /// Sends a message and waits for what comes of it, as a tool's result. What it lists shows only that
    /// it is there.
    pub(super) async fn request(
        &self,
        outgoing: &Outgoing<'_>,
        trace: &[(HeaderName, HeaderValue)],
    ) -> Result<(Reply, Era), Error> {
        let reply = if let Outgoing::Asked { subject, request } = outgoing {
            let on_behalf = self.way.caller(outgoing)?;
            Box::pin(self.ask(subject, request, (&on_behalf, trace))).await?
        } else {
            self.find_dialect().await?;
            Reply::Result(raw(NO_TOOLS.to_owned())?)
        };
        Ok((reply, Era::Modern))
    }

    /// Fails if the agent does not show that it is there; any answer does.
    pub(super) async fn check(&self) -> Result<(), Error> {
        let dialect = self.dialect().await?;
        self.post((dialect, dialect.get_task(NO_TASK)), (&None, &[])).await.map(drop)
    }

    /// Finds out what it speaks, and keeps that in mind.
    async fn find_dialect(&self) -> Result<Dialect, Error> {
        for dialect in Dialect::ALL {
            match self.post((dialect, dialect.get_task(NO_TASK)), (&None, &[])).await? {
                Reply::Error(error) if is_about_dialect(&error) => {}
                _ => {
                    self.dialect.store(Some(Arc::new(dialect)));
                    return Ok(dialect);
                }
            }
        }
        Err(Breach::NoCommonVersion.into())
    }

    async fn dialect(&self) -> Result<Dialect, Error> {
        let known = self.dialect.load().as_deref().copied();
        match known {
            Some(known) => Ok(known),
            None => self.find_dialect().await,
        }
    }

    async fn ask(
        &self,
        skill: &str,
        request: &Request<'_>,
        manner: Manner<'_>,
    ) -> Result<Reply, Error> {
        let id = random_text().map_err(|error| Error::Unavailable {
            target: self.way.server.clone(),
            source: error.into(),
        })?;
        let outbound = Outbound {
            id: &id,
            skill,
            arguments: request.arguments.map_or("{}", RawValue::get),
            as_text: request.method == Method::SendMessage { as_text: true },
        };
        let mut dialect = self.dialect().await?;
        let mut reply = self.post((dialect, dialect.send_message(&outbound)), manner).await?;
        if matches!(&reply, Reply::Error(error) if is_about_dialect(error)) {
            // It speaks something else by now, and has done nothing.
            self.dialect.store(None);
            dialect = self.dialect().await?;
            reply = self.post((dialect, dialect.send_message(&outbound)), manner).await?;
        }
        let Reply::Result(sent) = reply else { return Ok(reply) };
        match Said::read(&sent).ok_or(Breach::Shape("SendMessage"))? {
            Said::Message(message) => Ok(Reply::Result(raw(result::of_message(&message))?)),
            Said::Task(task) => {
                let task = self.until_ended(dialect, task, manner).await?;
                Ok(Reply::Result(raw(result::of_task(&task))?))
            }
        }
    }

    /// A task that goes on no more. Once nobody waits for it, it is canceled.
    async fn until_ended(
        &self,
        dialect: Dialect,
        mut task: Task,
        manner: Manner<'_>,
    ) -> Result<Task, Error> {
        // Whatever the agent calls it later.
        let id = task.id.clone();
        let mut cancel =
            CancelOnDrop { link: self, dialect, task: Some(id.clone()), on_behalf: manner.0 };
        let mut wait = FIRST_WAIT;
        while task.state() == State::Working {
            tokio::time::sleep(jittered(wait)).await;
            wait = LONGEST_WAIT.min(wait * 3 / 2);
            task = match self.post((dialect, dialect.get_task(&id)), manner).await {
                Ok(Reply::Result(told)) => Task::read(&told).ok_or(Breach::Shape("GetTask"))?,
                Ok(Reply::Error(error)) => return Err(lost(&error.message)),
                // It goes on, whether it can be asked or not.
                Err(error) if error.is_about_reach() => continue,
                Err(error) => return Err(lost(&error.to_string())),
            };
        }
        if task.state() != State::Waiting {
            cancel.task = None;
        }
        Ok(task)
    }

    async fn post(
        &self,
        (dialect, call): (Dialect, Call),
        (on_behalf, trace): Manner<'_>,
    ) -> Result<Reply, Error> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut headers = self.headers(dialect);
        headers.extend(trace.iter().cloned());
        let body = written(id, &call);
        let response = self.way.send(self.way.address.post(headers, body), on_behalf).await?;
        let limit_bytes = self.way.client.limits().response_bytes;
        read_one(response, Expected { id, limit_bytes }).await
    }

    fn headers(&self, dialect: Dialect) -> HeaderMap {
        let mut headers = self.way.address.headers.clone();
        headers.insert(VERSION, HeaderValue::from_static(dialect.version()));
        headers
    }
}

/// Has an agent stop what nobody waits for any more.
struct CancelOnDrop<'a> {
    link: &'a AgentLink,
    dialect: Dialect,
    task: Option<String>,
    on_behalf: &'a OnBehalf,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else { return };
        let link = self.link;
        let id = link.next_id.fetch_add(1, Ordering::Relaxed);
        let body = written(id, &self.dialect.cancel_task(&task));
        let request = link.way.address.post(link.headers(self.dialect), body);
        link.way.send_in_background(request, self.on_behalf.clone(), ());
    }
}

fn written(id: u64, (method, params): &Call) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#).into()
}

/// Whether an agent refused a request unread, because it does not know the method or the version.
fn is_about_dialect(error: &RpcError) -> bool {
    matches!(error.code, jsonrpc::code::METHOD_NOT_FOUND | dialect::VERSION_NOT_SUPPORTED)
}

/// The message was taken; what came of it cannot be known.
fn lost(why: &str) -> Error {
    Breach::TaskLost(why.to_owned()).into()
}

fn raw(text: String) -> Result<Box<RawValue>, Error> {
    // What is written here is JSON.
    RawValue::from_string(text).map_err(|_| Breach::Shape("SendMessage").into())
}
