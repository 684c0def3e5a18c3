//! The event stream of an operation of a caller, or of the message of a step.
//!
//! Events keep their order. The agent waits while the caller does not read. A stream without a last
//! event ends with an error.

use std::{
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use a2a::{Dialect, Failure, model::Event, stream::EventReader};
use bytes::Bytes;
use gateway_policy::BufferReservation;
use gateway_protocol::jsonrpc::Limits;
use http::{HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use hyper::body::Incoming;
use tokio::{
    sync::{SetOnce, mpsc},
    time::{Instant, sleep, timeout_at},
};

use super::{AgentLink, check::check_event, grpc, pending::TASK_ID_TIMEOUT};
use crate::{
    breaker::BreakerPermit,
    error::{Error, Phase, ProtocolViolation},
    http::{Subject, next_frame, read_rest},
    request::{AgentEvent, StreamedEvent},
    send_state::Body,
};

/// Receives the events of one stream.
#[derive(Debug)]
pub(crate) struct EventSink<'a> {
    events: &'a mpsc::Sender<StreamedEvent>,
    /// `None`: the step counts its outcome.
    breaker: Option<&'a BreakerPermit>,
    /// Maximum time before the head of the response, and between two chunks.
    pub(super) limit: Duration,
    /// Set to the limit if the first event is late, whose task is still unknown. `None`: the stream
    /// ends.
    late: Option<&'a SetOnce<Duration>>,
    /// The end of the wait for a late first event.
    late_until: OnceLock<Instant>,
    has_events: AtomicBool,
}

impl<'a> EventSink<'a> {
    pub(crate) fn new(
        events: &'a mpsc::Sender<StreamedEvent>,
        breaker: Option<&'a BreakerPermit>,
        limit: Duration,
        late: Option<&'a SetOnce<Duration>>,
    ) -> Self {
        let (late_until, has_events) = (OnceLock::new(), AtomicBool::new(false));
        Self { events, breaker, limit, late, late_until, has_events }
    }

    /// Whether events arrived. The breaker then has counted a success, or a late first event.
    pub(crate) fn has_events(&self) -> bool {
        self.has_events.load(Ordering::Relaxed)
    }

    async fn send(&self, event: StreamedEvent) -> Result<(), Error> {
        let is_first = !self.has_events.swap(true, Ordering::Relaxed);
        let is_counted = self.late_until.get().is_some();
        if let Some(breaker) = self.breaker.filter(|_| is_first && !is_counted) {
            breaker.record(false);
        }
        self.events.send(event).await.map_err(|_| ProtocolViolation::Closed.into())
    }

    /// Waits for the head of the response or for a chunk, within the limit. If the first event is late
    /// and the request was sent, the wait continues for [`TASK_ID_TIMEOUT`], to learn the task.
    pub(super) async fn within_limit<T>(
        &self,
        answer: impl Future<Output = T>,
        is_sent: impl FnOnce() -> bool,
    ) -> Option<T> {
        let mut answer = pin!(answer);
        let late_until = self.late_until.get().filter(|_| !self.has_events());
        let until = late_until.copied().unwrap_or_else(|| Instant::now() + self.limit);
        if let Ok(answer) = timeout_at(until, &mut answer).await {
            return Some(answer);
        }
        let late = self.late.filter(|_| !self.has_events() && is_sent())?;
        let until = *self.late_until.get_or_init(|| Instant::now() + TASK_ID_TIMEOUT);
        let _ = late.set(self.limit);
        timeout_at(until, answer).await.ok()
    }
}

impl AgentLink {
    /// Sends the request for a stream. Servers differ in the method of subscriptions: the Protocol
    /// Buffers have GET, the text of the specification has POST.
    pub(super) async fn open(
        &self,
        request: Request<Body>,
        subject: &Subject,
    ) -> Result<Response<Incoming>, Error> {
        let has_other = |response: &Response<Incoming>| {
            matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
        };
        let get = (request.method() == Method::GET).then(|| request.clone());
        let response = self.transport.send(request, subject).await?;
        let Some(mut request) = get.filter(|_| has_other(&response)) else { return Ok(response) };
        *request.method_mut() = Method::POST;
        *request.body_mut() = Bytes::from_static(b"{}").into();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let second = self.transport.send(request, subject).await?;
        // The task may be unknown. The error of the usual method then says so.
        Ok(if has_other(&second) { response } else { second })
    }
}

/// A stream that is being read.
#[derive(Debug)]
pub(super) struct EventStream<'a> {
    body: Incoming,
    reader: EventReader,
    limit_bytes: usize,
    buffered: Option<&'a BufferReservation>,
    /// Bytes of memory reserved for unparsed events.
    reserved: usize,
}

impl<'a> EventStream<'a> {
    pub(super) fn new(
        (dialect, id, response): (Dialect, u64, Response<Incoming>),
        limit_bytes: usize,
        buffered: Option<&'a BufferReservation>,
    ) -> Self {
        let reader = EventReader::new(dialect, id, Limits::with_max_bytes(limit_bytes));
        Self { body: response.into_body(), reader, limit_bytes, buffered, reserved: 0 }
    }

    /// Reads all events. They belong to the task of the request, or to that of the first event.
    pub(super) async fn read(
        mut self,
        sink: &EventSink<'_>,
        requested: Option<&str>,
    ) -> Result<(), Error> {
        let limit_bytes = self.limit_bytes;
        let after_ms = u64::try_from(sink.limit.as_millis()).unwrap_or(u64::MAX);
        // Whether the task waits for its caller, so that the stream may end.
        let mut may_end = false;
        let mut task = requested.map(str::to_owned);
        // One timer for all chunks after the first event: a later deadline only changes it.
        let mut pause = pin!(sleep(sink.limit));
        loop {
            let next = next_frame(&mut self.body);
            let frame = if sink.has_events() {
                pause.as_mut().reset(Instant::now() + sink.limit);
                tokio::select! {
                    biased;
                    frame = next => Some(frame),
                    () = &mut pause => None,
                }
            } else {
                sink.within_limit(next, || true).await
            };
            let frame = frame.ok_or(Error::Timeout { phase: Phase::Call, after_ms })??;
            let Some(frame) = frame else {
                return if may_end { Ok(()) } else { Err(ProtocolViolation::Closed.into()) };
            };
            let chunk = match frame.into_data() {
                Ok(chunk) => chunk,
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    self.reader.end(&trailers).map_err(grpc::call_error)?;
                    continue;
                }
            };
            self.reserve(chunk.len())?;
            self.reader.push(&chunk).map_err(|_| Error::TooLarge { limit_bytes })?;
            while let Some(event) = self.reader.next_event() {
                let event = event?;
                let buffered = self.reserve_parsed(&event)?;
                let event = self.reader.read_next(event)?;
                // A repetition is an artifact of the same task.
                let mut is_last = false;
                if let Some(value) = event.value() {
                    let view = check_event(value)?;
                    if let Some(id) = view.task_id()
                        && task.get_or_insert_with(|| id.to_owned()) != id
                    {
                        let problem = "an event belongs to another task";
                        return Err(Failure::invalid_answer(problem).into());
                    }
                    is_last = view.is_last() || self.reader.is_final();
                    may_end = match view {
                        Event::Task(task) => task.state().is_interrupted(),
                        Event::Status { state, .. } => state.is_interrupted(),
                        Event::Message(_) | Event::Artifact { .. } => may_end,
                    };
                }
                sink.send(AgentEvent { event, buffered }).await?;
                if is_last {
                    read_rest(self.body);
                    return Ok(());
                }
            }
        }
    }

    /// Reserves memory for a chunk and the event that it continues.
    fn reserve(&mut self, chunk: usize) -> Result<(), Error> {
        let Some(buffered) = self.buffered else { return Ok(()) };
        let needed = self.reader.held_bytes() + chunk;
        if needed > self.reserved {
            buffered.reserve(needed - self.reserved)?;
            self.reserved = needed;
        }
        Ok(())
    }

    /// Reserves memory for an event before it is parsed.
    fn reserve_parsed(&self, event: &[u8]) -> Result<Option<Arc<BufferReservation>>, Error> {
        let Some(buffered) = self.buffered.map(BufferReservation::part) else { return Ok(None) };
        buffered.reserve(self.reader.parsed_bytes(event))?;
        Ok(Some(buffered))
    }
}
