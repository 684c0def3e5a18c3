//! What can go wrong with the store, told apart by what the operator or the caller can do.
//!
//! Messages name a database by its URL without the password.

use registry_core::Revision;

/// Why the store could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The database does not answer now; it may later.
    #[error("the database {database} is unavailable: {detail}")]
    Unavailable {
        /// Which, without its password.
        database: String,
        /// What happened.
        detail: String,
    },
    /// The database answers, and refuses to be written.
    #[error(
        "the database {database} is read-only: {detail}; \
         make it writable, or connect to the primary server"
    )]
    ReadOnly {
        /// Which, without its password.
        database: String,
        /// What the database says.
        detail: String,
    },
    /// The path of the database no longer names the file that is open.
    #[error(
        "{detail} while the server runs; writes to the database {database} are rejected, because \
         the next start would not find them; put the original file back (with its -wal file); if \
         only the -wal file was lost, stop the server with SIGTERM and start it again; otherwise \
         restore a backup"
    )]
    Moved {
        /// Which.
        database: String,
        /// The changed file, and the change.
        detail: String,
    },
    /// There is no room for more.
    #[error("the database {database} has no room left: {detail}; free or add disk space")]
    Full {
        /// Which, without its password.
        database: String,
        /// What the database says.
        detail: String,
    },
    /// What is stored is not what was once stored.
    #[error("the database is damaged or was edited at {what}: {detail}; restore it from a backup")]
    Corrupt {
        /// The revision, key or table.
        what: String,
        /// What does not fit.
        detail: String,
    },
    /// What is stored is what was once stored, by a newer program.
    #[error(
        "{what} cannot be read, though its digest holds ({detail}); a newer registry-server wrote \
         it: replace this one too"
    )]
    Newer {
        /// The revision or key.
        what: String,
        /// What this program does not know.
        detail: String,
    },
    /// A newer program changed the database so that this one no longer understands it.
    #[error(
        "the database {database} needs a program that knows schema version {found}, \
         this one knows {known}; run a newer registry-server"
    )]
    SchemaVersion {
        /// Which, without its password.
        database: String,
        /// The oldest schema version that a program must know.
        found: i64,
        /// The newest that this program knows.
        known: i64,
    },
    /// A command that changes no schema met another one than its own.
    #[error(
        "the database {database} has schema version {found}, this program {known}; {}",
        if found < known {
            "migrate it with `registry-server migrate`, or use the registry-server that serves it"
        } else {
            "use the registry-server that serves it"
        }
    )]
    OtherSchema {
        /// Which, without its password.
        database: String,
        /// The last migration that was applied.
        found: i64,
        /// The newest that this program knows.
        known: i64,
    },
    /// A database of something else.
    #[error(
        "the database {database} holds something else ({found}) and no registry; \
         name an empty database, or the one of a registry"
    )]
    NotOurs {
        /// Which, without its password.
        database: String,
        /// What is there.
        found: String,
    },
    /// The database cannot be opened as it was named.
    #[error("the database {database} cannot be opened: {detail}; {help}")]
    Config {
        /// Which, without its password.
        database: String,
        /// What is wrong.
        detail: String,
        /// What to do about it.
        help: &'static str,
    },
    /// The database refused what it should have taken: a bug here, or a hand-made change there.
    #[error("the database {database} refused a statement: {detail}")]
    Refused {
        /// Which, without its password.
        database: String,
        /// What the database says.
        detail: String,
    },
}

/// Why commits were not appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Somebody else appended first. Nothing was written.
    #[error("the log is at revision {head} already")]
    Conflict {
        /// Where the log is now.
        head: Revision,
    },
    /// A request id was used before. Nothing was written.
    #[error("the request id `{request_id}` of {author} was used by revision {revision}")]
    RequestIdTaken {
        /// The author that used it.
        author: String,
        /// The id.
        request_id: String,
        /// The commit that has it.
        revision: Revision,
    },
    /// The database lost its files during the commit, so the outcome is unknown.
    #[error(transparent)]
    Lost(Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
}
