//! The scopes that somebody follows: what is in each is worked out once, whatever the number of
//! followers.
//!
//! Each has a task that keeps its part of the catalog up to date. A change in it is told at once, a
//! new revision without one at most once a second.

mod keeper;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use registry_core::{Attestation, Catalog, Digest, Revision, Scope, scoped_catalog::ScopedCatalog};
use tokio::{
    sync::{OnceCell, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use self::keeper::{Keeper, Place};
use super::{
    Error, Hub, Said, Shared, Voucher,
    admission::Turns,
    holders::{Opening, OpeningTurn},
    roster::lock,
    shared::Reached,
    snapshot::Snapshot,
    step::Step,
};

/// How long a relay waits for its registry's word on a scope that is new to it.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many earlier states of a scope are known to those who come back.
const RECENT_STATES: usize = 64;
/// How many steps between states are shared.
const SHARED_STEPS: usize = 4;

/// All scopes that are followed.
pub(super) struct Scopes {
    channels: Channels,
    limit: usize,
}

type Cell = Arc<OnceCell<Arc<Channel>>>;
type Channels = Arc<Mutex<HashMap<Scope, Cell>>>;

/// One scope.
pub(super) struct Channel {
    /// Closed when its keeper is gone.
    now: watch::Receiver<Arc<State>>,
    /// In a relay: what its registry says of the scope.
    words: Option<watch::Receiver<Said>>,
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
            let state = (*self.catalog).clone().with_attestation(*attestation);
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

    /// The scope's state, kept up to date from now on. A scope without followers is opened, which
    /// takes a turn; dropping the future stops that work.
    pub(super) async fn channel(
        &self,
        scope: Scope,
        hub: &Arc<Hub>,
        (opening, turns): (Opening, &Turns),
    ) -> Result<Arc<Channel>, Error> {
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
        let channel = if let Some(channel) = cell.get() {
            channel.clone()
        } else {
            // Outside of the cell: a caller that waits for its own turn delays no others in it.
            let of_caller = opening.of_caller().await;
            let open = || self.open(scope, hub, of_caller.of_all(turns));
            cell.get_or_init(open).await.clone()
        };
        // A relay hears from its registry. Where it does not, who knows no key is served all the same.
        let mut now = channel.watch();
        let signed = now.wait_for(|state| state.catalog.attestation().is_some());
        tokio::select! {
            biased;
            _ = timeout(PATIENCE, signed) => {}
            reason = no_room(channel.words.clone()) => {
                return Err(Error::TooManyUpstreamScopes { reason });
            }
        }
        Ok(channel)
    }

    /// Works out what is in a scope and keeps it up to date from now on.
    async fn open(
        &self,
        scope: Scope,
        hub: &Arc<Hub>,
        turn: impl Future<Output = OpeningTurn>,
    ) -> Arc<Channel> {
        let turn = turn.await;
        let (head, catalog) = (hub.watch(), hub.catalog());
        let part = part(&scope, catalog, turn).await;
        let words = hub.voucher().witness(&scope);
        let (channel, told) = Channel::new(&part, hub.voucher(), words.clone());
        let place = Place { channels: self.channels.clone(), scope, channel: channel.clone() };
        let content = told.borrow().content;
        let hub = Arc::downgrade(hub);
        tokio::spawn(
            Keeper { place, told, part, content, head, words, hub, unsigned_since: None }.run(),
        );
        channel
    }

    /// How many scopes are known at the moment.
    pub(super) fn len(&self) -> usize {
        lock(&self.channels).len()
    }
}

impl Channel {
    fn new(
        part: &ScopedCatalog,
        voucher: &Voucher,
        words: Option<watch::Receiver<Said>>,
    ) -> (Arc<Self>, watch::Sender<Arc<State>>) {
        let content = part.catalog().content_digest();
        let state = State::new(part.catalog().clone(), content, voucher);
        let (told, now) = watch::channel(state.clone());
        let recent = Mutex::new(VecDeque::from([state]));
        let (steps, reached) = (Mutex::default(), Reached::default());
        (Arc::new(Self { now, words, recent, steps, reached }), told)
    }

    /// Follows the state.
    pub(super) fn watch(&self) -> watch::Receiver<Arc<State>> {
        self.now.clone()
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

    fn remember(&self, state: Arc<State>) {
        let mut recent = lock(&self.recent);
        match recent.back_mut() {
            Some(last) if last.content == state.content => *last = state,
            _ => recent.push_back(state),
        }
        if recent.len() > RECENT_STATES {
            recent.pop_front();
        }
    }
}

/// Waits until whoever is asked says that it has no room for the scope; for ever, where nobody is asked.
async fn no_room(words: Option<watch::Receiver<Said>>) -> Arc<str> {
    if let Some(mut words) = words
        && let Ok(said) = words.wait_for(|said| said.no_room.is_some()).await
        && let Some(reason) = &said.no_room
    {
        return reason.clone();
    }
    std::future::pending().await
}

/// Whether somebody has the channel beside the map and its keeper, or is about to get it.
fn is_followed(cell: &Cell) -> bool {
    Arc::strong_count(cell) > 1 || cell.get().is_some_and(|channel| Arc::strong_count(channel) > 2)
}

/// The part of a catalog, with its digest. Dropping the future stops the work; the turn ends with it.
async fn part(scope: &Scope, catalog: Arc<Catalog>, turn: OpeningTurn) -> ScopedCatalog {
    let stop = CancellationToken::new();
    let _stop_with_the_future = stop.clone().drop_guard();
    let scope = Arc::new(scope.clone());
    let work = move || {
        let _turn = turn;
        let part = ScopedCatalog::select_while(scope, &catalog, || !stop.is_cancelled())?;
        // It is kept in the catalog; here it does not hold up the runtime.
        part.catalog().content_digest();
        Some(part)
    };
    match beside(work).await {
        Some(part) => part,
        // Not reached: the work stops only when this future is dropped.
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
