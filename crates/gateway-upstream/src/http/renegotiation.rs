//! Decides whether a response invalidates the cached session or era.

use gateway_protocol::{jsonrpc::code, mcp::Era};
use http::StatusCode;

use super::{Error, Negotiation, Outgoing, PostResponse, answer, handshake};
use crate::reply::Reply;

/// The error code of the official SDKs for a missing session.
const SERVER_ERROR: i64 = -32_000;
/// The error code of the official SDKs for an expired session.
const SESSION_NOT_FOUND: i64 = -32_001;

/// Whether the session and the era must be negotiated again.
pub(super) fn must_renegotiate(
    era: Era,
    outgoing: &Outgoing<'_>,
    answer: &Result<PostResponse, Error>,
) -> bool {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return matches!(error, Error::Unavailable { .. }),
    };
    // Credentials and rate limits apply to every session, so a new one would be rejected too.
    if answer::is_refusal(answer.status) {
        return false;
    }
    // 404 means an expired session. Some servers report it with a JSON-RPC error, and some with
    // 400.
    let may_mean_session = matches!(
        answer.status,
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
    );
    let Some(Reply::Error(error)) = &answer.reply else {
        return answer.reply.is_none() && may_mean_session;
    };
    // Every server can list, so a failed list may have any cause.
    if matches!(outgoing, Outgoing::List { .. }) {
        return true;
    }
    match era {
        Era::Modern if error.code == code::UNSUPPORTED_PROTOCOL_VERSION => true,
        Era::Modern => may_mean_session && !is_modern(error.code),
        Era::Legacy => may_mean_session && is_about_session(error.code),
    }
}

/// Whether legacy servers use this code for unknown sessions. Other errors concern the request, so
/// they must not end a session that others use.
fn is_about_session(error: i64) -> bool {
    matches!(error, SERVER_ERROR | SESSION_NOT_FOUND | code::INVALID_REQUEST)
}

/// Whether a modern server uses this code, with such a status, for a request that it understood.
fn is_modern(error: i64) -> bool {
    matches!(
        error,
        code::HEADER_MISMATCH
            | code::MISSING_CLIENT_CAPABILITY
            | code::METHOD_NOT_FOUND
            | code::INVALID_PARAMS
    )
}

/// Decides the era from the response to `server/discover`, or from its absence.
pub(super) fn verdict(answer: Result<PostResponse, Error>) -> Result<Negotiation, Error> {
    match answer {
        Ok(PostResponse { reply: Some(reply), .. }) => Ok(handshake::after_discover(&reply)),
        Ok(PostResponse { status, .. }) if says_nothing(status) => {
            Err(answer::status_error(status))
        }
        Ok(_) | Err(Error::Protocol { .. }) => Ok(Negotiation::Legacy),
        Err(error) => Err(error),
    }
}

/// Whether the status comes from authentication, rate limits, overload or a broken proxy, which say
/// nothing about the era. 403 may concern the method: some servers allow only known ones.
fn says_nothing(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS)
        || (status.is_server_error() && status != StatusCode::INTERNAL_SERVER_ERROR)
}
