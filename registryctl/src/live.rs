//! Reads from live servers: the tools of MCP servers and the cards of agents.
//!
//! Servers are untrusted. Time, pages, tools and bytes are limited. Redirects and proxies are not used. A
//! child process ends with its process group. Responses are only data.

mod child;
mod http;
mod mcp;
mod page;
mod raw;
mod words;

use std::{
    collections::BTreeMap,
    iter,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

pub(crate) use http::get_json;
pub(crate) use mcp::{Found, ask, ask_for_all};
use registry_import::mcp_servers::{Expanded, McpServer, Transport};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    cli::live::{Header, LiveArgs, Variable},
    failure::Failure,
    flow::{self, quoted},
    input::Source,
};

/// Most pages of one list.
const PAGES: usize = 100;
/// Most bytes of one answer, and of all pages together.
const BYTES: usize = 16 << 20;

/// The variable of `LiveArgs::bearer_token`.
const BEARER_VARIABLE: &str = "MCP_BEARER_TOKEN";

/// Where a live server is.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// Behind HTTP.
    Http(String),
    /// A program to start, with its arguments.
    Program(Vec<String>),
}

/// A live server and how it is reached.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    place: Place,
    headers: Vec<Header>,
    bearer: Option<String>,
    bearer_file: Option<PathBuf>,
    env: BTreeMap<String, String>,
    /// The variables that the user sets, a part of `env`.
    variables: Vec<String>,
    cwd: Option<PathBuf>,
    patience: Duration,
    /// The setting of `patience`, in messages.
    limit: &'static str,
    /// The name in messages.
    shown: String,
}

/// A target of the gateway's configuration.
pub(crate) struct GatewayTarget {
    /// The item of `targets`.
    pub(crate) text: String,
    /// The variables of the gateway's environment that replace values of the command line.
    pub(crate) variables: Vec<String>,
}

impl Place {
    /// A URL.
    pub(crate) fn url(text: &str) -> Result<Self, Failure> {
        http::check(text)?;
        Ok(Self::Http(text.to_owned()))
    }

    /// A command line, with quotes as in a shell.
    pub(crate) fn command(text: &str) -> Result<Self, Failure> {
        let words = words::split(text).map_err(Failure::usage)?;
        if words.is_empty() {
            return Err(Failure::Usage("the command is empty; name the program to start".into()));
        }
        Ok(Self::Program(words))
    }

    /// The name in messages. A query may be a secret.
    fn shown(&self) -> String {
        match self {
            Self::Http(url) => without_query(url).to_owned(),
            Self::Program(words) => words[0].clone(),
        }
    }
}

/// The variable for the value of a header: `X_API_KEY` for `X-Api-Key`.
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

/// A URL up to its query, which may be secret, or its fragment.
pub(crate) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

impl Target {
    pub(crate) fn new(place: Place, args: &LiveArgs) -> Result<Self, Failure> {
        let bearer = match &args.bearer_file {
            Some(path) => Some(Source::read(path)?.text().trim().to_owned()),
            None => args.bearer_token.clone(),
        };
        let own = [("PATH", &args.program_path), ("HOME", &args.program_home)];
        let own = own.into_iter().filter(|(_, value)| !value.is_empty());
        let own = own.map(|(name, value)| (name.to_owned(), value.clone()));
        let wished = args.env.iter().cloned().map(|Variable { name, value }| (name, value));
        Ok(Self {
            shown: place.shown(),
            place,
            headers: args.header.clone(),
            bearer,
            bearer_file: args.bearer_file.clone(),
            env: own.chain(wished).collect(),
            variables: args.env.iter().map(|variable| variable.name.clone()).collect(),
            cwd: args.cwd.clone(),
            patience: Duration::from_secs(args.timeout.into()),
            limit: "--timeout",
        })
    }

    /// A server of an MCP client's file. A program gets `PATH`, `HOME` and its own variables.
    pub(crate) fn of_server(server: &McpServer, own: BTreeMap<String, String>) -> Self {
        let values = |pairs: &BTreeMap<String, Expanded>| -> Vec<(String, String)> {
            pairs.iter().map(|(name, text)| (name.clone(), text.value.clone())).collect()
        };
        let (place, headers, env, cwd) = match &server.transport {
            Transport::Http { url, headers } => {
                let header = |(name, value)| Header { name, value };
                let headers = values(headers).into_iter().map(header).collect();
                (Place::Http(url.clone()), headers, BTreeMap::new(), None)
            }
            Transport::Stdio { command, args, env, cwd } => {
                let words = iter::once(command).chain(args).cloned().collect();
                let env = own.into_iter().chain(values(env)).collect();
                (Place::Program(words), Vec::new(), env, cwd.clone())
            }
        };
        // The expanded form may be a secret.
        let is_secret =
            server.expanded_fields.iter().any(|name| name == "url" || name == "command");
        let shown = if is_secret { "the server".to_owned() } else { place.shown() };
        Self {
            place,
            headers,
            bearer: None,
            bearer_file: None,
            env,
            variables: Vec::new(),
            cwd,
            patience: server.timeout * 2,
            limit: "`timeout` of the server",
            shown,
        }
    }

    /// The names of the headers given by the user, without the secret values.
    pub(crate) fn header_names(&self) -> Vec<String> {
        let bearer = self.bearer.iter().map(|_| "Authorization".to_owned());
        let own = self.headers.iter().map(|header| header.name.clone());
        bearer.chain(own).collect()
    }

    /// The target of a server for the gateway. Values of headers and variables become references, and
    /// the query of a URL is omitted: they may be secrets.
    pub(crate) fn gateway_target(&self, server: &str, version: &str) -> GatewayTarget {
        let mut variables = Vec::new();
        let transport = match &self.place {
            Place::Http(url) => {
                let mut headers = BTreeMap::new();
                for Header { name, .. } in &self.headers {
                    let variable = variable_of(name);
                    headers.insert(quoted(name), format!("env: {}", flow::name(&variable)));
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
            Place::Program(words) => {
                variables.clone_from(&self.variables);
                // A program of the gateway gets PATH alone.
                let names = iter::once("HOME").chain(self.variables.iter().map(String::as_str));
                let env = names.map(|name| (quoted(name), format!("env: {}", flow::name(name))));
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
        let (server, version) = (flow::name(server), quoted(version));
        let timeout = self.patience.as_millis();
        let text = format!(
            "{{ server: {server}, version: {version}, {transport}, timeout: {timeout}ms }}"
        );
        GatewayTarget { text, variables }
    }

    fn unreachable(&self, reason: impl Into<String>) -> Failure {
        Failure::LiveUnreachable { target: self.shown.clone(), reason: reason.into() }
    }

    /// It took longer than the user waits.
    pub(crate) fn late(&self) -> Failure {
        let (seconds, limit) = (self.patience.as_secs(), self.limit);
        self.unreachable(format!("it did not say everything in {seconds} s; raise {limit}"))
    }

    /// As much time as the user gives to everything that is done with the server.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Works on what the server said for as long as there is time since `started`: what it says
    /// may cost much. Work that is too late goes on in its thread until the process ends.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        started: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (send, done) = oneshot::channel();
        // If nobody waits any more, nobody needs it.
        thread::spawn(move || send.send(work()).ok());
        let (seconds, limit) = (self.patience.as_secs(), self.limit);
        match timeout(self.patience.saturating_sub(started.elapsed()), done).await {
            Ok(Ok(made)) => Ok(made),
            Ok(Err(_)) => Err(self.lies("working on it failed")),
            Err(_) => Err(self
                .lies(format!("asking and working on it takes over {seconds} s; raise {limit}"))),
        }
    }

    /// It answers, but not with what can be used.
    pub(crate) fn lies(&self, reason: impl Into<String>) -> Failure {
        Failure::LiveAnswer { target: self.shown.clone(), reason: reason.into() }
    }
}
