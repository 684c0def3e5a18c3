//! Detects the version and binding of an agent by asking for an unknown task, which has no effects.
//!
//! Agent cards are not used: a card may differ from the behavior of its agent.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use a2a::{Binding, Dialect, ErrorKind, Failure, Operation, Request, Version};
use bytes::Bytes;
use http::{Method, StatusCode, header::CONTENT_TYPE};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};

use super::{
    AgentLink, RequestMeta,
    exchange::{HttpAnswer, WrittenRequest},
};
use crate::error::{Error, Phase, ProtocolViolation};

/// The id of a task that does not exist.
const NO_TASK: &str = "none";

/// The shortest time between two probes that errors of the agent start.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The time of the last probe that an error of the agent started.
#[derive(Debug, Default)]
pub(super) struct ProbeInterval(Mutex<Option<Instant>>);

impl ProbeInterval {
    /// Whether another probe may start now.
    fn start(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let may_start = last.is_none_or(|last| now.duration_since(last) >= MIN_INTERVAL);
        if may_start {
            *last = Some(now);
        }
        may_start
    }
}

/// The response of an agent to a probe of one dialect.
enum ProbeResult {
    Speaks,
    /// The agent may support the dialect.
    Perhaps,
    /// The agent does not support the dialect.
    Refuses(ProtocolViolation),
}

impl AgentLink {
    /// Fails if the agent does not respond. Its errors are responses, too.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        let dialect = self.supported_dialect().await?;
        let meta = RequestMeta::default();
        let request = probe();
        let answer = self.exchange(self.written(dialect, &request, &meta)?, &meta).await?;
        match self.read(dialect, &request, &answer) {
            Ok(_) | Err(Error::Agent(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the dialect of the agent. Concurrent callers share one probe. Failures here happen
    /// before the request is sent.
    pub(super) async fn supported_dialect(&self) -> Result<Dialect, Error> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let probing = Box::pin(self.probe_dialect());
        self.probes.make(&self.transport.server, || self.known(), probing).await
    }

    /// The dialect of an agent that rejected a request in the dialect `before`, if it has another one
    /// now. At most one caller per [`MIN_INTERVAL`] probes it; the others do not wait. A failed probe
    /// changes nothing. A configured dialect never changes.
    pub(super) async fn dialect_after(&self, before: Dialect) -> Option<Dialect> {
        if self.known() == Some(before) && !self.is_grpc && self.interval.start() {
            let _ = Box::pin(self.probe_dialect()).await;
        }
        self.known().filter(|now| *now != before)
    }

    /// Probes the dialect of the agent and caches it. An uncertain result does not replace a known
    /// dialect.
    pub(super) async fn probe_dialect(&self) -> Result<Dialect, Error> {
        let after_ms = self.transport.client.limits().list_timeout_ms;
        let probed = timeout(Duration::from_millis(after_ms), self.probe_all()).await;
        let probed = probed.unwrap_or(Err(Error::Timeout { phase: Phase::Handshake, after_ms }));
        let found = probed.map_err(|error| error.before_request(&self.transport.server))?;
        self.dialect.store(Some(Arc::new(found)));
        Ok(found)
    }

    pub(super) fn known(&self) -> Option<Dialect> {
        self.dialect.load().as_deref().copied()
    }

    /// gRPC is probed only if it is configured, because its servers need not support HTTP/1.1, and
    /// HTTP+JSON only if the address certainly has no JSON-RPC.
    async fn probe_all(&self) -> Result<Dialect, Error> {
        if self.is_grpc {
            return match self.probe_named(Dialect::grpc()).await? {
                ProbeResult::Speaks | ProbeResult::Perhaps => Ok(Dialect::grpc()),
                ProbeResult::Refuses(what) => Err(what.into()),
            };
        }
        let (mut perhaps, mut why) = (None, ProtocolViolation::NoCommonVersion);
        let mut known = self.known();
        for dialect in Version::ALL.map(Dialect::json_rpc) {
            match self.probe_named(dialect).await? {
                ProbeResult::Speaks => return Ok(dialect),
                ProbeResult::Perhaps => perhaps = perhaps.or(Some(dialect)),
                ProbeResult::Refuses(what) => {
                    known = known.filter(|known| *known != dialect);
                    // Agents of 1.0 without `GetTask` refuse version 0.3 for other reasons.
                    if why != ProtocolViolation::NoTaskMethod {
                        why = what;
                    }
                }
            }
        }
        if let Some(perhaps) = perhaps {
            return Ok(known.unwrap_or(perhaps));
        }
        for dialect in Version::ALL.map(Dialect::http_json) {
            if self.has_rest(dialect).await? {
                return Ok(dialect);
            }
        }
        Err(why.into())
    }

    /// Probes a dialect whose answers name their errors.
    async fn probe_named(&self, dialect: Dialect) -> Result<ProbeResult, Error> {
        match self.probe_in(dialect).await {
            Ok(_) => Ok(ProbeResult::Speaks),
            Err(Error::Agent(failure)) => Ok(match failure.kind {
                ErrorKind::TaskNotFound => ProbeResult::Speaks,
                // Servers of other services answer the same over gRPC.
                ErrorKind::MethodNotFound if dialect.binding != Binding::Grpc => {
                    ProbeResult::Refuses(ProtocolViolation::NoTaskMethod)
                }
                ErrorKind::MethodNotFound | ErrorKind::VersionNotSupported => {
                    ProbeResult::Refuses(ProtocolViolation::NoCommonVersion)
                }
                // The body is no response of the binding.
                _ if failure.is_invalid_answer() => {
                    ProbeResult::Refuses(ProtocolViolation::NoCommonVersion)
                }
                _ => ProbeResult::Perhaps,
            }),
            // An agent that supports the dialect rejects requests with its errors. Web frameworks
            // redirect from the URL of an agent over HTTP+JSON to the same URL with a `/`.
            Err(Error::Protocol { what: what @ ProtocolViolation::Status(300..500) }) => {
                Ok(ProbeResult::Refuses(what))
            }
            Err(error) => Err(error),
        }
    }

    async fn probe_in(&self, dialect: Dialect) -> Result<Value, Error> {
        let meta = RequestMeta::default();
        let request = probe();
        let answer = self.exchange(self.written(dialect, &request, &meta)?, &meta).await?;
        self.read(dialect, &request, &answer)
    }

    /// Whether the agent reports over HTTP+JSON that the task does not exist. Any server has a 404
    /// that does not name the error, so it counts only if the server has the path of messages. Agents
    /// of 0.3 need not name the error.
    async fn has_rest(&self, dialect: Dialect) -> Result<bool, Error> {
        let request = self.written(dialect, &probe(), &RequestMeta::default())?;
        let Some(answer) = self.rest_answer(request).await? else { return Ok(false) };
        let Ok(body) = serde_json::from_slice::<Value>(&answer.body) else { return Ok(false) };
        let status = answer.status.as_u16();
        if answer.status.is_success() {
            return Ok(false);
        }
        if Failure::of_rest(status, &body, None).kind == ErrorKind::TaskNotFound {
            return Ok(true);
        }
        let is_legacy = || dialect.version == Version::V03 && body["message"].is_string();
        let is_unnamed = status == 404 && body.is_object();
        Ok(is_unnamed && (is_legacy() || Box::pin(self.has_messages(dialect)).await?))
    }

    /// Whether the server rejects the method GET at the path of messages, which only accepts POST.
    async fn has_messages(&self, dialect: Dialect) -> Result<bool, Error> {
        let message = Request::new(Operation::SendMessage, Map::new());
        let mut written = self.written(dialect, &message, &RequestMeta::default())?;
        *written.request.method_mut() = Method::GET;
        *written.request.body_mut() = Bytes::new().into();
        written.request.headers_mut().remove(CONTENT_TYPE);
        let answer = self.rest_answer(written).await?;
        Ok(answer.is_some_and(|answer| answer.status == StatusCode::METHOD_NOT_ALLOWED))
    }

    /// The answer to a probe over HTTP+JSON. `None`: the response violates the binding.
    async fn rest_answer(&self, probe: WrittenRequest) -> Result<Option<HttpAnswer>, Error> {
        match self.exchange(probe, &RequestMeta::default()).await {
            Ok(answer) => Ok(Some(answer)),
            Err(Error::Protocol { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The request that every agent answers.
fn probe() -> Request {
    let params = Map::from_iter([("id".to_owned(), NO_TASK.into())]);
    Request::new(Operation::GetTask, params)
}
