//! Say which exact versions constraints mean, all at one revision.

use std::sync::Arc;

use registry_core::{
    PointInTime, Record, Revision,
    resolve::{Requirement, Unresolved, resolve},
};

use super::{Catalogs, ReadError, run_blocking};

/// Whether requirements that nothing meets are part of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Every requirement must be met.
    All,
    /// Each is answered by itself.
    Each,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The catalog cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Nothing meets some of the requirements.
    #[error("{first}{}", more(*.failed))]
    Unresolved {
        /// The first of them.
        first: Box<Unresolved>,
        /// How many.
        failed: usize,
    },
}

fn more(failed: usize) -> String {
    match failed {
        0 | 1 => String::new(),
        more => format!("; {} more requirements are not met either", more - 1),
    }
}

/// For each requirement, the version that it means or why there is none.
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
    // A name may have very many versions, and a request many names.
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
