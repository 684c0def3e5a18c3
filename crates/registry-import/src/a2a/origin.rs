//! The origin of a live card: verification of its signature, and the original in `metadata`.

use ::a2a::signature::{self, JwkSet, SignatureError};
use registry_core::{document::Digest, entity::CARD_PROVENANCE, timestamp::Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::Repairs;

/// Maximum size of a kept original in bytes. A document has at most four times as many.
const ORIGINAL_BYTES: usize = 64 * 1024;

/// A card as received.
#[derive(Debug, Clone)]
pub struct ReceivedCard {
    /// The URL of the card, without a query.
    pub url: String,
    /// The text.
    pub text: String,
    /// The parsed text.
    pub value: Value,
}

/// The origin of a card.
#[derive(Debug, Clone, Default)]
pub enum CardOrigin {
    /// Signatures were not verified.
    #[default]
    NotVerified,
    /// The card has no signature.
    Unsigned,
    /// A signature is valid.
    Verified(Provenance),
}

/// The origin of a card with a valid signature, and its original.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    source_url: String,
    /// The digest of the original.
    sha256: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified_kid: Option<String>,
    /// The reading of section 8.4 of A2A that matches the signature.
    verified_variant: signature::Variant,
    verified_at: Timestamp,
    /// The text as received, which the signature covers. `None`: it is too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    original: Option<String>,
}

impl ReceivedCard {
    /// Verifies the signatures with trusted keys.
    pub fn verified(&self, keys: &JwkSet, now: Timestamp) -> Result<CardOrigin, SignatureError> {
        if !signature::is_signed(&self.value) {
            return Ok(CardOrigin::Unsigned);
        }
        let verified = signature::verify(&self.value, keys)?;
        Ok(CardOrigin::Verified(Provenance {
            source_url: self.url.clone(),
            sha256: Digest::compute(self.text.as_bytes()),
            verified_kid: verified.kid,
            verified_variant: verified.variant,
            verified_at: now,
            original: (self.text.len() <= ORIGINAL_BYTES).then(|| self.text.clone()),
        }))
    }
}

impl CardOrigin {
    /// Reports the verification, and adds the provenance to the agent.
    pub(super) fn record(
        &self,
        repairs: &mut Repairs,
        signatures: Option<&Value>,
        agent: &mut Map<String, Value>,
    ) {
        const AT: &str = "/signatures";
        const SIGNED: &str = "signatures, which cover the original card";
        match self {
            Self::NotVerified if signatures.is_some() => {
                let how = "they were left out; verify them with --card-keys";
                repairs.made(AT, SIGNED, how);
            }
            Self::NotVerified => {}
            Self::Unsigned => {
                let how = "check that the card is from its agent, or request a signed card";
                repairs.needed(AT, "the card is not signed", how);
            }
            Self::Verified(provenance) => {
                let how = if provenance.original.is_some() {
                    format!("they are valid; the original is in `metadata.{CARD_PROVENANCE}`")
                } else {
                    format!(
                        "they are valid; the original exceeds {} KiB and was left out",
                        ORIGINAL_BYTES >> 10
                    )
                };
                repairs.made(AT, SIGNED, how);
                let metadata = agent.entry("metadata").or_insert_with(|| json!({}));
                metadata[CARD_PROVENANCE] = json!(provenance);
            }
        }
    }
}
