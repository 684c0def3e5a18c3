//! The registration of a data agent: its account, the approval that it may need, and the wait until
//! this gateway serves it.
//!
//! With `review`, the agent registers again after the approval. The gateway never stores content that
//! no request brought.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use agent_rpc::registration::Registration;
use approval::{
    Binding, Demand, Outcome, Principal, RequestId, RequestStatus, State, Wanted, limits,
};
use policy::{Finding, Reason};
use registry_core::{Catalog, Digest, Key, Kind, Name, Version, entity::policy::Approval};
use serde_json::{Value, json};
use tokio::{sync::OwnedMutexGuard, time::timeout};

use super::{
    Gateway, PolicyDenial, approval::reason, message::NO_CATALOG, moment::check_scopes_of,
};
use crate::{
    approvals::{ApprovedRound, NoApproval},
    graphs::GATEWAY,
    identity::{
        account::registering_account, authenticator::Authentication, challenge::AuthenticationError,
    },
    random::random_bits,
    registrations::{self, NotRegistered, Planned, SelfRegistration, Submission},
};

/// The operation in scopes, approvals and audit.
pub(crate) const OPERATION: &str = "server.register";
/// Maximum wait until the catalog has a stored registration.
const VISIBLE_WITHIN: Duration = Duration::from_secs(10);
/// Maximum time for the outcome of an approved registration.
const OUTCOME_WITHIN: Duration = Duration::from_mins(1);
/// The name of the demand of an approval: no policy of the registry demands it.
const DEMAND: &str = "self-registration";

/// Why a data agent is not registered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistrationError {
    /// `agents.selfRegistration` is off.
    #[error("data agents cannot register here; set agents.selfRegistration to review or accept")]
    Off,
    /// The gateway cannot compare the registration with others.
    #[error("{}", NO_CATALOG)]
    NoCatalog,
    /// The origin of the endpoint is not allowed.
    #[error("the origin of the endpoint is not allowed; add it to agents.endpoints")]
    Endpoint,
    /// The caller lacks scopes.
    #[error(transparent)]
    Scopes(#[from] AuthenticationError),
    /// The registration needs an approval, or it was denied.
    #[error("the registration is not approved")]
    Approval(Box<PolicyDenial>),
    /// The registration is rejected, or cannot be stored.
    #[error(transparent)]
    Rejected(#[from] NotRegistered),
    /// The registration is stored, and the catalog of this gateway does not have it.
    #[error(
        "{0} is registered, but the catalog of this gateway does not have it yet; check registry.scope, \
         or register again later"
    )]
    NotVisible(Key),
}

/// A registered data agent.
#[derive(Debug)]
pub(crate) struct RegisteredAgent {
    pub(crate) version: Version,
    /// Whether this registration created the version.
    pub(crate) is_new: bool,
    /// Other registrations of the agent wait, so that the last one is attached last.
    _lock: OwnedMutexGuard<()>,
}

/// Registers a data agent. Registered content is not stored again.
pub(crate) async fn register_data_agent(
    gateway: &Arc<Gateway>,
    caller: &Authentication,
    registration: &Registration,
) -> Result<RegisteredAgent, RegistrationError> {
    let settings = &gateway.settings().data_agents;
    if settings.registration == SelfRegistration::Off {
        return Err(RegistrationError::Off);
    }
    if registration.endpoint.as_ref().is_some_and(|endpoint| !settings.allows(&endpoint.url)) {
        return Err(RegistrationError::Endpoint);
    }
    check_scopes_of(gateway, caller, (OPERATION, None), None)?;
    if !gateway.views().now().has_catalog() {
        return Err(RegistrationError::NoCatalog);
    }
    let lock = gateway.registrations().lock(registration.agent_id.name()).await;
    let account = registering_account(&caller.claim);
    let owner = account.key().to_string();
    let name = format!("{} {}", account.issuer, account.subject);
    let submission = Submission { registration, owner: &owner, account: &name };
    let registering = Registering { gateway, submission, account: &account };
    let (server, is_new) = Box::pin(registering.run()).await?;
    Box::pin(visible(gateway, &server)).await?;
    // Registered content has its target. Creating all targets again for each agent that returns would
    // take quadratic time after a restart.
    if is_new {
        serve_data_agents(gateway);
    }
    Ok(RegisteredAgent { version: server.version, is_new, _lock: lock })
}

/// A registration that is compared with catalogs.
struct Registering<'a> {
    gateway: &'a Arc<Gateway>,
    submission: Submission<'a>,
    account: &'a Principal,
}

impl Registering<'_> {
    /// Registers new content. Returns the server, and whether this registration created it.
    ///
    /// An agent may register at several gateways at the same time. If the commit of another one was
    /// first, the registration is compared with it.
    async fn run(&self) -> Result<(Key, bool), RegistrationError> {
        let first = Arc::clone(&self.gateway.views().now().catalog);
        match Box::pin(self.store(&first)).await {
            Err(RegistrationError::Rejected(NotRegistered::Conflict { server, problem })) => {
                let Ok(newer) = Box::pin(visible(self.gateway, &server)).await else {
                    return Err(NotRegistered::Conflict { server, problem }.into());
                };
                Box::pin(self.store(&newer)).await
            }
            stored => stored,
        }
    }

    /// Compares the registration with a catalog, and stores other content.
    async fn store(&self, catalog: &Catalog) -> Result<(Key, bool), RegistrationError> {
        let Self { gateway, submission, account } = *self;
        let registration = submission.registration;
        let reserved = reserved_kind(gateway, registration.agent_id.name());
        let (server, last) = match registrations::plan(catalog, submission, reserved)? {
            Planned::Unchanged(server) => return Ok((server, false)),
            Planned::Version { server, last } => (server, last),
        };
        let change = (&server, last.as_ref());
        if gateway.settings().data_agents.registration == SelfRegistration::Review {
            let wanted = wanted(account.clone(), registration, &server);
            let reviewed = Reviewed { gateway, submission, catalog, change };
            Box::pin(reviewed.store(wanted)).await?;
        } else {
            gateway.registrations().check_rate(submission.owner)?;
            Box::pin(gateway.registrations().store(submission, catalog, change)).await?;
        }
        Ok((server, true))
    }
}

/// The kind of the gateway itself or of a configured target with this name.
fn reserved_kind(gateway: &Gateway, name: &Name) -> Option<Kind> {
    let configured = || gateway.upstreams().configured_kind(name);
    if name.as_str().eq_ignore_ascii_case(GATEWAY) { Some(Kind::Agent) } else { configured() }
}

/// Whether a caller registered a data agent.
pub(crate) fn owns_data_agent(gateway: &Gateway, caller: &Authentication, agent: &Name) -> bool {
    let owner = registering_account(&caller.claim).key().to_string();
    registrations::is_owner(&gateway.views().now().catalog, agent, &owner)
}

/// Whether a version of a data agent is the registered one.
pub(crate) fn is_registered_version(gateway: &Gateway, server: &Key) -> bool {
    let snapshot = gateway.views().now();
    let last = snapshot.catalog.versions(Kind::Server, &server.name).last();
    last.is_some_and(|(key, record)| key == server && record.is_usable())
}

/// Creates the targets of the data agents in the current catalog.
pub(crate) fn serve_data_agents(gateway: &Gateway) {
    let _one_at_a_time = gateway.registrations().lock_targets();
    let snapshot = gateway.views().now();
    let agents = registrations::data_agents(&snapshot.catalog, &gateway.settings().data_agents);
    gateway.upstreams().set_data_agents(agents);
}

/// Waits until the catalog has a server.
async fn visible(gateway: &Gateway, server: &Key) -> Result<Arc<Catalog>, RegistrationError> {
    let (mut catalog, _) = gateway.views().subscribe();
    let found = catalog.wait_for(|catalog| catalog.find(server).is_some());
    match timeout(VISIBLE_WITHIN, found).await {
        Ok(Ok(catalog)) => Ok(Arc::clone(&catalog)),
        Ok(Err(_)) | Err(_) => Err(RegistrationError::NotVisible(server.clone())),
    }
}

/// A registration that needs an approval.
struct Reviewed<'a> {
    gateway: &'a Arc<Gateway>,
    submission: Submission<'a>,
    catalog: &'a Catalog,
    change: (&'a Key, Option<&'a Key>),
}

impl Reviewed<'_> {
    /// Finds or requests the approval, consumes it, and stores the registration.
    async fn store(&self, wanted: Result<Wanted, NoApproval>) -> Result<(), RegistrationError> {
        let wanted = match wanted {
            Ok(wanted) => self.arguments(wanted).await,
            Err(failure) => Err(failure),
        };
        let wanted = wanted.map_err(|failure| self.denied(unavailable(&failure)))?;
        let approvals = self.gateway.approvals();
        let status = approvals.open(&wanted).await;
        let status = status.map_err(|failure| self.denied(unavailable(&failure)))?;
        let RequestStatus { id: request, state: State::Approved, .. } = status else {
            return Err(self.denied(reason(status)));
        };
        let key = wanted.binding.key();
        let round = ApprovedRound { request, key, round: 0, within: OUTCOME_WITHIN };
        let consumed = approvals.consume(round).await;
        let mut consumed = consumed.map_err(|failure| self.denied(unavailable(&failure)))?;
        consumed.set_sent();
        let store = self.gateway.registrations().store(self.submission, self.catalog, self.change);
        match Box::pin(store).await {
            Ok(()) => {
                consumed.settle(Outcome::Succeeded);
                Ok(())
            }
            Err(failure) => {
                // The registry may have committed a batch without an answer.
                if !matches!(failure, NotRegistered::Unavailable(_)) {
                    consumed.settle(Outcome::Failed);
                }
                Err(failure.into())
            }
        }
    }

    /// The request with the digest of its content.
    async fn arguments(&self, mut wanted: Wanted) -> Result<Wanted, NoApproval> {
        let key = self.gateway.approvals().arguments_key().await?;
        let content = Value::from(wanted.binding.definition.to_string());
        let digest = key.digest(&content);
        wanted.binding.arguments =
            digest.ok_or_else(|| NoApproval::Refused("the content has no digest".to_owned()))?;
        Ok(wanted)
    }

    fn denied(&self, reason: Reason) -> RegistrationError {
        let name = self.submission.registration.agent_id.as_str();
        let policy = match (Name::parse(Kind::Policy, DEMAND), Version::parse("1.0.0")) {
            (Ok(name), Ok(version)) => Key::new(Kind::Policy, name, version),
            _ => self.change.0.clone(),
        };
        let finding = Finding { policy, reason };
        let denial = PolicyDenial::new(finding, self.catalog.registry(), None, name);
        RegistrationError::Approval(Box::new(denial))
    }
}

/// The approval request of a version. Its digest of arguments is set later.
fn wanted(
    caller: Principal,
    registration: &Registration,
    server: &Key,
) -> Result<Wanted, NoApproval> {
    let bits = random_bits().map_err(|e| NoApproval::Refused(e.to_string()))?;
    let content = registrations::digest_of(registration);
    let demand = Demand {
        policy: format!("{DEMAND}@1.0.0"),
        digest: Digest::compute(DEMAND.as_bytes()),
        rule: Approval::default(),
    };
    let binding = Binding {
        caller,
        agent: None,
        resource: format!("{}{}", Binding::REGISTRATION, registration.agent_id.as_str()),
        version: server.version.to_string(),
        definition: content,
        arguments: content,
        demands: vec![demand],
    };
    let preview = preview(registration);
    Ok(Wanted { id: RequestId::new(bits), binding, owners: BTreeSet::new(), preview })
}

/// The registration for approvers, without schemas if they are too large.
fn preview(registration: &Registration) -> String {
    let functions = registration.functions.iter();
    let whole: Vec<_> = functions
        .clone()
        .map(|it| {
            json!({ "name": it.name, "description": it.description,
                "input": it.input_schema(), "output": it.output_schema() })
        })
        .collect();
    let mut shown = json!({
        "agent_id": registration.agent_id.as_str(), "description": registration.description,
        "endpoint": registration.endpoint.as_ref().map(|endpoint| &endpoint.url),
        "endpoint_protocol": registration.endpoint.as_ref().map(|it| it.protocol.as_str()),
        "functions": whole,
        "resources": registration.resources.len(), "constraints": registration.constraints.sent,
    });
    let is_large = |shown: &Value| shown.to_string().len() > limits::PREVIEW_BYTES;
    if is_large(&shown) {
        shown["functions"] = functions.map(|it| it.name.as_str()).collect();
    }
    if is_large(&shown) {
        shown["functions"] = registration.functions.len().into();
    }
    if is_large(&shown) {
        shown["constraints"] = Value::Null;
    }
    shown.to_string()
}

fn unavailable(failure: &NoApproval) -> Reason {
    Reason::ApprovalUnavailable { problem: failure.to_string() }
}
