//! The attestation in an export.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};

use super::InvalidExport;
use crate::{attestation::Attestation, timestamp::Timestamp};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenAttestation {
    time: Timestamp,
    /// Base64 of 64 bytes.
    signature: String,
}

impl WrittenAttestation {
    pub(super) fn new(Attestation { time, signature }: &Attestation) -> Self {
        Self { time: *time, signature: BASE64.encode(signature) }
    }
}

impl TryFrom<WrittenAttestation> for Attestation {
    type Error = InvalidExport;

    fn try_from(written: WrittenAttestation) -> Result<Self, InvalidExport> {
        let WrittenAttestation { time, signature } = written;
        let bytes = BASE64.decode(signature).ok().and_then(|bytes| bytes.try_into().ok());
        let signature = bytes.ok_or(InvalidExport::Signature)?;
        Ok(Self { time, signature })
    }
}
