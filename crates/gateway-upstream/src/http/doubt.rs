//! What an answer says about what is known of the upstream: which era it speaks, and whether that
//! is still true.

use gateway_protocol::{jsonrpc::code, mcp::Era};
use http::StatusCode;

use super::{Answer, Error, Outgoing, Verdict, answer, handshake};
use crate::reply::Reply;

/// The error code of the official SDKs for a missing session.
const SERVER_ERROR: i64 = -32_000;
/// The error code of the official SDKs for an expired session.
const SESSION_NOT_FOUND: i64 = -32_001;

/// Whether what is known about the upstream is in doubt.
pub(super) fn must_start_over(
    era: Era,
    outgoing: &Outgoing<'_>,
    answer: &Result<Answer, Error>,
) -> bool {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return matches!(error, Error::Unavailable { .. }),
    };
    // A refusal is about who asks or how often: a new session would only be refused like this one.
    if answer::is_refusal(answer.status) {
        return false;
    }
    // 404 means that the session has expired. Some servers say so in JSON-RPC, and some with 400.
    let may_mean_session = matches!(
        answer.status,
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
    );
    let Some(Reply::Error(error)) = &answer.reply else {
        return answer.reply.is_none() && may_mean_session;
    };
    // Listing is what every server can do for everybody, so its failure may mean anything.
    if matches!(outgoing, Outgoing::List { .. }) {
        return true;
    }
    match era {
        Era::Modern if error.code == code::UNSUPPORTED_PROTOCOL_VERSION => true,
        Era::Modern => may_mean_session && !is_modern(error.code),
        Era::Legacy => may_mean_session && is_about_session(error.code),
    }
}

/// Whether legacy servers answer with this code to a request in a session that they do not know.
/// Other errors are about the request, so they are no reason to end a session that others use.
fn is_about_session(error: i64) -> bool {
    matches!(error, SERVER_ERROR | SESSION_NOT_FOUND | code::INVALID_REQUEST)
}

/// Whether a modern server answers so, with such a status, to a request that it understood.
fn is_modern(error: i64) -> bool {
    matches!(
        error,
        code::HEADER_MISMATCH
            | code::MISSING_CLIENT_CAPABILITY
            | code::METHOD_NOT_FOUND
            | code::INVALID_PARAMS
    )
}

/// What the answer to `server/discover` says about the era; also no answer is one.
pub(super) fn verdict(answer: Result<Answer, Error>) -> Result<Verdict, Error> {
    match answer {
        Ok(Answer { reply: Some(reply), .. }) => Ok(handshake::after_discover(&reply)),
        Ok(Answer { status, .. }) if says_nothing(status) => Err(answer::no(status)),
        Ok(_) | Err(Error::Protocol { .. }) => Ok(Verdict::Legacy),
        Err(error) => Err(error),
    }
}

/// Something on the way wants credentials or patience, or is overloaded or broken, which says
/// nothing about the era. 403 may: some let only those methods through that they know.
fn says_nothing(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS)
        || (status.is_server_error() && status != StatusCode::INTERNAL_SERVER_ERROR)
}
