//! The interface between gateways and the store of requests.

use std::{fmt, pin::Pin};

use crate::{
    binding::{ArgumentsKey, Principal},
    id::RequestId,
    request::{
        CancelError, Claim, ConfirmError, ConsumeError, OpenError, RequestStatus, SettleError,
        Settlement, Wanted,
    },
};

/// A boxed future; the store is a trait object.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ApprovalsError>> + Send + 'a>>;

/// The future of a message. The inner error is the answer of the store.
pub type ApprovalFuture<'a, T, E> = StoreFuture<'a, Result<T, E>>;

/// The requests of approvals, as gateways use them: those of a registry, or of a file without one.
///
/// `gateway` is the principal of the gateway. All messages can be repeated after a lost answer.
pub trait Approvals: fmt::Debug + Send + Sync {
    /// The key of the digests of arguments.
    fn arguments_key(&self) -> StoreFuture<'_, ArgumentsKey>;

    /// Finds or creates the request of a call.
    fn open<'a>(
        &'a self,
        gateway: &'a str,
        wanted: &'a Wanted,
    ) -> ApprovalFuture<'a, RequestStatus, OpenError>;

    /// Records that the caller confirmed its call.
    fn confirm<'a>(
        &'a self,
        gateway: &'a str,
        request: RequestId,
        caller: &'a Principal,
    ) -> ApprovalFuture<'a, RequestStatus, ConfirmError>;

    /// Cancels a request of the caller.
    fn cancel<'a>(
        &'a self,
        gateway: &'a str,
        request: RequestId,
        caller: &'a Principal,
    ) -> ApprovalFuture<'a, RequestStatus, CancelError>;

    /// Consumes a round. The gateway sends only after the answer `Ok`.
    fn consume<'a>(
        &'a self,
        gateway: &'a str,
        claim: &'a Claim,
    ) -> ApprovalFuture<'a, (), ConsumeError>;

    /// Records the outcome of a round.
    fn settle<'a>(
        &'a self,
        gateway: &'a str,
        settlement: &'a Settlement,
    ) -> ApprovalFuture<'a, (), SettleError>;
}

/// The store did not process a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalsError {
    /// The store is unreachable. It may have processed the message.
    #[error("approvals are unavailable: {0}")]
    Unavailable(String),
    /// No person can decide about the call.
    #[error("approvals are unavailable: {0}")]
    Undecidable(String),
    /// The message is invalid.
    #[error("the approval message was rejected: {0}")]
    Rejected(String),
}
