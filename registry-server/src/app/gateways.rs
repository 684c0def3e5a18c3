//! Lists gateways of all servers of the database, with their lag.
//!
//! Followers of this server are read from memory, other gateways from the database.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, LazyLock},
    time::Duration,
};

use registry_core::{Revision, Timestamp};
use tokio::time::timeout;

use super::page::{self, InvalidPage, Page, PageRequest};
use crate::{
    clock::Clock,
    feed::{Feed, Hub, Slowest, Superseded},
    metrics::Followers,
    store::{GatewayQuery, GatewayRecord, Presence, Store},
};

/// The longest wait for the database. After it, only followers of this server are listed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Selects gateways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The connection state; `None` selects all.
    pub presence: Option<Presence>,
    /// The prefix of the name.
    pub prefix: String,
    /// Selects gateways that have not applied this revision.
    pub behind: Option<Revision>,
}

/// A gateway and its lag.
#[derive(Debug)]
pub struct Gateway {
    /// The stored state.
    pub known: GatewayRecord,
    /// The number of revisions that it has not applied.
    pub lag: u64,
    /// How long it has been behind, in milliseconds; `None`: unknown.
    pub lag_millis: Option<u64>,
}

/// A page of gateways.
#[derive(Debug)]
pub struct Listing {
    /// The page.
    pub page: Page<Gateway>,
    /// The head of the log.
    pub head: Revision,
    /// The database cannot be read, and only followers of this server are listed.
    pub is_live_only: bool,
}

/// The position of a gateway in the list: its name, its principal, and the number of its stream.
type Place = (String, String, u64);

/// The gateways that follow this server or another server of the database.
pub struct Gateways {
    feed: Arc<Feed>,
    hub: Arc<Hub>,
    store: Store,
    clock: Arc<dyn Clock>,
}

impl Gateways {
    /// The gateways of this registry.
    pub fn new(feed: Arc<Feed>, hub: Arc<Hub>, store: Store, clock: Arc<dyn Clock>) -> Self {
        Self { feed, hub, store, clock }
    }

    /// Lists gateways by name.
    pub async fn list(&self, wanted: Wanted, page: &PageRequest) -> Result<Listing, InvalidPage> {
        let read = |cursor: &str| serde_json::from_str::<Place>(cursor).ok();
        let after = page.cursor(read)?;
        let (found, is_live_only) =
            self.find(wanted, after.unwrap_or_default(), page.size + 1).await;
        let place =
            |last: &(Place, GatewayRecord)| serde_json::to_string(&last.0).unwrap_or_default();
        let (items, more) = page::fill(found.into_iter(), page.size, |(_, known)| bytes(known));
        let next_page_token = page.next_token(&items, more, place);
        let head = self.hub.catalog().revision();
        let known: Vec<_> = items.into_iter().map(|(_, known)| known).collect();
        let items = self.with_lags(head, known).await;
        Ok(Listing { page: Page { items, next_page_token }, head, is_live_only })
    }

    /// The followers of this server, for the metrics.
    pub fn followers(&self) -> Followers {
        let sessions = self.feed.sessions();
        let (head, now) = (self.hub.catalog().revision(), self.clock.now());
        let Slowest { applied, begun_at, rejecting } = sessions.slowest();
        let superseded = match applied.map(|applied| self.hub.superseded(applied)) {
            Some(Superseded::At(at)) => Some(at),
            Some(Superseded::Unknown) => self.hub.oldest_commit_time(),
            Some(Superseded::NotYet) | None => None,
        };
        let begun_at = begun_at.filter(|_| head > Revision(0));
        let applied = if begun_at.is_some() { Revision(0) } else { applied.unwrap_or(head) };
        let since = superseded.into_iter().chain(begun_at).min();
        Followers {
            connected: sessions.len(),
            rejecting,
            lag: head.0.saturating_sub(applied.0),
            lag_millis: since.map(|at| millis(at, now)).unwrap_or_default(),
        }
    }

    /// The first gateways after a position, and whether the database could not be read.
    async fn find(
        &self,
        Wanted { presence, prefix, behind }: Wanted,
        (gateway, principal, past): Place,
        limit: usize,
    ) -> (Vec<(Place, GatewayRecord)>, bool) {
        let sessions = self.feed.sessions();
        let mut query = GatewayQuery {
            after: (gateway, principal),
            prefix,
            behind,
            presence,
            except: sessions.server().to_owned(),
            alive_since: self.feed.alive_since(),
            limit,
        };
        let place = |known: &GatewayRecord, number| -> Place {
            (known.gateway.clone(), known.principal.clone(), number)
        };
        // Most lists do not need it.
        let here = LazyLock::new(|| sessions.names());
        let since = |known: &GatewayRecord| {
            here.get(&(known.gateway.clone(), known.principal.clone())).copied()
        };
        // This order does not miss a follower that disconnects meanwhile.
        let page = sessions.page(&query, past).into_iter();
        let mut found: BTreeMap<_, _> = page.map(|(n, known)| (place(&known, n), known)).collect();
        for known in sessions.departed(&query) {
            let mut same = found.range(place(&known, 0)..=place(&known, u64::MAX));
            if same.next().is_none() && since(&known).is_none() {
                found.insert(place(&known, 0), known);
            }
        }
        let is_live_only = loop {
            let Ok(Ok(rows)) = timeout(PATIENCE, self.store.gateways(&query)).await else {
                break true;
            };
            let Some(last) = rows.last() else { break false };
            let (is_last, end) = (rows.len() < limit, place(last, u64::MAX));
            query.after = (end.0.clone(), end.1.clone());
            // Followers of this server are read from memory, unless another server accepted them later.
            let told = rows.into_iter().filter(|known| {
                since(known).is_none_or(|since| {
                    known.presence == Presence::Connected && known.connected_at > since
                })
            });
            for known in told {
                // A follower that has just disconnected is newer in memory than in the database.
                found.entry(place(&known, 0)).or_insert(known);
            }
            if is_last || found.range(..=end).count() >= limit {
                break false;
            }
        };
        (found.into_iter().take(limit).collect(), is_live_only)
    }

    /// Adds the lag of each gateway.
    async fn with_lags(&self, head: Revision, known: Vec<GatewayRecord>) -> Vec<Gateway> {
        let now = self.clock.now();
        let behind: BTreeSet<_> =
            known.iter().map(|known| known.applied).filter(|applied| *applied < head).collect();
        let superseded = self.superseded_at(behind).await;
        let gateway = |known: GatewayRecord| {
            let lag = head.0.saturating_sub(known.applied.0);
            let since = match known.applied {
                Revision(0) => Some(&known.connected_at),
                applied => superseded.get(&applied),
            };
            let lag_millis = if lag == 0 { Some(0) } else { since.map(|at| millis(*at, now)) };
            Gateway { known, lag, lag_millis }
        };
        known.into_iter().map(gateway).collect()
    }

    /// The known times of the commits after these revisions.
    async fn superseded_at(&self, revisions: BTreeSet<Revision>) -> HashMap<Revision, Timestamp> {
        let (mut superseded, mut older) = (HashMap::new(), Vec::new());
        for revision in revisions {
            match self.hub.superseded(revision) {
                Superseded::At(at) => drop(superseded.insert(revision, at)),
                Superseded::Unknown => older.push(revision.next()),
                Superseded::NotYet => {}
            }
        }
        let stored = timeout(PATIENCE, self.store.commit_times(&older)).await;
        let stored = stored.unwrap_or(Ok(Vec::new())).unwrap_or_default();
        superseded.extend(stored.into_iter().map(|(next, at)| (Revision(next.0 - 1), at)));
        superseded
    }
}

/// The approximate size of a gateway on a page.
fn bytes(GatewayRecord { nack, .. }: &GatewayRecord) -> usize {
    let nack = nack.as_ref().map_or(0, |nack| {
        let found = nack.diagnostics.iter();
        let found = found.map(|f| f.message.len() + f.pointer.len() + page::OUTLINE_BYTES);
        nack.message.len() + found.sum::<usize>()
    });
    nack + 2 * page::OUTLINE_BYTES
}

fn millis(since: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.as_millis().saturating_sub(since.as_millis())).unwrap_or_default()
}
