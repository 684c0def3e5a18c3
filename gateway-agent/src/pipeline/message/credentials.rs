//! Messages about missing tokens. They do not reveal the token endpoints.

use gateway_upstream::TokenError;

/// Only error codes of OAuth are repeated; other texts of an endpoint could contain secrets.
pub(super) fn missing_token(tool: &str, why: &TokenError) -> String {
    match why {
        TokenError::Refused { reason: Some(reason), .. } => format!(
            "The gateway's request for a token for the server behind {tool} was rejected \
             ({reason}). The call was not made. If your own token has expired, get another one; \
             otherwise report this to the gateway's operator."
        ),
        _ => format!(
            "The gateway could not get a token for the server behind {tool}. The call was not made. \
             Retry later."
        ),
    }
}

/// The target uses token exchange, and the caller has no token to exchange.
pub(super) fn missing_subject(tool: &str) -> String {
    format!(
        "{tool} requires a caller with a token: its server is called on behalf of the caller, and this \
         request has no token of an identity provider with a subject (`sub`). The call was not made. \
         Send such a token as `Authorization: Bearer`."
    )
}
