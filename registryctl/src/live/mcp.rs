//! MCP client with the official SDK, for all protocol versions: reads the server information and all lists.
//!
//! The client declares neither sampling nor elicitation nor roots.

use std::{collections::HashSet, error::Error, fmt, iter, time::Duration};

use registry_core::{entity::Exposure, limits, live::LiveServer};
use rmcp::{
    ClientLifecycleMode, ClientServiceExt as _, RoleClient, ServiceError,
    model::{
        ClientConfig, ClientRequest, Implementation, ListToolsRequest, PaginatedRequestParams,
        ProtocolVersion,
    },
    service::{ClientInitializeError, RunningService},
    transport::{
        IntoTransport, StreamableHttpClientTransport,
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use serde::Serialize;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    BYTES, Endpoint, PAGES, Target,
    child::Child,
    http,
    page::{self, InvalidTool, Page},
    raw::{LastResult, Lines, RawClient},
};
use crate::failure::{Failure, root_cause};

/// Timeout of closing a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The number of features of a server.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FeatureCounts {
    pub(crate) tools: usize,
    pub(crate) prompts: usize,
    pub(crate) resources: usize,
    pub(crate) resource_templates: usize,
    pub(crate) instructions: bool,
}

/// Reads the server information and the tools.
pub(crate) async fn list_tools(target: &Target) -> Result<LiveServer, Failure> {
    list(target, false).await.map(|(live, _)| live)
}

/// Reads the server information and the tools, and counts all features.
pub(crate) async fn list_features(target: &Target) -> Result<(LiveServer, FeatureCounts), Failure> {
    list(target, true).await
}

async fn list(target: &Target, features: bool) -> Result<(LiveServer, FeatureCounts), Failure> {
    let last = LastResult::default();
    let listing = Listing { target, features, last: last.clone() };
    match &target.endpoint {
        Endpoint::Http(url) => {
            let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                .custom_headers(http::headers(target)?)
                .max_sse_event_size(BYTES);
            if let Some(bearer) = &target.bearer {
                config = config.auth_header(bearer);
            }
            let client = RawClient::new(http::client(target)?, last);
            let transport = StreamableHttpClientTransport::with_client(client, config);
            let listed = listing.with_timeout(transport).await;
            if listed.is_err() && http::is_http_sse(target, url).await {
                return Err(target.invalid_response(
                    "the server uses HTTP+SSE (2024-11-05), which is not supported; use the URL of its \
                     Streamable HTTP transport, or --stdio",
                ));
            }
            listed
        }
        Endpoint::Program(words) => {
            let (child, stdout, stdin) = Child::start(target, words)?;
            let listed = listing.with_timeout((Lines::new(stdout, last), stdin)).await;
            let stderr = child.terminate().await;
            listed.map_err(|failure| failure.with_stderr(&stderr))
        }
    }
}

/// One session with a server.
struct Listing<'a> {
    target: &'a Target,
    /// Whether prompts and resources are counted.
    features: bool,
    last: LastResult,
}

type Service = RunningService<RoleClient, ClientConfig>;

impl Listing<'_> {
    /// Runs the session up to the timeout or an interrupt.
    async fn with_timeout<T, E, A>(
        &self,
        transport: T,
    ) -> Result<(LiveServer, FeatureCounts), Failure>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        tokio::select! {
            listed = timeout(self.target.timeout, self.run(transport)) => {
                listed.unwrap_or_else(|_| Err(self.target.timed_out()))
            }
            _ = tokio::signal::ctrl_c() => Err(self.target.unreachable("interrupted")),
        }
    }

    async fn run<T, E, A>(&self, transport: T) -> Result<(LiveServer, FeatureCounts), Failure>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let own = Implementation::new("registryctl", env!("CARGO_PKG_VERSION"));
        let versions = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let config = ClientConfig::new(rmcp::model::ClientCapabilities::default(), own);
        let serving = config.serve_with_lifecycle(transport, versions).await;
        let mut service = serving.map_err(|e| initialize_failure(self.target, &e))?;
        let listed = self.read(&service).await;
        // The responses are complete, so a failure to close the session is ignored.
        let _ = service.close_with_timeout(CLOSE_TIMEOUT).await;
        listed
    }

    async fn read(&self, service: &Service) -> Result<(LiveServer, FeatureCounts), Failure> {
        let Some(peer) = service.peer_info() else {
            return Err(self.target.invalid_response("the server information is missing"));
        };
        if !ProtocolVersion::KNOWN_VERSIONS.contains(&peer.protocol_version) {
            let version = peer.protocol_version.as_str();
            let reason = format!("`{version}` is not a supported version of MCP");
            return Err(self.target.invalid_response(reason));
        }
        let capabilities = &peer.capabilities;
        let offered = [
            (capabilities.prompts.is_some(), Exposure::Prompts),
            (capabilities.resources.is_some(), Exposure::Resources),
        ];
        let features =
            offered.into_iter().filter_map(|(is_offered, feature)| is_offered.then_some(feature));
        let info = peer.server_info.as_ref().map_or(Value::Null, page::as_json);
        let live = LiveServer { info, features: features.collect(), ..LiveServer::default() };
        let live = self.tools(service, live).await?;
        let instructions = peer.instructions.as_ref().is_some_and(|text| !text.is_empty());
        let mut counts =
            FeatureCounts { tools: live.tools.len(), instructions, ..FeatureCounts::default() };
        if self.features {
            count(service, &live.features, &mut counts).await;
        }
        Ok((live, counts))
    }

    /// Reads all pages. Invalid tools do not affect the others.
    async fn tools(&self, service: &Service, mut live: LiveServer) -> Result<LiveServer, Failure> {
        let target = self.target;
        let (mut bytes, mut cursor, mut seen) = (0, None, HashSet::new());
        for _ in 0..PAGES {
            let page = self.page(service, cursor.take()).await?;
            for tool in page.tools {
                let tool = tool.unwrap_or_else(|InvalidTool { raw, reason }| {
                    live.unread.insert(live.tools.len(), short(&reason));
                    raw
                });
                bytes += tool.to_string().len();
                live.tools.push(tool);
            }
            if bytes > BYTES {
                return Err(
                    target.invalid_response(format!("the tools exceed {} MiB", BYTES >> 20))
                );
            }
            if live.tools.len() > limits::LIST_ITEMS {
                return Err(
                    target.invalid_response(format!("more than {} tools", limits::LIST_ITEMS))
                );
            }
            match page.next {
                None => return require_valid_tool(target, live),
                Some(next) if !seen.insert(next.clone()) => {
                    return Err(target.invalid_response("the cursors of `tools/list` form a cycle"));
                }
                next => cursor = next,
            }
        }
        Err(target.invalid_response(format!("`tools/list` has more than {PAGES} pages")))
    }

    async fn page(&self, service: &Service, cursor: Option<String>) -> Result<Page, Failure> {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let result =
            service.send_request(request).await.map_err(|e| list_failure(self.target, &e))?;
        let page = match self.last.take() {
            Some(raw) => page::read(raw.get().as_bytes()),
            None => page::read(page::as_json(&result).to_string().as_bytes()),
        };
        page.map_err(|e| {
            self.target.invalid_response(format!("invalid result of `tools/list`: {e}"))
        })
    }
}

/// Counts prompts and resources. A failed list counts up to its failure, because nothing of it is imported.
async fn count(service: &Service, features: &[Exposure], counts: &mut FeatureCounts) {
    macro_rules! count {
        ($list:ident, $items:ident) => {{
            let (mut count, mut cursor) = (0, None);
            for _ in 0..PAGES {
                let params = PaginatedRequestParams::default().with_cursor(cursor.take());
                let Ok(page) = service.$list(Some(params)).await else { break };
                count += page.$items.len();
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
            count
        }};
    }
    if features.contains(&Exposure::Prompts) {
        counts.prompts = count!(list_prompts, prompts);
    }
    if features.contains(&Exposure::Resources) {
        counts.resources = count!(list_resources, resources);
        counts.resource_templates = count!(list_resource_templates, resource_templates);
    }
}

/// Rejects a server whose tools are all invalid.
fn require_valid_tool(target: &Target, live: LiveServer) -> Result<LiveServer, Failure> {
    match live.unread.first_key_value() {
        Some((i, reason)) if live.unread.len() == live.tools.len() => {
            let reason = format!("all tools are invalid; the first, /tools/{i}: {reason}");
            Err(target.invalid_response(reason))
        }
        _ => Ok(live),
    }
}

/// The help for a URL that the server does not serve.
const MISSING_HELP: &str = "check the path of the URL; the endpoint of an MCP server is often /mcp";

/// The help for an answer of another protocol.
const AGENT_HELP: &str =
    "for an A2A agent, use `import a2a` or `drift --target agent:NAME@VERSION=URL`";

fn initialize_failure(target: &Target, error: &ClientInitializeError) -> Failure {
    use ClientInitializeError::{ConnectionClosed, LegacyFallbackFailed, TransportError};
    match error {
        LegacyFallbackFailed { fallback, .. } => initialize_failure(target, fallback),
        TransportError { error, .. } => match http_error(error) {
            Some(StreamableHttpError::Client(error)) => http::broken(target, error),
            Some(error) => {
                let is_missing = matches!(error, StreamableHttpError::UnexpectedServerResponse(text)
                    if text.starts_with("HTTP 404"));
                let failure = target.invalid_response(short(error));
                failure.with_known_help(is_missing.then_some(MISSING_HELP))
            }
            None => target.unreachable(short(&root_cause(error))),
        },
        ConnectionClosed(_) => target.unreachable("the server closed the connection"),
        other => {
            let failure = target.invalid_response(format!("not an MCP server: {}", short(other)));
            failure.with_help(AGENT_HELP.to_owned())
        }
    }
}

/// The HTTP error that the SDK wraps.
fn http_error<'a>(
    error: &'a (dyn Error + 'static),
) -> Option<&'a StreamableHttpError<reqwest::Error>> {
    iter::successors(Some(error), |&error| error.source()).find_map(<dyn Error>::downcast_ref)
}

fn list_failure(target: &Target, error: &ServiceError) -> Failure {
    match error {
        ServiceError::TransportSend(sent) => {
            let cause = root_cause(sent.error.as_ref());
            target.invalid_response(format!("`tools/list` failed: {}", short(&cause)))
        }
        other => target.invalid_response(format!("`tools/list` failed: {}", short(other))),
    }
}

/// The start of a message, which may end with the response of the server.
fn short(message: &impl fmt::Display) -> String {
    let start: String = message.to_string().chars().take(300).collect();
    start.trim_end_matches([':', ' ']).to_owned()
}
