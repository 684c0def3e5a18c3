//! Quotas of scopes: the scopes that each caller follows and opens. A caller cannot use up all scopes or
//! delay other callers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use registry_core::Scope;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    Error,
    sessions::lock,
    stage_limits::{StageLimit, StagePermit},
};
use crate::access::QuotaKey;

/// Scopes of one caller opened concurrently.
const MAX_OPENINGS: usize = 1;

type Leases = HashMap<QuotaKey, CallerScopes>;

/// Scopes of one caller.
struct CallerScopes {
    /// Number of streams and openings of each scope.
    scopes: HashMap<Scope, usize>,
    openings: Arc<Semaphore>,
}

impl Default for CallerScopes {
    fn default() -> Self {
        Self { scopes: HashMap::new(), openings: Arc::new(Semaphore::new(MAX_OPENINGS)) }
    }
}

/// Quotas of all callers.
pub(super) struct ScopeQuotas {
    leases: Arc<Mutex<Leases>>,
    limit: usize,
}

/// One use of a scope by a caller, released when dropped.
pub(super) struct ScopeLease {
    leases: Arc<Mutex<Leases>>,
    caller: QuotaKey,
    scope: Scope,
}

/// A scope that a caller is about to open.
pub(super) struct ScopeOpening {
    lease: ScopeLease,
    openings: Arc<Semaphore>,
}

/// Permits to open a scope: of the caller and of the server. The scope counts against the caller's quota until
/// the opening is done, even if the stream has ended.
pub(super) struct OpeningPermits {
    _lease: ScopeLease,
    _caller: Option<OwnedSemaphorePermit>,
    _server: StagePermit,
}

/// Permit of the caller; the permit of the server is still missing.
pub(super) struct CallerPermit {
    lease: ScopeLease,
    permit: Option<OwnedSemaphorePermit>,
}

impl ScopeQuotas {
    /// Creates quotas of this number of scopes for each caller.
    pub(super) fn new(limit: usize) -> Self {
        Self { leases: Arc::default(), limit }
    }

    /// Reserves a scope for a caller. The whole catalog is not counted.
    pub(super) fn acquire(
        &self,
        caller: &QuotaKey,
        scope: &Scope,
    ) -> Result<Option<ScopeLease>, Error> {
        if *scope == Scope::Everything {
            return Ok(None);
        }
        let mut leases = lock(&self.leases);
        let scopes = &leases.entry(caller.clone()).or_default().scopes;
        if scopes.len() >= self.limit && !scopes.contains_key(scope) {
            return Err(Error::ScopeQuotaExceeded { limit: self.limit });
        }
        Ok(Some(self.count(&mut leases, (caller, scope)).0))
    }

    /// Reserves a scope that a caller is about to open.
    pub(super) fn opening(&self, caller: &QuotaKey, scope: &Scope) -> ScopeOpening {
        let (lease, openings) = self.count(&mut lock(&self.leases), (caller, scope));
        ScopeOpening { lease, openings }
    }

    fn count(
        &self,
        leases: &mut Leases,
        (caller, scope): (&QuotaKey, &Scope),
    ) -> (ScopeLease, Arc<Semaphore>) {
        let caller_scopes = leases.entry(caller.clone()).or_default();
        *caller_scopes.scopes.entry(scope.clone()).or_default() += 1;
        let openings = Arc::clone(&caller_scopes.openings);
        let (caller, scope) = (caller.clone(), scope.clone());
        (ScopeLease { leases: self.leases.clone(), caller, scope }, openings)
    }
}

impl ScopeOpening {
    /// Waits for the permit of the caller.
    pub(super) async fn acquire_caller(self) -> CallerPermit {
        // The semaphore is never closed.
        let permit = self.openings.acquire_owned().await.ok();
        CallerPermit { lease: self.lease, permit }
    }
}

impl CallerPermit {
    /// Waits for the permit of the server.
    pub(super) async fn acquire_server(self, limit: &StageLimit) -> OpeningPermits {
        let server = limit.acquire().await;
        OpeningPermits { _lease: self.lease, _caller: self.permit, _server: server }
    }
}

impl Drop for ScopeLease {
    fn drop(&mut self) {
        let mut leases = lock(&self.leases);
        let Some(CallerScopes { scopes, .. }) = leases.get_mut(&self.caller) else { return };
        if let Some(streams) = scopes.get_mut(&self.scope) {
            *streams -= 1;
            if *streams == 0 {
                scopes.remove(&self.scope);
            }
        }
        if scopes.is_empty() {
            leases.remove(&self.caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_bounds_distinct_scopes_of_a_caller() {
        let quotas = ScopeQuotas::new(2);
        let caller = |name: &str| ("token", name.into());
        let scope = |root: &str| Scope::from_roots(&[root]).unwrap();
        let lease = |who: &str, root: &str| quotas.acquire(&caller(who), &scope(root));
        let first = [lease("a", "x/*"), lease("a", "x/*"), lease("a", "y/*")].map(Result::unwrap);
        assert!(matches!(lease("a", "z/*"), Err(Error::ScopeQuotaExceeded { limit: 2 })));
        assert!(lease("a", "x/*").is_ok(), "the caller already follows it");
        assert!(lease("b", "z/*").is_ok(), "another caller has its own quota");
        assert!(matches!(quotas.acquire(&caller("a"), &Scope::Everything), Ok(None)));
        drop(first);
        assert!(lock(&quotas.leases).is_empty());
    }
}
