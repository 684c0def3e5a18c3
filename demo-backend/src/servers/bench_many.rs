//! `bench-many`: a server with 1,000 tools for list benchmarks, never registered, HTTP only.

use std::sync::Arc;

use rmcp::handler::server::router::tool::ToolRoute;
use rmcp::handler::server::tool::ToolRouter;
use rmcp::model::{CallToolResult, Tool, ToolAnnotations};
use serde_json::json;

use crate::hosted_server::Domain;

const TOOLS: usize = 1_000;

/// The server with many tools.
#[derive(Debug, Clone, Copy)]
pub struct BenchMany;

impl Domain for BenchMany {
    const NAME: &'static str = "bench-many";
    const VERSION: &'static str = "1.0.0";
    const PATH: &'static str = "/bench-many/mcp";
    const INSTRUCTIONS: &'static str = "For tests and benchmarks only.";
    const STDIO: bool = false;

    fn tools() -> ToolRouter<Self> {
        (0..TOOLS).map(route).fold(ToolRouter::new(), ToolRouter::with_route)
    }
}

fn route(number: usize) -> ToolRoute<BenchMany> {
    let schema = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "minLength": 1 },
            "limit": { "type": "integer", "minimum": 1, "maximum": 100, "default": 10 },
            "tags": { "type": "array", "items": { "type": "string" } },
        },
        "required": ["query"],
    });
    let schema = schema.as_object().cloned().unwrap_or_default();
    let description = format!("Tool number {number} of the benchmark: answers nothing.");
    let mut tool = Tool::new(format!("many_{number:04}"), description, Arc::new(schema.clone()));
    tool.output_schema = Some(Arc::new(schema));
    tool.annotations =
        Some(ToolAnnotations::new().read_only(true).destructive(false).idempotent(true));
    ToolRoute::new_dyn(tool, |_| Box::pin(async { Ok(CallToolResult::success(Vec::new()).into()) }))
}
