//! The answers of the server behind the gateways: some late, with an error, or never in time.

use std::time::Duration;

use gateway_testkit::{Received, Reply, late};
use serde_json::{Value, json};

use crate::rng::Rng;

/// The time limit of a call at the gateways, in milliseconds.
pub(crate) const CALL_TIMEOUT_MS: u64 = 700;

/// The answer to a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    Prompt,
    Late(Duration),
    Declined,
}

impl Answer {
    pub(crate) fn pick(rng: &mut Rng) -> Self {
        match rng.below(100) {
            0..75 => Self::Prompt,
            75..94 => Self::Late(Duration::from_millis(rng.between(5, 250))),
            94..98 => Self::Declined,
            // The outcome is unknown to the gateway.
            _ => Self::Late(Duration::from_millis(3 * CALL_TIMEOUT_MS)),
        }
    }

    /// Whether the gateway receives a result in time.
    pub(crate) fn is_result(self) -> bool {
        match self {
            Self::Prompt => true,
            Self::Late(delay) => delay < Duration::from_millis(CALL_TIMEOUT_MS),
            Self::Declined => false,
        }
    }

    /// The reply with a result.
    pub(crate) fn reply(self, received: &Received, result: &Value) -> Reply {
        match self {
            Self::Prompt => received.result(result),
            Self::Late(delay) => late(delay, received.result(result)),
            Self::Declined => declined(received),
        }
    }
}

/// The reply with an error.
pub(crate) fn declined(received: &Received) -> Reply {
    received.error(200, &json!({ "code": -32_000, "message": DECLINED }))
}

/// The message of the error.
pub(crate) const DECLINED: &str = "declined";
