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
use serde_json::Value;
use tokio::{sync::oneshot, time::timeout};

use crate::{
    cli::live::{Header, LiveArgs, Variable},
    failure::Failure,
    input::Source,
};

/// Most pages of one list.
const PAGES: usize = 100;
/// Most bytes of one answer, and of all pages together.
const BYTES: usize = 16 << 20;

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
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    patience: Duration,
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
            place,
            headers: args.header.clone(),
            bearer,
            env: own.chain(wished).collect(),
            cwd: args.cwd.clone(),
            patience: Duration::from_secs(args.timeout.into()),
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
        Self { place, headers, bearer: None, env, cwd, patience: server.timeout * 2 }
    }

    /// The names of the headers given by the user, without the secret values.
    pub(crate) fn header_names(&self) -> Vec<String> {
        let bearer = self.bearer.iter().map(|_| "Authorization".to_owned());
        let own = self.headers.iter().map(|header| header.name.clone());
        bearer.chain(own).collect()
    }

    /// A target of the gateway's configuration: one item of `targets`. A query may be secret.
    pub(crate) fn gateway_target(&self, server: &str, version: &str) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let transport = match &self.place {
            Place::Http(url) => format!("http: {}", quoted(without_query(url))),
            Place::Program(words) => {
                let arguments: Vec<_> = words[1..].iter().map(|word| quoted(word)).collect();
                let (command, arguments) = (quoted(&words[0]), arguments.join(", "));
                format!("stdio: {{ command: {command}, args: [{arguments}] }}")
            }
        };
        format!("{{ server: {server}, version: \"{version}\", {transport} }}")
    }

    /// What it is called in messages; a query may be secret.
    fn shown(&self) -> String {
        match &self.place {
            Place::Http(url) => without_query(url).to_owned(),
            Place::Program(words) => words[0].clone(),
        }
    }

    fn unreachable(&self, reason: impl Into<String>) -> Failure {
        Failure::LiveUnreachable { target: self.shown(), reason: reason.into() }
    }

    /// It took longer than the user waits.
    pub(crate) fn late(&self) -> Failure {
        let seconds = self.patience.as_secs();
        self.unreachable(format!("it did not say everything in {seconds} s (--timeout)"))
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
        let seconds = self.patience.as_secs();
        match timeout(self.patience.saturating_sub(started.elapsed()), done).await {
            Ok(Ok(made)) => Ok(made),
            Ok(Err(_)) => Err(self.lies("working on it failed")),
            Err(_) => {
                Err(self
                    .lies(format!("asking and working on it takes over {seconds} s (--timeout)")))
            }
        }
    }

    /// It answers, but not with what can be used.
    pub(crate) fn lies(&self, reason: impl Into<String>) -> Failure {
        Failure::LiveAnswer { target: self.shown(), reason: reason.into() }
    }
}
