//! `Mcp-*` headers, which repeat parts of the body for proxies. They must match the body: a proxy
//! that routes by headers and a gateway that reads the body must see one request.
//!
//! No decision depends on these headers. `Mcp-Param-*` headers without an annotated argument are
//! ignored.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::view::ParamHeader;

const SENTINEL_START: &str = "=?base64?";
const SENTINEL_END: &str = "?=";

/// How a header differs from the body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The header is absent.
    #[error("header mismatch: {header} is missing")]
    Missing {
        /// Its name.
        header: HeaderName,
    },
    /// The header occurs more than once.
    #[error("header mismatch: {header} occurs more than once")]
    Repeated {
        /// Its name.
        header: HeaderName,
    },
    /// The header is not text, or not valid Base64.
    #[error("header mismatch: {header} is not valid text or Base64")]
    Unreadable {
        /// Its name.
        header: HeaderName,
    },
    /// The header and the body have different values.
    #[error("header mismatch: {header} does not match the body")]
    Different {
        /// Its name.
        header: HeaderName,
    },
    /// The header mirrors an absent argument.
    #[error("header mismatch: {header} mirrors an argument that is absent")]
    Unexpected {
        /// Its name.
        header: HeaderName,
    },
}

/// The only value of a header, still encoded.
pub fn single<'a>(
    headers: &'a HeaderMap,
    header: &HeaderName,
) -> Result<Option<&'a str>, Mismatch> {
    let mut values = headers.get_all(header).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(Mismatch::Repeated { header: header.clone() }),
        (Some(value), None) => text(value).map(Some).ok_or_else(|| unreadable(header)),
    }
}

/// Allows visible ASCII, spaces and tabs.
fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

fn unreadable(header: &HeaderName) -> Mismatch {
    Mismatch::Unreadable { header: header.clone() }
}

/// Decodes `=?base64?…?=`. The markers are case-sensitive; other values are literal.
pub fn decoded<'a>(header: &HeaderName, value: &'a str) -> Result<Cow<'a, str>, Mismatch> {
    let inner = value.strip_prefix(SENTINEL_START).and_then(|rest| rest.strip_suffix(SENTINEL_END));
    let Some(inner) = inner else { return Ok(Cow::Borrowed(value)) };
    let bytes = STANDARD.decode(inner).map_err(|_| unreadable(header))?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| unreadable(header))
}

/// Checks a header that mirrors a string of the body.
pub fn check_string(
    headers: &HeaderMap,
    header: &HeaderName,
    body: &str,
    encoding: Encoding,
) -> Result<(), Mismatch> {
    let value = single(headers, header)?;
    let value = value.ok_or_else(|| Mismatch::Missing { header: header.clone() })?;
    let value = match encoding {
        Encoding::Plain => Cow::Borrowed(value),
        Encoding::Sentinel => decoded(header, value)?,
    };
    if value == body { Ok(()) } else { Err(Mismatch::Different { header: header.clone() }) }
}

/// Whether a header value can be Base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Never encoded.
    Plain,
    /// `=?base64?…?=`.
    Sentinel,
}

/// Compares the headers of parameters with the arguments (MCP 2026-07-28).
pub fn check_params(
    headers: &HeaderMap,
    params: &[ParamHeader],
    arguments: &Map<String, Value>,
) -> Result<(), Mismatch> {
    params.iter().try_for_each(|param| check_param(headers, param, arguments))
}

fn check_param(
    headers: &HeaderMap,
    param: &ParamHeader,
    arguments: &Map<String, Value>,
) -> Result<(), Mismatch> {
    let header = &param.header;
    let sent = single(headers, header)?;
    let argument = find(arguments, &param.path).filter(|value| !value.is_null());
    match (sent, argument) {
        (None, None) => Ok(()),
        (Some(_), None) => Err(Mismatch::Unexpected { header: header.clone() }),
        (None, Some(_)) => Err(Mismatch::Missing { header: header.clone() }),
        (Some(sent), Some(argument)) if is_same(&decoded(header, sent)?, argument) => Ok(()),
        (Some(_), Some(_)) => Err(Mismatch::Different { header: header.clone() }),
    }
}

fn find<'a>(arguments: &'a Map<String, Value>, path: &[Box<str>]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(arguments.get(&**first)?, |value, name| value.get(&**name))
}

/// Compares numbers by value: `42.0` equals `42`.
fn is_same(sent: &str, argument: &Value) -> bool {
    match argument {
        Value::String(text) => sent == text,
        Value::Bool(value) => sent == if *value { "true" } else { "false" },
        Value::Number(number) => {
            sent == number.to_string()
                || serde_json::from_str::<serde_json::Number>(sent)
                    .is_ok_and(|sent| sent.as_f64() == number.as_f64())
        }
        // These have no header form, so no header matches them.
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}
