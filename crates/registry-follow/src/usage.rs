//! The client that reports usage.

use ledger::{LedgerError, usage::UsageReport};
use registry_proto::{convert::write_usage_report, v1::usage_service_client::UsageServiceClient};

use crate::{Follower, connection::Connection};

/// Reports the usage of a gateway to a registry, or forwards it at a relay. It connects to one of the servers, and to
/// the next one after a failure.
#[derive(Debug)]
pub struct UsageClient {
    connection: Connection,
}

impl UsageClient {
    /// Creates a client. It connects when it is used.
    pub fn new(follower: Follower) -> Self {
        Self { connection: Connection::new(follower) }
    }

    /// Sends a report of this gateway.
    pub async fn report(&self, report: &UsageReport) -> Result<(), LedgerError> {
        self.forward("", report).await
    }

    /// Sends the report of a gateway in its name. Requires the role relay.
    pub async fn forward(&self, gateway: &str, report: &UsageReport) -> Result<(), LedgerError> {
        let message = write_usage_report(gateway, report);
        let (channel, request) = self.connection.request(message).await?;
        match UsageServiceClient::new(channel).report_usage(request).await {
            Ok(_) => Ok(()),
            Err(status) => Err(self.connection.fail(&status).await),
        }
    }
}
