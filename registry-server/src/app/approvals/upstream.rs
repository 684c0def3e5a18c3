//! Approvals at a relay: messages of gateways are forwarded to the upstream registry.
//!
//! The relay has authenticated the gateways. It forwards their principals with its own credentials.

use std::time::Duration;

use ::ledger::LedgerError;
use registry_follow::{ApprovalClient, Follower};
use tokio::time::timeout;

use crate::app::ledger;

/// Maximum time that the upstream takes to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The approvals of the upstream registry.
pub struct UpstreamApprovals {
    client: ApprovalClient,
    /// Addresses of the upstream, for display.
    upstream: String,
}

impl UpstreamApprovals {
    /// Creates a client. It connects when a gateway uses it.
    pub fn new(follower: Follower) -> Self {
        let upstream = follower.addresses.join(",");
        Self { client: ApprovalClient::new(follower), upstream }
    }

    /// Addresses of the upstream, for display.
    pub fn upstream(&self) -> &str {
        &self.upstream
    }

    /// The client of the upstream.
    pub fn client(&self) -> &ApprovalClient {
        &self.client
    }

    /// Waits for the answer of the upstream.
    pub async fn forward<T>(
        &self,
        forwarding: impl Future<Output = Result<T, LedgerError>>,
    ) -> Result<T, ledger::Error> {
        let reason = match timeout(ANSWER_LIMIT, forwarding).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(LedgerError::Rejected(reason))) => return Err(ledger::Error::Rejected(reason)),
            Ok(Err(LedgerError::Unavailable(reason))) => reason,
            Err(_) => format!("no answer within {} s", ANSWER_LIMIT.as_secs()),
        };
        Err(ledger::Error::Upstream { upstream: self.upstream.clone(), reason })
    }
}
