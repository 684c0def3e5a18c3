//! Numbers of the US Social Security Administration and the Internal Revenue Service.

use registry_core::entity::policy::DataClass;

use super::digits::Groups;
use crate::{detector::Detector, scan::Scan};

pub(super) static SSN: Detector = Detector::new(
    "us-ssn",
    DataClass::GovernmentId,
    "US social security numbers with dashes, or next to a keyword; not numbers that are never issued",
);
pub(super) static ITIN: Detector = Detector::new(
    "us-itin",
    DataClass::GovernmentId,
    "US individual taxpayer identification numbers next to a keyword",
);

const CONTEXT: [&str; 5] = ["ssn", "ssns", "social", "socialsecurity", "socialsecuritynumber"];
const ITIN_CONTEXT: [&str; 2] = ["itin", "taxpayer"];
/// Labels of other numbers with the same groups.
const OTHER: [&str; 27] = [
    "part",
    "parts",
    "pn",
    "p",
    "n",
    "sku",
    "model",
    "item",
    "serial",
    "catalog",
    "order",
    "ref",
    "reference",
    "case",
    "ticket",
    "lot",
    "batch",
    "article",
    "product",
    "no",
    "range",
    "ranges",
    "rows",
    "lines",
    "pages",
    "bytes",
    "ports",
];
/// Numbers in advertisements and documentation.
const PUBLISHED: [&[u8]; 5] =
    [b"078051120", b"219099999", b"123456789", b"111223333", b"987654321"];

pub(super) fn find(scan: &mut Scan<'_>, groups: &Groups<'_>) {
    let text = groups.text;
    let grouped = groups.with_lengths(&[3, 2, 4]);
    let Some(range) = grouped.clone().or_else(|| groups.with_lengths(&[9])) else { return };
    let number = groups.digits(&range);
    let is_labeled =
        || text.has_context(range.start, &CONTEXT) || text.has_context(range.start, &ITIN_CONTEXT);
    let is_free = text.is_number(&range) || text.is_segment(&range) && is_labeled();
    if !is_free || PUBLISHED.contains(&number.as_slice()) {
        return;
    }
    if is_itin(&number) {
        if text.has_context(range.start, &ITIN_CONTEXT) {
            scan.add_number(&ITIN, range);
        }
        return;
    }
    let has_dashes = grouped.is_some() && groups.separator == b'-';
    let is_labeled = text.has_context(range.start, &CONTEXT)
        || has_dashes && !text.has_label(range.start, &OTHER);
    if is_labeled && is_issued(&number) {
        scan.add_number(&SSN, range);
    }
}

/// Area, group and serial number. Since 2011, all other numbers may be issued.
fn is_issued(number: &[u8]) -> bool {
    let (area, rest) = number.split_at(3);
    area != b"000"
        && area != b"666"
        && area[0] != b'9'
        && &rest[..2] != b"00"
        && &rest[2..] != b"0000"
}

fn is_itin(number: &[u8]) -> bool {
    let group = (number[3] - b'0') * 10 + (number[4] - b'0');
    number[0] == b'9' && matches!(group, 50..=65 | 70..=88 | 90..=92 | 94..=99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_numbers_are_never_issued() {
        for number in [b"000121234", b"666121234", b"900121234", b"212001234", b"212120000"] {
            assert!(!is_issued(number), "{number:?}");
        }
        assert!(is_issued(b"212345678"));
        assert!(is_itin(b"912701234") && !is_itin(b"912661234"));
    }
}
