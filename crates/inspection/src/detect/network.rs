//! Addresses of networks: IPv4, IPv6 and MAC.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    ops::Range,
};

use registry_core::entity::policy::DataClass;

use super::digits::Groups;
use crate::{
    context::{Text, is_word_byte},
    detector::Detector,
    scan::Scan,
};

pub(crate) static IPV4: Detector = Detector::new(
    "ipv4",
    DataClass::Network,
    "IPv4 addresses, not versions, loopback, netmasks or addresses that are reserved for examples",
);
pub(crate) static IPV6: Detector = Detector::new(
    "ipv6",
    DataClass::Network,
    "IPv6 addresses: global, unique local and link-local, not those reserved for examples",
);
pub(crate) static MAC: Detector =
    Detector::new("mac-address", DataClass::Network, "MAC addresses of six pairs");

const CONTEXT: [&str; 14] = [
    "ip", "ipv", "ips", "host", "addr", "address", "server", "client", "from", "peer", "dns",
    "ping", "gateway", "remote",
];
/// Labels of other numbers with four parts.
const OTHER: [&str; 18] = [
    "v", "version", "versions", "ver", "release", "build", "rev", "revision", "chapter", "section",
    "firmware", "sdk", "driver", "oid", "upgrade", "package", "chrome", "safari",
];
/// An address whose parts are all at most this is also the form of a version.
const VERSION_PART: u8 = 30;
const IPV6_BYTES: usize = 46;

pub(super) fn quad(scan: &mut Scan<'_>, groups: &Groups<'_>) {
    let (text, first) = (groups.text, groups.first());
    if first.len() > 3 || text.byte(first.end) != Some(b'.') || !scan.wants(&IPV4) {
        return;
    }
    let end = text.run_end(first.start, 16, |byte| byte.is_ascii_digit() || byte == b'.');
    let address = text.slice(first.start..end).trim_end_matches('.');
    let range = first.start..first.start + address.len();
    let Ok(parsed) = address.parse::<Ipv4Addr>() else { return };
    let is_joined = matches!(text.byte_before(range.start), Some(b'.' | b'-' | b'+'))
        || matches!(text.byte(range.end), Some(b'-' | b'+'));
    let has_more =
        text.byte(range.end) == Some(b'.') && text.byte(range.end + 1).is_some_and(is_word_byte);
    let is_free = text.is_word(&range) && !is_joined && !has_more;
    if is_free && is_notable(parsed) && !is_version(text, &range, parsed) {
        scan.add_number(&IPV4, range);
    }
}

fn is_notable(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    let is_other = address.is_loopback() || address.is_documentation() || address.is_multicast();
    !is_other && first != 0 && first != 255
}

fn is_version(text: Text<'_>, span: &Range<usize>, address: Ipv4Addr) -> bool {
    if text.has_label(span.start, &OTHER)
        || text.byte_before(span.start) == Some(b'/') && !in_url(text, span)
    {
        return true;
    }
    let is_small = address.octets().iter().all(|part| *part <= VERSION_PART);
    // A port, a prefix length, a URL, or a user of SSH.
    let is_located = matches!(text.byte(span.end), Some(b':' | b'/'))
        || text.byte_before(span.start) == Some(b'@')
        || in_url(text, span);
    is_small && !is_located && !text.has_context(span.start, &CONTEXT)
}

fn in_url(text: Text<'_>, span: &Range<usize>) -> bool {
    span.start >= 3 && text.slice(span.start - 3..span.start) == "://"
}

/// Validates an IPv6 or MAC address from its first colon.
pub(crate) fn colon(scan: &mut Scan<'_>, at: usize) {
    let text = scan.text;
    let start = text.run_start(at, 5, |byte| byte.is_ascii_hexdigit());
    let is_first = !text.byte_before(start).is_some_and(|byte| is_word_byte(byte) || byte == b':');
    let follows = text.byte(at + 1).is_some_and(|byte| byte.is_ascii_hexdigit() || byte == b':');
    if !is_first || !follows || start == at || at - start > 4 {
        return;
    }
    if at - start == 2 && mac(scan, start, b':') {
        return;
    }
    let belongs = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    let end = text.run_end(start, IPV6_BYTES, belongs);
    if text.byte(end).is_some_and(is_word_byte) {
        return;
    }
    let address = text.slice(start..end).trim_end_matches(['.', ':']);
    let range = start..start + address.len();
    let is_address = address.parse::<Ipv6Addr>().is_ok_and(is_notable_v6);
    if is_address && address.bytes().any(|byte| byte.is_ascii_digit()) {
        scan.add(&IPV6, range);
    }
}

fn is_notable_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let is_example = first == 0x2001 && second == 0xdb8 || first == 0x3fff && second < 0x1000;
    let is_located =
        first & 0xe000 == 0x2000 || first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80;
    is_located && !is_example
}

/// Validates a MAC address from its first dash.
pub(crate) fn dash(scan: &mut Scan<'_>, at: usize) {
    if let Some(start) = at.checked_sub(2) {
        mac(scan, start, b'-');
    }
}

/// Whether six pairs with this separator start here.
fn mac(scan: &mut Scan<'_>, start: usize, separator: u8) -> bool {
    let text = scan.text;
    let Some(bytes) = text.bytes().get(start..start + 17) else { return false };
    let fits = |(i, byte): (usize, &u8)| {
        if i % 3 == 2 { *byte == separator } else { byte.is_ascii_hexdigit() }
    };
    if !bytes.iter().enumerate().all(fits) {
        return false;
    }
    let range = start..start + 17;
    let is_longer = |at: Option<u8>| at.is_some_and(|byte| is_word_byte(byte) || byte == separator);
    let hex = || bytes.iter().filter(|byte| **byte != separator);
    let is_one_digit = hex().all(|digit| digit.eq_ignore_ascii_case(&bytes[0]));
    if !is_longer(text.byte_before(start)) && !is_longer(text.byte(range.end)) && !is_one_digit {
        scan.add(&MAC, range);
    }
    true
}
