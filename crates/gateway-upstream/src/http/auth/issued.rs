//! Parses responses of a token endpoint: a token or an error.
//!
//! Errors are reported only by known codes, because a response may repeat the request.

use std::time::Duration;

use gateway_policy::SubjectToken;
use http::{HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use crate::error::TokenError;

/// Maximum length of a token, in bytes: servers accept a few kilobytes of headers.
const TOKEN_BYTES: usize = 16 * 1024;
/// Lifetime of a token without `expires_in`.
const DEFAULT_LIFETIME: Duration = Duration::from_mins(5);
/// Maximum lifetime of a token.
const MAX_LIFETIME: Duration = Duration::from_hours(24);

pub(super) const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";

/// Known error codes (RFC 6749, section 5.2; RFC 8693, section 2.2.2; others in use).
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

/// An issued token.
#[derive(Debug, Clone)]
pub(super) struct Issued {
    /// The value of `Authorization`.
    pub(super) value: HeaderValue,
    pub(super) lifetime: Duration,
}

/// RFC 6749, section 5.1; RFC 8693, section 2.2.1.
#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    issued_token_type: Option<String>,
    expires_in: Option<Value>,
}

/// Parses a successful response.
pub(super) fn read(body: &[u8], subject: Option<&SubjectToken>) -> Result<Issued, TokenError> {
    // The parser's message may repeat the token.
    let answer: TokenResponse = serde_json::from_slice(body)
        .map_err(|_| TokenError::Unusable("not JSON with `access_token` and `token_type`"))?;
    let token = answer.access_token;
    if !answer.token_type.eq_ignore_ascii_case("bearer") {
        return Err(TokenError::Unusable("the `token_type` is not `Bearer`"));
    }
    if answer.issued_token_type.is_some_and(|issued| issued != ACCESS_TOKEN && issued != JWT) {
        return Err(TokenError::Unusable("the `issued_token_type` is not an access token"));
    }
    if token.is_empty() || token.len() > TOKEN_BYTES || !token.bytes().all(|b| b.is_ascii_graphic())
    {
        return Err(TokenError::Unusable(
            "the token is empty, longer than 16 KiB, or contains whitespace",
        ));
    }
    // A caller's token is for the gateway; no other server may get it.
    if subject.is_some_and(|subject| subject.expose() == token) {
        return Err(TokenError::Unusable("the endpoint returned the caller's own token"));
    }
    let lifetime = lifetime(answer.expires_in.as_ref())
        .ok_or(TokenError::Unusable("`expires_in` is not a number of seconds"))?;
    Ok(Issued { value: sensitive("Bearer", &token)?, lifetime })
}

/// Some endpoints write the number as a string.
fn lifetime(told: Option<&Value>) -> Option<Duration> {
    let seconds = match told {
        None | Some(Value::Null) => return Some(DEFAULT_LIFETIME),
        Some(Value::Number(number)) => number.as_u64()?,
        Some(Value::String(text)) => text.parse().ok()?,
        Some(_) => return None,
    };
    Some(Duration::from_secs(seconds).min(MAX_LIFETIME))
}

/// Parses an error response.
pub(super) fn refusal(status: StatusCode, body: &[u8]) -> TokenError {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let said = body.get("error").and_then(Value::as_str);
    let reason = REASONS.into_iter().find(|known| Some(*known) == said);
    TokenError::Refused { status: status.as_u16(), reason }
}

/// A header value marked as sensitive.
pub(super) fn sensitive(scheme: &str, credentials: &str) -> Result<HeaderValue, TokenError> {
    let value = HeaderValue::try_from(format!("{scheme} {credentials}"));
    let mut value = value.map_err(|_| {
        TokenError::Unusable("the token has characters that are not allowed in a header")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::subject_token;

    fn given(body: &str) -> Result<(String, u64), TokenError> {
        let subject = subject_token("ann", "the-callers");
        let Issued { value, lifetime } = read(body.as_bytes(), Some(&subject))?;
        assert!(value.is_sensitive());
        Ok((value.to_str().unwrap().to_owned(), lifetime.as_secs()))
    }

    #[test]
    fn token_is_read_with_its_expiry() {
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
    fn invalid_token_is_rejected_and_not_repeated() {
        let long = "s3cret".repeat(3_000);
        for (token, more, why) in [
            ("s3cret", r#""token_type":"mac""#, "is not `Bearer`"),
            ("s3cret", r#""token_type":"N_A""#, "is not `Bearer`"),
            ("s3cret", r#""x":1"#, "not JSON with `access_token`"),
            ("s3cret\\u0000", r#""token_type":"Bearer""#, "whitespace"),
            ("s3cret\\r\\nx: y", r#""token_type":"Bearer""#, "whitespace"),
            ("", r#""token_type":"Bearer""#, "empty"),
            (&long, r#""token_type":"Bearer""#, "longer"),
            ("the-callers", r#""token_type":"Bearer""#, "caller's own"),
            ("s3cret", r#""token_type":"Bearer","expires_in":-1"#, "seconds"),
            ("s3cret", r#""token_type":"Bearer","expires_in":"soon""#, "seconds"),
            ("s3cret", r#""token_type":"Bearer","expires_in":[]"#, "seconds"),
            ("s3cret", r#""token_type":"Bearer","issued_token_type":"x""#, "not an access token"),
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
    fn only_known_error_codes_are_reported() {
        let told = |body: &str| refusal(StatusCode::BAD_REQUEST, body.as_bytes()).to_string();
        let body = r#"{"error":"invalid_grant","error_description":"s3cret"}"#;
        assert_eq!(told(body), "the token endpoint rejected the request (HTTP 400, invalid_grant)");
        for body in [r#"{"error":"s3cret"}"#, "s3cret", "", r#"{"error":{}}"#] {
            assert_eq!(told(body), "the token endpoint rejected the request (HTTP 400)");
        }
    }
}
