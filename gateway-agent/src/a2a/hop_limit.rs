//! The limit that stops loops of agents without a policy.
//!
//! The number of passed gateways is in the trace state, which agents propagate with OpenTelemetry.
//! The messages of agents that propagate only `traceparent` are counted by trace, principal and agent, so
//! that no caller exhausts the limit of another one.

use std::time::Instant;

use a2a::{ErrorKind, Failure};
use gateway_policy::Traces;
use gateway_protocol::trace_context::{TraceContext, state_member, with_state_member};
use registry_core::{Amount, Digest};
use serde::Serialize;

use crate::pipeline::TaskOwner;

/// The key of the number of hops in `tracestate`.
const KEY: &str = "agent-gateway-hops";
/// A principal can send this many messages without a number of hops to an agent in one trace, per
/// permitted hop.
const MESSAGES_PER_HOP: u32 = 16;

/// The ends of a message.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct HopRoute<'a> {
    pub(super) sender: Option<TaskOwner>,
    /// The name of the agent that receives it.
    pub(super) agent: &'a str,
}

/// Counts the messages of traces. The table is bounded and forgets idle traces.
#[derive(Debug, Default)]
pub(super) struct HopLimit {
    messages: Traces,
}

impl HopLimit {
    /// Counts a message, and writes the number of hops for the next gateway. Returns the number of
    /// hops before, if the message has it. A message without a parent starts a trace.
    pub(super) fn count(
        &self,
        trace: &mut TraceContext,
        route: HopRoute<'_>,
        limit: u32,
        now: Instant,
    ) -> Result<Option<u32>, Failure> {
        let Some(parent) = trace.parent else { return Ok(None) };
        let state = trace.state.as_deref();
        let hops = state.and_then(|state| state_member(state, KEY)?.parse::<u32>().ok());
        if let Some(hops) = hops {
            if hops >= limit {
                let message = format!(
                    "the message passed {hops} gateways, and `limits.hops` is {limit}: agents call \
                     each other in a loop; end it, or raise the limit"
                );
                return Err(exceeded(message));
            }
        } else {
            let most = limit.saturating_mul(MESSAGES_PER_HOP);
            let trace = parent.trace.to_string();
            // These values always serialize.
            let counted = serde_json::to_vec(&(&trace, route)).unwrap_or_default();
            let key = Digest::compute(&counted).as_bytes().first_chunk().copied();
            let key = u128::from_be_bytes(key.unwrap_or_default());
            if self.messages.count(key, Amount::ZERO, now).calls > most {
                let agent = route.agent;
                let message = format!(
                    "the caller has sent {most} messages to `{agent}` without `{KEY}` in tracestate \
                     in trace {trace}, the maximum for `limits.hops` {limit}: end the loop if agents \
                     call each other, propagate tracestate, or raise the limit"
                );
                return Err(exceeded(message));
            }
        }
        let next = hops.unwrap_or_default().saturating_add(1).to_string();
        trace.state = Some(with_state_member(state, (KEY, &next)).into());
        Ok(hops)
    }
}

fn exceeded(message: String) -> Failure {
    Failure::new(ErrorKind::ResourceExhausted, message).with_reason("HOP_LIMIT_EXCEEDED")
}

#[cfg(test)]
mod tests {
    use gateway_policy::Principal;
    use gateway_protocol::trace_context::Parent;

    use super::*;

    const ROUTE: HopRoute<'static> = HopRoute { sender: None, agent: "helper" };
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn trace(parent: Option<&str>, state: Option<&str>) -> TraceContext {
        let (parent, state) = (parent.and_then(Parent::parse), state.map(Into::into));
        TraceContext { parent, state, baggage: None }
    }

    #[test]
    fn hops_in_trace_state_are_limited() {
        let (limit, now) = (HopLimit::default(), Instant::now());
        let mut passed = trace(Some(PARENT), Some("v=1"));
        for hops in [None, Some(1), Some(2)] {
            assert_eq!(limit.count(&mut passed, ROUTE, 3, now).unwrap(), hops);
        }
        assert_eq!(passed.state.as_deref(), Some("agent-gateway-hops=3,v=1"));
        let error = limit.count(&mut passed, ROUTE, 3, now).unwrap_err();
        assert_eq!(error.reason.as_deref(), Some("HOP_LIMIT_EXCEEDED"));
    }

    #[test]
    fn messages_without_trace_state_are_limited_by_route() {
        let (limit, now) = (HopLimit::default(), Instant::now());
        let sent = |state, route| limit.count(&mut trace(Some(PARENT), state), route, 1, now);
        let count = |state| sent(state, ROUTE);
        for _ in 0..MESSAGES_PER_HOP {
            assert_eq!(count(None).unwrap(), None);
        }
        for state in [None, Some("v=1"), Some("agent-gateway-hops=x")] {
            assert!(count(state).is_err(), "{state:?}");
        }
        for _ in 0..=MESSAGES_PER_HOP {
            assert!(limit.count(&mut trace(None, None), ROUTE, 1, now).is_ok(), "a new trace");
        }
        let sender = Some(TaskOwner::from(Principal::Agent("other")));
        for other in [HopRoute { sender, ..ROUTE }, HopRoute { agent: "planner", ..ROUTE }] {
            assert!(sent(None, other).is_ok(), "{other:?}");
        }
    }
}
