//! Credentials of the HTTP schemes Basic and Bearer.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use registry_core::entity::policy::DataClass;

use super::randomness;
use crate::{context::is_word_byte, detector::Detector, scan::Scan};

pub(crate) static BASIC: Detector = Detector::new(
    "basic-credentials",
    DataClass::Credential,
    "credentials of the HTTP scheme Basic that decode to a user and a password",
);
pub(crate) static BEARER: Detector =
    Detector::new("bearer-token", DataClass::Credential, "random tokens of the HTTP scheme Bearer");

const MAX_BYTES: usize = 512;
/// Shorter credentials are those of examples.
const MIN_CHARACTERS: usize = 8;

/// Validates the text after `Basic `.
pub(crate) fn basic(scan: &mut Scan<'_>, start: usize, end: usize) {
    let text = scan.text;
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    let run = text.run_end(end, MAX_BYTES, belongs);
    let is_whole =
        ![text.byte_before(start), text.byte(run)].into_iter().flatten().any(is_word_byte);
    if is_whole && is_user_and_password(text.slice(end..run)) {
        scan.add(&BASIC, end..run);
    }
}

fn is_user_and_password(encoded: &str) -> bool {
    if encoded.len() < MIN_CHARACTERS {
        return false;
    }
    let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.is_some_and(|text| {
        let is_printable = !text.chars().any(char::is_control);
        is_printable
            && text
                .split_once(':')
                .is_some_and(|(user, password)| user != password && !password.is_empty())
    })
}

/// Validates the text after `Bearer `.
pub(crate) fn bearer(scan: &mut Scan<'_>, start: usize, end: usize) {
    let text = scan.text;
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let run = text.run_end(end, MAX_BYTES, belongs);
    let token = text.slice(end..run).trim_end_matches('.');
    let is_scheme = !text.byte_before(start).is_some_and(is_word_byte);
    if is_scheme && randomness::is_random(token) {
        scan.add(&BEARER, end..end + token.len());
    }
}
