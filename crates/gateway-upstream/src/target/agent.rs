//! Sends one operation of a caller to an agent: queue, time limit, and the effects of the outcome on the
//! target's state. The place in the queue is held until the end of a stream.

use std::{future::pending, pin::pin, time::Duration};

use a2a::Operation;
use futures_util::future::OptionFuture;
use gateway_policy::Permit;
use serde_json::Value;
use tokio::sync::SetOnce;

use super::{
    super::{a2a::EventSink, error::Error, poll_on_wake::PollOnWake, request::AgentRequest},
    Target,
};

impl Target {
    /// Sends an operation and waits for its result, or for the end of its stream. The circuit breaker
    /// counts a success once an event has arrived, and a failure once an answer is late.
    pub(in super::super) async fn send_to_agent(
        &self,
        permit: Permit,
        request: AgentRequest<'_>,
    ) -> Result<Value, Error> {
        let link = self.link.agent()?;
        let limit = self.limit(request.timeout);
        let AgentRequest { quota_key, context, events, late, .. } = request;
        let _place = match request.request.operation {
            Operation::GetTask | Operation::CancelTask => {
                self.wait_for_task_permit(quota_key, context, limit).await?
            }
            _ => self.wait_for_permit(quota_key, context, limit).await?,
        };
        // Checked after the queue, because other requests may have failed meanwhile.
        let breaker_permit = self.breaker.acquire()?;
        let sends_first =
            request.request.operation.sends_message() && request.request.task_id().is_none();
        let late_task = late.filter(|_| sends_first);
        let sink =
            events.map(|events| EventSink::new(events, Some(&breaker_permit), limit, late_task));
        let mut sending = Box::pin(link.send(permit.subject(), request, limit, sink.as_ref()));
        // Other requests may finish; streams would not.
        let stopped = sink.as_ref().map(|_| PollOnWake::new(self.stop.cancelled()));
        let mut stopped = pin!(OptionFuture::from(stopped));
        let mut is_late = false;
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut sending => break outcome,
                Some(()) = &mut stopped => {
                    break Err(Error::Stopped { server: permit.server().clone() });
                }
                () = expired(late), if !is_late => {
                    breaker_permit.record(true);
                    is_late = true;
                }
            }
        };
        let is_recorded = is_late || sink.as_ref().is_some_and(EventSink::has_events);
        if !is_recorded && !outcome.as_ref().is_err_and(Error::is_local) {
            breaker_permit.record(outcome.as_ref().is_err_and(Error::is_failure));
        }
        self.check_after(&outcome);
        outcome
    }
}

/// Resolves when the time limit of an answer has expired.
async fn expired(late: Option<&SetOnce<Duration>>) {
    match late {
        Some(late) => {
            late.wait().await;
        }
        None => pending().await,
    }
}
