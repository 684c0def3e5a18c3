//! Errors of the store, grouped by the action of the operator or the caller.
//!
//! Messages contain the database URL without its password.

use registry_core::Revision;

/// An error of the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The database does not answer; a later attempt may succeed.
    #[error("the database {database} is unavailable: {detail}")]
    Unavailable {
        /// Database URL without its password.
        database: String,
        /// The failure.
        detail: String,
    },
    /// The database rejects writes.
    #[error(
        "the database {database} is read-only: {detail}; \
         make it writable, or connect to the primary server"
    )]
    ReadOnly {
        /// Database URL without its password.
        database: String,
        /// Message of the database.
        detail: String,
    },
    /// The path of the database refers to another file than the open one.
    #[error(
        "{detail} while the server is running; the database {database} accepts no writes, because they would be \
         lost at the next start. Put the original file back together with its -wal file. If only the -wal \
         file was deleted, or a backup is in place without a -wal file, restart the server with SIGTERM. \
         Otherwise stop the server and restore a backup"
    )]
    FileReplaced {
        /// Database URL.
        database: String,
        /// The changed file, and the change.
        detail: String,
    },
    /// The disk is full.
    #[error("the database {database} is full: {detail}; free or add disk space")]
    Full {
        /// Database URL without its password.
        database: String,
        /// Message of the database.
        detail: String,
    },
    /// Stored data that does not match its digest or chain hash.
    #[error("corrupt or edited data in {what}: {detail}; restore the database from a backup")]
    Corrupt {
        /// Revision, key or table.
        what: String,
        /// The mismatch.
        detail: String,
    },
    /// Intact data written by a newer version.
    #[error(
        "cannot read {what}, which was written by a newer registry-server ({detail}); upgrade this \
         server"
    )]
    NewerData {
        /// Revision or key.
        what: String,
        /// The unknown part.
        detail: String,
    },
    /// A schema that requires a newer program.
    #[error(
        "the database {database} requires schema version {found} but this program supports {known}; upgrade \
         registry-server"
    )]
    SchemaTooNew {
        /// Database URL without its password.
        database: String,
        /// Minimum schema version of a program.
        found: i64,
        /// Schema version of this program.
        known: i64,
    },
    /// A schema version other than this program's, for a command that does not migrate.
    #[error(
        "the database {database} has schema version {found} but this program has {known}; {}",
        if found < known {
        "run `registry-server migrate`, or use the version of registry-server that serves the database"
        } else {
        "use the version of registry-server that serves the database"
        }
    )]
    SchemaMismatch {
        /// Database URL without its password.
        database: String,
        /// Last applied migration.
        found: i64,
        /// Schema version of this program.
        known: i64,
    },
    /// A database without a registry.
    #[error(
        "the database {database} is not a registry: it contains {found}; use an empty database or the database \
         of a registry"
    )]
    NotARegistry {
        /// Database URL without its password.
        database: String,
        /// Content of the database.
        found: String,
    },
    /// A database that cannot be opened with this configuration.
    #[error("cannot open the database {database}: {detail}; {help}")]
    Config {
        /// Database URL without its password.
        database: String,
        /// The failure.
        detail: String,
        /// The remedy.
        help: &'static str,
    },
    /// An unexpectedly rejected statement: a defect, or a manual change of the schema.
    #[error("the database {database} rejected a statement: {detail}")]
    StatementRejected {
        /// Database URL without its password.
        database: String,
        /// Message of the database.
        detail: String,
    },
}

/// Commits that were not appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Another server appended first. Nothing was written.
    #[error("the log is already at revision {head}")]
    Conflict {
        /// Current head of the log.
        head: Revision,
    },
    /// A used request id. Nothing was written.
    #[error("request id `{request_id}` of {author} was already used in revision {revision}")]
    RequestIdTaken {
        /// Author of the earlier request.
        author: String,
        /// Request id.
        request_id: String,
        /// Commit of the earlier request.
        revision: Revision,
    },
    /// The database files were lost during the commit, so the outcome is unknown.
    #[error(transparent)]
    Lost(Error),
    /// A failure of the store.
    #[error(transparent)]
    Store(#[from] Error),
}
