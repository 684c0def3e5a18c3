//! The client that reports usage.

use ledger::{LedgerError, usage::UsageReport};
use registry_proto::{convert::write_usage_report, v1::usage_service_client::UsageServiceClient};
use tonic::Code;

use crate::{Follower, connection::Connection};

/// Reports the usage of a gateway to a registry. It connects to one of the servers, and to the next
/// one after a failure.
#[derive(Debug)]
pub struct UsageClient {
    connection: Connection,
}

impl UsageClient {
    /// Creates a client. It connects when it is used.
    pub fn new(follower: Follower) -> Self {
        Self { connection: Connection::new(follower) }
    }

    /// Sends a report.
    pub async fn report(&self, report: &UsageReport) -> Result<(), LedgerError> {
        let request = self.connection.request(write_usage_report(report)).await;
        let (channel, request) = request.map_err(LedgerError::Unavailable)?;
        match UsageServiceClient::new(channel).report_usage(request).await {
            Ok(_) => Ok(()),
            Err(status) => {
                let reason = self.connection.fail(&status).await;
                Err(if status.code() == Code::InvalidArgument {
                    LedgerError::Rejected(reason)
                } else {
                    LedgerError::Unavailable(reason)
                })
            }
        }
    }
}
