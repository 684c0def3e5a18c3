//! National identification numbers. They are opt-in: their forms are those of many other numbers.

mod checks;

use std::ops::Range;

use self::checks::{
    cpf, double_check, elfproef, fi_check, is_day_month, iso_7064_mod_11_10, mod_97, nino_prefix,
    verhoeff, weighted_mod,
};
use super::{digits::Groups, luhn};
use crate::{detector::Detector, scan::Scan};

/// One kind of number.
pub(super) struct IdRule {
    pub(super) detector: Detector,
    /// The span of a valid number that starts at the groups.
    find: fn(&Groups<'_>) -> Option<Range<usize>>,
}

const fn rule(
    name: &'static str,
    finds: &'static str,
    find: fn(&Groups<'_>) -> Option<Range<usize>>,
) -> IdRule {
    IdRule { detector: Detector::opt_in(name, finds), find }
}

pub(super) static RULES: [IdRule; 16] = [
    rule("au-tfn", "Australian tax file numbers next to a keyword", au_tfn),
    rule("be-national-number", "Belgian national numbers", be_national_number),
    rule("br-cpf", "Brazilian CPF numbers, formatted or next to a keyword", br_cpf),
    rule("ca-sin", "Canadian social insurance numbers next to a keyword", ca_sin),
    rule("ch-ahv", "Swiss AHV numbers, formatted", ch_ahv),
    rule("de-tax-id", "German tax ids next to a keyword", de_tax_id),
    rule("es-dni", "Spanish DNI and NIE numbers next to a keyword", es_dni),
    rule("fi-hetu", "Finnish personal identity codes", fi_hetu),
    rule("fr-nir", "French NIR numbers", fr_nir),
    rule("gb-nino", "British national insurance numbers, spaced or next to a keyword", gb_nino),
    rule("in-aadhaar", "Indian Aadhaar numbers next to a keyword", in_aadhaar),
    rule("it-codice-fiscale", "Italian tax codes", it_codice_fiscale),
    rule("nl-bsn", "Dutch BSN numbers next to a keyword", nl_bsn),
    rule("no-fodselsnummer", "Norwegian birth numbers next to a keyword", no_fodselsnummer),
    rule("pl-pesel", "Polish PESEL numbers next to a keyword", pl_pesel),
    rule("se-personnummer", "Swedish personal numbers next to a keyword", se_personnummer),
];

pub(super) fn find(scan: &mut Scan<'_>, groups: &Groups<'_>) {
    if !scan.wants_opt_in() {
        return;
    }
    for IdRule { detector, find } in &RULES {
        if !scan.wants(detector) {
            continue;
        }
        if let Some(span) = find(groups).filter(|span| groups.text.is_number(span)) {
            scan.add_number(detector, span);
        }
    }
}

/// The digits of one of these layouts, if a keyword is near.
fn labeled(groups: &Groups<'_>, layouts: &[&[usize]], keywords: &[&str]) -> Option<Number> {
    let mut spans = layouts.iter().filter_map(|lengths| groups.with_lengths(lengths));
    let span = spans.next()?;
    groups.text.has_context(span.start, keywords).then(|| Number::new(groups, span))
}

struct Number {
    span: Range<usize>,
    digits: Vec<u8>,
}

impl Number {
    /// The values of the digits.
    fn new(groups: &Groups<'_>, span: Range<usize>) -> Self {
        let digits = groups.digits(&span).into_iter().map(|digit| digit - b'0').collect();
        Self { span, digits }
    }

    fn valid(self, check: impl Fn(&[u8]) -> bool) -> Option<Range<usize>> {
        check(&self.digits).then_some(self.span)
    }
}

/// The text with this form from the groups: `0` is a digit, other characters are themselves.
fn formatted(groups: &Groups<'_>, form: &str) -> Option<Number> {
    let span = groups.start()..groups.start() + form.len();
    let text = groups.text.bytes().get(span.clone())?;
    let fits = |(byte, form): (&u8, u8)| {
        if form == b'0' { byte.is_ascii_digit() } else { *byte == form }
    };
    text.iter().zip(form.bytes()).all(fits).then(|| Number::new(groups, span))
}

fn au_tfn(groups: &Groups<'_>) -> Option<Range<usize>> {
    let number = labeled(groups, &[&[3, 3, 3], &[9]], &["tfn", "tax"])?;
    number.valid(|digits| weighted_mod(digits, &[1, 4, 3, 7, 5, 8, 6, 9, 10], 11))
}

fn be_national_number(groups: &Groups<'_>) -> Option<Range<usize>> {
    let keywords = ["rijksregisternummer", "niss", "insz", "rrn", "national"];
    let number =
        formatted(groups, "00.00.00-000.00").or_else(|| labeled(groups, &[&[11]], &keywords))?;
    number.valid(|digits| {
        // Since 2000, the number has a 2 before.
        let is_valid = |prefix: &[u8]| {
            let (number, check) = digits.split_at(9);
            97 - mod_97(&[prefix, number].concat()) == u64::from(check[0] * 10 + check[1])
        };
        is_day_month(&[digits[4], digits[5], digits[2], digits[3]])
            && (is_valid(&[]) || is_valid(&[2]))
    })
}

fn br_cpf(groups: &Groups<'_>) -> Option<Range<usize>> {
    let number =
        formatted(groups, "000.000.000-00").or_else(|| labeled(groups, &[&[11]], &["cpf"]))?;
    number.valid(cpf)
}

fn ca_sin(groups: &Groups<'_>) -> Option<Range<usize>> {
    let number = labeled(groups, &[&[3, 3, 3], &[9]], &["sin", "nas", "insurance"])?;
    number.valid(|digits| {
        let text: Vec<_> = digits.iter().map(|digit| digit + b'0').collect();
        digits[0] != 0 && digits[0] != 8 && luhn::is_valid(&text)
    })
}

fn ch_ahv(groups: &Groups<'_>) -> Option<Range<usize>> {
    let number = formatted(groups, "756.0000.0000.00")?;
    number.valid(|digits| weighted_mod(digits, &[1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1], 10))
}

fn de_tax_id(groups: &Groups<'_>) -> Option<Range<usize>> {
    let keywords =
        ["steuer", "steueridentifikationsnummer", "steuerid", "idnr", "tin", "tax", "taxid"];
    let number = labeled(groups, &[&[2, 3, 3, 3], &[11]], &keywords)?;
    number.valid(|digits| digits[0] != 0 && iso_7064_mod_11_10(digits))
}

fn es_dni(groups: &Groups<'_>) -> Option<Range<usize>> {
    const LETTERS: &[u8; 23] = b"TRWAGMYFPDXBNJZSQVHLCKE";
    let text = groups.text;
    let digits = groups.first();
    let first =
        text.byte_before(digits.start).and_then(|byte| b"XYZ".iter().position(|l| *l == byte));
    let (start, prefix, length) = match first {
        Some(prefix) => (digits.start - 1, prefix, 7),
        None => (digits.start, 0, 8),
    };
    let has_dash = text.byte(digits.end) == Some(b'-');
    let letter = digits.end + usize::from(has_dash);
    if digits.len() != length || !text.has_context(start, &["dni", "nif", "nie", "documento"]) {
        return None;
    }
    let number = text.slice(digits).parse::<usize>().ok()?;
    let expected = LETTERS[(prefix * 10_000_000 + number) % LETTERS.len()];
    let is_valid = text.byte(letter).is_some_and(|byte| byte.to_ascii_uppercase() == expected);
    is_valid.then_some(start..letter + 1)
}

fn fi_hetu(groups: &Groups<'_>) -> Option<Range<usize>> {
    let start = groups.start();
    let code = groups.text.bytes().get(start..start + 11)?;
    let is_formed = groups.first().len() == 6
        && b"-+ABCDEFYXWVU".contains(&code[6])
        && code[7..10].iter().all(u8::is_ascii_digit);
    if !is_formed {
        return None;
    }
    let date: Vec<_> = code[..4].iter().map(|digit| digit - b'0').collect();
    (is_day_month(&date) && fi_check(code)).then_some(start..start + 11)
}

fn fr_nir(groups: &Groups<'_>) -> Option<Range<usize>> {
    let spaced = groups.with_lengths(&[1, 2, 2, 2, 3, 3]).map(|span| span.start..span.end + 3);
    let is_complete = |span: &Range<usize>| {
        let text = groups.text;
        let key = span.end - 2..span.end;
        text.byte(key.start - 1) == Some(b' ')
            && text.slice(key).bytes().all(|byte| byte.is_ascii_digit())
    };
    let span = spaced.filter(|span| span.end <= groups.text.len() && is_complete(span));
    let span = span.or_else(|| groups.with_lengths(&[15]))?;
    Number::new(groups, span).valid(|digits| {
        let (number, key) = digits.split_at(13);
        let month = number[3] * 10 + number[4];
        matches!(number[0], 1 | 2)
            && matches!(month, 1..=12 | 20..=42 | 50..=99)
            && 97 - mod_97(number) == u64::from(key[0] * 10 + key[1])
    })
}

fn gb_nino(groups: &Groups<'_>) -> Option<Range<usize>> {
    let text = groups.text;
    let first = groups.first();
    let is_spaced = first.len() == 2 && text.byte_before(first.start) == Some(b' ');
    let start = first.start.checked_sub(if is_spaced { 3 } else { 2 })?;
    let digits =
        if is_spaced { groups.with_lengths(&[2, 2, 2])? } else { groups.with_lengths(&[6])? };
    let has_space = text.byte(digits.end) == Some(b' ');
    let end = digits.end + usize::from(has_space) + 1;
    let has_suffix = text.byte(end - 1).is_some_and(|byte| matches!(byte, b'A'..=b'D'));
    let is_labeled = is_spaced && has_space
        || text.has_context(start, &["nino", "insurance", "ni", "nationalinsurance"]);
    let is_valid = has_suffix && is_labeled && nino_prefix(text.slice(start..start + 2));
    is_valid.then_some(start..end)
}

fn in_aadhaar(groups: &Groups<'_>) -> Option<Range<usize>> {
    let number = labeled(groups, &[&[4, 4, 4], &[12]], &["aadhaar", "aadhar", "uidai", "uid"])?;
    number.valid(|digits| digits[0] >= 2 && verhoeff(digits))
}

fn it_codice_fiscale(groups: &Groups<'_>) -> Option<Range<usize>> {
    let start = groups.start().checked_sub(6)?;
    let code = groups.text.bytes().get(start..start + 16)?;
    let is_letter = |i: usize| matches!(i, 0..=5 | 8 | 11 | 15);
    let is_formed = code.iter().enumerate().all(|(i, byte)| {
        if is_letter(i) { byte.is_ascii_uppercase() } else { byte.is_ascii_digit() }
    });
    (is_formed && checks::codice_fiscale(code)).then_some(start..start + 16)
}

fn nl_bsn(groups: &Groups<'_>) -> Option<Range<usize>> {
    let keywords = ["bsn", "burgerservicenummer", "sofinummer"];
    labeled(groups, &[&[9], &[3, 3, 3]], &keywords)?.valid(elfproef)
}

fn no_fodselsnummer(groups: &Groups<'_>) -> Option<Range<usize>> {
    // `fødselsnummer` has two runs of ASCII letters.
    let keywords = ["fodselsnummer", "dselsnummer", "personnummer"];
    let number = labeled(groups, &[&[11], &[6, 5]], &keywords)?;
    number.valid(|digits| is_day_month(&digits[..4]) && double_check(digits))
}

fn pl_pesel(groups: &Groups<'_>) -> Option<Range<usize>> {
    let number = labeled(groups, &[&[11]], &["pesel"])?;
    number.valid(|digits| weighted_mod(digits, &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1], 10))
}

fn se_personnummer(groups: &Groups<'_>) -> Option<Range<usize>> {
    let keywords = ["personnummer", "pnr", "personnr", "samordningsnummer"];
    let layouts: [&[usize]; 4] = [&[6, 4], &[8, 4], &[10], &[12]];
    labeled(groups, &layouts, &keywords)?.valid(|digits| {
        let short = &digits[digits.len() - 10..];
        let text: Vec<_> = short.iter().map(|digit| digit + b'0').collect();
        luhn::is_valid(&text) && is_day_month(&[short[4] % 6, short[5], short[2], short[3]])
    })
}
