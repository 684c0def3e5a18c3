//! `bench-server`: for tests and benchmarks only.

use rmcp::handler::server::tool::ToolRouter;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use rmcp::{RoleServer, tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hosted_server::Domain;
use crate::tool_error::ToolError;

const MAX_BYTES: usize = 16 * 1024 * 1024;
const MAX_EVENTS: u32 = 10_000;

/// The bench server.
#[derive(Debug, Clone, Copy)]
pub struct Bench;

/// A payload, in and out.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Payload {
    /// Any text.
    pub payload: String,
}

/// How much text to return.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BulkRequest {
    /// The size of the text, at most 16 MiB.
    #[schemars(range(max = 16_777_216))]
    pub bytes: usize,
}

/// How often to report progress.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct CountRequest {
    /// At most 10,000 times.
    #[schemars(range(max = 10_000))]
    pub events: u32,
}

impl Domain for Bench {
    const NAME: &'static str = "bench-server";
    const VERSION: &'static str = "1.0.0";
    const PATH: &'static str = "/bench/mcp";
    const INSTRUCTIONS: &'static str = "For tests and benchmarks only.";
    fn tools() -> ToolRouter<Self> {
        Self::tool_router()
    }
}

#[tool_router]
impl Bench {
    /// Return the payload unchanged.
    #[tool(annotations(
        title = "Echo",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn echo(Parameters(payload): Parameters<Payload>) -> Json<Payload> {
        Json(payload)
    }

    /// Report progress this many times, and return the number.
    #[tool(annotations(
        title = "Count",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn count(
        Parameters(CountRequest { events }): Parameters<CountRequest>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<CountRequest>, ToolError> {
        if events > MAX_EVENTS {
            return Err(ToolError::invalid(format!("events is {events}, at most {MAX_EVENTS}")));
        }
        if let Some(token) = context.meta.get_progress_token() {
            for event in 1..=events {
                let progress = ProgressNotificationParam::new(token.clone(), event.into());
                // The caller may have disconnected.
                let _ = context.peer.notify_progress(progress).await;
            }
        }
        Ok(Json(CountRequest { events }))
    }

    /// Return a text of the given size, as plain content: nothing is sent twice.
    #[tool(annotations(
        title = "Bulk",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn bulk(
        Parameters(BulkRequest { bytes }): Parameters<BulkRequest>,
    ) -> Result<String, ToolError> {
        if bytes > MAX_BYTES {
            return Err(ToolError::invalid(format!("bytes is {bytes}, at most {MAX_BYTES}")));
        }
        Ok("x".repeat(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_has_the_size_and_a_limit() {
        let bulk = |bytes| Bench::bulk(Parameters(BulkRequest { bytes }));
        assert_eq!(bulk(1000).unwrap().len(), 1000);
        assert!(bulk(MAX_BYTES + 1).is_err());
    }
}
