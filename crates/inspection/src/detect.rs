//! Detectors by kind of value. Each validates the candidates of its anchors.

pub(crate) mod assigned;
pub(crate) mod authorization;
mod card;
mod digits;
pub(crate) mod email;
mod iban;
pub(crate) mod jwt;
pub(crate) mod keys;
mod luhn;
mod national_id;
pub(crate) mod network;
mod phone;
pub(crate) mod private_key;
mod randomness;
mod social_security;
pub(crate) mod url_password;

use crate::{context::Text, detector::Detector, scan::Scan};

/// All detectors.
pub(crate) fn detectors() -> impl Iterator<Item = &'static Detector> {
    let keys = keys::KEY_RULES.iter().map(|rule| &rule.detector);
    let others: [&'static Detector; 15] = [
        &assigned::ASSIGNED_SECRET,
        &authorization::BASIC,
        &authorization::BEARER,
        &jwt::JWT,
        &private_key::PRIVATE_KEY,
        &url_password::URL_PASSWORD,
        &card::CARD,
        &iban::IBAN,
        &social_security::SSN,
        &social_security::ITIN,
        &email::EMAIL,
        &phone::PHONE,
        &network::IPV4,
        &network::IPV6,
        &network::MAC,
    ];
    keys.chain(others).chain(national_id::RULES.iter().map(|rule| &rule.detector))
}

/// Whether another detector may find the same value by its structure.
pub(crate) fn is_generic(detector: &Detector) -> bool {
    [&assigned::ASSIGNED_SECRET, &authorization::BEARER].contains(&detector)
}

/// Shorter numbers are parts of values with separators or letters only.
const SHORT: usize = 6;

/// Shorter numbers start no value after another number, as in `1 2 3`.
const LISTED: usize = 3;

/// Validates the candidates at a run of digits.
pub(crate) fn digits(scan: &mut Scan<'_>, start: usize) {
    let text = scan.text;
    let before = text.byte_before(start);
    if before.is_some_and(|byte| byte.is_ascii_digit()) {
        return;
    }
    let end = text.run_end(start, usize::MAX, |byte| byte.is_ascii_digit());
    let is_separated = text.byte(end) == Some(b'+') || text.separator(end).is_some();
    let is_alone = end - start < SHORT && !is_separated;
    let is_after_letter = before.is_some_and(|byte| byte.is_ascii_alphabetic());
    // An IPv4 address may follow another one.
    let is_quad = text.byte(end) == Some(b'.') && before != Some(b'.');
    let is_listed = end - start < LISTED && !is_quad && is_after_number(text, start);
    if is_listed || is_alone && !is_after_letter {
        return;
    }
    let groups = digits::Groups::read(text, start..end);
    iban::find(scan, &groups);
    national_id::find(scan, &groups);
    if !is_after_letter {
        card::find(scan, &groups);
        social_security::find(scan, &groups);
        phone::find(scan, &groups);
        network::quad(scan, &groups);
    }
}

/// Whether a number and one separator precede.
fn is_after_number(text: Text<'_>, start: usize) -> bool {
    let is_separator = text.byte_before(start).is_some_and(|byte| b" -./".contains(&byte));
    is_separator && text.byte_before(start - 1).is_some_and(|byte| byte.is_ascii_digit())
}
