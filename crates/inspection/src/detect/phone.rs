//! Phone numbers: international (E.164), or national next to a keyword.

use std::{
    net::Ipv4Addr,
    ops::{Range, RangeInclusive},
};

use registry_core::entity::policy::DataClass;

use super::digits::Groups;
use crate::{
    context::{Text, is_word_byte},
    detector::Detector,
    scan::Scan,
};

pub(super) static PHONE: Detector = Detector::new(
    "phone",
    DataClass::Contact,
    "phone numbers with a country code and a plausible length, or national ones next to a keyword",
);

const CONTEXT: [&str; 18] = [
    "phone",
    "phones",
    "telephone",
    "tel",
    "mobile",
    "cell",
    "cellphone",
    "fax",
    "whatsapp",
    "sms",
    "phonenumber",
    "telefon",
    "handy",
    "mobil",
    "mobilnummer",
    "telefono",
    "gsm",
    "landline",
];
/// Words that count if the number has separators.
const WEAK_CONTEXT: [&str; 3] = ["call", "dial", "reach"];
/// Words that count before `(212) 664-7665`.
const PARENTHESIS_CONTEXT: [&str; 2] = ["number", "at"];
/// Labels of other numbers with separators, as in `mobile app version 10.15.7.1234`.
const OTHER: [&str; 5] = ["version", "v", "release", "build", "firmware"];
/// A link to a chat. The number has no plus.
const LINK: &str = "wa.me/";
const MAX_DIGITS: usize = 15;
/// Shorter national numbers are also the form of many other numbers.
const NATIONAL_DIGITS: RangeInclusive<usize> = 9..=12;
/// Maximum digits and separators.
const MAX_CHARACTERS: usize = 28;

pub(super) fn find(scan: &mut Scan<'_>, groups: &Groups<'_>) {
    if !scan.wants(&PHONE) {
        return;
    }
    let (text, digits) = (groups.text, groups.start());
    if text.byte_before(digits) == Some(b'+') {
        let is_other = |byte: u8| byte.is_ascii_alphanumeric() || b"+/.".contains(&byte);
        if !text.byte_before(digits - 1).is_some_and(is_other) {
            international(scan, digits - 1, digits);
        }
    } else if text.slice(digits.saturating_sub(LINK.len())..digits) == LINK {
        international(scan, digits, digits);
    } else {
        national(scan, digits);
    }
}

fn international(scan: &mut Scan<'_>, start: usize, digits: usize) {
    let number = Number::read(scan.text, digits);
    // A following number belongs to the phone number only if the length allows it.
    let ends = number.ends().iter().rev();
    let mut ends = ends.filter(|end| is_international(&number.digits[..end.digits]));
    if let Some(end) = ends.next() {
        scan.add_number(&PHONE, start..end.at);
    }
}

fn national(scan: &mut Scan<'_>, digits: usize) {
    let text = scan.text;
    let start = if text.byte_before(digits) == Some(b'(') { digits - 1 } else { digits };
    let number = Number::read(text, digits);
    if !number.ends().iter().any(|end| NATIONAL_DIGITS.contains(&end.digits)) {
        return;
    }
    let is_separated = number.ends().len() > 1;
    let is_american = |end: &&End| end.digits == 10 && is_north_american(&number.digits[..10]);
    let has_prefix = match number.digits[0] {
        b'0' => true,
        b'1' => number.ends[0].digits == 1,
        _ => start < digits || number.ends().iter().any(|end| is_american(&end)),
    };
    let is_formed = is_separated && has_prefix;
    let is_labeled = text.has_context(start, &CONTEXT)
        || is_formed && text.has_label(start, &WEAK_CONTEXT)
        || start < digits && text.has_label(start, &PARENTHESIS_CONTEXT);
    if !is_labeled || text.has_label(start, &OTHER) {
        return;
    }
    let american = number.ends().iter().filter(is_american).filter(|_| is_separated);
    let mut spans = american.chain(number.ends().iter().rev()).filter_map(|end| {
        let is_whole = NATIONAL_DIGITS.contains(&end.digits) && text.is_number(&(start..end.at));
        let is_phone = is_whole && !is_fictional(&number.digits[..end.digits]);
        (is_phone && !is_other(text, &(start..end.at))).then_some(start..end.at)
    });
    if let Some(span) = spans.next() {
        scan.add_number(&PHONE, span);
    }
}

/// Digits with separators, and the positions after which the number may end.
#[derive(Default)]
struct Number {
    digits: [u8; MAX_DIGITS],
    ends: [End; MAX_DIGITS],
    count: usize,
}

#[derive(Default, Clone, Copy)]
struct End {
    /// The position after the last digit.
    at: usize,
    /// The number of digits before.
    digits: usize,
}

impl Number {
    fn read(text: Text<'_>, start: usize) -> Self {
        let mut number = Self::default();
        let (mut count, mut separators, mut at) = (0, 0, start);
        loop {
            let end = text.run_end(at, MAX_DIGITS + 1, |byte| byte.is_ascii_digit());
            let Some(digits) = number.digits.get_mut(count..count + end - at) else { break };
            if end == at || count + separators + end - at > MAX_CHARACTERS {
                break;
            }
            digits.copy_from_slice(&text.bytes()[at..end]);
            count += end - at;
            if !text.byte(end).is_some_and(is_word_byte) {
                number.ends[number.count] = End { at: end, digits: count };
                number.count += 1;
            }
            // `) ` and ` (` have two characters.
            let Some(separator) = text.separator(end) else { break };
            let second = text.separator(separator.end);
            at = second.unwrap_or(separator).end;
            separators += 1 + usize::from(second.is_some());
        }
        number
    }

    /// The ends, the first one first.
    fn ends(&self) -> &[End] {
        &self.ends[..self.count]
    }
}

/// Whether the text is a date or an IPv4 address.
fn is_other(text: Text<'_>, span: &Range<usize>) -> bool {
    let is_break = |c: char| matches!(c, '-' | '.' | '/' | '\u{2010}'..='\u{2013}');
    let parts: Vec<_> = text.slice(span.clone()).split(is_break).map(str::len).collect();
    matches!(parts[..], [4, 2, 2, ..] | [2, 2, 4, ..]) || is_quad(text, span)
}

fn is_quad(text: Text<'_>, span: &Range<usize>) -> bool {
    text.slice(span.clone()).parse::<Ipv4Addr>().is_ok()
}

/// Whether a number has a country code and a length of this country.
fn is_international(digits: &[u8]) -> bool {
    let Some((code, lengths)) = country(digits) else { return false };
    let national = &digits[code..];
    let is_american = code == 1 && digits[0] == b'1';
    let is_assigned = !is_american || national.len() == 10 && is_north_american(national);
    lengths.contains(&national.len()) && is_assigned && !is_fictional(digits)
}

/// Area codes and exchanges start with 2 to 9.
fn is_north_american(national: &[u8]) -> bool {
    national[0] >= b'2' && national[3] >= b'2'
}

/// 555-0100 to 555-0199 are reserved for fiction.
fn is_fictional(digits: &[u8]) -> bool {
    let national = digits.strip_prefix(b"1").unwrap_or(digits);
    national.len() == 10 && &national[3..8] == b"55501"
}

/// The length of the country code, and the lengths of national numbers.
fn country(digits: &[u8]) -> Option<(usize, RangeInclusive<usize>)> {
    let number = |length: usize| {
        let digits = digits.get(..length)?.iter();
        Some(digits.fold(0_u32, |number, digit| number * 10 + u32::from(digit - b'0')))
    };
    let lengths = match number(2)? {
        10..=19 | 70..=79 => return Some((1, 10..=10)),
        31..=34 | 36 | 40 | 41 | 47 | 48 | 61 | 64 | 65 => 8..=9,
        30 | 52 | 91 => 10..=10,
        45 => 8..=8,
        44 => 9..=10,
        55 => 10..=11,
        86 => 9..=11,
        20
        | 27
        | 39
        | 43
        | 46
        | 49
        | 51
        | 53
        | 54
        | 56..=58
        | 60
        | 62
        | 63
        | 66
        | 81
        | 82
        | 84
        | 90
        | 92..=95
        | 98 => 7..=11,
        _ => return three_digit_country(number(3)?),
    };
    Some((2, lengths))
}

fn three_digit_country(code: u32) -> Option<(usize, RangeInclusive<usize>)> {
    let is_assigned = matches!(
        code,
        211..=269 | 290..=299 | 350..=359 | 370..=389 | 420..=423 | 500..=509 | 590..=599 | 670..=692
            | 800 | 808 | 850..=856 | 870 | 880..=886 | 960..=979 | 992..=998
    );
    is_assigned.then_some((3, 6..=10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn country_and_length_decide() {
        for number in ["14155552671", "4930901820", "33123456789", "358401234567", "551155256325"] {
            assert!(is_international(number.as_bytes()), "{number}");
        }
        for number in ["1415555267", "11155552671", "0049309018", "339", "210123456", "12125550142"]
        {
            assert!(!is_international(number.as_bytes()), "{number}");
        }
    }
}
