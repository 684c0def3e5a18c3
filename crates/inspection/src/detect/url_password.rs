//! Passwords in URLs.

use registry_core::entity::policy::DataClass;

use super::randomness;
use crate::{detector::Detector, scan::Scan};

pub(crate) static URL_PASSWORD: Detector = Detector::new(
    "url-password",
    DataClass::Credential,
    "passwords in URLs (`scheme://user:password@host`), not placeholders or the name of the user",
);

const USER_INFO_BYTES: usize = 512;
/// Shorter passwords are those of examples.
const MIN_BYTES: usize = 3;

/// Validates the user information after `://`.
pub(crate) fn find(scan: &mut Scan<'_>, scheme_end: usize, start: usize) {
    let text = scan.text;
    let has_scheme = text.byte_before(scheme_end).is_some_and(|b| b.is_ascii_alphanumeric());
    let is_user_info = |byte: u8| byte.is_ascii_graphic() && !b"/?#@\"<>\\^`{|}".contains(&byte);
    let end = text.run_end(start, USER_INFO_BYTES, is_user_info);
    let has_host = text.byte(end + 1).is_some_and(|b| b.is_ascii_alphanumeric() || b == b'[');
    if !has_scheme || text.byte(end) != Some(b'@') || !has_host {
        return;
    }
    let Some((user, password)) = text.slice(start..end).split_once(':') else { return };
    let is_default = password == user || password.eq_ignore_ascii_case("pass");
    let is_password = !is_default && !is_port(password) && !randomness::is_placeholder(password);
    if password.len() >= MIN_BYTES && is_password {
        scan.add(&URL_PASSWORD, end - password.len()..end);
    }
}

/// Whether a text starts with a port, and a sign that ends a URL in lists and forms follows.
fn is_port(text: &str) -> bool {
    let rest = text.trim_start_matches(|char: char| char.is_ascii_digit());
    (1..=5).contains(&(text.len() - rest.len()))
        && rest.starts_with([',', ';', '\'', '(', ')', '&'])
}
