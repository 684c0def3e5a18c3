//! Sends one request of a caller: queue, time limit, retries, and the effects of the outcome on the
//! target's state.

use std::{
    future::pending,
    sync::Arc,
    time::{Duration, Instant},
};

use gateway_policy::{QuotaExceeded, Permit};
use gateway_protocol::{
    mcp::{Method, RawResult},
    trace_context,
};
use http::{HeaderName, HeaderValue};
use retry_backoff::jittered;
use tokio::time::timeout;

use super::{
    super::{
        departure::Departure,
        error::{Error, Phase},
        gate::Place,
        message::Outgoing,
        reply::read_result,
        request::Request,
        side::Side,
        visit::Visit,
    },
    LONGEST, Target,
};

/// The delay before a retry.
const AGAIN: Duration = Duration::from_millis(50);

impl Target {
    /// Sends a caller's request and waits for its result. The time limit applies separately to
    /// queueing and to the call.
    pub(in super::super) async fn send(
        &self,
        permit: Permit,
        request: Request<'_>,
    ) -> Result<RawResult, Error> {
        let _place = self.turn(&request).await?;
        let started = Instant::now();
        // Checked after the queue, because other requests may have failed meanwhile.
        let passing = self.breaker.pass()?;
        let visit = Arc::new(Visit::new(passing, &self.shares, request.principal.clone()));
        let side = request.side.map(|side| side.of(&visit));
        let request = Request { side: side.as_ref(), ..request };
        let outcome = self.timely(permit.subject(), request, started).await;
        // A request that timed out while waiting for answers has proved that the upstream is alive.
        let is_beside_it = |error: &Error| {
            error.is_beside_it() || (visit.has_asked() && matches!(error, Error::Timeout { .. }))
        };
        if !outcome.as_ref().is_err_and(is_beside_it) {
            visit.end(outcome.as_ref().is_err_and(Error::is_failure));
        }
        if outcome.as_ref().is_err_and(Error::is_about_reach) && self.is_up() {
            self.announcer.refresh();
        }
        outcome
    }

    /// Waits for a place, at most for the time limit of the call. An unidentified caller counts by
    /// its network address.
    async fn turn(&self, request: &Request<'_>) -> Result<Place<'_>, Error> {
        let caller = request.principal.as_ref().or(request.context.payer().as_ref()).cloned();
        if let Some(place) = self.gate.try_enter(&caller) {
            return Ok(place);
        }
        // Boxed, because most requests do not wait.
        let waited = Box::pin(timeout(self.limit(request), self.gate.enter(&caller))).await;
        Ok(waited.unwrap_or_else(|_| Err(self.gate.overloaded()))?)
    }

    async fn timely(
        &self,
        subject: &str,
        request: Request<'_>,
        started: Instant,
    ) -> Result<RawResult, Error> {
        let departure = Departure::default();
        // Boxed, because steps of compositions nest these futures.
        let mut attempt = Box::pin(self.attempt_twice(subject, (request, &departure)));
        let mut limit = self.patience(&request);
        loop {
            let left = limit.saturating_sub(started.elapsed());
            let outcome = tokio::select! {
                biased;
                why = refused(request.side) => return Err(why.into()),
                outcome = timeout(left, &mut attempt) => outcome,
            };
            match outcome {
                Ok(outcome) => return outcome,
                Err(_) if self.patience(&request) > limit => limit = self.patience(&request),
                Err(_) => {
                    let after_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                    // A request that was not sent by now never is.
                    let phase = if departure.call_off() { Phase::Connect } else { Phase::Call };
                    return Err(Error::Timeout { phase, after_ms });
                }
            }
        }
    }

    /// Retries once if that is safe: nothing was sent, or the connection was lost and the request
    /// is repeatable.
    async fn attempt_twice(
        &self,
        subject: &str,
        (request, departure): (Request<'_>, &Departure),
    ) -> Result<RawResult, Error> {
        let outcome = self.attempt(subject, (request, departure)).await;
        let is_safe =
            |error: &Error| error.is_unsent() || (request.is_repeatable && error.is_lost());
        if !outcome.as_ref().is_err_and(is_safe) {
            return outcome;
        }
        tokio::time::sleep(jittered(AGAIN)).await;
        Box::pin(self.attempt(subject, (request, departure))).await
    }

    /// The time limit of a request; each question to the caller extends it.
    fn patience(&self, request: &Request<'_>) -> Duration {
        let limit = self.limit(request);
        let questions = request.side.map_or(0, Side::questions);
        limit.max(LONGEST.min(limit + self.timing.answer.saturating_mul(questions)))
    }

    fn limit(&self, request: &Request<'_>) -> Duration {
        request.timeout.unwrap_or(Duration::from_millis(self.limits.call_timeout_ms))
    }

    async fn attempt(
        &self,
        subject: &str,
        (request, departure): (Request<'_>, &Departure),
    ) -> Result<RawResult, Error> {
        let outgoing = Outgoing::Asked { subject, request, departure: Some(departure) };
        let mirrored = self.mirrored(subject, &request);
        let (mut reply, mut era) = self.link.request(&outgoing, &mirrored).await?;
        if reply.is_header_mismatch() {
            Box::pin(self.list()).await?;
            let mirrored = self.mirrored(subject, &request);
            (reply, era) = Box::pin(self.link.request(&outgoing, &mirrored)).await?;
        }
        read_result(reply.into_result()?, era, &request)
    }

    /// The trace headers and the mirrored arguments. Most tools mirror none.
    fn mirrored(&self, tool: &str, request: &Request<'_>) -> Vec<(HeaderName, HeaderValue)> {
        let context = trace_context::headers(request.trace);
        if request.method != Method::CallTool {
            return context.collect();
        }
        let Some(arguments) = request.arguments else { return context.collect() };
        let tools = self.tools.load();
        context.chain(tools.mirrors(tool).iter().filter_map(|m| m.header(arguments))).collect()
    }
}

/// Resolves when an exceeded quota ends the request.
async fn refused(side: Option<&Side>) -> QuotaExceeded {
    match side {
        Some(side) => side.refused().await,
        None => pending().await,
    }
}
