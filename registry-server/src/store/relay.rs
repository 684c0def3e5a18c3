//! What only a relay's database has: the identity of another registry, and that one's signature on what
//! is held.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use registry_core::{Attestation, ChainHash, RegistryId, Revision, Timestamp};

use super::{
    Error, Store,
    backend::{Backend, run},
    sql,
    tokens::transact,
};

/// Makes a new database a relay's, of another registry: $1 its id, $2 its key.
const ADOPT_REGISTRY: &str = "UPDATE registry SET id = $1, checkpoint_key = $2, attestation = '' \
                              WHERE checkpoint_key IS NULL";

/// The log of another registry begins elsewhere: $1 chain hash before the first commit.
const ADOPT_HEAD: &str = "UPDATE head SET chain = $1 WHERE revision = 0";

/// Remembers signatures: $1 revision, time and signature, a line for each, in place of $2. Not where
/// another relay has remembered others meanwhile, nor where the database became a registry's.
const KEEP_ATTESTATION: &str = "UPDATE registry SET attestation = $1 WHERE attestation = $2";

/// Most signatures that are remembered.
const MOST: usize = 16;

/// The signatures that are remembered; empty: none yet; null: not a relay.
const ATTESTATION: &str = "SELECT attestation FROM registry";

impl Store {
    /// The key that this registry's signatures are known by, if one is.
    pub async fn known_checkpoint_key(&self) -> Result<Option<String>, Error> {
        super::key::read(&self.backend).await
    }

    /// Makes a new database one of this registry, which is known by this key. One that is known by a
    /// key already stays as it is.
    pub async fn adopt(self, registry: &RegistryId, key: &str) -> Result<Self, Error> {
        let genesis = ChainHash::genesis(registry).to_string();
        transact!(&self.backend, tx => {
            let named = sqlx::query(ADOPT_REGISTRY).bind(registry.as_str()).bind(key);
            if named.execute(&mut *tx).await?.rows_affected() == 1 {
                sqlx::query(ADOPT_HEAD).bind(genesis.as_str()).execute(&mut *tx).await?;
            }
        })?;
        let (id,): (String,) =
            run!(Backend(&self.backend), (String,), sql::IDENTITY, [], fetch_one)
                .map_err(|e| self.backend.explain(&e))?;
        Ok(Self { registry: RegistryId::new(id), ..self })
    }

    /// Remembers the registry's signatures on some states: of all that are known, the nearest to what is
    /// stored, and those on states that are yet to be stored.
    pub async fn keep_attestations(&self, signed: &[(Revision, Attestation)]) -> Result<(), Error> {
        loop {
            let Some(kept) = self.kept().await? else { return Ok(()) };
            let (head, _): (i64, String) =
                run!(Backend(&self.backend), (i64, String), sql::HEAD, [], fetch_one)
                    .map_err(|e| self.backend.explain(&e))?;
            let head = Revision(u64::try_from(head).unwrap_or_default());
            let all = kept.lines().filter_map(read).chain(signed.iter().copied());
            let lines: Vec<String> = still_wanted(all, head).iter().map(line).collect();
            let lines = lines.join("\n");
            let mut is_kept = false;
            transact!(&self.backend, tx => {
                let keep = sqlx::query(KEEP_ATTESTATION).bind(&lines).bind(&kept);
                is_kept = keep.execute(&mut *tx).await?.rows_affected() == 1;
            })?;
            // Else another relay of the database has kept something meanwhile.
            if is_kept {
                return Ok(());
            }
        }
    }

    /// The signatures that were remembered last, and of which revisions.
    pub async fn attestations(&self) -> Result<Vec<(Revision, Attestation)>, Error> {
        Ok(self.kept().await?.unwrap_or_default().lines().filter_map(read).collect())
    }

    /// Whether the log is a relay's copy of another registry's.
    pub async fn is_relay(&self) -> Result<bool, Error> {
        Ok(self.kept().await?.is_some())
    }

    async fn kept(&self) -> Result<Option<String>, Error> {
        let (kept,): (Option<String>,) =
            run!(Backend(&self.backend), (Option<String>,), ATTESTATION, [], fetch_one)
                .map_err(|e| self.backend.explain(&e))?;
        Ok(kept)
    }
}

/// The latest signature on each state: the nearest that is not beyond the head, and those beyond it.
fn still_wanted(
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
    let beyond = known.range(head.next()..).rev().take(MOST - 1);
    let mut kept: Vec<_> = beyond.map(|(revision, signed)| (*revision, *signed)).collect();
    kept.extend(nearest);
    kept.reverse();
    kept
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
