//! The client of approvals.

mod message;

use std::time::Duration;

use approval::{
    ApprovalFuture, Approvals, ApprovalsError, ArgumentsKey, CancelError, Claim, ConfirmError,
    ConsumeError, OpenError, Principal, RequestId, RequestStatus, SettleError, Settlement,
    StoreFuture, Wanted,
};
use ledger::LedgerError;
use registry_proto::{
    convert::approval_account,
    v1::{
        self, approval_service_client::ApprovalServiceClient, confirm_approval_response,
        request_approval_response, withdraw_approval_response,
    },
};
use tokio::{sync::Mutex, time::Instant};
use tonic::{Response, Status};

use crate::{Follower, connection::Connection};

/// Maximum age of the key of digests of arguments: an operator can replace it.
const KEY_AGE: Duration = Duration::from_mins(10);

/// The approvals of a registry. It connects to one of the servers, and to the next one after a failure.
///
/// A gateway uses it as [`Approvals`]. A relay forwards the messages of its gateways.
#[derive(Debug)]
pub struct ApprovalClient {
    connection: Connection,
    /// The key with the time of its answer.
    key: Mutex<Option<(Instant, ArgumentsKey)>>,
}

impl ApprovalClient {
    /// Creates a client. It connects when it is used.
    pub fn new(follower: Follower) -> Self {
        Self { connection: Connection::new(follower), key: Mutex::default() }
    }

    async fn known_key(&self) -> Result<ArgumentsKey, ApprovalsError> {
        let mut known = self.key.lock().await;
        if let Some((at, key)) = &*known
            && at.elapsed() < KEY_AGE
        {
            return Ok(key.clone());
        }
        let answer = self.arguments_key(v1::GetArgumentsKeyRequest {}).await;
        let answer = answer.map_err(message::failure)?;
        let key = <[u8; 32]>::try_from(&answer.key[..]).map_err(|_| message::invalid("key"))?;
        let key = ArgumentsKey::new(&key);
        *known = Some((Instant::now(), key.clone()));
        Ok(key)
    }

    /// Reads the key of the digests of arguments.
    pub async fn arguments_key(
        &self,
        message: v1::GetArgumentsKeyRequest,
    ) -> Result<v1::GetArgumentsKeyResponse, LedgerError> {
        let (channel, request) = self.connection.request(message).await?;
        let answer = ApprovalServiceClient::new(channel).get_arguments_key(request).await;
        self.read(answer).await
    }

    /// Finds or creates the request of a call.
    pub async fn request(
        &self,
        message: v1::RequestApprovalRequest,
    ) -> Result<v1::RequestApprovalResponse, LedgerError> {
        let (channel, request) = self.connection.request(message).await?;
        let answer = ApprovalServiceClient::new(channel).request_approval(request).await;
        self.read(answer).await
    }

    /// Records that the caller confirmed its call.
    pub async fn confirm(
        &self,
        message: v1::ConfirmApprovalRequest,
    ) -> Result<v1::ConfirmApprovalResponse, LedgerError> {
        let (channel, request) = self.connection.request(message).await?;
        let answer = ApprovalServiceClient::new(channel).confirm_approval(request).await;
        self.read(answer).await
    }

    /// Cancels a request of a caller.
    pub async fn withdraw(
        &self,
        message: v1::WithdrawApprovalRequest,
    ) -> Result<v1::WithdrawApprovalResponse, LedgerError> {
        let (channel, request) = self.connection.request(message).await?;
        let answer = ApprovalServiceClient::new(channel).withdraw_approval(request).await;
        self.read(answer).await
    }

    /// Uses an approval for one round of a call.
    pub async fn claim(
        &self,
        message: v1::ClaimApprovalRequest,
    ) -> Result<v1::ClaimApprovalResponse, LedgerError> {
        let (channel, request) = self.connection.request(message).await?;
        let answer = ApprovalServiceClient::new(channel).claim_approval(request).await;
        self.read(answer).await
    }

    /// Records the outcome of a round.
    pub async fn settle(
        &self,
        message: v1::ReportApprovalOutcomeRequest,
    ) -> Result<v1::ReportApprovalOutcomeResponse, LedgerError> {
        let (channel, request) = self.connection.request(message).await?;
        let answer = ApprovalServiceClient::new(channel).report_approval_outcome(request).await;
        self.read(answer).await
    }

    async fn read<T>(&self, answer: Result<Response<T>, Status>) -> Result<T, LedgerError> {
        match answer {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(self.connection.fail(&status).await),
        }
    }
}

/// The registry authenticates the gateway.
impl Approvals for ApprovalClient {
    fn arguments_key(&self) -> StoreFuture<'_, ArgumentsKey> {
        Box::pin(self.known_key())
    }

    fn open<'a>(
        &'a self,
        _gateway: &'a str,
        wanted: &'a Wanted,
    ) -> ApprovalFuture<'a, RequestStatus, OpenError> {
        Box::pin(async {
            use request_approval_response::Outcome;
            let answer = self.request(message::wanted(wanted)).await.map_err(message::failure)?;
            match answer.outcome {
                Some(Outcome::Approval(approval)) => {
                    let page = Some(answer.page_url).filter(|page| !page.is_empty());
                    Ok(Ok(RequestStatus { page, ..message::status(&approval)? }))
                }
                Some(Outcome::Refusal(refusal)) => message::open_error(refusal).map(Err),
                None => Err(message::invalid("outcome")),
            }
        })
    }

    fn confirm<'a>(
        &'a self,
        _gateway: &'a str,
        request: RequestId,
        caller: &'a Principal,
    ) -> ApprovalFuture<'a, RequestStatus, ConfirmError> {
        Box::pin(async move {
            use confirm_approval_response::Outcome;
            let sent = v1::ConfirmApprovalRequest {
                id: request.to_string(),
                caller: Some(approval_account(caller)),
                gateway: String::new(),
            };
            match self.confirm(sent).await.map_err(message::failure)?.outcome {
                Some(Outcome::Approval(approval)) => message::status(&approval).map(Ok),
                Some(Outcome::Refusal(refusal)) => message::confirm_error(refusal).map(Err),
                None => Err(message::invalid("outcome")),
            }
        })
    }

    fn cancel<'a>(
        &'a self,
        _gateway: &'a str,
        request: RequestId,
        caller: &'a Principal,
    ) -> ApprovalFuture<'a, RequestStatus, CancelError> {
        Box::pin(async move {
            use withdraw_approval_response::Outcome;
            let sent = v1::WithdrawApprovalRequest {
                id: request.to_string(),
                caller: Some(approval_account(caller)),
                gateway: String::new(),
            };
            match self.withdraw(sent).await.map_err(message::failure)?.outcome {
                Some(Outcome::Approval(approval)) => message::status(&approval).map(Ok),
                Some(Outcome::Refusal(refusal)) => message::cancel_error(refusal).map(Err),
                None => Err(message::invalid("outcome")),
            }
        })
    }

    fn consume<'a>(
        &'a self,
        _gateway: &'a str,
        claim: &'a Claim,
    ) -> ApprovalFuture<'a, (), ConsumeError> {
        Box::pin(async {
            let answer = self.claim(message::claim(claim)).await.map_err(message::failure)?;
            let refused =
                answer.refusal.map(|refusal| message::consume_error(refusal, claim.round));
            refused.map_or(Ok(Ok(())), |error| error.map(Err))
        })
    }

    fn settle<'a>(
        &'a self,
        _gateway: &'a str,
        settlement: &'a Settlement,
    ) -> ApprovalFuture<'a, (), SettleError> {
        Box::pin(async {
            let sent = message::settlement(settlement);
            let answer = self.settle(sent).await.map_err(message::failure)?;
            answer.refusal.map(message::settle_error).map_or(Ok(Ok(())), |error| error.map(Err))
        })
    }
}
