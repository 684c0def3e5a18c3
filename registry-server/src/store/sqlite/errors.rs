//! Classification of SQLite result codes.

use super::identity::Moved;
use crate::store::{Error, backend::driver_error};

const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const READ_ONLY: i32 = 8;
const IO_ERROR: i32 = 10;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANNOT_OPEN: i32 = 14;
const NOT_A_DATABASE: i32 = 26;

/// Primary result code.
fn code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}

/// Whether another process holds a lock.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    code(error) == Some(BUSY)
}

/// A failure of an open database.
pub(super) fn explain(database: &str, error: &sqlx::Error) -> Error {
    let (database, detail) = (database.to_owned(), error.to_string());
    match code(error) {
        Some(READ_ONLY) => Error::ReadOnly { database, detail },
        Some(FULL) => Error::Full { database, detail },
        Some(CORRUPT | NOT_A_DATABASE) => Error::Corrupt { what: database, detail },
        Some(BUSY | LOCKED | IO_ERROR | CANNOT_OPEN) => Error::Unavailable { database, detail },
        Some(_) => Error::StatementRejected { database, detail },
        None => explain_driver(database, error),
    }
}

/// A failure to open the database.
pub(super) fn explain_open(database: &str, error: &sqlx::Error) -> Error {
    let (name, detail) = (database.to_owned(), error.to_string());
    match code(error) {
        Some(NOT_A_DATABASE) => {
            Error::NotARegistry { database: name, found: "a file in another format".to_owned() }
        }
        Some(CANNOT_OPEN) => Error::Config {
            database: name,
            detail,
            help: "check that the path exists and that this user may write the file and its directory",
        },
        _ => explain(database, error),
    }
}

/// An error without a result code.
fn explain_driver(database: String, error: &sqlx::Error) -> Error {
    if let sqlx::Error::Io(failed) = error
        && let Some(Moved(detail)) = failed.get_ref().and_then(|inner| inner.downcast_ref())
    {
        return Error::FileReplaced { database, detail: detail.clone() };
    }
    driver_error(database, error)
}
