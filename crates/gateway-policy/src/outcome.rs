//! The outcome of an operation, as audit, metrics and spans record it.

/// The outcome of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// A result.
    Ok,
    /// A result with `isError`.
    ToolError,
    /// A result that asks the client for input. The client repeats the request with it.
    InputRequired,
    /// Denied by the policy.
    Denied,
    /// Invalid input of the caller.
    InvalidInput,
    /// Invalid output of the upstream.
    InvalidOutput,
    /// A configuration error of the gateway or the registry.
    Misconfigured,
    /// An error of the upstream.
    UpstreamFailed,
    /// A timeout of the upstream.
    UpstreamTimeout,
    /// A full queue, an exhausted quota, an open circuit breaker or a stopped target.
    UpstreamBusy,
    /// Cancelled by the caller.
    Cancelled,
}

impl CallOutcome {
    /// The number of outcomes.
    pub const COUNT: usize = Self::Cancelled as usize + 1;

    /// The name in audit, metrics and spans.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool-error",
            Self::InputRequired => "input-required",
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
}
