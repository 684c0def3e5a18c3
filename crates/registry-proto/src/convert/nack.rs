//! A follower's refusal of a snapshot or delta.

use registry_core::{Revision, follower::Nack};

use super::diagnostic::{InvalidDiagnostic, diagnostics};
use crate::v1;

/// Why a message is not a refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNack {
    /// One of its findings.
    #[error("finding {index} of the refusal cannot be read: {source}")]
    Diagnostic {
        /// Which one, from 0.
        index: usize,
        /// What is wrong with it.
        source: InvalidDiagnostic,
    },
}

impl From<&Nack> for v1::Nack {
    fn from(Nack { revision, message, diagnostics: found }: &Nack) -> Self {
        Self { revision: revision.0, message: message.clone(), diagnostics: diagnostics(found) }
    }
}

impl TryFrom<v1::Nack> for Nack {
    type Error = InvalidNack;

    fn try_from(nack: v1::Nack) -> Result<Self, InvalidNack> {
        let v1::Nack { revision, message, diagnostics } = nack;
        let diagnostics = diagnostics
            .into_iter()
            .enumerate()
            .map(|(index, found)| {
                found.try_into().map_err(|source| InvalidNack::Diagnostic { index, source })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { revision: Revision(revision), message, diagnostics })
    }
}
