//! One server over standard input and output, for clients that start their servers themselves.

use std::error::Error;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio_pipes;
use tokio_util::sync::CancellationToken;

use crate::hosted_server::HostedServer;

/// Serves until the client closes standard input, or until `stop`.
pub async fn serve(server: HostedServer, stop: CancellationToken) -> Result<(), Box<dyn Error>> {
    match server.serve_with_ct(stdio_pipes(), stop).await {
        Ok(running) => {
            running.waiting().await?;
            Ok(())
        }
        // The client disconnected, or the process was stopped, before the first request.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
