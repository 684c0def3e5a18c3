//! International bank account numbers (ISO 13616).

use registry_core::entity::policy::DataClass;

use super::digits::Groups;
use crate::{context::Text, detector::Detector, scan::Scan};

pub(super) static IBAN: Detector = Detector::new(
    "iban",
    DataClass::Financial,
    "IBANs with the length of their country and valid check digits",
);

/// Countries and lengths of the SWIFT registry.
const LENGTHS: [(&str, usize); 88] = [
    ("AD", 24),
    ("AE", 23),
    ("AL", 28),
    ("AT", 20),
    ("AZ", 28),
    ("BA", 20),
    ("BE", 16),
    ("BG", 22),
    ("BH", 22),
    ("BI", 27),
    ("BR", 29),
    ("BY", 28),
    ("CH", 21),
    ("CR", 22),
    ("CY", 28),
    ("CZ", 24),
    ("DE", 22),
    ("DJ", 27),
    ("DK", 18),
    ("DO", 28),
    ("EE", 20),
    ("EG", 29),
    ("ES", 24),
    ("FI", 18),
    ("FK", 18),
    ("FO", 18),
    ("FR", 27),
    ("GB", 22),
    ("GE", 22),
    ("GI", 23),
    ("GL", 18),
    ("GR", 27),
    ("GT", 28),
    ("HN", 28),
    ("HR", 21),
    ("HU", 28),
    ("IE", 22),
    ("IL", 23),
    ("IQ", 23),
    ("IS", 26),
    ("IT", 27),
    ("JO", 30),
    ("KW", 30),
    ("KZ", 20),
    ("LB", 28),
    ("LC", 32),
    ("LI", 21),
    ("LT", 20),
    ("LU", 20),
    ("LV", 21),
    ("LY", 25),
    ("MC", 27),
    ("MD", 24),
    ("ME", 22),
    ("MK", 19),
    ("MN", 20),
    ("MR", 27),
    ("MT", 31),
    ("MU", 30),
    ("NI", 28),
    ("NL", 18),
    ("NO", 15),
    ("OM", 23),
    ("PK", 24),
    ("PL", 28),
    ("PS", 29),
    ("PT", 25),
    ("QA", 29),
    ("RO", 24),
    ("RS", 22),
    ("RU", 33),
    ("SA", 24),
    ("SC", 31),
    ("SD", 18),
    ("SE", 24),
    ("SI", 19),
    ("SK", 24),
    ("SM", 27),
    ("SO", 23),
    ("ST", 25),
    ("SV", 28),
    ("TL", 23),
    ("TN", 24),
    ("TR", 26),
    ("UA", 29),
    ("VA", 22),
    ("VG", 24),
    ("XK", 20),
];
/// The shortest number has 11 digits in its account number.
const MIN_DIGITS: usize = 8;

pub(super) fn find(scan: &mut Scan<'_>, groups: &Groups<'_>) {
    let text = groups.text;
    let (Some(start), true) = (groups.start().checked_sub(2), groups.first().len() >= 2) else {
        return;
    };
    let country = text.slice(start..start + 2);
    let wanted = LENGTHS.iter().find(|(code, _)| code.eq_ignore_ascii_case(country));
    let Some((_, length)) = wanted else { return };
    let Some((end, number)) = read(text, start, *length) else { return };
    let has_lower = number.iter().any(u8::is_ascii_lowercase);
    let has_upper = number.iter().any(u8::is_ascii_uppercase);
    let digits = number.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_plausible = digits >= MIN_DIGITS && !(has_lower && has_upper);
    if is_plausible && text.is_word(&(start..end)) && remainder(&number) == 1 {
        scan.add_number(&IBAN, start..end);
    }
}

/// The end of a number with this many characters, and the characters. A space or dash may follow
/// each fourth one.
fn read(text: Text<'_>, start: usize, length: usize) -> Option<(usize, Vec<u8>)> {
    let mut number = Vec::with_capacity(length);
    let mut at = start;
    while number.len() < length {
        let byte = text.byte(at)?;
        if byte.is_ascii_alphanumeric() {
            number.push(byte);
            at += 1;
            continue;
        }
        at = text.separator(at).filter(|found| found.is_space_or_dash())?.end;
        let continues = text.byte(at).is_some_and(|byte| byte.is_ascii_alphanumeric());
        if !continues || !number.len().is_multiple_of(4) {
            return None;
        }
    }
    Some((at, number))
}

/// The number modulo 97, with its first four characters last. Letters count from 10.
fn remainder(number: &[u8]) -> u32 {
    number[4..].iter().chain(&number[..4]).fold(0, |remainder, byte| {
        let value = char::from(*byte).to_digit(36).unwrap_or_default();
        (remainder * if value < 10 { 10 } else { 100 } + value) % 97
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_digits_are_verified() {
        assert_eq!(remainder(b"DE89370400440532013000"), 1);
        assert_eq!(remainder(b"GB29NWBK60161331926819"), 1);
        assert_ne!(remainder(b"DE88370400440532013000"), 1);
    }

    #[test]
    fn countries_are_sorted() {
        assert!(LENGTHS.is_sorted_by_key(|(code, _)| *code));
    }
}
