//! Sends one request of a caller: queue, time limit, retries, and the effects of the outcome on the
//! target's state.

use std::{
    future::pending,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use gateway_policy::{Permit, QuotaExceeded, QuotaKey};
use gateway_protocol::mcp::{Method, RawResult};
use http::{HeaderName, HeaderValue};
use retry_backoff::jittered;
use tokio::time::timeout;

use super::{
    super::{
        client_channel::ClientChannel,
        concurrency::{ConcurrencyLimit, ConcurrencyPermit},
        error::{Error, Phase},
        in_flight::InFlight,
        message::Outgoing,
        reply::read_result,
        request::{Request, RequestContext, ResendApproval},
        send_state::SendState,
    },
    MAX_REQUEST_TIME, Target,
};

/// The delay before a retry, unless the request has its own.
const RETRY_DELAY: Duration = Duration::from_millis(50);

impl Target {
    /// Sends a caller's request and waits for its result. The time limit applies separately to
    /// queueing and to the call. The request is passed by reference, here and below, because each of the
    /// nested futures would contain a copy.
    pub(in super::super) async fn send(
        &self,
        permit: &Permit,
        request: &Request<'_>,
    ) -> Result<RawResult, Error> {
        let (quota_key, context) = (request.quota_key, request.context);
        let _place = self.wait_for_permit(quota_key, context, self.limit(request.timeout)).await?;
        let started = Instant::now();
        // Checked after the queue, because other requests may have failed meanwhile.
        let breaker_permit = self.breaker.acquire()?;
        let in_flight =
            Arc::new(InFlight::new(breaker_permit, &self.quotas, request.quota_key.clone()));
        let channel = request.channel.map(|channel| channel.for_request(&in_flight));
        let request = Request { channel: channel.as_ref(), ..*request };
        let outcome = self.send_within_limit(permit.subject(), &request, started).await;
        // A request that timed out while waiting for answers has proved that the upstream is alive.
        let is_local = |error: &Error| {
            error.is_local() || (in_flight.has_asked() && matches!(error, Error::Timeout { .. }))
        };
        if !outcome.as_ref().is_err_and(is_local) {
            in_flight.record(outcome.as_ref().is_err_and(Error::is_failure));
        }
        self.check_after(&outcome);
        outcome
    }

    /// Requests a check of a target that was not reached while it is up, or reached while it is
    /// down. A successful call does not prove that the lists are complete.
    pub(super) fn check_after<T>(&self, outcome: &Result<T, Error>) {
        let contradicts_state = match outcome {
            Ok(_) => self.is_unreachable.load(Ordering::Relaxed),
            Err(error) => error.is_about_reach() && self.is_up(),
        };
        if contradicts_state {
            self.check();
        }
    }

    /// Waits for a place, at most for the time limit of the call. An unidentified caller counts by
    /// its network address.
    pub(super) async fn wait_for_permit(
        &self,
        quota_key: &QuotaKey,
        context: &RequestContext,
        limit: Duration,
    ) -> Result<ConcurrencyPermit<'_>, Error> {
        self.wait_at(&self.gate, (quota_key, context), limit).await
    }

    /// Waits for a place, or for one of the reserve if all others are taken.
    pub(super) async fn wait_for_task_permit(
        &self,
        quota_key: &QuotaKey,
        context: &RequestContext,
        limit: Duration,
    ) -> Result<ConcurrencyPermit<'_>, Error> {
        self.wait_at(&self.task_gate, (quota_key, context), limit).await
    }

    async fn wait_at<'a>(
        &'a self,
        gate: &'a ConcurrencyLimit,
        (quota_key, context): (&QuotaKey, &RequestContext),
        limit: Duration,
    ) -> Result<ConcurrencyPermit<'a>, Error> {
        let caller = if quota_key.is_some() { quota_key } else { context.payer() };
        if let Some(place) = self.gate.try_enter(caller) {
            return Ok(place);
        }
        // Boxed, because most requests do not wait.
        let waited = Box::pin(timeout(limit, gate.enter(caller))).await;
        Ok(waited.unwrap_or_else(|_| Err(gate.overloaded()))?)
    }

    async fn send_within_limit(
        &self,
        subject: &str,
        request: &Request<'_>,
        started: Instant,
    ) -> Result<RawResult, Error> {
        let send_state = SendState::default();
        // Boxed, because steps of compositions nest these futures.
        let mut attempt = Box::pin(self.attempt_with_retry(subject, (request, &send_state)));
        let mut limit = self.time_limit(request);
        loop {
            let left = limit.saturating_sub(started.elapsed());
            let outcome = tokio::select! {
                biased;
                why = quota_exceeded(request.channel) => return Err(why.into()),
                outcome = timeout(left, &mut attempt) => outcome,
            };
            match outcome {
                Ok(outcome) => return outcome,
                Err(_) if self.time_limit(request) > limit => limit = self.time_limit(request),
                Err(_) => {
                    let after_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                    // A request that was not sent by now never is.
                    let phase =
                        if send_state.cancel_if_unsent() { Phase::Connect } else { Phase::Call };
                    return Err(Error::Timeout { phase, after_ms });
                }
            }
        }
    }

    /// Retries once if that is safe: nothing was sent, or the connection was lost, the request is
    /// repeatable, and its resend is approved.
    async fn attempt_with_retry(
        &self,
        subject: &str,
        (request, send_state): (&Request<'_>, &SendState),
    ) -> Result<RawResult, Error> {
        let is_approved = || request.resend.is_none_or(ResendApproval::approve);
        let is_safe = |error: &Error| {
            error.is_unsent() || (request.is_repeatable && error.is_lost() && is_approved())
        };
        let first = match self.attempt(subject, (request, send_state)).await {
            Err(error) if is_safe(&error) => error,
            outcome => return outcome,
        };
        let delay = request.context.retry_delay.unwrap_or_else(|| jittered(RETRY_DELAY));
        tokio::time::sleep(delay).await;
        let second = Box::pin(self.attempt(subject, (request, send_state))).await;
        // A second attempt that was not sent does not prove that the first did not run.
        let hides_first = |error: &Error| {
            first.may_have_run() && !error.may_have_run() && !matches!(error, Error::Rpc { .. })
        };
        if second.as_ref().is_err_and(hides_first) { Err(first) } else { second }
    }

    /// The time limit of a request; each question to the caller extends it.
    fn time_limit(&self, request: &Request<'_>) -> Duration {
        let limit = self.limit(request.timeout);
        let questions = request.channel.map_or(0, ClientChannel::questions);
        limit.max(MAX_REQUEST_TIME.min(limit + self.timing.answer.saturating_mul(questions)))
    }

    /// The timeout of a request, or that of all calls.
    pub(super) fn limit(&self, timeout: Option<Duration>) -> Duration {
        timeout.unwrap_or(Duration::from_millis(self.limits.call_timeout_ms))
    }

    async fn attempt(
        &self,
        subject: &str,
        (request, send_state): (&Request<'_>, &SendState),
    ) -> Result<RawResult, Error> {
        let outgoing = Outgoing::Asked { subject, request: *request, send_state: Some(send_state) };
        let mirrored = self.mirrored(subject, request);
        let (mut reply, mut era) = self.link.request(&outgoing, &mirrored).await?;
        if reply.is_header_mismatch() {
            Box::pin(self.list()).await?;
            let mirrored = self.mirrored(subject, request);
            (reply, era) = Box::pin(self.link.request(&outgoing, &mirrored)).await?;
        }
        read_result(reply.into_result()?, era, request)
    }

    /// The headers of the mirrored arguments. Most tools mirror none.
    fn mirrored(&self, tool: &str, request: &Request<'_>) -> Vec<(HeaderName, HeaderValue)> {
        let is_call = request.method == Method::CallTool;
        let Some(arguments) = request.arguments.filter(|_| is_call) else { return Vec::new() };
        let tools = self.tools.load();
        tools.mirrors(tool).iter().filter_map(|mirror| mirror.header(arguments)).collect()
    }
}

/// Resolves when an exceeded quota ends the request.
async fn quota_exceeded(channel: Option<&ClientChannel>) -> QuotaExceeded {
    match channel {
        Some(channel) => channel.quota_exceeded().await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use gateway_protocol::naming::Prefix;

    use super::*;
    use crate::{
        TargetConfig, TargetId, UpstreamLimits, Upstreams, tests::http_at, timing::Timing,
    };

    #[tokio::test]
    async fn successful_call_checks_unreachable_target() {
        let server: TargetId = "server/a@1.0.0".parse().unwrap();
        let config = TargetConfig {
            server: server.clone(),
            prefix: Prefix::parse("").unwrap(),
            exposes: None,
            tenant: None,
            transport: http_at("http://127.0.0.1:1/"),
            timeout: None,
            auto_start: true,
        };
        // The gateway itself fetches no lists during the test.
        let delay = Duration::from_mins(10);
        let timing = Timing { retry_first: delay, retry_longest: delay, ..Timing::default() };
        let upstreams = Upstreams::start_with(&[config], UpstreamLimits::default(), timing);
        let target = upstreams.targets.running().next().unwrap();
        let mut definitions = upstreams.definitions();
        definitions.wait_for(|all| !all.is_target_available(&server)).await.unwrap();
        let is_checked = || target.publisher.refreshed().now_or_never().is_some();
        assert!(!is_checked());
        target.check_after(&Ok(()));
        assert!(is_checked());

        target.change_state(Err(Error::TooLarge { limit_bytes: 1 }));
        target.check_after(&Ok(()));
        assert!(!is_checked(), "a call does not prove that the lists have a valid size");
        target.change_state(Ok(()));
        target.check_after(&Ok(()));
        assert!(!is_checked(), "the target is up");
    }
}
