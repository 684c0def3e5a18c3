//! An MCP server of this process: identity, tools and calls of one domain.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use rmcp::handler::server::tool::{ToolCallContext, ToolRouter};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ContentBlock, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;

use crate::tool_error::ToolError;

/// The definition of a domain that can be served.
pub trait Domain: Sized + Send + Sync + 'static {
    /// The registered server name.
    const NAME: &'static str;
    /// The registered server version.
    const VERSION: &'static str;
    /// The path it is served at.
    const PATH: &'static str;
    /// Instructions for clients.
    const INSTRUCTIONS: &'static str;
    /// Whether `--stdio` offers it too.
    const STDIO: bool = true;

    /// Its tools.
    fn tools() -> ToolRouter<Self>;
}

type CallFuture = Pin<Box<dyn Future<Output = Result<CallToolResponse, ErrorData>> + Send>>;
type Call = dyn Fn(CallToolRequestParams, RequestContext<RoleServer>) -> CallFuture + Send + Sync;

/// A server, ready for any transport. Clones share its state.
#[derive(Clone)]
pub struct HostedServer(Arc<Inner>);

struct Inner {
    name: &'static str,
    version: &'static str,
    path: &'static str,
    instructions: &'static str,
    stdio: bool,
    tools: Vec<Tool>,
    call: Box<Call>,
}

impl HostedServer {
    /// Hosts a domain.
    pub fn new<D: Domain>(domain: D) -> Self {
        let router = D::tools();
        let tools = router.list_all().into_iter().map(without_number_formats).collect();
        let shared = Arc::new((domain, router));
        let call: Box<Call> = Box::new(move |request, context| {
            let shared = Arc::clone(&shared);
            Box::pin(async move {
                let (domain, router) = &*shared;
                router.call(ToolCallContext::new(domain, request, context)).await
            })
        });
        Self(Arc::new(Inner {
            name: D::NAME,
            version: D::VERSION,
            path: D::PATH,
            instructions: D::INSTRUCTIONS,
            stdio: D::STDIO,
            tools,
            call,
        }))
    }

    /// The registered server name.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// The path it is served at.
    pub fn path(&self) -> &'static str {
        self.0.path
    }

    /// Whether it can be served over standard input and output.
    pub fn offers_stdio(&self) -> bool {
        self.0.stdio
    }

    /// Its tools, by name.
    pub fn tools(&self) -> &[Tool] {
        &self.0.tools
    }
}

impl ServerHandler for HostedServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(self.0.name, self.0.version))
            .with_instructions(self.0.instructions)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.0.tools.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        (self.0.call)(request, context).await.map(convert_argument_error)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.tools.iter().find(|tool| tool.name == name).cloned()
    }
}

/// Converts rmcp's text about invalid arguments into the error format of this backend.
fn convert_argument_error(response: CallToolResponse) -> CallToolResponse {
    match response {
        CallToolResponse::Complete(result)
            if result.is_error == Some(true) && result.structured_content.is_none() =>
        {
            let text = result.content.first().and_then(ContentBlock::as_text);
            let message = text.map_or_else(String::new, |text| text.text.clone());
            ToolError::invalid(message).into()
        }
        other => other,
    }
}

/// Removes number formats such as `uint32`. schemars writes them, but JSON Schema does not define
/// them, and strict clients warn about each.
fn without_number_formats(mut tool: Tool) -> Tool {
    tool.input_schema = clean(&tool.input_schema);
    tool.output_schema = tool.output_schema.as_ref().map(clean);
    tool
}

fn clean(schema: &Arc<JsonObject>) -> Arc<JsonObject> {
    let mut object = schema.as_ref().clone();
    clean_object(&mut object);
    Arc::new(object)
}

fn clean_object(object: &mut JsonObject) {
    const NUMBER_FORMATS: [&str; 6] = ["uint", "uint32", "uint64", "int64", "float", "double"];
    let is_number_format =
        |format: &Value| format.as_str().is_some_and(|name| NUMBER_FORMATS.contains(&name));
    if object.get("format").is_some_and(is_number_format) {
        object.remove("format");
    }
    object.values_mut().for_each(clean_value);
}

fn clean_value(value: &mut Value) {
    match value {
        Value::Object(object) => clean_object(object),
        Value::Array(items) => items.iter_mut().for_each(clean_value),
        _ => {}
    }
}
