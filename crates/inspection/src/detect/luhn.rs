//! The check digit of ISO/IEC 7812-1.

/// Whether the last digit is the check digit of the others.
pub(super) fn is_valid(digits: &[u8]) -> bool {
    let sum: u32 = digits.iter().rev().enumerate().map(|(i, digit)| weighted(i, *digit)).sum();
    sum.is_multiple_of(10)
}

fn weighted(position: usize, digit: u8) -> u32 {
    let value = u32::from(digit - b'0') << (position % 2);
    value / 10 + value % 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_check_digit_is_valid() {
        let valid = (b'0'..=b'9').filter(|last| is_valid(&[b"7992739871", &[*last][..]].concat()));
        assert_eq!(valid.collect::<Vec<_>>(), b"3");
    }
}
