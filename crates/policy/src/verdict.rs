//! The decisions of policies about a call.

use std::time::Duration;

use registry_core::{Amount, Key, Name, Timestamp};

use crate::Direction;

/// The decision about one call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// The violation that rejects the call.
    pub denial: Option<Finding>,
    /// The violations of policies in audit mode.
    pub audit: Vec<Finding>,
}

/// A violation of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The policy and its version.
    pub policy: Key,
    /// The violation.
    pub reason: Reason,
}

/// The way a call violates a policy.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// A `forbid` is satisfied, or no `permit` of a policy with `default: "deny"` is.
    Unauthorized,
    /// A condition could not be evaluated.
    PolicyError(String),
    /// The rate is exhausted.
    RateLimited {
        /// The time until the next call is allowed. `None`: never.
        retry_after: Option<Duration>,
    },
    /// The trace has too many calls or hops.
    TraceLimited {
        /// `calls` or `hops`.
        what: &'static str,
        /// The limit.
        limit: u32,
    },
    /// The catalog is older than the policy allows.
    StalePolicy {
        /// The age of the catalog, if known.
        age: Option<Duration>,
        /// The maximum age.
        limit: Duration,
    },
    /// A budget, or the cost limit of traces, does not cover the call.
    BudgetExceeded(Box<BudgetShortage>),
    /// The call has no price, and a budget denies such calls.
    Unpriced {
        /// The name of the budget.
        budget: Name,
    },
    /// Inspection found data that the policy blocks.
    PiiDetected {
        /// The class of the data, or `binary`.
        class: &'static str,
        /// The inspected side of the call.
        direction: Direction,
        /// JSON pointer of the data, without its value.
        pointer: String,
    },
    /// The call needs an approval. In audit mode, none was requested.
    ApprovalRequired(Option<Box<MissingApproval>>),
    /// The call needs an approval that cannot be requested or used now.
    ApprovalUnavailable {
        /// The cause and its remedy.
        problem: String,
    },
    /// A person denied the call.
    ApprovalDenied(Box<DeniedApproval>),
}

/// The request for the approval of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingApproval {
    /// The id of the request.
    pub id: String,
    /// The page where people decide. `None`: there is none.
    pub url: Option<String>,
    /// The end of the wait for decisions. `None`: it does not end.
    pub expires_at: Option<Timestamp>,
    /// The id of an earlier request for this call that is in progress or has an unknown outcome.
    pub uncertain: Option<String>,
}

/// A denied approval of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeniedApproval {
    /// The id of the request.
    pub id: String,
    /// The reason of the person that denied it.
    pub reason: String,
    /// The time when the call can be requested again.
    pub until: Option<Timestamp>,
}

/// A limit on spending that does not cover a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetShortage {
    /// The name of the budget. `None`: the cost limit of traces.
    pub budget: Option<Name>,
    /// The calls that share the limit: `agent`, `team`, `principal`, `tool`, `fleet` or `trace`.
    pub scope: &'static str,
    /// The limit.
    pub limit: Amount,
    /// The used part of the limit. `None`: the gateway does not know it.
    pub used: Option<UsedBudget>,
    /// The amount that the call needs.
    pub requested: Amount,
    /// The end of the window. `None`: it has no end.
    pub resets_at: Option<Timestamp>,
    /// Whether the gateway cannot reach the ledger, so that the amounts may be old.
    pub is_unavailable: bool,
    /// Whether the ledger recovers and grants nothing for about a minute, although the limit may not be reached.
    pub is_recovering: bool,
    /// Whether the gateway waited in vain for an amount that the budget may still have.
    pub is_timeout: bool,
}

/// The used part of a limit on spending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsedBudget {
    /// The known spending.
    pub spent: Amount,
    /// The amount that calls in flight and gateways hold.
    pub reserved: Amount,
    /// The part of `reserved` at gateways that the ledger cannot reach.
    pub in_doubt: Amount,
}

impl BudgetShortage {
    /// Whether the known spending leaves too little, also if nothing was reserved.
    pub fn is_spent(&self) -> bool {
        self.used.is_some_and(|used| used.spent.saturating_add(self.requested) > self.limit)
    }
}

impl Reason {
    /// The id of the request for the approval of the call.
    pub fn approval(&self) -> Option<&str> {
        match self {
            Self::ApprovalRequired(missing) => missing.as_ref().map(|missing| &*missing.id),
            Self::ApprovalDenied(denied) => Some(&denied.id),
            _ => None,
        }
    }

    /// The name in responses, audit events and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Unauthorized => "UNAUTHORIZED",
            Self::PolicyError(_) => "POLICY_ERROR",
            Self::RateLimited { .. } | Self::TraceLimited { .. } => "RATE_LIMITED",
            Self::StalePolicy { .. } => "STALE_POLICY",
            Self::BudgetExceeded(_) | Self::Unpriced { .. } => "BUDGET_EXCEEDED",
            Self::PiiDetected { .. } => "PII_DETECTED",
            Self::ApprovalRequired(_) => "APPROVAL_REQUIRED",
            Self::ApprovalUnavailable { .. } => "APPROVAL_UNAVAILABLE",
            Self::ApprovalDenied(_) => "APPROVAL_DENIED",
        }
    }
}
