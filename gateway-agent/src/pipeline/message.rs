//! The messages of errors for callers. Models read them, so they say what to do next.
//!
//! The logs keep the errors' own texts instead.

mod credentials;
mod words;

use std::borrow::Cow;

pub(crate) use self::words::unfinished;
use gateway_policy::Denial;
use gateway_upstream::Phase;

use super::Error;

/// The message while the gateway has no catalog.
pub(crate) const NO_CATALOG: &str =
    "no catalog yet; the gateway has not got one from its registry, try again later";

/// Returns the message of an error for the caller of `tool`.
pub(crate) fn of<'a>(tool: &str, error: &'a Error) -> Cow<'a, str> {
    match error {
        Error::NoCatalog => NO_CATALOG.into(),
        Error::Denied(Denial::Quarantined) => words::quarantined(tool).into(),
        Error::Denied(Denial::Stale(stale)) => format!("{tool} was not called: {stale}").into(),
        // The caller must not learn whether the tool exists.
        Error::Denied(_) => format!("Unknown tool: {tool}").into(),
        Error::Scopes(refusal) => refusal.to_string().into(),
        Error::Mirror(mismatch) => mismatch.to_string().into(),
        Error::Arguments(invalid) => invalid.to_string().into(),
        Error::HiddenField { pointer } => {
            format!("Invalid arguments for {tool}: {pointer} is not an argument of this tool.")
                .into()
        }
        Error::InvalidInput { violations } => words::invalid_input(tool, violations).into(),
        Error::UnusableSchema { .. } => {
            format!("the registered input schema of {tool} cannot be used, so nothing was called")
                .into()
        }
        Error::MissingVariable { name, pointer } => format!(
            "the gateway has no value for the variable {name}, which the default of {pointer} \
             needs; nothing was called"
        )
        .into(),
        Error::InvalidOutput { violations } => words::invalid_output(tool, violations).into(),
        Error::Composition(failed) => words::unfinished(tool, &failed.failure).into(),
        Error::Projection(failure) => words::unprojected(tool, failure).into(),
        Error::Incapable { .. } => error.to_string().into(),
        Error::EndlessInput { .. } => {
            format!("{tool} asked for input again and again; it was given up.").into()
        }
        Error::NothingWaits => {
            "nothing waits for this input any more; make the request again without it".into()
        }
        Error::TaskSupport { is_required: true } => format!(
            "{tool} must be called as a task (execution.taskSupport is required): send \
             params.task, with a client of protocol version 2025-11-25"
        )
        .into(),
        Error::TaskSupport { is_required: false } => {
            format!("{tool} cannot be called as a task: send the call without params.task").into()
        }
        Error::Upstream(error) => of_upstream(tool, error),
    }
}

fn of_upstream<'a>(tool: &str, error: &'a gateway_upstream::Error) -> Cow<'a, str> {
    let text = match error {
        gateway_upstream::Error::NotConfigured { server } => {
            format!("no target is configured for {server}; nothing was called")
        }
        gateway_upstream::Error::Rpc { message, .. } => return message.as_str().into(),
        gateway_upstream::Error::Exhausted(why) => words::exhausted(tool, why),
        gateway_upstream::Error::Spared(open) => format!(
            "The server behind {tool} has failed again and again and is spared; nothing was \
             done. Try again in {} s.",
            open.retry_after.as_millis().div_ceil(1_000)
        ),
        gateway_upstream::Error::Overloaded(overloaded) => format!(
            "The server behind {tool} has too much to do: {overloaded}. Nothing was done. Try again \
             later."
        ),
        gateway_upstream::Error::Crowded(crowded) => format!(
            "The server behind {tool} works for {} other callers, and for no more at once. Nothing \
             was done. Try again later.",
            crowded.most
        ),
        gateway_upstream::Error::NoTurn(why) => format!("{tool} was not called: {why}."),
        gateway_upstream::Error::Stopped { .. } => format!(
            "The server behind {tool} was stopped by an operator of the gateway; nothing was done."
        ),
        gateway_upstream::Error::Unavailable { .. } => {
            format!(
                "The server behind {tool} cannot be reached; nothing was done. Try again later."
            )
        }
        gateway_upstream::Error::Ended { how } => format!(
            "The server behind {tool} stopped before it answered: {how}. Whether the tool did its \
             work is unknown. The gateway starts the server again; check what was done before you \
             call the tool again."
        ),
        gateway_upstream::Error::NoCredentials(none) => credentials::none(tool, &none.why),
        gateway_upstream::Error::NoSubject { .. } => credentials::nobody(tool),
        gateway_upstream::Error::Refused { status } => {
            format!(
                "The server behind {tool} refused the gateway (HTTP {status}); nothing was done."
            )
        }
        gateway_upstream::Error::Timeout { phase: Phase::Connect | Phase::List, after_ms } => {
            format!("The server behind {tool} did not answer in {after_ms} ms; nothing was done.")
        }
        gateway_upstream::Error::Timeout { phase: Phase::Call, after_ms } => {
            format!("{tool} gave no result in {after_ms} ms. Whether it did its work is not known.")
        }
        gateway_upstream::Error::TooLarge { limit_bytes } => {
            format!("The result of {tool} is longer than {limit_bytes} bytes and was refused.")
        }
        gateway_upstream::Error::OpenTask { why, said } => {
            words::open_task(tool, why, said.as_deref())
        }
        gateway_upstream::Error::Protocol { what } => words::broken(tool, what),
    };
    text.into()
}
