//! Numbers of payment cards.

use std::ops::Range;

use registry_core::entity::policy::DataClass;

use super::{digits::Groups, luhn};
use crate::{detector::Detector, scan::Scan};

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
            scan.add(&CARD, first);
        }
        return;
    }
    if !matches!(first.len(), 4 | 6) {
        return;
    }
    let mut spans = LAYOUTS.iter().filter_map(|lengths| groups.with_lengths(lengths));
    let card = spans.find(|span| {
        let text = groups.text;
        text.is_number(span)
            && issuer(&groups.digits(span)).is_some()
            && (text.has_context(span.start, &CONTEXT) || !text.has_label(span.start, &OTHER))
    });
    if let Some(span) = card {
        scan.add(&CARD, span);
    }
}

fn is_ungrouped_card(groups: &Groups<'_>, span: &Range<usize>) -> bool {
    let text = groups.text;
    let Some(issuer) = issuer(&text.bytes()[span.clone()]) else { return false };
    if !text.is_number(span) {
        return false;
    }
    let is_labeled = text.has_context(span.start, &CONTEXT);
    is_labeled || issuer == Issuer::Common && !text.has_label(span.start, &OTHER)
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
