//! Approval requests as people see and decide them.

use std::{collections::BTreeSet, sync::Arc};

use approval::{
    Binding, Choice, Current, DecideError, Decider, Principal as Account, Request, RequestId,
    Review, SignIn, State, Transition,
};
use registry_core::{Catalog, Key, Kind, Name};

use super::ledger::{self, GatewayLedger, Ledger};
use crate::{
    access::{Method, Principal, Role, Roles},
    feed::Hub,
    store::{self, ApprovalContext, ApprovalQuery, GenerationCause, LedgerFailure, Store},
};

/// Maximum number of requests in one page.
pub const PAGE: usize = 50;
/// Maximum number of requests that one query reads.
const QUERY: usize = 100;
/// Maximum number of queries for one page.
const QUERIES: usize = 10;
/// Maximum number of generations that a decision starts.
const ATTEMPTS: usize = 3;
/// The issuer of the accounts of API tokens.
const REGISTRY: &str = "registry";
/// The roles that approve.
const APPROVERS: Roles = Roles::new(&[Role::Approver, Role::Admin]);

/// A failed task.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such request is stored, or the person may not see it.
    #[error("no approval request with this id is visible to this account")]
    NotFound,
    /// The decision is rejected.
    #[error(transparent)]
    Rejected(DecideError),
    /// The generation of the ledger.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl From<DecideError> for Error {
    fn from(error: DecideError) -> Self {
        if error == DecideError::NotFound { Self::NotFound } else { Self::Rejected(error) }
    }
}

/// The person behind an authenticated principal. `None`: it has no account.
pub fn decider(principal: &Principal) -> Option<Decider> {
    let (issuer, subject, sign_in) = match (&principal.method, &principal.subject) {
        (Method::Oidc(issuer), Some(subject)) => (&**issuer, subject, SignIn::Oidc),
        (Method::Token(_), _) => (REGISTRY, &principal.name, SignIn::Token),
        _ => return None,
    };
    let person = principal.person.as_ref().map(|person| person.to_string());
    Some(Decider {
        principal: Account { issuer: issuer.to_owned(), subject: subject.to_string(), person },
        team: Some(principal.team.to_string()),
        is_approver: principal.roles.intersects(APPROVERS),
        sign_in,
    })
}

/// The place of a page in the list. Pending requests come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Whether the pending requests are over.
    pub is_past_pending: bool,
    /// The last request before the page.
    pub after: Option<RequestId>,
}

impl Place {
    /// The first page.
    pub const START: Self = Self { is_past_pending: false, after: None };
}

/// A page of the requests that a person may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The requests: pending first, then in the order of their ids.
    pub requests: Vec<Request>,
    /// The next page. A page can be empty and have a next one.
    pub next: Option<Place>,
}

/// The decisions of people.
pub struct Reviews {
    ledger: Arc<Ledger>,
    store: Store,
    hub: Arc<Hub>,
}

impl Reviews {
    /// The decisions at this registry. `None`: a relay has no requests.
    pub fn new(ledger: &GatewayLedger, store: Store, hub: Arc<Hub>) -> Option<Self> {
        let GatewayLedger::Own(ledger) = ledger else { return None };
        Some(Self { ledger: ledger.clone(), store, hub })
    }

    /// A page of the requests that a person may see.
    pub async fn list(&self, viewer: &Decider, start: Place) -> Result<Page, Error> {
        let (mut place, mut requests) = (start, Vec::new());
        for _ in 0..QUERIES {
            let query = ApprovalQuery {
                state: (!place.is_past_pending).then_some(State::Pending),
                caller: None,
                after: place.after,
                limit: QUERY,
            };
            let rows = self.store.approvals(query).await?;
            let is_last = rows.len() < QUERY;
            for request in rows {
                place.after = Some(request.id);
                let is_repeated = place.is_past_pending && request.state == State::Pending;
                if !is_repeated && request.is_visible_to(viewer) {
                    requests.push(request);
                }
                if requests.len() == PAGE {
                    return Ok(Page { requests, next: Some(place) });
                }
            }
            match (is_last, place.is_past_pending) {
                (false, _) => {}
                (true, false) => place = Place { is_past_pending: true, after: None },
                (true, true) => return Ok(Page { requests, next: None }),
            }
        }
        Ok(Page { requests, next: Some(place) })
    }

    /// A request that a person may see.
    pub async fn find(&self, viewer: &Decider, id: RequestId) -> Result<Request, Error> {
        let found = self.store.approval(id).await?;
        found.filter(|request| request.is_visible_to(viewer)).ok_or(Error::NotFound)
    }

    /// Records a decision. The result can have ended as [`State::Invalid`].
    pub async fn decide(
        &self,
        decider: &Decider,
        id: RequestId,
        choice: &Choice,
        is_batch: bool,
    ) -> Result<Request, Error> {
        for _ in 0..ATTEMPTS {
            let context = ApprovalContext { seen: self.ledger.seen(), now: self.ledger.now() };
            let catalog = self.hub.catalog();
            let change = |request: &Request, grants: usize| {
                if !request.is_visible_to(decider) {
                    return Err(DecideError::NotFound);
                }
                let current = current(&catalog, &request.binding);
                let review = Review { decider, choice, current: &current, is_batch, grants };
                request.decide(review, context.now).map(Some)
            };
            let decided = Box::pin(self.store.change_approval(id, context, change)).await;
            match decided {
                Ok(None) => return Err(Error::NotFound),
                Ok(Some(decided)) => {
                    let recorded = decided?;
                    for step in &recorded.transitions {
                        audit(step, decider);
                    }
                    return Ok(recorded.value);
                }
                Err(LedgerFailure::Lost) => {
                    let cause = GenerationCause::Check(Some(context.seen));
                    self.ledger.start_generation(cause).await?;
                }
                Err(failure) => return Err(ledger::Error::from(failure).into()),
            }
        }
        Err(ledger::Error::Incomplete.into())
    }
}

/// Compares the call and its policies with the catalog.
fn current(catalog: &Catalog, binding: &Binding) -> Current {
    let agent = binding.agent.as_deref().and_then(|name| Name::parse(Kind::Agent, name).ok());
    let owner = agent.and_then(|name| catalog.owner(Kind::Agent, &name));
    let is_registered = |key: &Key, digest| {
        let record = catalog.find(key).filter(|record| record.is_usable());
        record.is_some_and(|record| record.document.digest() == digest)
    };
    let resource = format!("{}@{}", binding.resource, binding.version).parse::<Key>();
    let is_defined = resource.is_ok_and(|key| is_registered(&key, binding.definition));
    let is_demanded = binding.demands.iter().all(|demand| {
        let Ok(key) = format!("policy/{}", demand.policy).parse::<Key>() else { return false };
        // The highest version of a policy is in force. A later one has other demands.
        let later = catalog.versions(Kind::Policy, &key.name);
        let mut later = later.filter(|(other, _)| other.version > key.version);
        is_registered(&key, demand.digest) && later.all(|(other, _)| other.version.is_prerelease())
    });
    Current {
        owners: owner.map(|team| BTreeSet::from([team.to_string()])).unwrap_or_default(),
        is_current: is_defined && is_demanded,
    }
}

/// Records a step for auditors. A reason can contain personal data; the stored steps have it.
fn audit(step: &Transition, decider: &Decider) {
    let Account { issuer, subject, .. } = &decider.principal;
    let (from, to) = (step.from.map_or("", State::as_str), step.to.as_str());
    let request = step.request.to_string();
    tracing::info!(target: "audit", event = "approval", request, from, to, issuer, subject);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(method: Method, subject: Option<&str>) -> Principal {
        let subject = subject.map(Arc::from);
        Principal { method, subject, ..Principal::local("ann@x") }
    }

    #[test]
    fn decider_has_the_subject_not_the_name() {
        let oidc = Method::Oidc("https://id.example".into());
        let found = decider(&principal(oidc.clone(), Some("4711"))).unwrap();
        let account = &found.principal;
        assert_eq!((&*account.issuer, &*account.subject), ("https://id.example", "4711"));
        assert_eq!((found.sign_in, found.is_approver), (SignIn::Oidc, true));
        assert_eq!(decider(&principal(oidc, None)), None, "a name is not an account");
    }

    #[test]
    fn decider_of_api_token_is_no_person() {
        let token = principal(Method::Token("3f9a12c04b7d".into()), None);
        assert_eq!(decider(&token).unwrap().sign_in, SignIn::Token);
        for method in [Method::Open, Method::Local, Method::Certificate] {
            assert_eq!(decider(&principal(method, None)), None);
        }
    }
}
