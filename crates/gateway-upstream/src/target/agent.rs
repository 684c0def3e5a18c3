//! Sends one operation of a caller to an agent: queue, time limit, and the effects of the outcome on the
//! target's state. The place in the queue is held until the end of a stream.

use a2a::Operation;
use gateway_policy::Permit;
use serde_json::Value;

use super::{
    super::{a2a::EventSink, error::Error, request::AgentRequest},
    Target,
};

impl Target {
    /// Sends an operation and waits for its result, or for the end of its stream. Once an event has
    /// arrived, the circuit breaker counts a success.
    pub(in super::super) async fn send_to_agent(
        &self,
        permit: Permit,
        request: AgentRequest<'_>,
    ) -> Result<Value, Error> {
        let link = self.link.agent()?;
        let limit = self.limit(request.timeout);
        let AgentRequest { quota_key, context, .. } = &request;
        let _place = match request.request.operation {
            Operation::GetTask | Operation::CancelTask => {
                self.wait_for_task_permit(quota_key, context, limit).await?
            }
            _ => self.wait_for_permit(quota_key, context, limit).await?,
        };
        // Checked after the queue, because other requests may have failed meanwhile.
        let breaker_permit = self.breaker.acquire()?;
        let sink = request.events.map(|events| EventSink::new(events, &breaker_permit, limit));
        let sending = link.send(permit.subject(), request, limit, sink.as_ref());
        let stopped = self.stop.cancelled();
        let outcome = tokio::select! {
            outcome = Box::pin(sending) => outcome,
            // Other requests may finish; streams would not.
            () = stopped, if sink.is_some() => Err(Error::Stopped { server: permit.server().clone() }),
        };
        let has_events = sink.as_ref().is_some_and(EventSink::has_events);
        if !has_events && !outcome.as_ref().is_err_and(Error::is_local) {
            breaker_permit.record(outcome.as_ref().is_err_and(Error::is_failure));
        }
        self.check_after(&outcome);
        outcome
    }
}
