//! Numbers of payment cards.

use std::ops::Range;

use registry_core::entity::policy::DataClass;

use super::{digits::Groups, luhn};
use crate::{
    context::{Text, is_word_byte},
    detector::Detector,
    scan::Scan,
};

pub(super) static CARD: Detector = Detector::new(
    "payment-card",
    DataClass::Financial,
    "payment card numbers with an issuer's prefix and length and a valid check digit",
);

const CONTEXT: [&str; 18] = [
    "card",
    "cards",
    "cc",
    "ccn",
    "ccnum",
    "pan",
    "visa",
    "mastercard",
    "maestro",
    "amex",
    "credit",
    "debit",
    "cardnumber",
    "creditcard",
    "karte",
    "kreditkarte",
    "tarjeta",
    "carte",
];
/// Labels of other numbers. One in ten of them has a valid check digit.
const OTHER: [&str; 30] = [
    "order",
    "orders",
    "invoice",
    "tracking",
    "shipment",
    "parcel",
    "ticket",
    "reference",
    "ref",
    "serial",
    "sku",
    "part",
    "batch",
    "build",
    "job",
    "txn",
    "transaction",
    "trace",
    "span",
    "request",
    "imei",
    "iccid",
    "isbn",
    "ean",
    "gtin",
    "tweet",
    "snowflake",
    "timestamp",
    "bestellung",
    "rechnung",
];
/// Names of numbers that are not grouped.
const NAMES: [&str; 13] = [
    "id",
    "ids",
    "uid",
    "uuid",
    "account",
    "nonce",
    "kundennummer",
    "kundennr",
    "kontonummer",
    "bestellnummer",
    "auftragsnummer",
    "rechnungsnummer",
    "vorgangsnummer",
];
/// Words before `number` in such names.
const OWNERS: [&str; 7] =
    ["account", "client", "contract", "customer", "member", "message", "user"];
/// Digits of country codes of phone numbers.
const COUNTRY_DIGITS: usize = 3;
const LAYOUTS: [&[usize]; 5] = [&[4, 4, 4, 4, 3], &[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4], &[6, 13]];

/// How reliable a prefix and length are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Issuer {
    Common,
    /// Also the form of many other numbers.
    Rare,
}

pub(super) fn find(scan: &mut Scan<'_>, groups: &Groups<'_>) {
    let first = groups.first();
    if (12..=19).contains(&first.len()) {
        if is_ungrouped_card(groups, &first) {
            scan.add_number(&CARD, first);
        }
        return;
    }
    if !matches!(first.len(), 4 | 6) {
        return;
    }
    let mut spans = LAYOUTS.iter().filter_map(|lengths| groups.with_lengths(lengths));
    let card = spans.find(|span| {
        let text = groups.text;
        let is_labeled = || text.has_context(span.start, &CONTEXT);
        issuer(&groups.digits(span)).is_some()
            && is_free(text, span, is_labeled)
            && (is_labeled() || !text.has_label(span.start, &OTHER))
    });
    if let Some(span) = card {
        scan.add_number(&CARD, span);
    }
}

fn is_ungrouped_card(groups: &Groups<'_>, span: &Range<usize>) -> bool {
    let text = groups.text;
    let Some(issuer) = issuer(&text.bytes()[span.clone()]) else { return false };
    let is_labeled = text.has_context(span.start, &CONTEXT);
    if !is_free(text, span, || is_labeled) {
        return false;
    }
    let is_other = || text.has_label(span.start, &OTHER) || text.is_named(span, &NAMES, &OWNERS);
    is_labeled || issuer == Issuer::Common && !is_other()
}

/// Whether the span is not a part of another number. A label allows a segment of a path, as in
/// `/cards/4111111111111111/charge`, and `#`.
fn is_free(text: Text<'_>, span: &Range<usize>, is_labeled: impl FnOnce() -> bool) -> bool {
    let (start, end) = (start_of_phone(text, span.start), end_of_expiry(text, span.end));
    text.is_number(&(start..end)) || text.is_segment(&(start..end)) && is_labeled()
}

/// The start of `+49-` before the number: a phone number of this form must not hide a card number.
fn start_of_phone(text: Text<'_>, start: usize) -> usize {
    if text.byte_before(start) != Some(b'-') {
        return start;
    }
    let code = text.run_start(start - 1, COUNTRY_DIGITS, |byte| byte.is_ascii_digit());
    if code < start - 1 && text.byte_before(code) == Some(b'+') { code - 1 } else { start }
}

/// The end of `/12` after the number: a month of expiry.
fn end_of_expiry(text: Text<'_>, end: usize) -> usize {
    let is_month = matches!(
        text.bytes().get(end..end + 3),
        Some([b'/', b'0', b'1'..=b'9'] | [b'/', b'1', b'0'..=b'2'])
    );
    // The year may follow.
    let is_whole = !text.byte(end + 3).is_some_and(is_word_byte);
    let has_year = text.byte(end + 3) == Some(b'/');
    match (is_month && is_whole, has_year) {
        (true, true) => text.run_end(end + 4, 4, |byte| byte.is_ascii_digit()),
        (true, false) => end + 3,
        (false, _) => end,
    }
}

/// The issuer of a number with a valid check digit.
fn issuer(digits: &[u8]) -> Option<Issuer> {
    let prefix = |length: usize| {
        digits
            .iter()
            .take(length)
            .fold(0_u32, |number, digit| number * 10 + u32::from(digit - b'0'))
    };
    let (two, three, four) = (prefix(2), prefix(3), prefix(4));
    let found = match digits.len() {
        16 if matches!(two, 40..=49 | 51..=55 | 65) => Issuer::Common,
        16 if matches!(three, 644..=649) => Issuer::Common,
        16 if matches!(four, 2200..=2204 | 2221..=2720 | 3528..=3589 | 6011) => Issuer::Common,
        15 if matches!(two, 34 | 37) => Issuer::Common,
        14 if matches!(two, 36 | 38 | 39) || matches!(three, 300..=305) => Issuer::Rare,
        13 | 19 if matches!(two, 40..=49) => Issuer::Rare,
        16..=19 if two == 62 => Issuer::Rare,
        12..=19 if matches!(two, 50 | 56..=69 | 81 | 82) => Issuer::Rare,
        _ => return None,
    };
    let is_run = digits.iter().all(|digit| *digit == digits[0]);
    (!is_run && luhn::is_valid(digits)).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_digit_and_prefix_decide() {
        assert_eq!(issuer(b"4111111111111111"), Some(Issuer::Common));
        assert_eq!(issuer(b"378282246310005"), Some(Issuer::Common));
        assert_eq!(issuer(b"30569309025904"), Some(Issuer::Rare));
        assert_eq!(issuer(b"4111111111111112"), None);
        assert_eq!(issuer(b"1111111111111117"), None);
        assert_eq!(issuer(b"0000000000000000"), None);
    }
}
