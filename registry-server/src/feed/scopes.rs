//! The scopes that somebody follows: what is in each is worked out once, whatever the number of
//! followers.
//!
//! Each has a task that keeps its part of the catalog up to date. A change in it is told at once, a
//! new revision without one at most once a second. Deliberately absent: followers, which look at a
//! scope's state at their own speed.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use registry_core::{Attestation, Catalog, Digest, Revision, Scope, scope::Part};
use tokio::{
    sync::{OnceCell, watch},
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    Error, Hub, Shared, Voucher, Word, admission::Turns, roster::lock, shared::Reached,
    snapshot::Snapshot, step::Step,
};

/// How often followers are told of revisions that do not concern them.
const PROGRESS: Duration = Duration::from_secs(1);
/// How long a scope that nobody follows is kept, for those who come back.
const LINGER: Duration = Duration::from_mins(5);
/// The same in a relay.
const LINGER_SIGNED: Duration = Duration::from_hours(24);
/// How long a relay waits for its registry's word on a scope that is new to it.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many earlier states of a scope are known to those who come back.
const RECENT_STATES: usize = 64;
/// How many steps between states are shared.
const SHARED_STEPS: usize = 4;
/// From so many entities on, a part is worked out beside the runtime.
const MANY: usize = 500;

/// All scopes that are followed.
pub(super) struct Scopes {
    channels: Channels,
    limit: usize,
}

type Cell = Arc<OnceCell<Arc<Channel>>>;
type Channels = Arc<Mutex<HashMap<Scope, Cell>>>;

/// One scope.
pub(super) struct Channel {
    now: watch::Sender<Arc<State>>,
    /// The latest states with different contents, oldest first; the last is of the present one.
    recent: Mutex<VecDeque<Arc<State>>>,
    steps: Mutex<VecDeque<Arc<Shared<Step>>>>,
    pub(super) reached: Reached,
}

/// What is in a scope after a revision.
pub(super) struct State {
    pub(super) catalog: Arc<Catalog>,
    pub(super) content: Digest,
    attestation: Mutex<Option<Attestation>>,
    snapshot: OnceCell<Arc<Snapshot>>,
}

impl State {
    fn new(catalog: Catalog, content: Digest, voucher: &Voucher) -> Arc<Self> {
        let catalog = Arc::new(voucher.vouch(catalog));
        let attestation = Mutex::new(catalog.attestation().copied());
        Arc::new(Self { catalog, content, attestation, snapshot: OnceCell::new() })
    }

    /// The registry's word on it: not an old one, as long as it is the latest state.
    pub(super) fn attestation(&self, hub: &Hub) -> Option<Attestation> {
        let mut attestation = lock(&self.attestation);
        if hub.catalog().revision() == self.revision() {
            let state = (*self.catalog).clone().attested(*attestation);
            if !hub.voucher().is_fresh(&state) {
                *attestation = hub.voucher().vouch(state).attestation().copied();
            }
        }
        *attestation
    }

    pub(super) fn revision(&self) -> Revision {
        self.catalog.revision()
    }

    /// All of it; followers share it.
    pub(super) async fn snapshot(&self) -> Arc<Snapshot> {
        let taken = || async { Arc::new(Snapshot::of(self.catalog.clone()).await) };
        self.snapshot.get_or_init(taken).await.clone()
    }
}

impl Scopes {
    pub(super) fn new(limit: usize) -> Self {
        Self { channels: Arc::default(), limit }
    }

    /// The scope's state, kept up to date from now on. Where nobody follows it yet, that takes a
    /// turn.
    pub(super) async fn channel(
        &self,
        scope: Scope,
        hub: &Arc<Hub>,
        turns: &Turns,
    ) -> Result<Arc<Channel>, Error> {
        let shared = Arc::new(scope.clone());
        let cell = {
            let mut channels = lock(&self.channels);
            if channels.len() >= self.limit && !channels.contains_key(&scope) {
                channels.retain(|_, cell| is_followed(cell));
            }
            if channels.len() >= self.limit && !channels.contains_key(&scope) {
                return Err(Error::TooManyScopes { limit: self.limit });
            }
            channels.entry(scope.clone()).or_default().clone()
        };
        let opened = cell.get_or_init(|| async {
            let _turn = turns.take().await;
            let (head, catalog) = (hub.watch(), hub.catalog());
            let part = beside(move || Part::of(shared, &catalog)).await;
            let channel = Arc::new(Channel::new(&part, hub.voucher()));
            let (words, content) = (hub.voucher().witness(&scope), channel.now.borrow().content);
            let hub = Arc::downgrade(hub);
            let keeper = Keeper { channel: channel.clone(), part, content, head, words, hub };
            tokio::spawn(keeper.run(self.channels.clone(), scope));
            channel
        });
        let channel = opened.await.clone();
        // A relay hears from its registry. Where it does not, who knows no key is served all the same.
        let mut now = channel.watch();
        let signed = now.wait_for(|state| state.catalog.attestation().is_some());
        let _ = timeout(PATIENCE, signed).await;
        Ok(channel)
    }

    /// How many scopes are known at the moment.
    pub(super) fn len(&self) -> usize {
        lock(&self.channels).len()
    }
}

impl Channel {
    fn new(part: &Part, voucher: &Voucher) -> Self {
        let content = part.catalog().content_digest();
        let state = State::new(part.catalog().clone(), content, voucher);
        let (now, _) = watch::channel(state.clone());
        let recent = Mutex::new(VecDeque::from([state]));
        Self { now, recent, steps: Mutex::default(), reached: Reached::default() }
    }

    /// Follows the state.
    pub(super) fn watch(&self) -> watch::Receiver<Arc<State>> {
        self.now.subscribe()
    }

    /// A state with this content, if there was one lately.
    pub(super) fn find(&self, content: Digest) -> Option<Arc<State>> {
        let recent = lock(&self.recent);
        recent.iter().rev().find(|state| state.content == content).cloned()
    }

    /// What leads from one state to another; made once for all that need it now.
    pub(super) fn step(&self, from: &Arc<State>, to: &Arc<State>) -> Arc<Shared<Step>> {
        let mut steps = lock(&self.steps);
        if let Some(step) = steps.iter().find(|step| step.is_between(from, to)) {
            return step.clone();
        }
        let step = Shared::new(Step::new(from.clone(), to.clone()));
        steps.push_back(step.clone());
        if steps.len() > SHARED_STEPS {
            steps.pop_front();
        }
        step
    }

    /// Lets go of steps that nobody has needed for a while.
    fn forget_steps(&self) {
        lock(&self.steps).clear();
    }

    fn publish(&self, state: Arc<State>) {
        let mut recent = lock(&self.recent);
        match recent.back_mut() {
            Some(last) if last.content == state.content => *last = state.clone(),
            _ => recent.push_back(state.clone()),
        }
        if recent.len() > RECENT_STATES {
            recent.pop_front();
        }
        drop(recent);
        self.now.send_replace(state);
    }
}

/// Keeps one scope up to date.
struct Keeper {
    channel: Arc<Channel>,
    part: Part,
    /// What is in it.
    content: Digest,
    head: watch::Receiver<Revision>,
    /// In a relay: what the registry says of the scope. Only what it has signed is published.
    words: Option<watch::Receiver<Option<Word>>>,
    hub: Weak<Hub>,
}

impl Keeper {
    /// Runs until nobody has followed for a while, or the server ends.
    async fn run(mut self, channels: Channels, scope: Scope) {
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
                () = sleep(LINGER / 10) => self.channel.forget_steps(),
            }
            if self.is_over(&channels, &scope, &mut deserted_since) {
                return;
            }
        }
    }

    /// Whether nobody needs this any more; then it is forgotten.
    fn is_over(&self, channels: &Channels, scope: &Scope, since: &mut Option<Instant>) -> bool {
        let mut channels = lock(channels);
        let own = channels
            .get(scope)
            .filter(|cell| cell.get().is_some_and(|channel| Arc::ptr_eq(channel, &self.channel)));
        let Some(cell) = own else { return true };
        if is_followed(cell) {
            *since = None;
        } else if since.get_or_insert_with(Instant::now).elapsed() > self.linger() {
            channels.remove(scope);
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
        let has_changed = self.channel.now.borrow().content != self.content;
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
            let word = words.borrow_and_update().clone().filter(|w| w.content == self.content);
            let Some(Word { place: (revision, chain), attestation, .. }) = word else { return };
            if revision < self.channel.now.borrow().revision() {
                return;
            }
            catalog = catalog.at(revision, chain).attested(Some(attestation));
        }
        self.channel.publish(State::new(catalog, self.content, hub.voucher()));
    }

    /// How long it is kept while nobody follows.
    fn linger(&self) -> Duration {
        // What the registry has signed is not to be had again while it is away.
        if self.words.is_some() { LINGER_SIGNED } else { LINGER }
    }
}

/// Waits for another word; for ever, where there are none.
async fn changed(words: &mut Option<watch::Receiver<Option<Word>>>) {
    if let Some(words) = words
        && words.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// Whether somebody has the channel beside the map and its keeper, or is about to get it.
fn is_followed(cell: &Cell) -> bool {
    Arc::strong_count(cell) > 1 || cell.get().is_some_and(|channel| Arc::strong_count(channel) > 2)
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Runs long work beside the runtime.
pub(super) async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(e) => match e.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going down, and with it whoever waits for this.
            Err(_) => std::future::pending().await,
        },
    }
}
