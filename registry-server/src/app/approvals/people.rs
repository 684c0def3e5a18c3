//! The tasks of people: list and show requests, decide, cancel, and revoke standing grants.

use std::time::Duration;

use approval::{
    Binding, Canceller, Choice, Decider, GrantScope, Principal as Account, Request, RequestId,
    Review, SignIn, StandingGrant, StandingWish, State, Transition,
};
use registry_core::{Timestamp, duration::format_iso_duration};

use super::{Approvals, Error, audit};
use crate::{
    access::{Method, Principal, Role, Roles},
    app::{
        ledger::later,
        page::{self, Page, PageRequest},
    },
    store::{ApprovalQuery, DecisionEvent, GrantQuery, NewAccessEvent},
};

/// The issuer of accounts with API tokens.
const TOKENS: &str = "registry";
/// The issuer of accounts with client certificates.
const CERTIFICATES: &str = "certificate";
/// The roles that approve.
const APPROVERS: Roles = Roles::new(&[Role::Approver, Role::Admin]);
/// The roles that cancel all requests and revoke all grants.
const GOVERNORS: Roles = Roles::new(&[Role::Governor, Role::Admin]);
/// The roles that see all requests and grants, without arguments.
const OVERSEERS: Roles = Roles::new(&[Role::Auditor, Role::Governor, Role::Admin]);
/// Number of rows that a list reads at once.
const BATCH: usize = 500;

/// A person that reads or decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer {
    decider: Decider,
    is_governor: bool,
    is_overseer: bool,
    /// The name, the authentication and the address in access events.
    principal: Principal,
}

/// Selects requests by their state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum States {
    /// All requests.
    All,
    /// Only requests in this state.
    Only(State),
    /// Only requests in other states.
    Except(State),
}

impl States {
    fn contains(self, state: State) -> bool {
        match self {
            Self::All => true,
            Self::Only(wanted) => state == wanted,
            Self::Except(unwanted) => state != unwanted,
        }
    }
}

/// Selects requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalsWanted {
    /// Only requests in these states.
    pub states: States,
    /// Only requests of the viewer.
    pub own: bool,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionWanted {
    /// The request.
    pub id: RequestId,
    /// The choice.
    pub choice: DecisionChoice,
    /// Whether the person decides about several requests at once.
    pub is_batch: bool,
}

/// The choice of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionChoice {
    /// The call is allowed.
    Approve,
    /// The call and later ones are allowed.
    ApproveFor {
        /// The duration of the standing grant.
        duration: Duration,
        /// The calls.
        scope: GrantScope,
    },
    /// The call is rejected.
    Deny {
        /// The reason, which the caller receives.
        reason: String,
    },
}

/// A request with its steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDetail {
    /// The request, with its readable preview if the viewer may see it.
    pub request: Request,
    /// The steps, in order.
    pub steps: Vec<Transition>,
}

impl Viewer {
    /// The person behind an authenticated principal.
    pub fn new(principal: &Principal) -> Self {
        let name = principal.name.to_string();
        let (issuer, subject, sign_in) = match (&principal.method, &principal.subject) {
            (Method::Oidc(issuer), Some(subject)) => {
                (issuer.to_string(), subject.to_string(), SignIn::Oidc)
            }
            (Method::Certificate, _) => (CERTIFICATES.to_owned(), name, SignIn::Certificate),
            // A token without the claim `sub` proves no account of its issuer.
            _ => (TOKENS.to_owned(), name, SignIn::Token),
        };
        let person = principal.person.as_ref().filter(|_| sign_in == SignIn::Oidc);
        let person = person.map(ToString::to_string);
        Self {
            decider: Decider {
                principal: Account { issuer, subject, person },
                team: Some(principal.team.to_string()),
                is_approver: principal.roles.intersects(APPROVERS),
                sign_in,
                lacks_person: principal.lacks_person,
            },
            is_governor: principal.roles.intersects(GOVERNORS),
            is_overseer: principal.roles.intersects(OVERSEERS),
            principal: principal.clone(),
        }
    }

    /// The account of the person.
    pub fn account(&self) -> &Account {
        &self.decider.principal
    }

    fn access_event(&self, at: Timestamp, detail: String) -> NewAccessEvent {
        self.principal.access_event(at, detail)
    }

    fn sees(&self, request: &Request) -> bool {
        self.is_overseer || self.sees_arguments(request)
    }

    /// Whether the person sees the arguments of a request.
    pub fn sees_arguments(&self, request: &Request) -> bool {
        request.is_visible_to(&self.decider)
    }

    fn sees_grant(&self, grant: &StandingGrant) -> bool {
        self.is_overseer || grant.is_visible_to(&self.decider)
    }

    fn may_revoke(&self, grant: &StandingGrant) -> bool {
        self.is_governor || grant.is_visible_to(&self.decider)
    }
}

impl Approvals {
    /// Lists requests without their previews.
    pub async fn list(
        &self,
        viewer: &Viewer,
        wanted: ApprovalsWanted,
        page: &PageRequest,
    ) -> Result<Page<Request>, Error> {
        let mut after = page.cursor(|cursor| cursor.parse::<RequestId>().ok())?;
        let now = self.now();
        let is_reviewer = viewer.is_overseer || viewer.decider.is_approver;
        let caller = (wanted.own || !is_reviewer).then_some(&viewer.decider.principal);
        // A time limit can end a stored request, so that only open states are those of the rows.
        let state = match wanted.states {
            States::Only(state) if !state.is_ended() => Some(state),
            _ => None,
        };
        let is_wanted = |request: &Request| {
            wanted.states.contains(request.state_at(now)) && viewer.sees(request)
        };
        let (mut found, mut is_end) = (Vec::new(), false);
        while found.len() <= page.size && !is_end {
            let query = ApprovalQuery { state, caller, after, limit: BATCH };
            let batch = self.store.approvals(query).await?;
            is_end = batch.len() < BATCH;
            after = batch.last().map(|request| request.id).or(after);
            found.extend(batch.into_iter().filter(&is_wanted));
        }
        let (items, more) = page::fill(found.into_iter(), page.size, bytes_of);
        let next_page_token = page.next_token(&items, more, |last| last.id.to_string());
        Ok(Page { items, next_page_token })
    }

    /// Shows a request with its steps, and with its preview to the caller and to approvers.
    pub async fn show(&self, viewer: &Viewer, id: RequestId) -> Result<ApprovalDetail, Error> {
        let request = self.find(viewer, id).await?;
        let steps = self.store.approval_steps(id).await?;
        let sealed = request.preview.as_deref().filter(|_| viewer.sees_arguments(&request));
        let preview = sealed.and_then(|sealed| {
            let opened = self.previews.open(id, sealed);
            if opened.is_none() {
                tracing::warn!(request = %id, "the preview of an approval is unreadable");
            }
            opened
        });
        Ok(ApprovalDetail { request: Request { preview, ..request }, steps })
    }

    /// Records a decision.
    pub async fn decide(&self, viewer: &Viewer, wanted: &DecisionWanted) -> Result<Request, Error> {
        let DecisionWanted { id, choice, is_batch } = wanted;
        let decide = |request: &Request, grants: usize, now: Timestamp| {
            let choice = recorded_choice(choice, now);
            let (decider, current) = (&viewer.decider, self.current(&request.binding));
            let review =
                Review { decider, choice: &choice, current: &current, is_batch: *is_batch, grants };
            request.decide(review, now).map(Some)
        };
        let known = self.find(viewer, *id).await?;
        let (kind, detail) = recorded_event(choice, &known.binding);
        let what = viewer.access_event(self.now(), detail);
        let event = DecisionEvent { kind, what: &what };
        let decided = self.change(*id, Some(event), decide).await?;
        Ok(decided.ok_or(Error::UnknownRequest(*id))??)
    }

    /// Cancels an open request.
    pub async fn cancel(&self, viewer: &Viewer, id: RequestId) -> Result<Request, Error> {
        let account = &viewer.decider.principal;
        let known = self.find(viewer, id).await?;
        let is_operator = viewer.is_governor && !known.binding.caller.is_account(account);
        let by =
            if is_operator { Canceller::Operator(account) } else { Canceller::Caller(account) };
        let cancelled =
            self.change(id, None, move |request, _, now| request.cancel(by, now)).await?;
        Ok(cancelled.ok_or(Error::UnknownRequest(id))??)
    }

    /// Lists standing grants.
    pub async fn list_grants(
        &self,
        viewer: &Viewer,
        page: &PageRequest,
    ) -> Result<Page<StandingGrant>, Error> {
        let mut after = page.cursor(|cursor| cursor.parse::<RequestId>().ok())?;
        let now = self.now();
        let (mut found, mut is_end) = (Vec::new(), false);
        while found.len() <= page.size && !is_end {
            let batch = self.store.all_grants(GrantQuery { after, now, limit: BATCH }).await?;
            is_end = batch.len() < BATCH;
            after = batch.last().map(|grant| grant.origin).or(after);
            found.extend(batch.into_iter().filter(|grant| viewer.sees_grant(grant)));
        }
        let (items, more) = page::fill(found.into_iter(), page.size, bytes_of);
        let next_page_token = page.next_token(&items, more, |last| last.origin.to_string());
        Ok(Page { items, next_page_token })
    }

    /// Ends a standing grant, and cancels its unused approvals.
    pub async fn revoke_grant(&self, viewer: &Viewer, origin: RequestId) -> Result<(), Error> {
        let grant = self.store.standing_grant(origin).await?;
        let grant = grant.filter(|grant| viewer.may_revoke(grant));
        let grant = &grant.ok_or(Error::UnknownGrant(origin))?;
        let by = &viewer.decider.principal;
        let event = &viewer.access_event(self.now(), described(&grant.binding));
        let revoking =
            self.transact(move |context| self.store.revoke_grant(grant, by, event, context));
        let steps = revoking.await?.ok_or(Error::UnknownGrant(origin))?;
        steps.iter().for_each(audit);
        let Account { issuer, subject, .. } = by;
        tracing::info!(target: "audit", event = "approval-grant-revoked", %origin, issuer, subject);
        Ok(())
    }

    async fn find(&self, viewer: &Viewer, id: RequestId) -> Result<Request, Error> {
        let found = self.store.approval(id).await?.filter(|request| viewer.sees(request));
        found.ok_or(Error::UnknownRequest(id))
    }
}

fn recorded_choice(choice: &DecisionChoice, now: Timestamp) -> Choice {
    match choice {
        DecisionChoice::Approve => Choice::Approve { standing: None },
        DecisionChoice::ApproveFor { duration, scope } => {
            let wish = StandingWish { scope: *scope, until: later(now, *duration) };
            Choice::Approve { standing: Some(wish) }
        }
        DecisionChoice::Deny { reason } => Choice::Deny { reason: reason.clone() },
    }
}

/// The kind and the detail of the access event of a decision. They outlive the request.
fn recorded_event(choice: &DecisionChoice, call: &Binding) -> (&'static str, String) {
    let call = described(call);
    match choice {
        DecisionChoice::Approve => ("approval-approved", call),
        DecisionChoice::ApproveFor { duration, scope } => {
            let arguments = match scope {
                GrantScope::Arguments => "the same arguments",
                GrantScope::Tool => "any arguments",
            };
            let duration = format_iso_duration(*duration);
            let detail = format!("{call}, and later calls with {arguments} for {duration}");
            ("approval-approved", detail)
        }
        DecisionChoice::Deny { reason } => ("approval-denied", format!("{call}: {reason}")),
    }
}

fn described(Binding { caller, resource, version, .. }: &Binding) -> String {
    format!("{resource}@{version} for {} of {}", caller.subject, caller.issuer)
}

/// The approximate size in a message.
fn bytes_of(item: &impl serde::Serialize) -> usize {
    serde_json::to_string(item).map_or(0, |text| text.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn viewer(method: Method, subject: Option<&str>, roles: &[Role]) -> Viewer {
        let (subject, person) = (subject.map(Arc::from), Some("17".into()));
        let roles = Roles::new(roles);
        Viewer::new(&Principal { roles, method, subject, person, ..Principal::local("ann") })
    }

    #[test]
    fn account_follows_the_authentication() {
        let oidc = Method::Oidc("https://id.example".into());
        for (method, subject, issuer, account, sign_in) in [
            (oidc.clone(), Some("a|1"), "https://id.example", "a|1", SignIn::Oidc),
            (oidc, None, TOKENS, "ann", SignIn::Token),
            (Method::Certificate, None, CERTIFICATES, "ann", SignIn::Certificate),
            (Method::Token("3f9a12c04b7d".into()), None, TOKENS, "ann", SignIn::Token),
            (Method::Open, None, TOKENS, "ann", SignIn::Token),
        ] {
            let Decider { principal, sign_in: found, .. } = viewer(method, subject, &[]).decider;
            assert_eq!((&*principal.issuer, &*principal.subject), (issuer, account));
            assert_eq!(found, sign_in);
            assert_eq!(principal.person.is_some(), sign_in == SignIn::Oidc);
        }
    }

    #[test]
    fn roles_approve_govern_and_oversee() {
        for (role, rights) in [
            (Role::Reader, [false, false, false]),
            (Role::Approver, [true, false, false]),
            (Role::Auditor, [false, false, true]),
            (Role::Governor, [false, true, true]),
            (Role::Admin, [true, true, true]),
        ] {
            let Viewer { decider, is_governor, is_overseer, .. } =
                viewer(Method::Certificate, None, &[role]);
            assert_eq!([decider.is_approver, is_governor, is_overseer], rights);
        }
    }
}
