//! The client that forwards messages about approvals.

use ledger::LedgerError;
use registry_proto::v1::{self, approval_service_client::ApprovalServiceClient};
use tonic::{Response, Status};

use crate::{Follower, connection::Connection};

/// The approvals of a registry, for the messages of gateways that a relay forwards. It connects to one of the servers,
/// and to the next one after a failure.
#[derive(Debug)]
pub struct ApprovalClient {
    connection: Connection,
}

impl ApprovalClient {
    /// Creates a client. It connects when it is used.
    pub fn new(follower: Follower) -> Self {
        Self { connection: Connection::new(follower) }
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
