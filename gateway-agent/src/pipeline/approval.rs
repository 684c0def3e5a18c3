//! The approval of a call by people: its request, and the rounds of an approved call.
//!
//! An approval is bound to the arguments as the caller knows them. The definition of the tool, which is
//! bound too, determines defaults and hidden arguments. Variables of the gateway count by their names.

mod confirmation;
mod preview;
mod rounds;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use approval::{ArgumentsKey, Binding, Demand, Principal, RequestId, RequestStatus, State, Wanted};
use gateway_policy::CallerIdentity;
use gateway_protocol::content;
use policy::{ApprovalRule, DeniedApproval, Finding, MissingApproval, Reason};
use registry_core::{Key, Kind};

use self::preview::{ApprovedArguments, describe};
pub(super) use self::rounds::{ContinuedRound, bound, opened, sealed};
use super::{Error, Gateway, admit::OperationData, arguments::Arguments, inspect::Inspecting};
use crate::{
    approvals::{ApprovedRound, NoApproval},
    identity::{
        account::{account_of, is_agent_of, known_account},
        authenticator::Authentication,
    },
    random::random_bits,
    view::ServedTool,
};

/// Maximum time for the outcome of an approved call. A crash shows as `unknown` after it.
const OUTCOME_WITHIN: Duration = Duration::from_hours(1);

/// An approved call.
pub(super) struct Approved {
    pub(super) round: ApprovedRound,
    /// The policies that demanded the approval, at least one.
    pub(super) policies: Vec<Key>,
}

/// A call that needs an approval.
pub(super) struct ApprovalOrder<'a> {
    pub(super) inspecting: Inspecting<'a>,
    pub(super) served: &'a Arc<ServedTool>,
    /// The registered agent that calls.
    pub(super) agent: Option<&'a Key>,
    /// The team that owns the agent.
    pub(super) team: Option<&'a str>,
    /// The demands, at least one.
    pub(super) rules: &'a [ApprovalRule<'a>],
}

impl ApprovalOrder<'_> {
    /// Finds the approval of the call, or requests one.
    pub(super) async fn find(
        &self,
        data: &OperationData<'_, '_>,
    ) -> Result<Result<ApprovedRound, Finding>, Error> {
        let gateway = self.inspecting.gateway;
        let key = match gateway.approvals().arguments_key().await {
            Ok(key) => key,
            Err(failure) => return Ok(Err(self.unavailable(&failure))),
        };
        let ApprovedArguments { digest, preview, own } = match self.describe(data, key).await? {
            Ok(described) => described,
            Err(problem) => return Ok(Err(self.finding(Reason::ApprovalUnavailable { problem }))),
        };
        let binding = self.binding(digest);
        let approved = |request: RequestId, round| ApprovedRound {
            request,
            key: binding.key(),
            round,
            within: OUTCOME_WITHIN,
        };
        if let Some(ContinuedRound { request, round }) = data.continued {
            return Ok(Ok(approved(request, round)));
        }
        let id = match random_bits() {
            Ok(bits) => RequestId::new(bits),
            Err(e) => return Ok(Err(self.unavailable(&NoApproval::Refused(e.to_string())))),
        };
        let owners: BTreeSet<_> = self.team.map(str::to_owned).into_iter().collect();
        let wanted = Wanted { id, binding: binding.clone(), owners, preview };
        let mut status = match gateway.approvals().open(&wanted).await {
            Ok(status) => status,
            Err(failure) => return Ok(Err(self.unavailable(&failure))),
        };
        if self.needs_confirmation(&status) {
            status = match Box::pin(self.confirmed(status, own)).await {
                Ok(status) => status,
                Err(finding) => return Ok(Err(finding)),
            };
        }
        Ok(match status {
            RequestStatus { state: State::Approved, id, .. } => Ok(approved(id, 0)),
            status => Err(Finding { policy: self.unmet(&status), reason: reason(status) }),
        })
    }

    /// The first policy without the demanded approvals. If all have them, the approval was used or has
    /// expired.
    fn unmet(&self, status: &RequestStatus) -> Key {
        let is_met = |rule: &ApprovalRule<'_>| {
            if rule.approval.is_confirmation() {
                return status.is_confirmed;
            }
            let policy = demanding(rule);
            let count = status.approvals.iter().filter(|approved| **approved == policy).count();
            u32::try_from(count).is_ok_and(|count| count >= rule.approval.quorum.get())
        };
        let unmet = self.rules.iter().find(|rule| !is_met(rule));
        unmet.unwrap_or(&self.rules[0]).policy.key().clone()
    }

    /// The violation if the approval cannot be requested or used.
    pub(super) fn unavailable(&self, failure: &NoApproval) -> Finding {
        self.finding(Reason::ApprovalUnavailable { problem: failure.to_string() })
    }

    fn finding(&self, reason: Reason) -> Finding {
        Finding { policy: self.rules[0].policy.key().clone(), reason }
    }

    async fn describe(
        &self,
        data: &OperationData<'_, '_>,
        key: ArgumentsKey,
    ) -> Result<Result<ApprovedArguments, String>, Error> {
        let Inspecting { gateway, call, .. } = self.inspecting;
        let exceeded = |why| Error::from(gateway_upstream::Error::from(why));
        let given = match (data.arguments.as_deref().and_then(Arguments::given), data.rest) {
            (Some(arguments), None) => arguments.get().to_owned(),
            (None, None) => "{}".to_owned(),
            (arguments, Some(rest)) => {
                preview::of_message(arguments, rest, (data.extensions, data.continues))
            }
        };
        call.context.buffer(content::tree_bytes(&given)).map_err(exceeded)?;
        // Pointers of policies select arguments.
        let prefix = if data.rest.is_some() { preview::ARGUMENTS } else { "" };
        let shown = self.rules.iter().flat_map(|rule| &rule.approval.show);
        let shown: Vec<_> = shown.map(|pointer| format!("{prefix}{pointer}")).collect();
        let inspections = Arc::clone(gateway.inspections());
        let bytes = given.len();
        let describe = move || describe(&given, &key, &shown, &inspections);
        let described = self.inspecting.thread().run(bytes, describe).await.map_err(exceeded)?;
        Ok(described)
    }

    fn binding(&self, arguments: registry_core::Digest) -> Binding {
        let Inspecting { gateway, call, .. } = self.inspecting;
        let key = self.served.key();
        let resource = match self.served.skill() {
            Some((agent, skill)) => format!("skill/{}/{skill}", agent.name),
            None => format!("{}/{}", Kind::Tool, key.name),
        };
        let demand = |rule: &ApprovalRule<'_>| Demand {
            policy: demanding(rule),
            digest: rule.policy.digest(),
            rule: rule.approval.clone(),
        };
        let mut demands: Vec<_> = self.rules.iter().map(demand).collect();
        demands.sort_by(|a, b| a.policy.cmp(&b.policy));
        Binding {
            caller: account(gateway, &call.caller.claim),
            agent: self.agent.map(|agent| agent.name.to_string()),
            resource,
            version: key.version.to_string(),
            definition: self.served.digest(),
            arguments,
            demands,
        }
    }
}

/// The name and version of the policy of a demand.
fn demanding(rule: &ApprovalRule<'_>) -> String {
    let policy = rule.policy.key();
    format!("{}@{}", policy.name, policy.version)
}

/// The associated data of the seal of an id that only the account of a caller may use.
pub(crate) fn sealed_for(gateway: &Gateway, purpose: &str, caller: &CallerIdentity) -> Vec<u8> {
    format!("{purpose} {}", account(gateway, caller).key()).into_bytes()
}

/// Cancels the request of a caller. Fails with the problem.
pub(crate) async fn withdraw(
    gateway: &Gateway,
    caller: &CallerIdentity,
    id: &str,
) -> Result<(), String> {
    let id = id.parse::<RequestId>().map_err(|e| e.to_string())?;
    let cancelled = gateway.approvals().cancel(id, &account(gateway, caller)).await;
    cancelled.map_err(|failure| failure.to_string())
}

/// The reason to reject a call whose request is not approved.
pub(super) fn reason(status: RequestStatus) -> Reason {
    let RequestStatus { id, state, ends_at, denial, uncertain, page, .. } = status;
    match state {
        State::Pending => Reason::ApprovalRequired(Some(Box::new(MissingApproval {
            id: id.to_string(),
            url: page,
            expires_at: ends_at,
            uncertain: uncertain.map(|id| id.to_string()),
        }))),
        State::Denied => Reason::ApprovalDenied(Box::new(DeniedApproval {
            id: id.to_string(),
            reason: denial.unwrap_or_default(),
            until: ends_at,
        })),
        // Another gateway used the approval after the answer, or its time has ended.
        ended => {
            let problem = format!("the request {id} is {ended}; repeat the call");
            Reason::ApprovalUnavailable { problem }
        }
    }
}

/// The account of a caller.
fn account(gateway: &Gateway, claim: &CallerIdentity) -> Principal {
    let snapshot = gateway.views().now();
    account_of(&snapshot.named(claim), |agent| is_agent_of(&snapshot.catalog, agent, claim))
}

/// The account of a caller's traces. It does not depend on the catalog, so that it is the same at all
/// gateways. `None`: the caller cannot be distinguished from others.
pub(crate) fn trace_owner(caller: &Authentication) -> Option<Principal> {
    known_account(&caller.claim, |_| true)
}
