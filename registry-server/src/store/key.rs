//! Which key signs checkpoints, so that servers of one database do not sign with different ones.
//!
//! Only the public key is kept. The private key is only in a file, so access to the database is not
//! enough to sign.

use super::{
    Error,
    backend::{Backend, run},
    sql,
    tokens::transact,
};

/// The known key; this one, where there was none.
pub(super) async fn known(backend: &Backend, ours: &str) -> Result<String, Error> {
    if let Some(known) = read(backend).await? {
        return Ok(known);
    }
    // Of several servers, the first one makes its key known.
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

/// Another one from now on.
pub(super) async fn replace(backend: &Backend, new: &str) -> Result<(), Error> {
    transact!(backend, tx => {
        sqlx::query(sql::NEW_CHECKPOINT_KEY).bind(new).execute(&mut *tx).await?;
    })
}
