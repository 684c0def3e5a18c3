//! MCP with the official SDK, in both eras: who the server is, and all pages of its lists.
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
    BYTES, PAGES, Place, Target,
    child::Child,
    http,
    page::{self, NoTool, Page},
    raw::{LastResult, Lines, RawClient},
};
use crate::failure::{Failure, root_cause};

/// How long saying good-bye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// What a server has.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Found {
    pub(crate) tools: usize,
    pub(crate) prompts: usize,
    pub(crate) resources: usize,
    pub(crate) resource_templates: usize,
    pub(crate) instructions: bool,
}

/// Asks a server who it is and which tools it has.
pub(crate) async fn ask(target: &Target) -> Result<LiveServer, Failure> {
    ask_for(target, false).await.map(|(said, _)| said)
}

/// Asks a server for everything that it lists.
pub(crate) async fn ask_for_all(target: &Target) -> Result<(LiveServer, Found), Failure> {
    ask_for(target, true).await
}

async fn ask_for(target: &Target, features: bool) -> Result<(LiveServer, Found), Failure> {
    let last = LastResult::default();
    let asking = Asking { target, features, last: last.clone() };
    match &target.place {
        Place::Http(url) => {
            let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                .custom_headers(http::headers(target)?)
                .max_sse_event_size(BYTES);
            if let Some(bearer) = &target.bearer {
                config = config.auth_header(bearer);
            }
            let client = RawClient::new(http::client(target)?, last);
            let transport = StreamableHttpClientTransport::with_client(client, config);
            let asked = asking.in_time(transport).await;
            if asked.is_err() && http::is_http_sse(target, url).await {
                return Err(target.lies(
                    "it speaks HTTP+SSE (2024-11-05), which is not supported; give the URL of its \
                     Streamable HTTP transport, or start it as a program",
                ));
            }
            asked
        }
        Place::Program(words) => {
            let (child, stdout, stdin) = Child::start(target, words)?;
            let asked = asking.in_time((Lines::new(stdout, last), stdin)).await;
            let last_words = child.end().await;
            asked.map_err(|failure| failure.with_last_words(&last_words))
        }
    }
}

/// One conversation.
struct Asking<'a> {
    target: &'a Target,
    /// Whether prompts and resources are counted.
    features: bool,
    last: LastResult,
}

type Service = RunningService<RoleClient, ClientConfig>;

impl Asking<'_> {
    /// The whole conversation; the user may also end it.
    async fn in_time<T, E, A>(&self, transport: T) -> Result<(LiveServer, Found), Failure>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        tokio::select! {
            asked = timeout(self.target.patience, self.converse(transport)) => {
                asked.unwrap_or_else(|_| Err(self.target.late()))
            }
            _ = tokio::signal::ctrl_c() => Err(self.target.unreachable("interrupted")),
        }
    }

    async fn converse<T, E, A>(&self, transport: T) -> Result<(LiveServer, Found), Failure>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let own = Implementation::new("registryctl", env!("CARGO_PKG_VERSION"));
        let eras = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let config = ClientConfig::new(rmcp::model::ClientCapabilities::default(), own);
        let serving = config.serve_with_lifecycle(transport, eras).await;
        let mut service = serving.map_err(|e| unanswered(self.target, &e))?;
        let said = self.listen(&service).await;
        // The answers are there; a server that does not say good-bye is ended all the same.
        let _ = service.close_with_timeout(GOODBYE).await;
        said
    }

    async fn listen(&self, service: &Service) -> Result<(LiveServer, Found), Failure> {
        let Some(peer) = service.peer_info() else {
            return Err(self.target.lies("it did not say who it is"));
        };
        if !ProtocolVersion::KNOWN_VERSIONS.contains(&peer.protocol_version) {
            let version = peer.protocol_version.as_str();
            let reason = format!("it speaks `{version}`, which is no version of MCP");
            return Err(self.target.lies(reason));
        }
        let capabilities = &peer.capabilities;
        let offered = [
            (capabilities.prompts.is_some(), Exposure::Prompts),
            (capabilities.resources.is_some(), Exposure::Resources),
        ];
        let features = offered.into_iter().filter_map(|(is_there, what)| is_there.then_some(what));
        let info = peer.server_info.as_ref().map_or(Value::Null, page::as_json);
        let said = LiveServer { info, features: features.collect(), ..LiveServer::default() };
        let said = self.tools(service, said).await?;
        let instructions = peer.instructions.as_ref().is_some_and(|text| !text.is_empty());
        let mut found = Found { tools: said.tools.len(), instructions, ..Found::default() };
        if self.features {
            count(service, &said.features, &mut found).await;
        }
        Ok((said, found))
    }

    /// All pages; each tool is judged by itself.
    async fn tools(&self, service: &Service, mut said: LiveServer) -> Result<LiveServer, Failure> {
        let target = self.target;
        let (mut bytes, mut cursor, mut seen) = (0, None, HashSet::new());
        for _ in 0..PAGES {
            let page = self.page(service, cursor.take()).await?;
            for tool in page.tools {
                let tool = tool.unwrap_or_else(|NoTool { raw, reason }| {
                    said.unread.insert(said.tools.len(), short(&reason));
                    raw
                });
                bytes += tool.to_string().len();
                said.tools.push(tool);
            }
            if bytes > BYTES {
                return Err(target.lies(format!("its tools have more than {} MiB", BYTES >> 20)));
            }
            if said.tools.len() > limits::LIST_ITEMS {
                return Err(target.lies(format!("it has more than {} tools", limits::LIST_ITEMS)));
            }
            match page.next {
                None => return with_some_tool(target, said),
                Some(next) if !seen.insert(next.clone()) => {
                    return Err(target.lies("its list of tools goes round in a circle"));
                }
                next => cursor = next,
            }
        }
        Err(target.lies(format!("its list of tools does not end after {PAGES} pages")))
    }

    async fn page(&self, service: &Service, cursor: Option<String>) -> Result<Page, Failure> {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let answer = service.send_request(request).await.map_err(|e| no_list(self.target, &e))?;
        let page = match self.last.take() {
            Some(raw) => page::read(raw.get().as_bytes()),
            None => page::read(page::as_json(&answer).to_string().as_bytes()),
        };
        page.map_err(|e| self.target.lies(format!("its list of tools cannot be read: {e}")))
    }
}

/// Counts prompts and resources. A list that fails counts as far as it was read: nothing of it is
/// imported.
async fn count(service: &Service, features: &[Exposure], found: &mut Found) {
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
        found.prompts = count!(list_prompts, prompts);
    }
    if features.contains(&Exposure::Resources) {
        found.resources = count!(list_resources, resources);
        found.resource_templates = count!(list_resource_templates, resource_templates);
    }
}

/// Refuses a server of whose tools none can be read.
fn with_some_tool(target: &Target, said: LiveServer) -> Result<LiveServer, Failure> {
    match said.unread.first_key_value() {
        Some((i, reason)) if said.unread.len() == said.tools.len() => {
            let reason = format!("none of its tools can be read; the first, /tools/{i}: {reason}");
            Err(target.lies(reason))
        }
        _ => Ok(said),
    }
}

fn unanswered(target: &Target, error: &ClientInitializeError) -> Failure {
    use ClientInitializeError::{ConnectionClosed, LegacyFallbackFailed, TransportError};
    match error {
        LegacyFallbackFailed { fallback, .. } => unanswered(target, fallback),
        TransportError { error, .. } => match http_error(error) {
            Some(StreamableHttpError::Client(error)) => http::broken(target, error),
            Some(answer) => target.lies(short(answer)),
            None => target.unreachable(short(&root_cause(error))),
        },
        ConnectionClosed(_) => target.unreachable("it closed the connection"),
        other => target.lies(format!("it does not speak MCP: {}", short(other))),
    }
}

/// What went wrong over HTTP; the SDK wraps it, and hides its cause.
fn http_error<'a>(
    error: &'a (dyn Error + 'static),
) -> Option<&'a StreamableHttpError<reqwest::Error>> {
    iter::successors(Some(error), |&error| error.source()).find_map(<dyn Error>::downcast_ref)
}

fn no_list(target: &Target, error: &ServiceError) -> Failure {
    match error {
        ServiceError::TransportSend(sent) => {
            let cause = root_cause(sent.error.as_ref());
            target.lies(format!("it does not list its tools: {}", short(&cause)))
        }
        other => target.lies(format!("it does not list its tools: {}", short(other))),
    }
}

/// The start of a message, which may repeat what the server sent.
fn short(message: &impl fmt::Display) -> String {
    message.to_string().chars().take(300).collect()
}
