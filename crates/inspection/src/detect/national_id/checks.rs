//! Check digits and dates of national identification numbers. Digits are values from 0 to 9.

/// Whether the first four digits are a day and a month.
pub(super) fn is_day_month(digits: &[u8]) -> bool {
    let (day, month) = (digits[0] * 10 + digits[1], digits[2] * 10 + digits[3]);
    matches!(day, 1..=31) && matches!(month, 1..=12)
}

fn weighted(digits: &[u8], weights: &[u32]) -> u32 {
    digits.iter().zip(weights).map(|(digit, weight)| u32::from(*digit) * weight).sum()
}

/// Whether the weighted sum is a multiple of `modulus`.
pub(super) fn weighted_mod(digits: &[u8], weights: &[u32], modulus: u32) -> bool {
    weighted(digits, weights).is_multiple_of(modulus)
}

pub(super) fn mod_97(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |remainder, digit| (remainder * 10 + u64::from(*digit)) % 97)
}

/// The Dutch test by eleven.
pub(super) fn elfproef(digits: &[u8]) -> bool {
    let positive = weighted(&digits[..8], &[9, 8, 7, 6, 5, 4, 3, 2]);
    digits.iter().any(|digit| *digit > 0) && positive % 11 == u32::from(digits[8])
}

/// The two check digits of a Brazilian CPF.
pub(super) fn cpf(digits: &[u8]) -> bool {
    let check = |length: usize| {
        let weights = (2..).take(length);
        let sum: u32 = digits[..length]
            .iter()
            .rev()
            .zip(weights)
            .map(|(d, w): (_, u32)| u32::from(*d) * w)
            .sum();
        let rest = sum * 10 % 11 % 10;
        rest == u32::from(digits[length])
    };
    digits.iter().any(|digit| *digit != digits[0]) && check(9) && check(10)
}

/// The two check digits of a Norwegian birth number.
pub(super) fn double_check(digits: &[u8]) -> bool {
    weighted_mod(digits, &[3, 7, 6, 1, 8, 9, 4, 5, 2, 1], 11)
        && weighted_mod(digits, &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1], 11)
}

/// The check digit of a German tax id.
pub(super) fn iso_7064_mod_11_10(digits: &[u8]) -> bool {
    let (number, check) = digits.split_at(digits.len() - 1);
    let product = number.iter().fold(10, |product: u32, digit| {
        let sum = (u32::from(*digit) + product) % 10;
        (if sum == 0 { 10 } else { sum }) * 2 % 11
    });
    (11 - product) % 10 == u32::from(check[0])
}

/// The check digit of an Aadhaar number.
pub(super) fn verhoeff(digits: &[u8]) -> bool {
    /// The multiplication table of the dihedral group of order ten.
    const PRODUCT: [[u8; 10]; 10] = [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        [1, 2, 3, 4, 0, 6, 7, 8, 9, 5],
        [2, 3, 4, 0, 1, 7, 8, 9, 5, 6],
        [3, 4, 0, 1, 2, 8, 9, 5, 6, 7],
        [4, 0, 1, 2, 3, 9, 5, 6, 7, 8],
        [5, 9, 8, 7, 6, 0, 4, 3, 2, 1],
        [6, 5, 9, 8, 7, 1, 0, 4, 3, 2],
        [7, 6, 5, 9, 8, 2, 1, 0, 4, 3],
        [8, 7, 6, 5, 9, 3, 2, 1, 0, 4],
        [9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
    ];
    const PERMUTATION: [u8; 10] = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];
    let permuted = |digit: u8, times: usize| {
        (0..times % 8).fold(digit, |digit, _| PERMUTATION[usize::from(digit)])
    };
    let digits = digits.iter().rev().enumerate();
    digits.fold(0, |product: u8, (i, digit)| {
        PRODUCT[usize::from(product)][usize::from(permuted(*digit, i))]
    }) == 0
}

/// The last character of a Finnish code: day, month, year and serial number modulo 31.
pub(super) fn fi_check(code: &[u8]) -> bool {
    const CHARACTERS: &[u8; 31] = b"0123456789ABCDEFHJKLMNPRSTUVWXY";
    let digits = code[..6].iter().chain(&code[7..10]);
    let number = digits.fold(0, |number: usize, digit| number * 10 + usize::from(digit - b'0'));
    CHARACTERS[number % 31] == code[10]
}

/// The last letter of an Italian tax code.
pub(super) fn codice_fiscale(code: &[u8]) -> bool {
    /// The values of characters at odd positions, by their value at even ones.
    const ODD: [u8; 26] = [
        1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24,
        23,
    ];
    let value = |byte: u8| if byte.is_ascii_digit() { byte - b'0' } else { byte - b'A' };
    let sum: u32 = code[..15].iter().enumerate().fold(0, |sum, (i, byte)| {
        let value = value(*byte);
        sum + u32::from(if i.is_multiple_of(2) { ODD[usize::from(value)] } else { value })
    });
    sum % 26 == u32::from(code[15] - b'A')
}

/// The letters before a British national insurance number.
pub(super) fn nino_prefix(prefix: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_uppercase() && !b"DFIQUV".contains(&byte);
    let is_excluded = ["BG", "GB", "KN", "NK", "NT", "TN", "ZZ"].contains(&prefix);
    prefix.bytes().all(is_letter) && !prefix.ends_with('O') && !is_excluded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(text: &str) -> Vec<u8> {
        text.bytes().map(|byte| byte - b'0').collect()
    }

    /// Numbers from the descriptions of their issuers.
    #[test]
    fn published_numbers_are_valid() {
        assert!(cpf(&digits("11144477735")));
        assert!(elfproef(&digits("111222333")));
        assert!(iso_7064_mod_11_10(&digits("86095742719")));
        assert!(verhoeff(&digits("2363")));
        assert!(fi_check(b"131052-308T"));
        assert!(codice_fiscale(b"RSSMRA85T10A562S"));
        assert!(weighted_mod(&digits("44051401359"), &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1], 10));
        assert!(weighted_mod(&digits("123456782"), &[1, 4, 3, 7, 5, 8, 6, 9, 10], 11));
        assert!(nino_prefix("AB") && !nino_prefix("QQ") && !nino_prefix("GB"));
    }

    #[test]
    fn changed_digits_are_invalid() {
        assert!(!cpf(&digits("11144477736")));
        assert!(!cpf(&digits("11111111111")));
        assert!(!elfproef(&digits("111222334")));
        assert!(!iso_7064_mod_11_10(&digits("86095742718")));
        assert!(!verhoeff(&digits("2364")));
        assert!(!fi_check(b"131052-308U"));
        assert!(!codice_fiscale(b"RSSMRA85T10A562T"));
    }
}
