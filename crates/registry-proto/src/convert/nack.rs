//! Converts Nacks of followers.

use registry_core::{Revision, follower::Nack};

use super::diagnostic::{InvalidDiagnostic, diagnostics};
use crate::v1;

/// An invalid Nack.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNack {
    /// An invalid finding.
    #[error("finding {index} of the Nack is invalid: {source}")]
    Diagnostic {
        /// Its index.
        index: usize,
        /// The problem.
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
