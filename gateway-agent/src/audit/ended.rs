//! How calls end, in the words of the audit.
//!
//! Deliberately absent: what callers are told; `respond` has that.

use crate::{composition::Cause, pipeline::Error, upstream};

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With a result.
    Ok,
    /// With a result in which the tool says that it failed.
    ToolError,
    /// The policy refused it.
    Denied,
    /// What the caller sent was refused.
    InvalidInput,
    /// What the upstream sent was refused.
    InvalidOutput,
    /// The gateway is not set up for it.
    Misconfigured,
    /// The upstream gave no result.
    UpstreamFailed,
    /// The upstream took too long.
    UpstreamTimeout,
    /// Too much waits for the upstream or of its caller, it is spared, or it was stopped.
    UpstreamBusy,
    /// The caller went away.
    Cancelled,
}

impl Ended {
    /// How many ways there are.
    pub(super) const COUNT: usize = Self::Cancelled as usize + 1;

    /// As audit, metrics and spans write it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool-error",
            Self::Denied => "denied",
            Self::InvalidInput => "invalid-input",
            Self::InvalidOutput => "invalid-output",
            Self::Misconfigured => "misconfigured",
            Self::UpstreamFailed => "upstream-failed",
            Self::UpstreamTimeout => "upstream-timeout",
            Self::UpstreamBusy => "upstream-busy",
            Self::Cancelled => "cancelled",
        }
    }

    /// How a call that failed ended.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::Denied(_) | Error::Upstream(upstream::Error::NoSubject { .. }) => Self::Denied,
            Error::Mirror(_)
            | Error::Arguments(_)
            | Error::HiddenField { .. }
            | Error::Incapable { .. }
            | Error::NothingWaits
            | Error::TaskSupport { .. }
            | Error::InvalidInput { .. } => Self::InvalidInput,
            Error::Composition(failed) => match &*failed.failure.cause {
                Cause::Call { error, .. } => Self::of(error),
                Cause::Timeout { .. } => Self::UpstreamTimeout,
                _ => Self::ToolError,
            },
            Error::NoCatalog
            | Error::UnusableSchema { .. }
            | Error::MissingVariable { .. }
            | Error::Upstream(upstream::Error::NotConfigured { .. }) => Self::Misconfigured,
            Error::InvalidOutput { .. } | Error::Projection(_) | Error::EndlessInput { .. } => {
                Self::InvalidOutput
            }
            Error::Upstream(upstream::Error::Timeout { .. }) => Self::UpstreamTimeout,
            Error::Upstream(
                upstream::Error::Exhausted(_)
                | upstream::Error::Spared(_)
                | upstream::Error::Crowded(_)
                | upstream::Error::NoTurn(_)
                | upstream::Error::Overloaded(_)
                | upstream::Error::Stopped { .. },
            ) => Self::UpstreamBusy,
            Error::Upstream(
                upstream::Error::Unavailable { .. }
                | upstream::Error::Ended { .. }
                | upstream::Error::Refused { .. }
                | upstream::Error::NoCredentials(_)
                | upstream::Error::TooLarge { .. }
                | upstream::Error::Protocol { .. }
                | upstream::Error::OpenTask { .. }
                | upstream::Error::Rpc { .. },
            ) => Self::UpstreamFailed,
        }
    }
}
