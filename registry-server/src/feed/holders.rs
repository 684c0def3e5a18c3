//! The scopes that each caller follows and opens, counted so that no caller takes all of them or
//! delays others. The contents of scopes are in `scopes.rs`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use registry_core::Scope;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    Error,
    admission::{Turn, Turns},
    roster::lock,
};
use crate::access::Caller;

/// How many scopes of one caller are opened at the same time.
const OPENINGS: usize = 1;

type Held = HashMap<Caller, OfCaller>;

/// The scopes of one caller.
struct OfCaller {
    /// How many streams and openings have each scope.
    scopes: HashMap<Scope, usize>,
    openings: Arc<Semaphore>,
}

impl Default for OfCaller {
    fn default() -> Self {
        Self { scopes: HashMap::new(), openings: Arc::new(Semaphore::new(OPENINGS)) }
    }
}

/// All callers that follow scopes.
pub(super) struct Holders {
    held: Arc<Mutex<Held>>,
    limit: usize,
}

/// One use of a scope by a caller, until it is dropped.
pub(super) struct Hold {
    held: Arc<Mutex<Held>>,
    caller: Caller,
    scope: Scope,
}

/// A scope that a caller is about to open.
pub(super) struct Opening {
    hold: Hold,
    openings: Arc<Semaphore>,
}

/// The turn of an opening: its caller's and that of all. It counts against the caller's limit of
/// scopes until it is dropped, however long its stream lasts.
pub(super) struct OpeningTurn {
    _hold: Hold,
    _of_caller: Option<OwnedSemaphorePermit>,
    _of_all: Turn,
}

/// The first half of a turn: no other scope of the caller is being opened.
pub(super) struct CallerTurn {
    hold: Hold,
    permit: Option<OwnedSemaphorePermit>,
}

impl Holders {
    /// Limits each caller to this number of scopes.
    pub(super) fn new(limit: usize) -> Self {
        Self { held: Arc::default(), limit }
    }

    /// Notes that a caller follows a scope. Everything is not counted.
    pub(super) fn hold(&self, caller: &Caller, scope: &Scope) -> Result<Option<Hold>, Error> {
        if *scope == Scope::Everything {
            return Ok(None);
        }
        let mut held = lock(&self.held);
        let scopes = &held.entry(caller.clone()).or_default().scopes;
        if scopes.len() >= self.limit && !scopes.contains_key(scope) {
            return Err(Error::TooManyOwnScopes { limit: self.limit });
        }
        Ok(Some(self.count(&mut held, (caller, scope)).0))
    }

    /// Notes that a caller opens a scope that it follows.
    pub(super) fn opening(&self, caller: &Caller, scope: &Scope) -> Opening {
        let (hold, openings) = self.count(&mut lock(&self.held), (caller, scope));
        Opening { hold, openings }
    }

    fn count(&self, held: &mut Held, (caller, scope): (&Caller, &Scope)) -> (Hold, Arc<Semaphore>) {
        let of_caller = held.entry(caller.clone()).or_default();
        *of_caller.scopes.entry(scope.clone()).or_default() += 1;
        let openings = Arc::clone(&of_caller.openings);
        let (caller, scope) = (caller.clone(), scope.clone());
        (Hold { held: self.held.clone(), caller, scope }, openings)
    }
}

impl Opening {
    /// Waits until the caller opens no other scope.
    pub(super) async fn of_caller(self) -> CallerTurn {
        // The semaphore is never closed.
        let permit = self.openings.acquire_owned().await.ok();
        CallerTurn { hold: self.hold, permit }
    }
}

impl CallerTurn {
    /// Waits for a turn among all callers.
    pub(super) async fn of_all(self, turns: &Turns) -> OpeningTurn {
        let of_all = turns.take().await;
        OpeningTurn { _hold: self.hold, _of_caller: self.permit, _of_all: of_all }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = lock(&self.held);
        let Some(OfCaller { scopes, .. }) = held.get_mut(&self.caller) else { return };
        if let Some(streams) = scopes.get_mut(&self.scope) {
            *streams -= 1;
            if *streams == 0 {
                scopes.remove(&self.scope);
            }
        }
        if scopes.is_empty() {
            held.remove(&self.caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_so_many_and_gives_them_back() {
        let holders = Holders::new(2);
        let caller = |name: &str| ("token", name.into());
        let scope = |root: &str| Scope::from_roots(&[root]).unwrap();
        let hold = |who: &str, root: &str| holders.hold(&caller(who), &scope(root));
        let first = [hold("a", "x/*"), hold("a", "x/*"), hold("a", "y/*")].map(Result::unwrap);
        assert!(matches!(hold("a", "z/*"), Err(Error::TooManyOwnScopes { limit: 2 })));
        assert!(hold("a", "x/*").is_ok(), "one that it follows already");
        assert!(hold("b", "z/*").is_ok(), "others have their own");
        assert!(matches!(holders.hold(&caller("a"), &Scope::Everything), Ok(None)));
        drop(first);
        assert!(lock(&holders.held).is_empty());
    }
}
