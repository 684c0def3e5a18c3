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
/// Maximum bytes of user information before an address in a URL.
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

/// Users of repositories. A path with a slash follows their host.
const SERVICES: [&str; 5] = ["git", "hg", "svn", "gitlab", "gitea"];

pub(crate) fn find(scan: &mut Scan<'_>, at: usize) {
    let text = scan.text;
    let Some(local) = local_part(text, at) else { return };
    let Some(domain) = domain(text, at + 1) else { return };
    if !is_user_info(text, local.start) && !is_remote(text, &local, &domain) {
        scan.add(&EMAIL, local.start..domain.end);
    }
}

/// Whether a character belongs to addresses (RFC 6531), in scripts with spaces between words: Latin,
/// Greek, Cyrillic, Armenian, Hebrew and Arabic. In other scripts, a sentence continues after `.jp`.
pub(crate) fn is_letter_or_digit(char: char) -> bool {
    let is_mark = matches!(char, '\u{300}'..='\u{36f}');
    let is_script = matches!(char, '\u{c0}'..='\u{6ff}' | '\u{1e00}'..='\u{1fff}');
    char.is_ascii_alphanumeric() || is_script && (char.is_alphanumeric() || is_mark)
}

fn local_part(text: Text<'_>, end: usize) -> Option<Range<usize>> {
    let is_sign = |char: char| "._%+-'".contains(char);
    let is_local = |char: char| is_letter_or_digit(char) || is_sign(char);
    let start = text.run_start(end, LOCAL_BYTES + 1, |byte| {
        byte.is_ascii_alphanumeric() || !byte.is_ascii() || is_sign(char::from(byte))
    });
    let start = text.text.ceil_char_boundary(start);
    let start = start + text.slice(start..end).trim_end_matches(is_local).len();
    let start = start + usize::from(text.is_escape(start));
    let local = text.slice(start..end);
    let trimmed = local.trim_start_matches(['.', '\'', '-', '+', '%']);
    let has_letter_or_digit = trimmed.chars().any(is_letter_or_digit);
    let is_valid = has_letter_or_digit && !trimmed.ends_with('.') && !trimmed.contains("..");
    (is_valid && trimmed.len() <= LOCAL_BYTES).then(|| end - trimmed.len()..end)
}

fn domain(text: Text<'_>, start: usize) -> Option<Range<usize>> {
    let is_sign = |char: char| matches!(char, '.' | '-');
    let is_domain = |char: char| is_letter_or_digit(char) || is_sign(char);
    let end = text.run_end(start, DOMAIN_BYTES + 1, |byte| {
        byte.is_ascii_alphanumeric() || !byte.is_ascii() || is_sign(char::from(byte))
    });
    let run = text.slice(start..text.text.floor_char_boundary(end));
    let domain = &run[..run.len() - run.trim_start_matches(is_domain).len()];
    let domain = domain.trim_end_matches(['.', '-']);
    let (rest, last) = domain.rsplit_once('.')?;
    let last = top_level(last);
    let domain = &domain[..rest.len() + 1 + last.len()];
    let is_label =
        |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
    let is_valid = domain.len() <= DOMAIN_BYTES
        && rest.split('.').all(is_label)
        && is_top_level(last)
        && !OTHER_ENDINGS.iter().any(|ending| last.eq_ignore_ascii_case(ending));
    let is_example = EXAMPLE_DOMAINS.iter().any(|example| {
        let lower = domain.to_ascii_lowercase();
        lower.strip_suffix(example).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    (is_valid && !is_example).then(|| start..start + domain.len())
}

/// The last label without letters of another script that follow it.
fn top_level(label: &str) -> &str {
    let other = label.find(|char: char| !char.is_ascii()).filter(|at| *at > 0);
    &label[..other.unwrap_or(label.len())]
}

fn is_top_level(label: &str) -> bool {
    let is_word = label.bytes().all(|byte| byte.is_ascii_alphabetic())
        || label.chars().all(|char| char.is_alphabetic() && !char.is_ascii())
        || label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("xn--"));
    is_word && (2..=18).contains(&label.chars().count())
}

/// Whether the text before `@` is in the authority of a URL: no `/`, `?` or `#` follows its `://`, nor
/// a sign that ends a URL in lists, markup and forms.
fn is_user_info(text: Text<'_>, start: usize) -> bool {
    let belongs = |byte: u8| byte.is_ascii_graphic() && !b"\"/?#,;|<>'()&=".contains(&byte);
    let authority = text.run_start(start, URL_BYTES, belongs);
    text.slice(authority.saturating_sub(3)..authority) == "://"
}

/// Whether the text is an address of SSH: `git@host:path`. A password may also follow a colon.
fn is_remote(text: Text<'_>, local: &Range<usize>, domain: &Range<usize>) -> bool {
    if text.byte(domain.end) != Some(b':') {
        return false;
    }
    let start = domain.end + 1;
    let end = text.run_end(start, PATH_BYTES, |byte| byte.is_ascii_graphic() && byte != b'"');
    let path = text.slice(start..end);
    let is_service = SERVICES.contains(&text.slice(local.clone()));
    let is_repository = path.strip_suffix(".git").is_some();
    path.starts_with(['~', '/']) || is_service && path.contains('/') || is_repository
}
