//! Approvals of calls: messages of gateways, decisions of people, time limits, and messages to a webhook.
//!
//! The crate `approval` decides, and the store runs each change in one transaction. Requests are part of the same
//! generations as the ledger: a database that lost transactions may lack uses of approvals.

mod notices;
mod people;
mod preview;
mod upstream;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use approval::{
    Actor, Binding, CancelError, Canceller, Changed, Claim, ConfirmError, ConsumeError, Current,
    DecideError, Demand, OpenError, Principal, Recorded, Request, RequestId, SettleError,
    Settlement, SignIns, State, Transition, Wanted,
};
use registry_core::{Catalog, Entity, Key, Kind, Name, Timestamp};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::{notices::Notices, preview::PreviewKey};
pub use self::{
    people::{ApprovalDetail, ApprovalsWanted, DecisionChoice, DecisionWanted, States, Viewer},
    preview::MAX_PREVIEW_BYTES,
    upstream::UpstreamApprovals,
};
use super::{
    ledger::{self, Ledger},
    page::InvalidPage,
};
use crate::{
    approval_key::ApprovalKey,
    feed::Hub,
    metrics,
    store::{self, ApprovalContext, DecisionEvent, GenerationCause, LedgerFailure, Store},
};

/// Maximum number of generations that an operation starts.
const ATTEMPTS: usize = 3;
/// Interval between searches for requests whose time limit is over. A request shows its state at each time.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// A failed operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A relay, whose approvals are those of its upstream registry.
    #[error(
        "this server is a relay without approvals of its own; use its upstream: `registryctl --registry {0}`"
    )]
    Relay(String),
    /// No such request is stored, or the caller may not see it.
    #[error("no approval request {0} that you may see; `registryctl approvals list` shows them")]
    UnknownRequest(RequestId),
    /// No such grant is stored, or the caller may not see it.
    #[error("no standing grant {0} that you may see; `registryctl approvals grants` lists them")]
    UnknownGrant(RequestId),
    /// A rejected decision.
    #[error(transparent)]
    Decide(#[from] DecideError),
    /// A rejected cancellation.
    #[error(transparent)]
    Cancel(#[from] CancelError),
    /// An invalid page.
    #[error(transparent)]
    Page(#[from] InvalidPage),
    /// The arguments cannot be encrypted.
    #[error("the arguments cannot be encrypted: the operating system returned no random bytes")]
    Encryption,
    /// The database, the transaction, or the upstream registry of a relay.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Ledger(error.into())
    }
}

/// The approvals that the gateways of this server use.
#[derive(Clone)]
pub enum GatewayApprovals {
    /// Those of this registry.
    Own(Arc<Approvals>),
    /// Those of the upstream registry, at a relay.
    Upstream(Arc<UpstreamApprovals>),
}

/// The approvals of the registry.
pub struct Approvals {
    ledger: Arc<Ledger>,
    hub: Arc<Hub>,
    store: Store,
    previews: PreviewKey,
    arguments_key: [u8; 32],
    sign_ins: SignIns,
    notices: Notices,
    /// The URL of the pages. `None`: there are none.
    pages: Option<String>,
}

impl Approvals {
    /// Starts the time limits and the messages to the webhook, until the server drains. `pages`: the URL
    /// of the pages.
    pub fn start(
        ledger: Arc<Ledger>,
        hub: Arc<Hub>,
        store: Store,
        (key, pages): (&ApprovalKey, Option<String>),
        sign_ins: SignIns,
        draining: &CancellationToken,
    ) -> Arc<Self> {
        let notices = Notices::start(&ledger, draining);
        let approvals = Arc::new(Self {
            ledger,
            hub,
            store,
            previews: PreviewKey::new(key.derive("approval previews 1")),
            arguments_key: key.derive("approval arguments 1"),
            sign_ins,
            notices,
            pages,
        });
        tokio::spawn(draining.clone().run_until_cancelled_owned(approvals.clone().sweep()));
        approvals
    }

    /// The time of the ledger.
    pub fn now(&self) -> Timestamp {
        self.ledger.now()
    }

    /// The page of a request. Empty: there is none.
    pub fn page_url(&self, id: RequestId) -> String {
        self.pages.as_ref().map(|pages| format!("{pages}/approvals/{id}")).unwrap_or_default()
    }

    /// The key of the digests of arguments, for gateways only.
    pub fn arguments_key(&self) -> &[u8; 32] {
        &self.arguments_key
    }

    /// Finds or creates the request of a call.
    pub async fn open(&self, mut wanted: Wanted) -> Result<Result<Request, OpenError>, Error> {
        wanted.owners.extend(owners(&self.hub.catalog(), &wanted.binding));
        if !wanted.is_decidable(&self.sign_ins) {
            return Ok(Err(OpenError::Undecidable));
        }
        let sealed = self.previews.seal(wanted.id, &wanted.preview);
        wanted.preview = sealed.ok_or(Error::Encryption)?;
        let wanted = &wanted;
        let opening = self.transact(move |context| self.store.open_approval(wanted, context));
        Ok(opening.await?.map(|recorded| self.note(recorded)))
    }

    /// Records that the caller confirmed its call.
    pub async fn confirm(
        &self,
        id: RequestId,
        caller: &Principal,
    ) -> Result<Result<Request, ConfirmError>, Error> {
        let confirmed =
            self.change(id, None, |request, _, now| request.confirm(caller, now)).await?;
        Ok(confirmed.unwrap_or(Err(ConfirmError::NotFound)))
    }

    /// Cancels a request of the caller of a gateway.
    pub async fn withdraw(
        &self,
        id: RequestId,
        caller: &Principal,
    ) -> Result<Result<Request, CancelError>, Error> {
        let by = Canceller::Caller(caller);
        let cancelled =
            self.change(id, None, move |request, _, now| request.cancel(by, now)).await?;
        Ok(cancelled.unwrap_or(Err(CancelError::NotFound)))
    }

    /// Uses an approval for one round of a call.
    pub async fn claim(
        &self,
        gateway: &str,
        claim: &Claim,
    ) -> Result<Result<Request, ConsumeError>, Error> {
        let id = claim.request;
        let consumed =
            self.change(id, None, |request, _, now| request.consume(gateway, claim, now)).await?;
        Ok(consumed.unwrap_or(Err(ConsumeError::NotFound)))
    }

    /// Records the outcome of a round.
    pub async fn settle(
        &self,
        gateway: &str,
        settlement: &Settlement,
    ) -> Result<Result<Request, SettleError>, Error> {
        let id = settlement.request;
        let settled = self
            .change(id, None, |request, _, now| request.settle(gateway, settlement, now))
            .await?;
        Ok(settled.unwrap_or(Err(SettleError::NotFound)))
    }

    /// Changes a request. A new decision stores its event. `None`: there is no such request.
    async fn change<E: Send>(
        &self,
        id: RequestId,
        event: Option<DecisionEvent<'_>>,
        change: impl Fn(&Request, usize, Timestamp) -> Result<Option<Changed>, E> + Send + Sync,
    ) -> Result<Option<Result<Request, E>>, Error> {
        let change = &change;
        let changing = self.transact(move |context| {
            let now = context.now;
            let change = move |request: &Request, grants: usize| change(request, grants, now);
            self.store.change_approval(id, context, event, change)
        });
        let changed = changing.await?;
        Ok(changed.map(|changed| changed.map(|recorded| self.note(recorded))))
    }

    /// Runs a transaction, and repeats it after the start of a generation.
    async fn transact<T, F>(&self, work: impl Fn(ApprovalContext) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, LedgerFailure>>,
    {
        for _ in 0..ATTEMPTS {
            let context = ApprovalContext { seen: self.ledger.seen(), now: self.ledger.now() };
            match work(context).await {
                Err(LedgerFailure::Lost) => {
                    let cause = GenerationCause::Check(Some(context.seen));
                    self.ledger.start_generation(cause).await?;
                }
                done => return Ok(done.map_err(ledger::Error::from)?),
            }
        }
        Err(ledger::Error::Incomplete.into())
    }

    /// Writes the steps of a change to the audit log, and sends messages about them. Returns the request without its
    /// encrypted preview.
    fn note(&self, recorded: Recorded<Request>) -> Request {
        let Recorded { value, transitions } = recorded;
        for step in &transitions {
            audit(step);
            if step.request == value.id {
                self.notices.send(self.store.registry(), &value, step);
            }
        }
        Request { preview: None, ..value }
    }

    /// Records time limits that are over, and deletes old previews, requests and grants.
    async fn sweep(self: Arc<Self>) {
        loop {
            let advancing = self.transact(|context| self.store.advance_approvals(context));
            match advancing.await {
                Ok(steps) => steps.iter().for_each(audit),
                Err(error) => {
                    tracing::warn!(%error, "cannot end approvals whose time is over, retrying");
                }
            }
            sleep(SWEEP_INTERVAL).await;
        }
    }

    /// The catalog at the time of a decision about a call.
    fn current(&self, call: &Binding) -> Current {
        let catalog = self.hub.catalog();
        let is_in_force = |demand: &Demand| self.is_in_force(&catalog, demand);
        Current {
            owners: owners(&catalog, call),
            is_current: call.is_registration()
                || is_usable(&catalog, call) && call.demands.iter().all(is_in_force),
        }
    }

    /// Whether a policy is in force, and demands at most what the gateway claims.
    fn is_in_force(&self, catalog: &Catalog, demand: &Demand) -> bool {
        let Ok(key) = format!("{}/{}", Kind::Policy, demand.policy).parse::<Key>() else {
            return false;
        };
        let is_registered = catalog.find(&key).is_some_and(|record| {
            let Entity::Policy(policy) = record.document.entity() else { return false };
            // A demand beyond those of the policy is harmless.
            let is_rule = policy.approval.as_ref().is_none_or(|rule| *rule == demand.rule);
            is_rule && record.document.digest() == demand.digest
        });
        is_registered && self.ledger.is_in_force(&key)
    }
}

/// The team that owns the agent of a call.
fn owners(catalog: &Catalog, call: &Binding) -> BTreeSet<String> {
    let name = call.agent.as_deref().and_then(|name| Name::parse(Kind::Agent, name).ok());
    let owner = name.and_then(|name| catalog.owner(Kind::Agent, &name));
    owner.map(|owner| owner.to_string()).into_iter().collect()
}

/// Whether the tool or the agent of a call is registered with its definition, and not retired.
fn is_usable(catalog: &Catalog, call: &Binding) -> bool {
    let is_definition = |name: String| {
        let key = format!("{name}@{}", call.version).parse::<Key>().ok();
        let record = key.and_then(|key| catalog.find(&key));
        record
            .is_some_and(|record| record.document.digest() == call.definition && record.is_usable())
    };
    let Some(skill) = call.resource.strip_prefix("skill/") else {
        return is_definition(call.resource.clone());
    };
    // Names of agents and ids of skills can have slashes.
    let mut agents = skill.rmatch_indices('/').map(|(end, _)| &skill[..end]);
    agents.any(|agent| is_definition(format!("{}/{agent}", Kind::Agent)))
}

/// The cause of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The kind.
    pub kind: &'static str,
    /// The account, gateway, grant or request. Empty: none.
    pub actor: String,
}

impl Cause {
    /// The cause of a step by its actor.
    pub fn of(by: &Actor) -> Self {
        Self { kind: by.kind(), actor: by.name() }
    }
}

fn audit(step: &Transition) {
    let Cause { kind, actor } = Cause::of(&step.by);
    let from = step.from.map_or("", State::as_str);
    let (request, to) = (step.request, step.to.as_str());
    tracing::info!(target: "audit", event = "approval", %request, from, to, cause = kind, actor);
    if step.from != Some(step.to) {
        metrics::approval_step(to);
    }
}
