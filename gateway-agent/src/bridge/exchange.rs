//! One request of the client: attempts, messages before the response, and lost sessions.

use std::{sync::atomic::Ordering, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use gateway_protocol::{
    jsonrpc::{self, Limits, Message, ObjectWriter, ResponsePayload, code},
    sse::Events,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use registry_core::media_type;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{
    Bridge,
    endpoint::SendError,
    failure::{BridgeError, backoff},
    incoming::ClientRequest,
    running::{Kind, RequestSlot},
    session::SessionSnapshot,
};
use crate::mcp::LAST_EVENT_HEADER;

/// Maximum attempts to resume an interrupted stream.
const MAX_RESUMES: u32 = 8;
/// Maximum delay before such an attempt that the gateway can request.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Maximum time to read the end of a stream after its response, so that the connection can be
/// reused.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum time for opening a session, or for reopening it and restoring its state.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// The first notification of a `subscriptions/listen`.
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// The outcome of one attempt.
enum Attempt {
    Answer {
        message: Bytes,
        headers: HeaderMap,
    },
    /// The gateway rejected the request without processing it. `message` is its response.
    Rejected {
        why: Remedy,
        message: Bytes,
    },
}

/// The remedy after a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remedy {
    /// Open a new session.
    Session,
    /// List the tools: their current definitions determine the headers.
    Tools,
    /// Read the token again.
    Token,
}

impl Bridge {
    /// Returns the response, or `None` if the client cancelled the request.
    pub(super) async fn exchange(
        &self,
        client_request: &ClientRequest,
        slot: &RequestSlot,
    ) -> Option<Bytes> {
        let response = self.send_with_retries(client_request, &slot.cancelled);
        let outcome = if client_request.is_modern() {
            // Over HTTP, dropping the response cancels the request.
            slot.cancelled.run_until_cancelled(response).await?
        } else {
            response.await
        };
        match outcome {
            Ok(message) => Some(message),
            // A cancelled request gets no response from the gateway.
            Err(_) if slot.cancelled.is_cancelled() => None,
            Err(failure) => Some(failure.response(client_request.id())),
        }
    }

    /// Like `exchange`, but shutdown of the bridge returns an error.
    pub(super) async fn exchange_until_stop(
        &self,
        client_request: &ClientRequest,
        slot: &RequestSlot,
    ) -> Option<Bytes> {
        if let Some(response) =
            self.stop.run_until_cancelled(self.exchange(client_request, slot)).await
        {
            return response;
        }
        if slot.cancelled.is_cancelled() || client_request.kind() == Kind::Subscription {
            return None;
        }
        let failure = self.lost(SendError::Unknown("the bridge is shutting down".to_owned()));
        Some(failure.response(client_request.id()))
    }

    async fn send_with_retries(
        &self,
        client_request: &ClientRequest,
        cancelled: &CancellationToken,
    ) -> Result<Bytes, BridgeError> {
        let (mut tried, mut is_repeated, mut backoff) = (Vec::new(), false, backoff());
        loop {
            let snapshot = if client_request.is_modern() || client_request.opens_session() {
                SessionSnapshot::default()
            } else {
                self.session.snapshot()
            };
            let failure = match self.attempt(client_request, &snapshot, cancelled).await {
                Ok(Attempt::Answer { message, headers }) => {
                    self.learn(client_request, &message, &headers);
                    return Ok(message);
                }
                Ok(Attempt::Rejected { why, message }) => {
                    if tried.contains(&why) {
                        return Ok(message);
                    }
                    tried.push(why);
                    match why {
                        Remedy::Session => self.reopen(snapshot.generation).await?,
                        Remedy::Tools => self.list_tools(client_request).await,
                        Remedy::Token if self.endpoint.reload_token() => {}
                        Remedy::Token => return Ok(message),
                    }
                    continue;
                }
                Err(failure) => failure,
            };
            let is_lost =
                matches!(failure, BridgeError::Unknown { .. } | BridgeError::Unreachable { .. });
            if is_lost && client_request.acknowledged.load(Ordering::Relaxed) {
                sleep(backoff.next_delay()).await;
            } else if matches!(failure, BridgeError::Unknown { .. })
                && client_request.is_repeatable()
                && !is_repeated
                && !cancelled.is_cancelled()
            {
                is_repeated = true;
            } else {
                return Err(failure);
            }
        }
    }

    async fn attempt(
        &self,
        client_request: &ClientRequest,
        snapshot: &SessionSnapshot,
        cancelled: &CancellationToken,
    ) -> Result<Attempt, BridgeError> {
        let Ok(Message::Request(request)) = jsonrpc::parse(&client_request.body, self.limits())
        else {
            unreachable!("the body was read as a request");
        };
        let mut headers = snapshot.headers.clone();
        headers.extend(client_request.headers(&self.params, &request));
        let response = self.endpoint.post(headers, client_request.body.clone()).await;
        let response = response.map_err(|lost| self.lost(lost))?;
        let (parts, body) = response.into_parts();
        if parts.status.is_success() && is_event_stream(&parts.headers) {
            let message = self.stream(client_request, snapshot, body, cancelled).await?;
            return Ok(Attempt::Answer { message, headers: parts.headers });
        }
        let message = self.read_body(body).await?;
        let (message, code) = self.response(client_request, parts.status, message)?;
        let why = match parts.status {
            StatusCode::NOT_FOUND if snapshot.has_session() => Remedy::Session,
            StatusCode::UNAUTHORIZED => Remedy::Token,
            StatusCode::BAD_REQUEST
                if code == Some(code::HEADER_MISMATCH)
                    && &*client_request.method == "tools/call" =>
            {
                Remedy::Tools
            }
            _ => return Ok(Attempt::Answer { message, headers: parts.headers }),
        };
        Ok(Attempt::Rejected { why, message })
    }

    /// Parses a response that is one message. Also returns its error code.
    fn response(
        &self,
        client_request: &ClientRequest,
        status: StatusCode,
        message: Bytes,
    ) -> Result<(Bytes, Option<i64>), BridgeError> {
        let read = jsonrpc::parse(&message, self.answer_limits());
        let gateway = || self.endpoint.name();
        match read {
            Ok(Message::Response(response)) => match (response.id, response.outcome) {
                (Some(_), ResponsePayload::Result(_)) => Ok((message, None)),
                (Some(_), ResponsePayload::Error(error)) => {
                    let code = error.code;
                    Ok((message, Some(code)))
                }
                // A request that was rejected before its body was parsed.
                (None, ResponsePayload::Error(error)) => {
                    Ok((jsonrpc::error(Some(client_request.id()), &error), Some(error.code)))
                }
                (None, ResponsePayload::Result(_)) => {
                    let reason = "its id is missing".to_owned();
                    Err(BridgeError::NoResponse { gateway: gateway(), reason })
                }
            },
            _ if !status.is_success() => Err(BridgeError::status(gateway(), status)),
            Ok(_) => {
                let reason = "the message is not a response".to_owned();
                Err(BridgeError::NoResponse { gateway: gateway(), reason })
            }
            Err(invalid) => {
                let reason = invalid.to_string();
                Err(BridgeError::NoResponse { gateway: gateway(), reason })
            }
        }
    }

    async fn read_body(&self, body: Body) -> Result<Bytes, BridgeError> {
        let limit_bytes = self.sizes.response_bytes;
        match Limited::new(body, limit_bytes).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(e) if e.is::<LengthLimitError>() => {
                Err(BridgeError::TooLong { gateway: self.endpoint.name(), limit_bytes })
            }
            Err(e) => Err(self.lost(SendError::Unknown(e.to_string()))),
        }
    }

    /// Forwards the messages of a stream, and returns the response.
    async fn stream(
        &self,
        client_request: &ClientRequest,
        snapshot: &SessionSnapshot,
        mut body: Body,
        cancelled: &CancellationToken,
    ) -> Result<Bytes, BridgeError> {
        let mut events = Events::new(self.sizes.response_bytes);
        loop {
            let reason = match self.events(client_request, &mut body, &mut events).await? {
                Ok(message) => {
                    tokio::spawn(timeout(DRAIN_TIMEOUT, async move {
                        while let Some(Ok(_)) = body.frame().await {}
                    }));
                    return Ok(message);
                }
                Err(reason) => reason,
            };
            let may_resume = !client_request.is_modern() && !cancelled.is_cancelled();
            let resumed = if may_resume { self.resume(snapshot, &mut events).await } else { None };
            body = resumed.ok_or_else(|| self.lost(SendError::Unknown(reason)))?;
        }
    }

    /// Reads a stream until the response. The inner error is the reason for an early end.
    async fn events(
        &self,
        client_request: &ClientRequest,
        body: &mut Body,
        events: &mut Events,
    ) -> Result<Result<Bytes, String>, BridgeError> {
        loop {
            let frame = match body.frame().await {
                Some(Ok(frame)) => frame,
                Some(Err(e)) => return Ok(Err(e.to_string())),
                None => return Ok(Err("the stream ended".to_owned())),
            };
            let Ok(chunk) = frame.into_data() else { continue };
            if events.push(&chunk).is_err() {
                let limit_bytes = self.sizes.response_bytes;
                return Err(BridgeError::TooLong { gateway: self.endpoint.name(), limit_bytes });
            }
            while let Some(event) = events.pop() {
                if let Some(message) = self.deliver(Some(client_request), event).await {
                    return Ok(Ok(message));
                }
            }
        }
    }

    /// Forwards a message of a stream. A response is returned instead.
    pub(super) async fn deliver(
        &self,
        client_request: Option<&ClientRequest>,
        event: Vec<u8>,
    ) -> Option<Bytes> {
        match jsonrpc::parse(&event, self.answer_limits()) {
            Ok(Message::Response(_)) => return Some(event.into()),
            Ok(Message::Notification(notification)) if notification.method == ACKNOWLEDGED => {
                let is_known = |client_request: &ClientRequest| {
                    client_request.acknowledged.swap(true, Ordering::Relaxed)
                };
                if client_request.is_some_and(is_known) {
                    // The client already has an acknowledgment. Changes may have been missed in
                    // between.
                    for change in changes(notification.params) {
                        self.output.send(change).await;
                    }
                    return None;
                }
            }
            Ok(_) => {}
            Err(invalid) => {
                tracing::warn!("an event of the gateway is not a valid message: {invalid}");
                return None;
            }
        }
        self.output.send(event).await;
        None
    }

    /// Resumes a stream after the last received event.
    async fn resume(&self, snapshot: &SessionSnapshot, events: &mut Events) -> Option<Body> {
        let last_event = HeaderValue::from_str(events.last_id()?).ok()?;
        let mut backoff = backoff();
        for _ in 0..MAX_RESUMES {
            let pause = events.retry().unwrap_or_else(|| backoff.next_delay());
            sleep(pause.min(LONGEST_PAUSE)).await;
            let mut headers = snapshot.headers.clone();
            headers.insert(LAST_EVENT_HEADER, last_event.clone());
            match self.endpoint.get(headers).await {
                Ok(response) if is_stream(&response) => {
                    events.restart();
                    return Some(response.into_body());
                }
                Ok(_) => return None,
                Err(_) => {}
            }
        }
        None
    }

    /// Updates the state of the bridge from a response.
    fn learn(&self, client_request: &ClientRequest, message: &Bytes, headers: &HeaderMap) {
        let is_of_interest = matches!(
            &*client_request.method,
            "initialize"
                | "tools/list"
                | "logging/setLevel"
                | "resources/subscribe"
                | "resources/unsubscribe"
        );
        if !is_of_interest {
            return;
        }
        let Some(result) = result_of(message, self.answer_limits()) else { return };
        match &*client_request.method {
            "initialize" => self.session.opened(client_request.body.clone(), headers, result),
            "tools/list" => self.params.learn(result),
            _ => {
                if let Ok(Message::Request(request)) =
                    jsonrpc::parse(&client_request.body, self.limits())
                {
                    self.session.store_state_change(client_request, request.params);
                }
            }
        }
    }

    /// Reopens a session that the gateway lost. Concurrent callers share one attempt.
    pub(super) async fn reopen(&self, lost: u64) -> Result<(), BridgeError> {
        // The deadline includes the wait for an attempt of another caller.
        let deadline = Instant::now() + OPEN_TIMEOUT;
        let late = || self.session_failure(format!("no response within {OPEN_TIMEOUT:?}"));
        let turn = timeout_at(deadline, self.session.opening.lock()).await;
        let _turn = turn.map_err(|_| late())?;
        let Some(initialize) = self.session.initialize_for_reopen(lost) else { return Ok(()) };
        timeout_at(deadline, self.repeat_initialize(initialize)).await.map_err(|_| late())??;
        tracing::info!("the gateway lost the session; reopened it");
        self.restore(&self.session.snapshot(), deadline).await;
        Ok(())
    }

    /// Repeats the client's `initialize` and `notifications/initialized`.
    async fn repeat_initialize(&self, initialize: Bytes) -> Result<(), BridgeError> {
        let failed = |reason| self.session_failure(reason);
        let Ok(Message::Request(request)) = jsonrpc::parse(&initialize, self.limits()) else {
            return Err(failed("the client sent no `initialize`".to_owned()));
        };
        let client_request = ClientRequest::read(initialize.clone(), &request);
        let never = CancellationToken::new();
        match self.attempt(&client_request, &SessionSnapshot::default(), &never).await {
            Ok(Attempt::Answer { message, headers }) => {
                let result = result_of(&message, self.answer_limits());
                let result = result.ok_or_else(|| failed("the gateway rejected it".to_owned()))?;
                self.session.renewed(&headers, result);
            }
            Ok(Attempt::Rejected { .. }) => {
                return Err(failed("the gateway rejected it".to_owned()));
            }
            Err(failure) => return Err(failed(failure.to_string())),
        }
        if self.session.is_initialized() {
            let notification = jsonrpc::notification("notifications/initialized", None);
            let sent = self.endpoint.post(self.session.snapshot().headers, notification).await;
            sent.map_err(|lost| self.lost(lost))?;
        }
        Ok(())
    }

    fn session_failure(&self, reason: String) -> BridgeError {
        BridgeError::Session { gateway: self.endpoint.name(), reason }
    }

    /// Restores the log level and the resource subscriptions of the session.
    pub(super) async fn restore(&self, snapshot: &SessionSnapshot, deadline: Instant) {
        let restoring = async {
            for body in self.session.state_changes() {
                // The client already has its response, so errors are ignored.
                if let Ok(response) = self.endpoint.post(snapshot.headers.clone(), body).await {
                    let _ = self.read_body(response.into_body()).await;
                }
            }
        };
        if timeout_at(deadline, restoring).await.is_err() {
            tracing::warn!(
                "the log level and the resource subscriptions were not restored in time"
            );
        }
    }

    /// Lists the tools, for a call whose headers do not match the tool's current definition.
    async fn list_tools(&self, call: &ClientRequest) {
        /// Maximum number of pages.
        const PAGES: usize = 100;
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let Some(body) = call.list_request(cursor.as_deref(), self.limits()) else { return };
            let Ok(Message::Request(request)) = jsonrpc::parse(&body, self.limits()) else {
                return;
            };
            let client_request = ClientRequest::read(body.clone(), &request);
            let never = CancellationToken::new();
            let attempt = self.attempt(&client_request, &SessionSnapshot::default(), &never).await;
            let Ok(Attempt::Answer { message, .. }) = attempt else { return };
            let Some(result) = result_of(&message, self.answer_limits()) else { return };
            self.params.learn(result);
            cursor = jsonrpc::read_object::<Page>(result).and_then(|page| page.next_cursor);
            if cursor.is_none() {
                return;
            }
        }
    }

    fn lost(&self, lost: SendError) -> BridgeError {
        BridgeError::lost(self.endpoint.name(), lost)
    }

    fn answer_limits(&self) -> Limits {
        Limits::with_max_bytes(self.sizes.response_bytes)
    }
}

#[derive(Deserialize)]
struct Page {
    #[serde(rename = "nextCursor")]
    next_cursor: Option<String>,
}

fn result_of(message: &Bytes, limits: Limits) -> Option<&RawValue> {
    match jsonrpc::parse(message, limits) {
        Ok(Message::Response(response)) => match response.outcome {
            ResponsePayload::Result(result) => Some(result),
            ResponsePayload::Error(_) => None,
        },
        _ => None,
    }
}

pub(super) fn is_stream(response: &Response<Body>) -> bool {
    response.status().is_success() && is_event_stream(response.headers())
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media_type::is_any(media, &["text/event-stream"])
}

#[derive(Deserialize)]
struct Acknowledgment<'a> {
    #[serde(borrow)]
    notifications: Accepted<'a>,
    #[serde(rename = "_meta", borrow)]
    meta: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Accepted<'a> {
    tools_list_changed: bool,
    prompts_list_changed: bool,
    resources_list_changed: bool,
    #[serde(borrow)]
    resource_subscriptions: Vec<&'a RawValue>,
}

/// Returns one notification per subject of a subscription.
fn changes(acknowledgment: Option<&RawValue>) -> Vec<Bytes> {
    let read = acknowledgment.and_then(jsonrpc::read_object::<Acknowledgment<'_>>);
    let Some(Acknowledgment { notifications: accepted, meta }) = read else { return Vec::new() };
    let notification = |method: &str, uri: Option<&RawValue>| {
        let mut params = ObjectWriter::with_capacity(128);
        if let Some(meta) = meta {
            params.raw("_meta", meta.get());
        }
        if let Some(uri) = uri {
            params.raw("uri", uri.get());
        }
        jsonrpc::notification(method, Some(&params.finish_string()))
    };
    let lists = [
        ("notifications/tools/list_changed", accepted.tools_list_changed),
        ("notifications/prompts/list_changed", accepted.prompts_list_changed),
        ("notifications/resources/list_changed", accepted.resources_list_changed),
    ];
    let lists = lists.into_iter().filter(|(_, is_accepted)| *is_accepted);
    let resources = accepted.resource_subscriptions.iter();
    lists
        .map(|(method, _)| notification(method, None))
        .chain(resources.map(|uri| notification("notifications/resources/updated", Some(uri))))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json, value::to_raw_value};

    use super::*;

    #[test]
    fn missed_changes_are_one_notification_each() {
        let meta = json!({"io.modelcontextprotocol/subscriptionId": 7});
        let params = json!({"_meta": meta, "notifications": {"toolsListChanged": true,
            "resourceSubscriptions": ["file:///a"]}});
        let changes = changes(Some(&to_raw_value(&params).unwrap()));
        let changes: Vec<Value> =
            changes.iter().map(|change| serde_json::from_slice(change).unwrap()).collect();
        let notification = |method: &str, params: Value| {
            json!({"jsonrpc": "2.0",
            "method": format!("notifications/{method}"), "params": params})
        };
        assert_eq!(
            changes,
            [
                notification("tools/list_changed", json!({"_meta": meta})),
                notification("resources/updated", json!({"_meta": meta, "uri": "file:///a"})),
            ]
        );
    }
}
