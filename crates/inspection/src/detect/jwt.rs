//! JSON web tokens: signed (RFC 7515) and encrypted (RFC 7516).

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use registry_core::entity::policy::DataClass;

use crate::{detector::Detector, scan::Scan};

pub(crate) static JWT: Detector = Detector::new(
    "jwt",
    DataClass::Credential,
    "JSON web tokens whose header names an algorithm, with a signature",
);

const MAX_BYTES: usize = 16 << 10;
/// The shortest signature has 32 bytes.
const SIGNATURE_CHARACTERS: usize = 32;
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

pub(crate) fn find(scan: &mut Scan<'_>, start: usize) {
    let text = scan.text;
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.byte_before(start).is_some_and(belongs) {
        return;
    }
    let end = text.run_end(start, MAX_BYTES + 1, belongs);
    let token = text.slice(start..end).trim_end_matches('.');
    if token.len() <= MAX_BYTES && is_token(token) {
        scan.add(&JWT, start..start + token.len());
    }
}

fn is_token(token: &str) -> bool {
    let mut parts = token.split('.');
    let header = parts.next().and_then(decoded).unwrap_or_default();
    let names = |name: &str| header.starts_with('{') && header.contains(&format!("\"{name}\""));
    let rest: Vec<_> = parts.take(5).collect();
    match rest[..] {
        [payload, signature] => {
            names("alg")
                && signature.len() >= SIGNATURE_CHARACTERS
                && decoded(payload).is_some_and(|payload| payload.starts_with('{'))
        }
        [_, _, ciphertext, tag] => names("enc") && !ciphertext.is_empty() && tag.len() >= 20,
        _ => false,
    }
}

fn decoded(part: &str) -> Option<String> {
    String::from_utf8(ENGINE.decode(part).ok()?).ok()
}
