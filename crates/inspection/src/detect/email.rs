//! E-mail addresses.

use std::ops::Range;

use registry_core::entity::policy::DataClass;

use crate::{context::Text, detector::Detector, scan::Scan};

pub(crate) static EMAIL: Detector = Detector::new(
    "email",
    DataClass::Contact,
    "e-mail addresses outside of the domains that are reserved for examples",
);

const LOCAL_BYTES: usize = 64;
const DOMAIN_BYTES: usize = 253;
/// Bytes before an address that may contain the `://` of its URL.
const URL_BYTES: usize = 256;
/// Distance in bytes of the slash in a path of SSH.
const PATH_BYTES: usize = 64;
/// Endings that no address has: file names, units, and private or reserved domains (RFC 2606, 6762).
const OTHER_ENDINGS: [&str; 44] = [
    "example",
    "test",
    "invalid",
    "localhost",
    "local",
    "localdomain",
    "internal",
    "lan",
    "corp",
    "service",
    "socket",
    "timer",
    "target",
    "mount",
    "slice",
    "scope",
    "png",
    "jpg",
    "jpeg",
    "gif",
    "svg",
    "webp",
    "avif",
    "ico",
    "bmp",
    "html",
    "htm",
    "css",
    "scss",
    "js",
    "mjs",
    "cjs",
    "jsx",
    "tsx",
    "json",
    "yaml",
    "yml",
    "toml",
    "xml",
    "txt",
    "tgz",
    "jar",
    "whl",
    "pdf",
];
const EXAMPLE_DOMAINS: [&str; 3] = ["example.com", "example.org", "example.net"];

pub(crate) fn find(scan: &mut Scan<'_>, at: usize) {
    let text = scan.text;
    let Some(local) = local_part(text, at) else { return };
    let Some(domain) = domain(text, at + 1) else { return };
    if !is_in_url(text, local.start) && !is_remote(text, &domain) {
        scan.add(&EMAIL, local.start..domain.end);
    }
}

fn local_part(text: Text<'_>, end: usize) -> Option<Range<usize>> {
    let is_local = |byte: u8| byte.is_ascii_alphanumeric() || b"._%+-'".contains(&byte);
    let start = text.run_start(end, LOCAL_BYTES + 1, is_local);
    let start = start + usize::from(text.is_escape(start));
    let local = text.slice(start..end);
    let trimmed = local.trim_start_matches(['.', '\'', '-', '+', '%']);
    let has_letter_or_digit = trimmed.bytes().any(|byte| byte.is_ascii_alphanumeric());
    let is_valid = has_letter_or_digit && !trimmed.ends_with('.') && !trimmed.contains("..");
    (is_valid && trimmed.len() <= LOCAL_BYTES).then(|| end - trimmed.len()..end)
}

fn domain(text: Text<'_>, start: usize) -> Option<Range<usize>> {
    let is_domain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let end = text.run_end(start, DOMAIN_BYTES + 1, is_domain);
    let domain = text.slice(start..end).trim_end_matches(['.', '-']);
    let (rest, last) = domain.rsplit_once('.')?;
    let is_label =
        |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
    let is_valid = domain.len() <= DOMAIN_BYTES
        && rest.split('.').all(is_label)
        && (2..=18).contains(&last.len())
        && last.bytes().all(|byte| byte.is_ascii_alphabetic())
        && !OTHER_ENDINGS.iter().any(|ending| last.eq_ignore_ascii_case(ending));
    let is_example = EXAMPLE_DOMAINS.iter().any(|example| {
        let lower = domain.to_ascii_lowercase();
        lower.strip_suffix(example).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    (is_valid && !is_example).then(|| start..start + domain.len())
}

/// Whether the text before `@` is the user of a URL.
fn is_in_url(text: Text<'_>, start: usize) -> bool {
    if !matches!(text.byte_before(start), Some(b':' | b'/')) {
        return false;
    }
    let word = text.run_start(start, URL_BYTES, |byte| byte.is_ascii_graphic() && byte != b'"');
    text.slice(word..start).contains("://")
}

/// Whether the text is an address of SSH: `git@host:path`. A password may also follow a colon.
fn is_remote(text: Text<'_>, domain: &Range<usize>) -> bool {
    if text.byte(domain.end) != Some(b':') {
        return false;
    }
    let start = domain.end + 1;
    let end = text.run_end(start, PATH_BYTES, |byte| byte.is_ascii_graphic() && byte != b'"');
    let path = text.slice(start..end);
    path.starts_with('~') || path.contains('/') || path.strip_suffix(".git").is_some()
}
