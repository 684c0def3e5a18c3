//! Reads from live servers: the tools of MCP servers and the cards of agents.
//!
//! Servers are untrusted. Time, pages, tools and bytes are limited. Redirects and proxies are not used. A
//! child process is killed with its process group.

mod card;
mod child;
mod http;
mod mcp;
mod page;
mod raw;
mod shell_words;

use std::{
    collections::BTreeMap,
    iter,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

pub(crate) use card::CardKeys;
pub(crate) use mcp::{FeatureCounts, list_features, list_tools};
use registry_core::Kind;
use registry_import::mcp_servers::{Expanded, McpServer, Transport};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    cli::live::{Header, LiveArgs, Variable},
    diagnose::with_live_remedy,
    failure::Failure,
    input::Source,
    yaml_flow::{self, quoted},
};

/// Maximum number of pages of a list.
const PAGES: usize = 100;
/// Maximum size of a response, and of all pages together, in bytes.
const BYTES: usize = 16 << 20;

/// The variable of `LiveArgs::bearer_token`.
const BEARER_VARIABLE: &str = "MCP_BEARER_TOKEN";

/// The endpoint of a live server.
#[derive(Debug, Clone)]
pub(crate) enum Endpoint {
    Http(String),
    /// A program with its arguments.
    Program(Vec<String>),
}

/// A live server.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    endpoint: Endpoint,
    headers: Vec<Header>,
    bearer: Option<String>,
    bearer_file: Option<PathBuf>,
    env: BTreeMap<String, String>,
    /// The names of `--env`.
    variables: Vec<String>,
    cwd: Option<PathBuf>,
    timeout: Duration,
    /// The name of the timeout setting in messages.
    timeout_setting: &'static str,
    /// The name in messages.
    display_name: String,
}

/// A target of the gateway's configuration.
pub(crate) struct GatewayTarget {
    /// The item of `targets`.
    pub(crate) text: String,
    /// The variables of the gateway's environment that replace values of the command line.
    pub(crate) variables: Vec<String>,
}

impl Endpoint {
    pub(crate) fn url(text: &str) -> Result<Self, Failure> {
        http::check(text)?;
        Ok(Self::Http(text.to_owned()))
    }

    /// Parses a command line with the quotes of a shell.
    pub(crate) fn command(text: &str) -> Result<Self, Failure> {
        let words = shell_words::split(text).map_err(Failure::usage)?;
        if words.is_empty() {
            return Err(Failure::Usage("the command is empty; write PROGRAM ARGUMENTS".into()));
        }
        Ok(Self::Program(words))
    }

    /// The name in messages, without the query, which may contain a secret.
    fn display_name(&self) -> String {
        match self {
            Self::Http(url) => without_query(url).to_owned(),
            Self::Program(words) => words[0].clone(),
        }
    }
}

/// The variable for the value of a header, such as `X_API_KEY` for `X-Api-Key`.
fn variable_of(header: &str) -> String {
    let character = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = header.chars().map(character).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}

/// A mapping of names to references.
fn references(pairs: &BTreeMap<String, String>) -> String {
    let pairs: Vec<_> =
        pairs.iter().map(|(name, source)| format!("{name}: {{ {source} }}")).collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// Whether an argument is a URL instead of a file.
pub(crate) fn is_url(text: &str) -> bool {
    text.contains("://")
}

/// A URL without query, which may contain a secret, and fragment.
pub(crate) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

impl Target {
    pub(crate) fn new(endpoint: Endpoint, args: &LiveArgs) -> Result<Self, Failure> {
        let bearer = match &args.bearer_file {
            Some(path) => Some(Source::read(path)?.text().trim().to_owned()),
            None => args.bearer_token.clone(),
        };
        let own = [("PATH", &args.program.path), ("HOME", &args.program.home)];
        let own = own.into_iter().filter(|(_, value)| !value.is_empty());
        let own = own.map(|(name, value)| (name.to_owned(), value.clone()));
        let variables = args.env.iter().cloned().map(|Variable { name, value }| (name, value));
        Ok(Self {
            display_name: endpoint.display_name(),
            endpoint,
            headers: args.header.clone(),
            bearer,
            bearer_file: args.bearer_file.clone(),
            env: own.chain(variables).collect(),
            variables: args.env.iter().map(|variable| variable.name.clone()).collect(),
            cwd: args.cwd.clone(),
            timeout: Duration::from_secs(args.timeout.into()),
            timeout_setting: "--timeout",
        })
    }

    /// A server of an MCP client's configuration. A program gets `PATH`, `HOME` and its own variables.
    pub(crate) fn for_server(server: &McpServer, own: BTreeMap<String, String>) -> Self {
        let values = |pairs: &BTreeMap<String, Expanded>| -> Vec<(String, String)> {
            pairs.iter().map(|(name, text)| (name.clone(), text.value.clone())).collect()
        };
        let (endpoint, headers, env, cwd) = match &server.transport {
            Transport::Http { url, headers } => {
                let header = |(name, value)| Header { name, value };
                let headers = values(headers).into_iter().map(header).collect();
                (Endpoint::Http(url.clone()), headers, BTreeMap::new(), None)
            }
            Transport::Stdio { command, args, env, cwd } => {
                let words = iter::once(command).chain(args).cloned().collect();
                let env = own.into_iter().chain(values(env)).collect();
                (Endpoint::Program(words), Vec::new(), env, cwd.clone())
            }
        };
        // The expanded value may be a secret.
        let is_secret =
            server.expanded_fields.iter().any(|name| name == "url" || name == "command");
        let display_name =
            if is_secret { "the server".to_owned() } else { endpoint.display_name() };
        Self {
            endpoint,
            headers,
            bearer: None,
            bearer_file: None,
            env,
            variables: Vec::new(),
            cwd,
            timeout: server.timeout * 2,
            timeout_setting: "`timeout` of the server",
            display_name,
        }
    }

    /// The names of the headers from the arguments, without their values.
    pub(crate) fn header_names(&self) -> Vec<String> {
        let bearer = self.bearer.iter().map(|_| "Authorization".to_owned());
        let own = self.headers.iter().map(|header| header.name.clone());
        bearer.chain(own).collect()
    }

    /// The gateway's target for a server or an agent. Header and variable values become references, and the query of a
    /// URL is omitted: they may contain secrets.
    pub(crate) fn gateway_target(&self, kind: Kind, name: &str, version: &str) -> GatewayTarget {
        let mut variables = Vec::new();
        let transport = match &self.endpoint {
            Endpoint::Http(url) => {
                let mut headers = BTreeMap::new();
                for Header { name, .. } in &self.headers {
                    let variable = variable_of(name);
                    headers.insert(quoted(name), format!("env: {}", yaml_flow::name(&variable)));
                    variables.push(variable);
                }
                if self.bearer.is_some() {
                    let source = if let Some(path) = &self.bearer_file {
                        format!("file: {}", quoted(&path.display().to_string()))
                    } else {
                        variables.push(BEARER_VARIABLE.to_owned());
                        format!("env: {BEARER_VARIABLE}")
                    };
                    headers
                        .insert(quoted("Authorization"), format!("{source}, prefix: \"Bearer \""));
                }
                let url = quoted(without_query(url));
                if headers.is_empty() {
                    format!("http: {url}")
                } else {
                    format!("http: {url}, headers: {}", references(&headers))
                }
            }
            Endpoint::Program(words) => {
                variables.clone_from(&self.variables);
                // The gateway passes only PATH to a program.
                let names = iter::once("HOME").chain(self.variables.iter().map(String::as_str));
                let env =
                    names.map(|name| (quoted(name), format!("env: {}", yaml_flow::name(name))));
                let arguments: Vec<_> = words[1..].iter().map(|word| quoted(word)).collect();
                let mut program = vec![
                    format!("command: {}", quoted(&words[0])),
                    format!("args: [{}]", arguments.join(", ")),
                    format!("env: {}", references(&env.collect())),
                ];
                let cwd = self.cwd.iter().map(|cwd| quoted(&cwd.display().to_string()));
                program.extend(cwd.map(|cwd| format!("cwd: {cwd}")));
                format!("stdio: {{ {} }}", program.join(", "))
            }
        };
        let (name, version) = (yaml_flow::name(name), quoted(version));
        let timeout = self.timeout.as_millis();
        let text =
            format!("{{ {kind}: {name}, version: {version}, {transport}, timeout: {timeout}ms }}");
        GatewayTarget { text, variables }
    }

    /// A target with the same timeout that does not get the credentials of this one.
    fn without_credentials(&self, url: &str) -> Result<Self, Failure> {
        let endpoint = Endpoint::url(url)?;
        Ok(Self {
            display_name: endpoint.display_name(),
            endpoint,
            headers: Vec::new(),
            bearer: None,
            bearer_file: None,
            ..self.clone()
        })
    }

    fn unreachable(&self, reason: impl Into<String>) -> Failure {
        let reason = with_live_remedy(reason.into());
        Failure::LiveUnreachable { target: self.display_name.clone(), reason }
    }

    pub(crate) fn timed_out(&self) -> Failure {
        let (seconds, setting) = (self.timeout.as_secs(), self.timeout_setting);
        self.unreachable(format!("timeout after {seconds} s; raise {setting}"))
    }

    /// The timeout of all requests together.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Processes a response in a thread, up to the timeout since `started`: untrusted responses may be
    /// expensive. After a timeout, the thread runs until the process ends.
    pub(crate) async fn process<T: Send + 'static>(
        &self,
        started: Instant,
        process: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (send, done) = oneshot::channel();
        // After a timeout, the receiver is gone.
        thread::spawn(move || send.send(process()).ok());
        let (seconds, setting) = (self.timeout.as_secs(), self.timeout_setting);
        match timeout(self.timeout.saturating_sub(started.elapsed()), done).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) => Err(self.invalid_response("processing failed")),
            Err(_) => Err(self.invalid_response(format!(
                "processing exceeds the timeout of {seconds} s; raise {setting}"
            ))),
        }
    }

    pub(crate) fn invalid_response(&self, reason: impl Into<String>) -> Failure {
        let reason = with_live_remedy(reason.into());
        Failure::InvalidLiveResponse { target: self.display_name.clone(), reason }
    }
}
