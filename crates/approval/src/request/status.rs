//! A request as its caller sees it.

use registry_core::Timestamp;

use super::{Choice, Decision, Request, State};
use crate::id::RequestId;

/// A request as its caller sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestStatus {
    /// The identity.
    pub id: RequestId,
    /// The state.
    pub state: State,
    /// The end of the wait for decisions, of the time for the call, or of the rest after a denial.
    /// `None`: unlimited.
    pub ends_at: Option<Timestamp>,
    /// The reason of a denial.
    pub denial: Option<String>,
    /// An earlier request for this call that is in progress or has an unknown outcome.
    pub uncertain: Option<RequestId>,
    /// Whether the caller has confirmed the call.
    pub is_confirmed: bool,
    /// The policies that approvals by people count for, such as `payments@1.0.0`: once for each
    /// approval.
    pub approvals: Vec<String>,
    /// The page where people decide. `None`: the store has no pages.
    pub page: Option<String>,
}

impl Request {
    /// The request as its caller sees it.
    pub fn status_at(&self, now: Timestamp) -> RequestStatus {
        let state = self.state_at(now);
        let reason = |choice: &Choice| match choice {
            Choice::Deny { reason } => Some(reason.clone()),
            Choice::Approve { .. } => None,
        };
        let is_approval = |decision: &&Decision| matches!(decision.choice, Choice::Approve { .. });
        let approvals = self.decisions.iter().filter(is_approval);
        RequestStatus {
            id: self.id,
            state,
            ends_at: match state {
                State::Denied => Some(self.cool_down_end()),
                _ => self.deadline,
            },
            denial: self.decisions.iter().find_map(|decision| reason(&decision.choice)),
            uncertain: self.uncertain,
            is_confirmed: self.confirmed_at.is_some(),
            approvals: approvals.flat_map(|decision| decision.policies.clone()).collect(),
            page: None,
        }
    }
}
