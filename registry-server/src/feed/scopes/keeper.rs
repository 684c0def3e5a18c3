//! Keeps a scope's part of the catalog up to date, as long as somebody follows it.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use registry_core::{Digest, Revision, Scope, scoped_catalog::ScopedCatalog};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use super::{
    super::{Hub, Said, Word, roster::lock},
    Cell, Channel, Channels, State, beside, is_followed,
};

/// How often followers are told of revisions that do not concern them.
const PROGRESS: Duration = Duration::from_secs(1);
/// How long a scope that nobody follows is kept, for those who come back.
const LINGER: Duration = Duration::from_mins(5);
/// The same in a relay: while its registry is there, which may sign so many scopes only, and has signed it
/// anew when somebody comes back.
const LINGER_SIGNED: Duration = Duration::from_secs(30);
/// And while it is away.
const LINGER_ALONE: Duration = Duration::from_hours(24);
/// How often it is looked whether somebody follows.
const LOOK: Duration = Duration::from_secs(10);
/// How long a relay waits for the signature of a state: longer than it waits between attempts to hear it.
const PATIENCE: Duration = Duration::from_secs(40);
/// Its registry was heard of lately, though not of the scope.
const LATELY: Duration = Duration::from_secs(20);
/// From so many entities on, a part is worked out beside the runtime.
const MANY: usize = 500;

/// A scope's place among all that are followed. Without its keeper it has none, however that ended:
/// its followers are let go, and the next one begins anew.
pub(super) struct Place {
    pub(super) channels: Channels,
    pub(super) scope: Scope,
    pub(super) channel: Arc<Channel>,
}

impl Place {
    fn holds(&self, cell: &Cell) -> bool {
        cell.get().is_some_and(|channel| Arc::ptr_eq(channel, &self.channel))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut channels = lock(&self.channels);
        if channels.get(&self.scope).is_some_and(|cell| self.holds(cell)) {
            channels.remove(&self.scope);
        }
    }
}

/// Keeps one scope up to date.
pub(super) struct Keeper {
    pub(super) place: Place,
    pub(super) told: watch::Sender<Arc<State>>,
    pub(super) part: ScopedCatalog,
    /// What is in it.
    pub(super) content: Digest,
    pub(super) head: watch::Receiver<Revision>,
    /// In a relay: what the registry says of the scope. Only what it has signed is published.
    pub(super) words: Option<watch::Receiver<Said>>,
    pub(super) hub: Weak<Hub>,
    /// Since when there is a state that the registry has not signed.
    pub(super) unsigned_since: Option<Instant>,
}

impl Keeper {
    /// Runs until nobody has followed for a while, or the server ends.
    pub(super) async fn run(mut self) {
        let mut progress_at: Option<Instant> = None;
        let mut deserted_since: Option<Instant> = None;
        loop {
            tokio::select! {
                changed = self.head.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    if self.advance().await {
                        progress_at = None;
                    } else {
                        progress_at = progress_at.or_else(|| Some(Instant::now() + PROGRESS));
                    }
                }
                () = at(progress_at) => {
                    progress_at = None;
                    self.publish();
                }
                () = changed(&mut self.words) => self.publish(),
                () = at(self.unsigned_since.map(|since| since + PATIENCE)) => self.publish_unsigned(),
                () = sleep(LOOK) => self.place.channel.forget_steps(),
            }
            if self.is_over(&mut deserted_since) {
                return;
            }
        }
    }

    /// Whether nobody needs this any more; then it is forgotten.
    fn is_over(&self, since: &mut Option<Instant>) -> bool {
        let mut channels = lock(&self.place.channels);
        let own = channels.get(&self.place.scope).filter(|cell| self.place.holds(cell));
        let Some(cell) = own else { return true };
        if is_followed(cell) {
            *since = None;
        } else if since.get_or_insert_with(Instant::now).elapsed() > self.linger() {
            channels.remove(&self.place.scope);
            return true;
        }
        false
    }

    /// Goes on to the head. Says whether anything in scope changed.
    async fn advance(&mut self) -> bool {
        self.head.borrow_and_update();
        let Some(hub) = self.hub.upgrade() else { return false };
        let source = hub.catalog();
        let changed = hub.changed_since(self.part.source(), &source);
        let mut part = self.part.clone();
        let advance = move || {
            let is_touched = part.advance(&source, changed.as_deref());
            let content = is_touched.then(|| part.catalog().content_digest());
            (part, content)
        };
        let is_big = self.part.catalog().len() >= MANY;
        let (part, content) = if is_big { beside(advance).await } else { advance() };
        self.part = part;
        self.content = content.unwrap_or(self.content);
        let has_changed = self.told.borrow().content != self.content;
        if has_changed {
            self.publish();
        }
        has_changed
    }

    /// Lets followers have the present state; in a relay, once the registry has signed it.
    fn publish(&mut self) {
        let Some(hub) = self.hub.upgrade() else { return };
        let mut catalog = self.part.catalog().clone();
        if let Some(words) = &mut self.words {
            let word = words.borrow_and_update().word.clone().filter(|w| w.content == self.content);
            let Some(Word { place: (revision, chain), attestation, .. }) = word else {
                self.unsigned_since.get_or_insert_with(Instant::now);
                return;
            };
            if revision < self.told.borrow().revision() {
                return;
            }
            let is_behind = revision < self.part.catalog().revision();
            self.unsigned_since =
                is_behind.then(|| self.unsigned_since.unwrap_or_else(Instant::now));
            catalog = catalog.at(revision, chain).with_attestation(Some(attestation));
        }
        self.tell(State::new(catalog, self.content, hub.voucher()));
    }

    /// In a relay that hears of its registry, but not of this scope: followers that know no key need
    /// not wait for a signature.
    fn publish_unsigned(&mut self) {
        self.unsigned_since = Some(Instant::now());
        let Some(hub) = self.hub.upgrade() else { return };
        let is_newer = self.part.catalog().revision() > self.told.borrow().revision();
        if !is_newer || hub.voucher().age() > LATELY {
            return;
        }
        tracing::warn!(scope = %self.place.scope, "the registry's signatures of a scope do not come; its states are told without, and followers with a pinned key refuse them");
        self.tell(State::new(self.part.catalog().clone(), self.content, hub.voucher()));
    }

    fn tell(&self, state: Arc<State>) {
        self.place.channel.remember(state.clone());
        self.told.send_replace(state);
    }

    /// How long it is kept while nobody follows.
    fn linger(&self) -> Duration {
        let is_there = self.hub.upgrade().is_none_or(|hub| hub.voucher().age() < LATELY);
        match (&self.words, is_there) {
            (None, _) => LINGER,
            (Some(_), true) => LINGER_SIGNED,
            // What it has signed is not to be had again meanwhile.
            (Some(_), false) => LINGER_ALONE,
        }
    }
}

/// Waits for another word; for ever, where there are none.
async fn changed(words: &mut Option<watch::Receiver<Said>>) {
    if let Some(words) = words
        && words.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
