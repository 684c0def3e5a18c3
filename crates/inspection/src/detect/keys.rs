//! Keys of providers: a prefix, an alphabet, a length, and the checksum of those that have one.
//!
//! The forms are those of the providers' documentation.

use std::ops::RangeInclusive;

use registry_core::entity::policy::DataClass;

use super::randomness;
use crate::{detector::Detector, scan::Scan};

/// The form of a provider's keys.
#[derive(Debug)]
pub(crate) struct KeyRule {
    pub(crate) detector: Detector,
    pub(crate) prefixes: &'static [&'static str],
    alphabet: Alphabet,
    /// Bytes after the prefix.
    lengths: RangeInclusive<usize>,
    check: Check,
}

#[derive(Debug, Clone, Copy)]
enum Alphabet {
    Hex,
    /// Upper-case letters and digits.
    Upper,
    Alphanumeric,
    /// Letters, digits and `_`.
    Word,
    /// Letters, digits, `-`, `_` and `.`.
    UrlSafe,
    /// Letters, digits, `+`, `/` and `=`.
    Base64,
    /// Letters, digits and `/`.
    Path,
}

#[derive(Debug, Clone, Copy)]
enum Check {
    /// No repetitions, as in `xxxx` and `1234`.
    Varied,
    /// The last six characters are the CRC-32 of those after the prefix, in base 62.
    Crc32,
    Contains(&'static str),
}

impl KeyRule {
    const fn new(
        name: &'static str,
        finds: &'static str,
        prefixes: &'static [&'static str],
        alphabet: Alphabet,
        lengths: RangeInclusive<usize>,
        check: Check,
    ) -> Self {
        let detector = Detector::new(name, DataClass::Credential, finds);
        Self { detector, prefixes, alphabet, lengths, check }
    }
}

pub(crate) static KEY_RULES: [KeyRule; 45] = [
    KeyRule::new(
        "aws-access-key-id",
        "AWS access key ids",
        &["AKIA", "ASIA", "ABIA", "ACCA"],
        Alphabet::Upper,
        16..=16,
        Check::Varied,
    ),
    KeyRule::new(
        "github-token",
        "GitHub tokens with a valid checksum",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        Alphabet::Alphanumeric,
        36..=36,
        Check::Crc32,
    ),
    KeyRule::new(
        "github-fine-grained-token",
        "GitHub fine-grained personal access tokens",
        &["github_pat_"],
        Alphabet::Word,
        82..=82,
        Check::Varied,
    ),
    KeyRule::new(
        "gitlab-token",
        "GitLab access, deploy, runner and trigger tokens",
        &["glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glft-", "glsoat-"],
        Alphabet::UrlSafe,
        20..=300,
        Check::Varied,
    ),
    KeyRule::new(
        "slack-token",
        "Slack bot, user and app tokens",
        &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xapp-"],
        Alphabet::UrlSafe,
        24..=250,
        Check::Varied,
    ),
    KeyRule::new(
        "slack-webhook",
        "Slack webhook URLs",
        &["hooks.slack.com/services/"],
        Alphabet::Path,
        40..=60,
        Check::Varied,
    ),
    KeyRule::new(
        "google-api-key",
        "Google API keys",
        &["AIza"],
        Alphabet::UrlSafe,
        35..=35,
        Check::Varied,
    ),
    KeyRule::new(
        "google-oauth-secret",
        "Google OAuth client secrets",
        &["GOCSPX-"],
        Alphabet::UrlSafe,
        28..=28,
        Check::Varied,
    ),
    KeyRule::new(
        "google-oauth-token",
        "Google OAuth access tokens",
        &["ya29."],
        Alphabet::UrlSafe,
        40..=400,
        Check::Varied,
    ),
    KeyRule::new(
        "stripe-key",
        "Stripe secret and restricted keys",
        &["sk_live_", "sk_test_", "rk_live_", "rk_test_"],
        Alphabet::Alphanumeric,
        24..=247,
        Check::Varied,
    ),
    KeyRule::new(
        "stripe-webhook-secret",
        "Stripe webhook signing secrets",
        &["whsec_"],
        Alphabet::Base64,
        32..=64,
        Check::Varied,
    ),
    KeyRule::new(
        "openai-key",
        "OpenAI keys, by the mark that each contains",
        &["sk-"],
        Alphabet::UrlSafe,
        40..=200,
        Check::Contains("T3BlbkFJ"),
    ),
    KeyRule::new(
        "anthropic-key",
        "Anthropic keys",
        &["sk-ant-"],
        Alphabet::UrlSafe,
        80..=130,
        Check::Varied,
    ),
    KeyRule::new(
        "openrouter-key",
        "OpenRouter keys",
        &["sk-or-v1-"],
        Alphabet::Hex,
        64..=64,
        Check::Varied,
    ),
    KeyRule::new(
        "groq-key",
        "Groq keys",
        &["gsk_"],
        Alphabet::Alphanumeric,
        52..=52,
        Check::Varied,
    ),
    KeyRule::new("xai-key", "xAI keys", &["xai-"], Alphabet::Alphanumeric, 80..=80, Check::Varied),
    KeyRule::new(
        "perplexity-key",
        "Perplexity keys",
        &["pplx-"],
        Alphabet::Alphanumeric,
        48..=56,
        Check::Varied,
    ),
    KeyRule::new(
        "hugging-face-token",
        "Hugging Face tokens",
        &["hf_"],
        Alphabet::Alphanumeric,
        34..=34,
        Check::Varied,
    ),
    KeyRule::new(
        "npm-token",
        "npm tokens with a valid checksum",
        &["npm_"],
        Alphabet::Alphanumeric,
        36..=36,
        Check::Crc32,
    ),
    KeyRule::new(
        "pypi-token",
        "PyPI tokens, by the location in the macaroon",
        &["pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBpLm9yZw"],
        Alphabet::UrlSafe,
        50..=400,
        Check::Varied,
    ),
    KeyRule::new(
        "rubygems-key",
        "RubyGems keys",
        &["rubygems_"],
        Alphabet::Hex,
        48..=48,
        Check::Varied,
    ),
    KeyRule::new(
        "crates-io-token",
        "crates.io tokens",
        &["cio"],
        Alphabet::Alphanumeric,
        32..=32,
        Check::Varied,
    ),
    KeyRule::new(
        "docker-hub-token",
        "Docker Hub tokens",
        &["dckr_pat_"],
        Alphabet::UrlSafe,
        27..=32,
        Check::Varied,
    ),
    KeyRule::new(
        "sendgrid-key",
        "SendGrid keys",
        &["SG."],
        Alphabet::UrlSafe,
        66..=66,
        Check::Varied,
    ),
    KeyRule::new("mailgun-key", "Mailgun keys", &["key-"], Alphabet::Hex, 32..=32, Check::Varied),
    KeyRule::new(
        "shopify-token",
        "Shopify tokens",
        &["shpat_", "shpss_", "shpca_", "shppa_"],
        Alphabet::Hex,
        32..=32,
        Check::Varied,
    ),
    KeyRule::new(
        "square-token",
        "Square secrets and tokens",
        &["sq0csp-", "sq0atp-"],
        Alphabet::UrlSafe,
        22..=43,
        Check::Varied,
    ),
    KeyRule::new(
        "digitalocean-token",
        "DigitalOcean tokens",
        &["dop_v1_", "doo_v1_", "dor_v1_"],
        Alphabet::Hex,
        64..=64,
        Check::Varied,
    ),
    KeyRule::new(
        "databricks-token",
        "Databricks tokens",
        &["dapi"],
        Alphabet::Hex,
        32..=32,
        Check::Varied,
    ),
    KeyRule::new(
        "heroku-key",
        "Heroku keys",
        &["HRKU-"],
        Alphabet::UrlSafe,
        36..=65,
        Check::Varied,
    ),
    KeyRule::new(
        "netlify-token",
        "Netlify tokens",
        &["nfp_"],
        Alphabet::Alphanumeric,
        36..=36,
        Check::Varied,
    ),
    KeyRule::new(
        "supabase-token",
        "Supabase tokens",
        &["sbp_"],
        Alphabet::Hex,
        40..=40,
        Check::Varied,
    ),
    KeyRule::new(
        "planetscale-token",
        "PlanetScale tokens and passwords",
        &["pscale_tkn_", "pscale_pw_"],
        Alphabet::UrlSafe,
        32..=64,
        Check::Varied,
    ),
    KeyRule::new(
        "tailscale-key",
        "Tailscale keys",
        &["tskey-auth-", "tskey-api-", "tskey-client-"],
        Alphabet::UrlSafe,
        20..=64,
        Check::Varied,
    ),
    KeyRule::new(
        "vault-token",
        "HashiCorp Vault tokens",
        &["hvs.", "hvb."],
        Alphabet::UrlSafe,
        24..=200,
        Check::Varied,
    ),
    KeyRule::new(
        "doppler-token",
        "Doppler tokens",
        &["dp.pt."],
        Alphabet::Alphanumeric,
        40..=44,
        Check::Varied,
    ),
    KeyRule::new("pulumi-token", "Pulumi tokens", &["pul-"], Alphabet::Hex, 40..=40, Check::Varied),
    KeyRule::new(
        "grafana-token",
        "Grafana service account tokens",
        &["glsa_"],
        Alphabet::Word,
        41..=41,
        Check::Varied,
    ),
    KeyRule::new(
        "new-relic-key",
        "New Relic user keys",
        &["NRAK-"],
        Alphabet::Upper,
        27..=27,
        Check::Varied,
    ),
    KeyRule::new(
        "sentry-token",
        "Sentry user tokens",
        &["sntryu_"],
        Alphabet::Hex,
        64..=64,
        Check::Varied,
    ),
    KeyRule::new(
        "linear-key",
        "Linear keys",
        &["lin_api_"],
        Alphabet::Alphanumeric,
        40..=40,
        Check::Varied,
    ),
    KeyRule::new(
        "notion-token",
        "Notion tokens",
        &["ntn_"],
        Alphabet::Alphanumeric,
        43..=50,
        Check::Varied,
    ),
    KeyRule::new(
        "atlassian-token",
        "Atlassian tokens",
        &["ATATT3"],
        Alphabet::UrlSafe,
        100..=250,
        Check::Varied,
    ),
    KeyRule::new(
        "postman-key",
        "Postman keys",
        &["PMAK-"],
        Alphabet::UrlSafe,
        59..=59,
        Check::Varied,
    ),
    KeyRule::new(
        "age-secret-key",
        "Secret keys of age",
        &["AGE-SECRET-KEY-1"],
        Alphabet::Upper,
        58..=58,
        Check::Varied,
    ),
];

/// Validates a key from its prefix.
pub(crate) fn find(scan: &mut Scan<'_>, rule: &'static KeyRule, start: usize, end: usize) {
    let text = scan.text;
    let prefix = text.slice(start..end);
    let is_inside =
        text.byte_before(start).is_some_and(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    if is_inside || !rule.prefixes.contains(&prefix) {
        return;
    }
    let run = text.run_end(end, rule.lengths.end() + 2, |byte| belongs(rule.alphabet, byte));
    let key = text.slice(end..run);
    // The period of a sentence is no part of the key.
    let key = key.trim_end_matches(['.', '-']);
    let range = start..end + key.len();
    let fits = rule.lengths.contains(&key.len());
    if fits && text.is_word(&range) && is_valid(rule.check, key) {
        scan.add(&rule.detector, range);
    }
}

fn belongs(alphabet: Alphabet, byte: u8) -> bool {
    match alphabet {
        Alphabet::Hex => byte.is_ascii_hexdigit(),
        Alphabet::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        Alphabet::Alphanumeric => byte.is_ascii_alphanumeric(),
        Alphabet::Word => byte.is_ascii_alphanumeric() || byte == b'_',
        Alphabet::UrlSafe => byte.is_ascii_alphanumeric() || b"-_.".contains(&byte),
        Alphabet::Base64 => byte.is_ascii_alphanumeric() || b"+/=".contains(&byte),
        Alphabet::Path => byte.is_ascii_alphanumeric() || byte == b'/',
    }
}

fn is_valid(check: Check, key: &str) -> bool {
    match check {
        Check::Varied => randomness::is_varied(key),
        Check::Crc32 => has_checksum(key.as_bytes()),
        Check::Contains(mark) => key.contains(mark) && randomness::is_varied(key),
    }
}

/// Whether the last six characters are the CRC-32 of the others in base 62, as in tokens of GitHub and
/// npm.
fn has_checksum(key: &[u8]) -> bool {
    let Some((random, checksum)) = key.split_last_chunk::<6>() else { return false };
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(u64::from(byte - b'0')),
        b'A'..=b'Z' => Some(u64::from(byte - b'A') + 10),
        b'a'..=b'z' => Some(u64::from(byte - b'a') + 36),
        _ => None,
    };
    let written = checksum.iter().try_fold(0, |sum, byte| Some(sum * 62 + digit(*byte)?));
    written == Some(u64::from(crc32fast::hash(random)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_covers_the_random_part() {
        // The example of GitHub's description of its token format.
        assert!(has_checksum(b"zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq17"));
        assert!(!has_checksum(b"zQWBuTSOoRi4A9spHcVY5ncnsDkxkI0mLq17"));
        assert!(!has_checksum(b"short"));
    }
}
