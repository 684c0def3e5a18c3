//! Resolves version constraints to exact versions, all at one revision.

use std::sync::Arc;

use registry_core::{
    PointInTime, Record, Revision,
    resolve::{Requirement, Unresolved, resolve},
};

use super::{Catalogs, ReadError, run_blocking};

/// Whether unresolved requirements are part of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// An unresolved requirement is an error.
    All,
    /// Unresolved requirements are part of the result.
    Each,
}

/// A failed resolution.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The catalog cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Some requirements are unresolved.
    #[error("{first}{}", more(*.failed))]
    Unresolved {
        /// The first one.
        first: Box<Unresolved>,
        /// Their number.
        failed: usize,
    },
}

fn more(failed: usize) -> String {
    match failed {
        0 | 1 => String::new(),
        more => format!("; {} more requirements are unresolved", more - 1),
    }
}

/// For each requirement, the matching version or the reason why there is none.
pub type Resolutions = Vec<Result<Arc<Record>, Box<Unresolved>>>;

/// Resolves requirements, all at one revision.
pub async fn all(
    catalogs: &Catalogs,
    requirements: Vec<Requirement>,
    mode: Mode,
    at: Option<PointInTime>,
) -> Result<(Resolutions, Revision), Error> {
    let catalog = catalogs.at(at).await?;
    let revision = catalog.revision();
    // Names with many versions would block the runtime.
    let resolving = move || {
        requirements.iter().map(|one| resolve(&catalog, one).cloned()).collect::<Resolutions>()
    };
    let resolutions = run_blocking(resolving).await?;
    let failed = resolutions.iter().filter(|resolution| resolution.is_err()).count();
    if mode == Mode::All
        && let Some(first) = resolutions.iter().find_map(|resolution| resolution.clone().err())
    {
        return Err(Error::Unresolved { first, failed });
    }
    Ok((resolutions, revision))
}
