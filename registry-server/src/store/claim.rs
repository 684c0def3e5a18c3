//! One server for one SQLite file: a lock beside it that ends with the process, however it ends.
//!
//! Postgres is not locked, because several servers share it. Maintenance commands take no lock,
//! because they append nothing to the log.

use std::{
    ffi::OsString,
    fs::{File, TryLockError},
    path::{Path, PathBuf},
};

use super::{DatabaseUrl, Error, url::Target};

/// The right to append to a database, until it is dropped.
#[derive(Debug)]
pub struct Claim {
    _lock: Option<File>,
}

impl DatabaseUrl {
    /// Claims the log for one server. Fails where another one has the file.
    pub fn claim(&self) -> Result<Claim, Error> {
        let Target::Sqlite(path) = &self.0 else { return Ok(Claim { _lock: None }) };
        // By whatever symbolic links it is reached, it is one file; one with hard links is not opened.
        let path = path.canonicalize().unwrap_or_else(|_| path.clone());
        let lock = beside(&path);
        let refused = |detail: String, help| {
            let detail = format!("{}: {detail}", lock.display());
            Error::Config { database: self.to_string(), detail, help }
        };
        let file = File::create(&lock)
            .map_err(|e| refused(e.to_string(), "make its directory writable"))?;
        match file.try_lock() {
            Ok(()) => Ok(Claim { _lock: Some(file) }),
            Err(TryLockError::WouldBlock) => Err(refused(
                "another registry-server holds it".to_owned(),
                "stop that one first; several servers share a Postgres database, never a file",
            )),
            Err(TryLockError::Error(e)) => {
                Err(refused(e.to_string(), "name a file on a disk that knows locks"))
            }
        }
    }
}

/// `registry.db.lock` for `registry.db`.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".lock");
    name.into()
}
