//! Identity of the database file and its journal (`-wal`). A process can continue to use a deleted or replaced
//! file, but its writes are lost at the next start. New commits are only in the journal, so both files matter.
//!
//! The paths are never opened: closing any descriptor of the file would release the locks of SQLite (POSIX
//! advisory locks).

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The files at two paths when the database was opened.
#[derive(Debug)]
pub(super) struct FileIdentity {
    path: PathBuf,
    /// Device and inode; `None` disables the check.
    opened: Option<(u64, u64)>,
    /// Next to the target of a symbolic link.
    journal: PathBuf,
    /// Unset before the first connection, which creates the journal.
    journal_opened: OnceLock<(u64, u64)>,
}

/// A path that refers to another file, or to none.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Moved(pub(super) String);

impl FileIdentity {
    pub(super) fn new(path: &Path) -> Self {
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut journal = target.into_os_string();
        journal.push("-wal");
        Self {
            path: path.to_owned(),
            opened: identity(path).ok(),
            journal: journal.into(),
            journal_opened: OnceLock::new(),
        }
    }

    /// Records the journal of the first connection, and checks the files of later ones.
    pub(super) fn connected(&self) -> Result<(), Moved> {
        if let Ok(found) = identity(&self.journal) {
            self.journal_opened.get_or_init(|| found);
        }
        self.check()
    }

    /// Compares the files at the paths with the opened ones.
    pub(super) fn check(&self) -> Result<(), Moved> {
        compare(&self.path, self.opened)?;
        compare(&self.journal, self.journal_opened.get().copied())
    }
}

fn compare(path: &Path, opened: Option<(u64, u64)>) -> Result<(), Moved> {
    let Some(opened) = opened else { return Ok(()) };
    let problem = match identity(path) {
        Ok(found) if found == opened => return Ok(()),
        Ok(_) => "was replaced by another file".to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "was deleted or moved".to_owned(),
        Err(error) => format!("cannot be accessed ({error})"),
    };
    Err(Moved(format!("{} {problem}", path.display())))
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|file| (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_detects_deletion_and_replacement() {
        let directory = tempfile::tempdir().unwrap();
        let (path, kept) = (directory.path().join("registry.db"), directory.path().join("kept"));
        fs::write(&path, "a").unwrap();
        let file = FileIdentity::new(&path);
        file.check().unwrap();
        fs::rename(&path, &kept).unwrap();
        assert!(file.check().unwrap_err().to_string().contains("deleted"));
        fs::copy(&kept, &path).unwrap();
        assert!(file.check().unwrap_err().to_string().contains("replaced"));
        fs::rename(&kept, &path).unwrap();
        file.check().unwrap();
    }

    #[test]
    fn journal_is_checked_once_it_exists() {
        let directory = tempfile::tempdir().unwrap();
        let (path, journal) =
            (directory.path().join("registry.db"), directory.path().join("registry.db-wal"));
        fs::write(&path, "a").unwrap();
        let link = directory.path().join("link.db");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let errors = [path, link].map(|path| {
            let file = FileIdentity::new(&path);
            file.connected().unwrap();
            fs::write(&journal, "b").unwrap();
            file.connected().unwrap();
            fs::remove_file(&journal).unwrap();
            let error = file.check().unwrap_err().to_string();
            error.replace(&format!("{}/", directory.path().display()), "")
        });
        insta::assert_snapshot!(errors.join("\n"), @"
        registry.db-wal was deleted or moved
        registry.db-wal was deleted or moved
        ");
    }
}
