//! Public key of the checkpoints, so that all servers of a database sign with the same key.
//!
//! The private key is only in a file: access to the database is not enough to sign.

use super::{
    Error, NewAccessEvent,
    backend::{Backend, run},
    sql,
    tokens::{record, transact},
};

const REPLACED: &str = "checkpoint-key-replaced";

/// Returns the stored key, after storing `ours` if there is none.
pub(super) async fn known(backend: &Backend, ours: &str) -> Result<String, Error> {
    if let Some(known) = read(backend).await? {
        return Ok(known);
    }
    // With several servers, the first one stores its key.
    transact!(backend, tx => {
        sqlx::query(sql::FIRST_CHECKPOINT_KEY).bind(ours).execute(&mut *tx).await?;
    })?;
    Ok(read(backend).await?.unwrap_or_else(|| ours.to_owned()))
}

pub(super) async fn read(backend: &Backend) -> Result<Option<String>, Error> {
    let row: Option<(Option<String>,)> =
        run!(Backend(backend), (Option<String>,), sql::CHECKPOINT_KEY, [], fetch_optional)
            .map_err(|e| backend.explain(&e))?;
    Ok(row.and_then(|(key,)| key))
}

/// Replaces the stored key. The key of approvals lies next to it, so that the next start can register another one. With
/// it, the digests of arguments differ. Standing grants end, because they would repeat calls with an unknown outcome.
pub(super) async fn replace(
    backend: &Backend,
    new: &str,
    event: &NewAccessEvent,
) -> Result<(), Error> {
    transact!(backend, tx => {
        sqlx::query(sql::NEW_CHECKPOINT_KEY).bind(new).execute(&mut *tx).await?;
        sqlx::query(sql::FORGET_APPROVAL_KEY).execute(&mut *tx).await?;
        sqlx::query(sql::END_GRANTS).execute(&mut *tx).await?;
        record!(tx, event, REPLACED, new);
    })
}
