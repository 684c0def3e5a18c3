//! What a token endpoint answers: a token, or why there is none.
//!
//! It is told by words that are known here: an answer may repeat what the endpoint was sent.

use std::time::Duration;

use gateway_policy::SubjectToken;
use http::{HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use crate::error::NoToken;

/// Longest token, in bytes: it goes into a header, and servers take some kilobytes of those.
const TOKEN_BYTES: usize = 16 * 1024;
/// How long a token is used whose end is not told.
const USUAL: Duration = Duration::from_mins(5);
/// The longest that a token is used, whatever is told.
const LONGEST: Duration = Duration::from_hours(24);

pub(super) const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";

/// What endpoints say why they refuse (RFC 6749, section 5.2; RFC 8693, section 2.2.2; others in
/// use).
const REASONS: [&str; 13] = [
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "unsupported_token_type",
    "invalid_scope",
    "invalid_target",
    "access_denied",
    "interaction_required",
    "login_required",
    "server_error",
    "temporarily_unavailable",
];

/// A token as it was given.
#[derive(Debug, Clone)]
pub(super) struct Issued {
    /// The value of `Authorization`.
    pub(super) value: HeaderValue,
    pub(super) lifetime: Duration,
}

/// RFC 6749, section 5.1; RFC 8693, section 2.2.1.
#[derive(Deserialize)]
struct Answer {
    access_token: String,
    token_type: String,
    issued_token_type: Option<String>,
    expires_in: Option<Value>,
}

/// The token in an answer that says yes.
pub(super) fn read(body: &[u8], subject: Option<&SubjectToken>) -> Result<Issued, NoToken> {
    // What serde says may repeat the token.
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|_| NoToken::Unusable("it has no `access_token` and `token_type` in JSON"))?;
    let token = answer.access_token;
    if !answer.token_type.eq_ignore_ascii_case("bearer") {
        return Err(NoToken::Unusable("the token is of another type than `Bearer`"));
    }
    if answer.issued_token_type.is_some_and(|issued| issued != ACCESS_TOKEN && issued != JWT) {
        return Err(NoToken::Unusable("what was issued is no access token"));
    }
    if token.is_empty() || token.len() > TOKEN_BYTES || !token.bytes().all(|b| b.is_ascii_graphic())
    {
        return Err(NoToken::Unusable("the token is empty, longer than 16 KiB, or no word"));
    }
    // A caller's token is for the gateway; no other server may get it.
    if subject.is_some_and(|subject| subject.expose() == token) {
        return Err(NoToken::Unusable("it is the caller's own token"));
    }
    let lifetime = lifetime(answer.expires_in.as_ref())
        .ok_or(NoToken::Unusable("`expires_in` is no number of seconds"))?;
    Ok(Issued { value: sensitive("Bearer", &token)?, lifetime })
}

/// Some write the number as a text.
fn lifetime(told: Option<&Value>) -> Option<Duration> {
    let seconds = match told {
        None | Some(Value::Null) => return Some(USUAL),
        Some(Value::Number(number)) => number.as_u64()?,
        Some(Value::String(text)) => text.parse().ok()?,
        Some(_) => return None,
    };
    Some(Duration::from_secs(seconds).min(LONGEST))
}

/// What an answer says no with.
pub(super) fn refusal(status: StatusCode, body: &[u8]) -> NoToken {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let said = body.get("error").and_then(Value::as_str);
    let reason = REASONS.into_iter().find(|known| Some(*known) == said);
    NoToken::Refused { status: status.as_u16(), reason }
}

/// A header that is never printed.
pub(super) fn sensitive(scheme: &str, credentials: &str) -> Result<HeaderValue, NoToken> {
    let value = HeaderValue::try_from(format!("{scheme} {credentials}"));
    let mut value = value.map_err(|_| NoToken::Unusable("no header can have the token"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::subject_token;

    fn given(body: &str) -> Result<(String, u64), NoToken> {
        let subject = subject_token("ann", "the-callers");
        let Issued { value, lifetime } = read(body.as_bytes(), Some(&subject))?;
        assert!(value.is_sensitive());
        Ok((value.to_str().unwrap().to_owned(), lifetime.as_secs()))
    }

    #[test]
    fn a_token_is_read_with_its_end() {
        for (more, seconds) in [
            ("", 300),
            (r#","expires_in":60,"scope":"a","x":{}"#, 60),
            (r#","expires_in":"60""#, 60),
            (r#","expires_in":null,"issued_token_type":null"#, 300),
            (r#","expires_in":0"#, 0),
            (r#","expires_in":18446744073709551615"#, 24 * 60 * 60),
            (r#","issued_token_type":"urn:ietf:params:oauth:token-type:jwt""#, 300),
        ] {
            let body = format!(r#"{{"access_token":"t","token_type":"bearer"{more}}}"#);
            assert_eq!(given(&body), Ok(("Bearer t".to_owned(), seconds)), "{body}");
        }
    }

    #[test]
    fn what_is_no_token_for_a_header_is_refused_and_not_repeated() {
        let long = "s3cret".repeat(3_000);
        for (token, more, why) in [
            ("s3cret", r#""token_type":"mac""#, "another type"),
            ("s3cret", r#""token_type":"N_A""#, "another type"),
            ("s3cret", r#""x":1"#, "no `access_token`"),
            ("s3cret\\u0000", r#""token_type":"Bearer""#, "no word"),
            ("s3cret\\r\\nx: y", r#""token_type":"Bearer""#, "no word"),
            ("", r#""token_type":"Bearer""#, "empty"),
            (&long, r#""token_type":"Bearer""#, "longer"),
            ("the-callers", r#""token_type":"Bearer""#, "caller's own"),
            ("s3cret", r#""token_type":"Bearer","expires_in":-1"#, "seconds"),
            ("s3cret", r#""token_type":"Bearer","expires_in":"soon""#, "seconds"),
            ("s3cret", r#""token_type":"Bearer","expires_in":[]"#, "seconds"),
            ("s3cret", r#""token_type":"Bearer","issued_token_type":"x""#, "no access token"),
        ] {
            let told = given(&format!(r#"{{"access_token":"{token}",{more}}}"#)).unwrap_err();
            let told = told.to_string();
            assert!(told.contains(why) && !told.contains("s3cret"), "{token}, {more}: {told}");
        }
        for body in ["", "null", "[]", r#""s3cret""#, r#"{"access_token":5,"token_type":"s3cret"}"#]
        {
            assert!(!given(body).unwrap_err().to_string().contains("s3cret"), "{body}");
        }
    }

    #[test]
    fn only_known_words_of_a_refusal_are_told() {
        let told = |body: &str| refusal(StatusCode::BAD_REQUEST, body.as_bytes()).to_string();
        let body = r#"{"error":"invalid_grant","error_description":"s3cret"}"#;
        assert_eq!(told(body), "it refused (HTTP 400, invalid_grant)");
        for body in [r#"{"error":"s3cret"}"#, "s3cret", "", r#"{"error":{}}"#] {
            assert_eq!(told(body), "it refused (HTTP 400)");
        }
    }
}
