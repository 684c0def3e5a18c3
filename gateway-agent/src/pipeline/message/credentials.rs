//! The messages about missing tokens. They omit where tokens come from.

use gateway_upstream::NoToken;

/// What an endpoint said is told by known words only.
pub(super) fn none(tool: &str, why: &NoToken) -> String {
    match why {
        NoToken::Refused { reason: Some(reason), .. } => format!(
            "The gateway was refused a token for the server behind {tool} ({reason}); nothing was \
             done. If that is about your own token, get another one; else tell the gateway's \
             operator."
        ),
        _ => format!(
            "The gateway could not get a token for the server behind {tool}; nothing was done. Try \
             again later."
        ),
    }
}

/// The server is called in the name of callers.
pub(super) fn nobody(tool: &str) -> String {
    format!(
        "{tool} needs a caller with a token: its server is called in the name of whoever calls, and \
         this request showed no token of an identity provider that says who that is (`sub`). \
         Nothing was done. Send such a token as `Authorization: Bearer`."
    )
}
