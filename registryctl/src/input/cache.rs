//! The cache of a gateway: an export of the registry, and the journal of later commits next to it.

use std::{fs::File, path::Path};

use atomic_file::with_suffix;
use registry_core::{
    Code, Diagnostic,
    registry_file::{journal, read_export, write_export},
};

use super::{FILE_BYTES, Source, Unreadable, read_bytes};

impl Source {
    /// Reads a registry file, with the commits of its journal if it has one. The warning names
    /// unusable commits.
    pub(crate) fn read_registry(path: &Path) -> Result<(Self, Option<Diagnostic>), Unreadable> {
        // The journal first: a gateway replaces the export before it removes the journal.
        let journal = read_journal(path)?;
        let source = Self::read(path)?;
        Ok(match journal {
            Some(journal) => source.with_journal(path, journal),
            None => (source, None),
        })
    }

    fn with_journal(self, path: &Path, journal: Vec<u8>) -> (Self, Option<Diagnostic>) {
        // Other registry files have no journal.
        let Ok(mut catalog) = read_export(self.text.as_bytes()) else { return (self, None) };
        let exported = catalog.revision();
        let warning = journal::replay(&mut catalog, journal.into()).err().map(|reason| {
            let journal = with_suffix(path, journal::SUFFIX);
            let (journal, revision) = (journal.display(), catalog.revision());
            let message =
                format!("{journal} has no valid commit after revision {revision}: {reason}");
            Diagnostic::warning(Code::DocumentInvalid, "", message)
                .with_help("compare the revision with the caches of other gateways")
        });
        if catalog.revision() == exported {
            return (self, warning);
        }
        let text = String::from_utf8_lossy(&write_export(&catalog)).into_owned();
        (Self::generated(&self.name, text), warning)
    }
}

fn read_journal(export: &Path) -> Result<Option<Vec<u8>>, Unreadable> {
    let path = with_suffix(export, journal::SUFFIX);
    if export == Path::new("-") || !path.is_file() {
        return Ok(None);
    }
    let mut file = File::open(&path).map_err(|e| Unreadable::new(&path, e))?;
    read_bytes(&mut file, &path, FILE_BYTES).map(Some)
}
