//! Classification of Postgres error codes.

use crate::store::{Error, backend::driver_error};

/// SQLSTATE of the error.
fn code(error: &sqlx::Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}

/// A failure of an open database.
pub(super) fn explain(database: &str, error: &sqlx::Error) -> Error {
    let (database, detail) = (database.to_owned(), error.to_string());
    let Some(code) = code(error) else { return driver_error(database, error) };
    match code.as_str() {
        // read_only_sql_transaction: a standby, or a database set to read-only
        "25006" => Error::ReadOnly { database, detail },
        // disk_full
        "53100" => Error::Full { database, detail },
        // data_corrupted, index_corrupted
        "XX001" | "XX002" => Error::Corrupt { what: database, detail },
        _ => match &code[..2] {
            // connections, resources, operator intervention, rollbacks by timeout or deadlock, system errors
            "08" | "53" | "55" | "57" | "58" | "40" | "25" => {
                Error::Unavailable { database, detail }
            }
            // passwords and permissions that were changed while the server is running
            "28" => Error::Unavailable { database, detail },
            _ => Error::StatementRejected { database, detail },
        },
    }
}

/// A failure to open the database.
pub(super) fn explain_open(database: &str, error: &sqlx::Error) -> Error {
    // The whole text ends with a line of the source of Postgres.
    let detail = error.as_database_error().map_or_else(String::new, |e| e.message().to_owned());
    let config = |help| Error::Config { database: database.to_owned(), detail, help };
    match code(error).as_deref() {
        Some("3D000") => config("create it with createdb"),
        Some("28000" | "28P01") => config("check the user name, the password and pg_hba.conf"),
        Some("42501") => config("grant this user CREATE on the database and its schema"),
        Some("3F000") => config("create the schema that search_path names"),
        _ => explain(database, error),
    }
}

/// Whether an append failed because an earlier commit has a request id of its batch.
pub(super) fn is_used_request_id(error: &sqlx::Error) -> bool {
    let constraint = error.as_database_error().and_then(|e| e.constraint());
    constraint == Some("requests_revision_positive")
}
