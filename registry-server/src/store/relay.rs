//! Data of a relay's database: the identity of the upstream registry and its signatures of stored states.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use registry_core::{Attestation, ChainHash, RegistryId, Revision, Timestamp};

use super::{
    Error, Store,
    backend::{Backend, run},
    sql,
    tokens::transact,
};

/// Turns a new database into one of the upstream registry: $1 registry id, $2 public key.
const SET_UPSTREAM_REGISTRY: &str = "UPDATE registry SET id = $1, checkpoint_key = $2, attestation = '' \
                                     WHERE checkpoint_key IS NULL";

/// Sets the first chain hash of the upstream log: $1 chain hash before the first commit.
const SET_UPSTREAM_HEAD: &str = "UPDATE head SET chain = $1 WHERE revision = 0";

/// Replaces the stored signatures $2 with $1, lines of revision, time and signature. Changes nothing if another
/// relay has replaced them, or if the database became a registry.
const REPLACE_ATTESTATIONS: &str = "UPDATE registry SET attestation = $1 WHERE attestation = $2";

/// Maximum stored signatures.
const MAX_SIGNATURES: usize = 16;

/// Stored signatures; empty if there are none yet, null if the database is not a relay's.
const ATTESTATIONS: &str = "SELECT attestation FROM registry";

impl Store {
    /// Public key of the registry's signatures, if the database has one.
    pub async fn known_checkpoint_key(&self) -> Result<Option<String>, Error> {
        super::key::read(&self.backend).await
    }

    /// Turns a new database into one of this registry with this public key. Changes nothing if the database has a
    /// key.
    pub async fn set_upstream(self, registry: &RegistryId, key: &str) -> Result<Self, Error> {
        let genesis = ChainHash::genesis(registry).to_string();
        transact!(&self.backend, tx => {
            let named = sqlx::query(SET_UPSTREAM_REGISTRY).bind(registry.as_str()).bind(key);
            if named.execute(&mut *tx).await?.rows_affected() == 1 {
                sqlx::query(SET_UPSTREAM_HEAD).bind(genesis.as_str()).execute(&mut *tx).await?;
            }
        })?;
        let (id,): (String,) =
            run!(Backend(&self.backend), (String,), sql::IDENTITY, [], fetch_one)
                .map_err(|e| self.backend.explain(&e))?;
        Ok(Self { registry: RegistryId::new(id), ..self })
    }

    /// Stores the signatures of states: the one nearest to the stored head, and those of states that are not stored
    /// yet.
    pub async fn store_attestations(
        &self,
        signed: &[(Revision, Attestation)],
    ) -> Result<(), Error> {
        loop {
            let Some(stored) = self.stored().await? else { return Ok(()) };
            let (head, _): (i64, String) =
                run!(Backend(&self.backend), (i64, String), sql::HEAD, [], fetch_one)
                    .map_err(|e| self.backend.explain(&e))?;
            let head = Revision(u64::try_from(head).unwrap_or_default());
            let all = stored.lines().filter_map(read).chain(signed.iter().copied());
            let lines: Vec<String> = relevant(all, head).iter().map(line).collect();
            let lines = lines.join("\n");
            let mut is_replaced = false;
            transact!(&self.backend, tx => {
                let keep = sqlx::query(REPLACE_ATTESTATIONS).bind(&lines).bind(&stored);
                is_replaced = keep.execute(&mut *tx).await?.rows_affected() == 1;
            })?;
            // Retries, because another relay of the database has changed the signatures.
            if is_replaced {
                return Ok(());
            }
        }
    }

    /// Stored signatures with their revisions.
    pub async fn attestations(&self) -> Result<Vec<(Revision, Attestation)>, Error> {
        Ok(self.stored().await?.unwrap_or_default().lines().filter_map(read).collect())
    }

    /// Whether the log is a relay's copy.
    pub async fn is_relay(&self) -> Result<bool, Error> {
        Ok(self.stored().await?.is_some())
    }

    async fn stored(&self) -> Result<Option<String>, Error> {
        let (stored,): (Option<String>,) =
            run!(Backend(&self.backend), (Option<String>,), ATTESTATIONS, [], fetch_one)
                .map_err(|e| self.backend.explain(&e))?;
        Ok(stored)
    }
}

/// Latest signature of each state: of the nearest state up to the head, and of states beyond it.
fn relevant(
    all: impl Iterator<Item = (Revision, Attestation)>,
    head: Revision,
) -> Vec<(Revision, Attestation)> {
    let mut known = BTreeMap::new();
    for (revision, signed) in all {
        let latest = known.entry(revision).or_insert(signed);
        if signed.time > latest.time {
            *latest = signed;
        }
    }
    let nearest = known.range(..=head).next_back().map(|(revision, signed)| (*revision, *signed));
    let beyond = known.range(head.next()..).rev().take(MAX_SIGNATURES - 1);
    let mut stored: Vec<_> = beyond.map(|(revision, signed)| (*revision, *signed)).collect();
    stored.extend(nearest);
    stored.reverse();
    stored
}

fn line((revision, Attestation { time, signature }): &(Revision, Attestation)) -> String {
    format!("{revision} {} {}", time.as_millis(), BASE64.encode(signature))
}

fn read(text: &str) -> Option<(Revision, Attestation)> {
    let mut words = text.split(' ');
    let revision = Revision(words.next()?.parse().ok()?);
    let time = Timestamp::from_millis(words.next()?.parse().ok()?);
    let signature = BASE64.decode(words.next()?).ok()?.try_into().ok()?;
    Some((revision, Attestation { time, signature }))
}
