//! Lock file that gives a SQLite file to one server. The operating system releases it with the process.
//!
//! Postgres needs no lock, because several servers share it. Administrative commands take no lock, because
//! they do not append to the log.

use std::{
    ffi::OsString,
    fs::{File, TryLockError},
    path::{Path, PathBuf},
};

use super::{DatabaseUrl, Error, url::Target};

/// Exclusive right to append to a database, released when dropped.
#[derive(Debug)]
pub struct FileLock {
    _lock: Option<File>,
}

impl DatabaseUrl {
    /// Locks the database for one server. Fails if another server has the lock.
    pub fn lock_file(&self) -> Result<FileLock, Error> {
        let Target::Sqlite(path) = &self.0 else { return Ok(FileLock { _lock: None }) };
        // Symbolic links resolve to one lock; files with hard links are rejected earlier.
        let path = path.canonicalize().unwrap_or_else(|_| path.clone());
        let lock = lock_path(&path);
        let failed = |detail: String, help| {
            let detail = format!("{}: {detail}", lock.display());
            Error::Config { database: self.to_string(), detail, help }
        };
        let file = File::create(&lock)
            .map_err(|e| failed(e.to_string(), "make its directory writable"))?;
        match file.try_lock() {
            Ok(()) => Ok(FileLock { _lock: Some(file) }),
            Err(TryLockError::WouldBlock) => Err(failed(
                "another registry-server has the lock".to_owned(),
                "stop it first, or use Postgres to run several servers on one database",
            )),
            Err(TryLockError::Error(e)) => {
                Err(failed(e.to_string(), "use a file system that supports locks"))
            }
        }
    }
}

/// Returns `registry.db.lock` for `registry.db`.
fn lock_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".lock");
    name.into()
}
