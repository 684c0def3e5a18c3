//! Records of transitions, for the audit trail.

use registry_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Request, State, decision::SignIn};
use crate::{binding::Principal, id::RequestId};

/// The cause of a transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Actor {
    /// The caller.
    Caller {
        /// Its account.
        principal: Principal,
    },
    /// A person that decided.
    Decider {
        /// Its account.
        principal: Principal,
        /// The authentication.
        sign_in: SignIn,
    },
    /// An operator that cancelled.
    Operator {
        /// Its account.
        principal: Principal,
    },
    /// A gateway.
    Gateway {
        /// The principal of the gateway.
        name: String,
    },
    /// A standing grant.
    Grant {
        /// The request that created it.
        origin: RequestId,
    },
    /// A newer request for the same call.
    Request {
        /// The newer request.
        id: RequestId,
    },
    /// A time limit.
    Clock,
    /// A change of the definition or of the policies.
    Registry,
    /// The loss of transactions of the store.
    Recovery,
}

impl Actor {
    /// The kind of the cause in audit events and responses.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Caller { .. } => "caller",
            Self::Decider { .. } => "decider",
            Self::Operator { .. } => "operator",
            Self::Gateway { .. } => "gateway",
            Self::Grant { .. } => "grant",
            Self::Request { .. } => "request",
            Self::Clock => "clock",
            Self::Registry => "registry",
            Self::Recovery => "recovery",
        }
    }

    /// The account, gateway, grant or request. Empty: none.
    pub fn name(&self) -> String {
        match self {
            Self::Caller { principal }
            | Self::Decider { principal, .. }
            | Self::Operator { principal } => {
                format!("{} {}", principal.issuer, principal.subject)
            }
            Self::Gateway { name } => name.clone(),
            Self::Grant { origin: id } | Self::Request { id } => id.to_string(),
            Self::Clock | Self::Registry | Self::Recovery => String::new(),
        }
    }
}

/// A step of a request. Both states are equal if a decision or a round does not change the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Transition {
    /// The request.
    pub request: RequestId,
    /// The time.
    pub at: Timestamp,
    /// The state before. `None`: the request is new.
    pub from: Option<State>,
    /// The state after.
    pub to: State,
    /// The cause.
    pub by: Actor,
    /// The reason of a denial.
    pub reason: Option<String>,
}

/// A request after a step. A store replaces the row of [`Request::revision`] less one, and writes the
/// transition in the same transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The new row.
    pub request: Request,
    /// The step.
    pub transition: Transition,
}

/// The result of an operation of a store, and the steps that it made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded<T> {
    /// The result.
    pub value: T,
    /// The steps, in order.
    pub transitions: Vec<Transition>,
}
