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

use crate::{detector::Detector, scan::Scan};

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

/// Validates the candidates at a run of digits. Returns the end of the accepted values.
pub(crate) fn digits(scan: &mut Scan<'_>, start: usize) -> usize {
    let is_first = !scan.text.byte_before(start).is_some_and(|byte| byte.is_ascii_digit());
    if is_first && scan.is_after_context(start) {
        let known = scan.count();
        let end = scan.text.run_end(start, usize::MAX, |byte| byte.is_ascii_digit());
        let groups = digits::Groups::read(scan.text, start..end);
        card::find(scan, &groups);
        iban::find(scan, &groups);
        social_security::find(scan, &groups);
        national_id::find(scan, &groups);
        phone::find(scan, &groups);
        network::quad(scan, &groups);
        return scan.ends_since(known).fold(start, usize::max);
    }
    start
}
