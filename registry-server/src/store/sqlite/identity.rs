//! The identity of the database file: a file that is deleted or replaced keeps working for the
//! process that has it open, and everything written to it is lost at the next start.
//!
//! The path is only examined, never opened: closing any descriptor of the file would release the
//! locks that SQLite holds on it (POSIX advisory locks).

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// The file that a path named when the database was opened.
#[derive(Debug)]
pub(super) struct FileIdentity {
    path: PathBuf,
    /// Device and inode; an error is kept as none, and then nothing is checked.
    opened: Option<(u64, u64)>,
}

/// The path names another file, or none.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Moved(pub(super) String);

impl FileIdentity {
    pub(super) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), opened: identity(path).ok() }
    }

    /// Compares the file at the path with the one that was opened.
    pub(super) fn check(&self) -> Result<(), Moved> {
        let Some(opened) = self.opened else { return Ok(()) };
        match identity(&self.path) {
            Ok(found) if found == opened => Ok(()),
            Ok(_) => Err(Moved("was replaced by another file".to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Moved("was deleted or moved".to_owned()))
            }
            Err(error) => Err(Moved(format!("cannot be found ({error})"))),
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|file| (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_identity_notices_deletion_replacement_and_return() {
        let directory = tempfile::tempdir().unwrap();
        let (path, kept) = (directory.path().join("registry.db"), directory.path().join("kept"));
        fs::write(&path, "a").unwrap();
        let file = FileIdentity::of(&path);
        file.check().unwrap();
        fs::rename(&path, &kept).unwrap();
        assert!(file.check().unwrap_err().to_string().contains("deleted"));
        fs::copy(&kept, &path).unwrap();
        assert!(file.check().unwrap_err().to_string().contains("replaced"));
        fs::rename(&kept, &path).unwrap();
        file.check().unwrap();
    }
}
