//! Which scopes each caller follows, so that none takes all that there may be.
//!
//! Deliberately absent: what is in them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use registry_core::Scope;

use super::{Error, roster::lock};
use crate::access::Caller;

/// How many streams of each caller follow each scope.
type Held = HashMap<Caller, HashMap<Scope, usize>>;

/// All callers that follow scopes.
pub(super) struct Holders {
    held: Arc<Mutex<Held>>,
    limit: usize,
}

/// That a stream follows a scope, until it is dropped.
pub(super) struct Hold {
    held: Arc<Mutex<Held>>,
    caller: Caller,
    scope: Scope,
}

impl Holders {
    /// Each may follow so many.
    pub(super) fn new(limit: usize) -> Self {
        Self { held: Arc::default(), limit }
    }

    /// Notes that a caller follows a scope. Everything is none.
    pub(super) fn hold(&self, caller: &Caller, scope: &Scope) -> Result<Option<Hold>, Error> {
        if *scope == Scope::Everything {
            return Ok(None);
        }
        let mut held = lock(&self.held);
        let scopes = held.entry(caller.clone()).or_default();
        if scopes.len() >= self.limit && !scopes.contains_key(scope) {
            return Err(Error::TooManyOwnScopes { limit: self.limit });
        }
        *scopes.entry(scope.clone()).or_default() += 1;
        let (caller, scope) = (caller.clone(), scope.clone());
        Ok(Some(Hold { held: self.held.clone(), caller, scope }))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = lock(&self.held);
        let Some(scopes) = held.get_mut(&self.caller) else { return };
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
        let scope = |root: &str| Scope::of_roots(&[root]).unwrap();
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
