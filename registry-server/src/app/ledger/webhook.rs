//! The webhook of budget alerts, with the headers and signatures of Standard Webhooks.

use std::{path::PathBuf, time::Duration};

use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use registry_core::{Secret, Timestamp};
use reqwest::{Client, header::CONTENT_TYPE, redirect::Policy};

use super::LedgerConfig;

/// Timeout of a request.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// Prefix of a secret.
const PREFIX: &str = "whsec_";
/// Lengths of the key of a signature, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The webhook cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidWebhook {
    /// The file of the secret cannot be read.
    #[error("cannot read the webhook secret {path:?}: {reason} (--budget-webhook-secret-file)")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The failure.
        reason: String,
    },
    /// The file has no secret.
    #[error(
        "the file {0:?} has no webhook secret: write `whsec_` and 24 to 64 bytes in base64, such as \
         the output of `echo whsec_$(openssl rand -base64 32)` (--budget-webhook-secret-file)"
    )]
    Malformed(PathBuf),
    /// The HTTP client cannot be created.
    #[error("cannot create the HTTP client of the webhook: {0}")]
    Client(String),
}

/// The receiver of alerts.
pub(super) struct Webhook {
    client: Client,
    /// The path or query of some receivers contains a password.
    url: Secret,
    key: hmac::Key,
}

impl Webhook {
    /// Reads the secret. `None`: no webhook is configured.
    pub(super) fn open(config: &LedgerConfig) -> Result<Option<Self>, InvalidWebhook> {
        let (Some(url), Some(path)) =
            (&config.budget_webhook_url, &config.budget_webhook_secret_file)
        else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path).map_err(|e| InvalidWebhook::Unreadable {
            path: path.clone(),
            reason: e.to_string(),
        })?;
        let key = parse_key(&text).ok_or_else(|| InvalidWebhook::Malformed(path.clone()))?;
        let client = Client::builder().redirect(Policy::none()).timeout(TIMEOUT).build();
        let client = client.map_err(|e| InvalidWebhook::Client(e.to_string()))?;
        Ok(Some(Self { client, url: url.clone(), key }))
    }

    /// Sends a message. The id is the same in each attempt. An error is the reason for the log.
    pub(super) async fn send(&self, id: &str, body: String, now: Timestamp) -> Result<(), String> {
        let seconds = now.as_millis().div_euclid(1_000).to_string();
        let signature = sign(&self.key, id, &seconds, &body);
        let request = self
            .client
            .post(self.url.expose())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", signature)
            .body(body);
        // The URL may contain a password.
        let response = request.send().await.map_err(|e| e.without_url().to_string())?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(format!("the webhook answered {status}")) }
    }
}

fn parse_key(text: &str) -> Option<hmac::Key> {
    let bytes = BASE64.decode(text.trim().strip_prefix(PREFIX)?).ok()?;
    KEY_BYTES.contains(&bytes.len()).then(|| hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

/// The signature of version 1: HMAC-SHA256 of the id, the time and the body.
fn sign(key: &hmac::Key, id: &str, seconds: &str, body: &str) -> String {
    let tag = hmac::sign(key, format!("{id}.{seconds}.{body}").as_bytes());
    format!("v1,{}", BASE64.encode(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    #[test]
    fn signature_matches_the_specification() {
        let key = parse_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
        let signature =
            sign(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", r#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secret_without_prefix_or_length_is_rejected() {
        let bytes = |count: usize| format!("whsec_{}", BASE64.encode(vec![7_u8; count]));
        for (text, is_valid) in [
            (bytes(24), true),
            (bytes(64), true),
            (bytes(23), false),
            (bytes(65), false),
            (BASE64.encode([7_u8; 32]), false),
            ("whsec_?".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(parse_key(&text).is_some(), is_valid, "{text}");
        }
    }
}
