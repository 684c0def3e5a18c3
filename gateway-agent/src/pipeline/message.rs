//! Error messages for callers. Models read them, so each message names the remedy.
//!
//! The logs contain the texts of the errors themselves.

mod credentials;
mod words;

use std::borrow::Cow;

pub(crate) use self::words::{denied, failed_composition};
use gateway_policy::Denial;
use gateway_upstream::Phase;

use super::Error;

pub(crate) const NO_CATALOG: &str =
    "no catalog yet: the gateway has not received one from its registry; retry later";

pub(crate) fn for_caller<'a>(tool: &str, error: &'a Error) -> Cow<'a, str> {
    match error {
        Error::NoCatalog => NO_CATALOG.into(),
        Error::Denied(Denial::Quarantined) => words::quarantined(tool).into(),
        Error::Denied(Denial::Stale(stale)) => format!("{tool} was not called: {stale}").into(),
        // The caller must not learn whether the tool exists.
        Error::Denied(_) => format!("Unknown tool: {tool}").into(),
        Error::Retired(retired) => words::retired(retired).into(),
        Error::Policy(denial) => words::denied(tool, denial).into(),
        Error::Scopes(refusal) => refusal.to_string().into(),
        Error::HeaderMismatch(mismatch) => mismatch.to_string().into(),
        Error::Arguments(invalid) => format!("Invalid arguments for {tool}: {invalid}").into(),
        Error::HiddenField { pointer } => {
            format!("Invalid arguments for {tool}: {pointer} is not an argument of this tool.")
                .into()
        }
        Error::UnknownPlaceholder { placeholder } => format!(
            "Invalid arguments for {tool}: the gateway did not issue the placeholder {placeholder} to \
             this caller, or it has expired. Request the value again."
        )
        .into(),
        Error::InvalidInput { violations } => words::invalid_input(tool, violations).into(),
        Error::UnusableSchema { .. } => {
            format!("The registered input schema of {tool} is invalid, so the tool was not called. Report this \
                 to the tool's owner.")
                .into()
        }
        Error::MissingVariable { name, pointer } => format!(
            "The gateway has no value for the variable {name}, which the default of {pointer} requires. \
             {tool} was not called. Report this to the gateway's operator."
        )
        .into(),
        Error::InvalidOutput { violations } => words::invalid_output(tool, violations).into(),
        Error::Composition(failed) => words::failed_composition(tool, failed).into(),
        Error::Projection(failure) => words::failed_projection(tool, failure).into(),
        Error::MissingCapability { .. } => error.to_string().into(),
        Error::TooManyInputRounds { .. } => {
            format!("{tool} requested input too many times, and the call was stopped. The outcome of the call is unknown.").into()
        }
        Error::UnknownInput => {
            "no operation is waiting for this input; repeat the request without it".into()
        }
        Error::TaskSupport { is_required: true } => format!(
            "{tool} must be called as a task (execution.taskSupport is required): send \
             params.task, with a client of protocol version 2025-11-25"
        )
        .into(),
        Error::TaskSupport { is_required: false } => {
            format!("{tool} cannot be called as a task: send the call without params.task").into()
        }
        Error::Agent(failure) => failure.message.as_str().into(),
        Error::Upstream(error) => upstream_error(tool, error),
    }
}

fn upstream_error<'a>(tool: &str, error: &'a gateway_upstream::Error) -> Cow<'a, str> {
    let text = match error {
        gateway_upstream::Error::NotConfigured { server } => {
            format!(
                "No target is configured for {server}. The call was not made. Report this to the gateway's operator."
            )
        }
        gateway_upstream::Error::Rpc { message, .. } => return message.as_str().into(),
        gateway_upstream::Error::Agent(failure) => return failure.message.as_str().into(),
        gateway_upstream::Error::QuotaExceeded(why) => words::quota_exceeded(tool, why),
        gateway_upstream::Error::CircuitOpen(open) => format!(
            "{tool} is temporarily unavailable: its server keeps failing and the circuit breaker is \
             open. The call was not made. Retry in {} s.",
            open.retry_after.as_millis().div_ceil(1_000)
        ),
        gateway_upstream::Error::LimitReached(overloaded) => format!(
            "The server behind {tool} is overloaded: {overloaded}. The call was not made. Retry \
             later."
        ),
        gateway_upstream::Error::ChildLimitReached(crowded) => format!(
            "The server behind {tool} already serves {} other callers, which is its limit. The call \
             was not made. Retry later.",
            crowded.most
        ),
        gateway_upstream::Error::CallNotStarted(why) => format!("{tool} was not called: {why}."),
        gateway_upstream::Error::Stopped { .. } => format!(
            "An operator of the gateway stopped the server behind {tool}. The call was not made."
        ),
        gateway_upstream::Error::Unavailable { .. } => {
            format!(
                "The server behind {tool} cannot be reached. The call was not made. Retry later."
            )
        }
        gateway_upstream::Error::Ended { how } => format!(
            "The server behind {tool} stopped before it responded: {how}. The outcome of the call is unknown. The gateway restarts the server. Check the effects of the call before \
             you repeat it."
        ),
        gateway_upstream::Error::MissingToken(none) => credentials::missing_token(tool, &none.why),
        gateway_upstream::Error::NoSubject { .. } => credentials::missing_subject(tool),
        gateway_upstream::Error::Refused { status } => {
            format!(
                "The server behind {tool} rejected the gateway's request (HTTP {status}). The call was not made. Report this to the gateway's operator."
            )
        }
        gateway_upstream::Error::Timeout {
            phase: Phase::Connect | Phase::Handshake | Phase::HealthCheck | Phase::List,
            after_ms,
        } => {
            format!(
                "The server behind {tool} did not respond within {after_ms} ms. The call was not made. Retry later."
            )
        }
        gateway_upstream::Error::Timeout { phase: Phase::Call, after_ms } => {
            format!(
                "{tool} returned no result within {after_ms} ms. The outcome of the call is unknown."
            )
        }
        gateway_upstream::Error::Timeout { phase: Phase::Stream, after_ms } => {
            format!(
                "The stream of {tool} reached its limit of {after_ms} ms. The task continues: subscribe to it again."
            )
        }
        gateway_upstream::Error::TooLarge { limit_bytes } => {
            format!(
                "The result of {tool} exceeds {limit_bytes} bytes and was discarded. Request less data."
            )
        }
        gateway_upstream::Error::OpenTask { why, said } => {
            words::open_task(tool, why, said.as_deref())
        }
        gateway_upstream::Error::Protocol { what } => words::protocol_violation(tool, what),
    };
    text.into()
}
