//! The event stream of an operation of a caller.
//!
//! Events keep their order. The agent waits while the caller does not read. A stream without a last
//! event ends with an error.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use a2a::{Dialect, Failure, model::Event, stream::EventReader};
use gateway_policy::BufferReservation;
use gateway_protocol::jsonrpc::Limits;
use http::Response;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::{sync::mpsc, time::timeout};

use super::{check::check_event, grpc};
use crate::{
    breaker::BreakerPermit,
    error::{Error, Phase, ProtocolViolation},
    http::{next_frame, read_rest},
};

/// Receives the events of one stream.
#[derive(Debug)]
pub(crate) struct EventSink<'a> {
    events: &'a mpsc::Sender<Value>,
    breaker: &'a BreakerPermit,
    /// Maximum time before the head of the response, and between two chunks.
    pub(super) limit: Duration,
    has_events: AtomicBool,
}

impl<'a> EventSink<'a> {
    pub(crate) fn new(
        events: &'a mpsc::Sender<Value>,
        breaker: &'a BreakerPermit,
        limit: Duration,
    ) -> Self {
        Self { events, breaker, limit, has_events: AtomicBool::new(false) }
    }

    /// Whether events arrived. The breaker then has counted a success.
    pub(crate) fn has_events(&self) -> bool {
        self.has_events.load(Ordering::Relaxed)
    }

    async fn send(&self, event: Value) -> Result<(), Error> {
        if !self.has_events.swap(true, Ordering::Relaxed) {
            self.breaker.record(false);
        }
        self.events.send(event).await.map_err(|_| ProtocolViolation::Closed.into())
    }
}

/// A stream that is being read.
#[derive(Debug)]
pub(super) struct EventStream<'a> {
    body: Incoming,
    reader: EventReader,
    limit_bytes: usize,
    buffered: Option<&'a BufferReservation>,
    /// Bytes of memory reserved for the events that arrived together.
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

    /// Reads all events.
    pub(super) async fn read(mut self, sink: &EventSink<'_>) -> Result<(), Error> {
        let limit_bytes = self.limit_bytes;
        let after_ms = u64::try_from(sink.limit.as_millis()).unwrap_or(u64::MAX);
        // Whether the stream may end after the events so far.
        let mut may_end = false;
        let mut task: Option<String> = None;
        loop {
            let frame = timeout(sink.limit, next_frame(&mut self.body)).await;
            let frame = frame.map_err(|_| Error::Timeout { phase: Phase::Call, after_ms })??;
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
            self.reader.push(&chunk).map_err(|_| Error::TooLarge { limit_bytes })?;
            self.reserve(&chunk)?;
            while let Some(event) = self.reader.next_event() {
                let event = event?;
                let view = check_event(&event)?;
                if let Some(id) = view.task_id()
                    && task.get_or_insert_with(|| id.to_owned()) != id
                {
                    return Err(Failure::invalid_answer("an event belongs to another task").into());
                }
                let is_last = view.is_last();
                may_end = is_last || is_waiting(view);
                sink.send(event).await?;
                if is_last {
                    read_rest(self.body);
                    return Ok(());
                }
            }
        }
    }

    /// Reserves memory for the parsed events of a chunk.
    fn reserve(&mut self, chunk: &[u8]) -> Result<(), Error> {
        let Some(buffered) = self.buffered else { return Ok(()) };
        let needed = self.reader.held_bytes() + self.reader.tree_bytes(chunk);
        buffered.reserve(needed.saturating_sub(self.reserved))?;
        self.reserved = self.reserved.max(needed);
        Ok(())
    }
}

/// Whether the task waits for its caller, so that the stream may end.
fn is_waiting(event: Event<'_>) -> bool {
    match event {
        Event::Task(task) => task.state().is_interrupted(),
        Event::Status { state, .. } => state.is_interrupted(),
        Event::Message(_) | Event::Artifact { .. } => false,
    }
}
