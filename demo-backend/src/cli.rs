//! The command line.

use clap::Parser;
use clap::builder::PossibleValuesParser;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::agents::{self, HostedAgent};
use crate::clock::Clock;
use crate::hosted_server::HostedServer;
use crate::servers;

/// The arguments of the backend.
#[derive(Debug, Parser)]
#[command(
    version,
    about = "MCP servers and A2A agents for the demo, the tests and the benchmarks",
    after_help = after_help()
)]
pub struct Cli {
    /// Address to serve all servers and agents on, over HTTP; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7090")]
    listen: String,

    /// Serve one server over standard input and output instead
    #[arg(
        long,
        value_name = "SERVER",
        conflicts_with_all = ["listen", "allowed_host"],
        value_parser = PossibleValuesParser::new(servers::stdio_names()),
        hide_possible_values = true
    )]
    stdio: Option<String>,

    /// Stop the clock at this instant, such as 2026-01-15T12:00:00Z
    #[arg(long, value_name = "RFC3339", value_parser = parse_instant)]
    fixed_time: Option<OffsetDateTime>,

    /// Accept this Host header in addition to the loopback names; may be repeated
    #[arg(long, value_name = "HOST")]
    allowed_host: Vec<String>,
}

/// The selected transport.
#[derive(Debug, PartialEq, Eq)]
pub enum Mode {
    /// All servers, on this address.
    Http(String),
    /// One server, by its name.
    Stdio(String),
}

impl Cli {
    /// The transport to serve.
    pub fn mode(&self) -> Mode {
        match &self.stdio {
            Some(name) => Mode::Stdio(name.clone()),
            None => Mode::Http(self.listen.clone()),
        }
    }

    /// The clock that every server reads.
    pub fn clock(&self) -> Clock {
        self.fixed_time.map_or(Clock::System, Clock::Fixed)
    }

    /// Hosts to accept in addition to the loopback names.
    pub fn allowed_hosts(&self) -> &[String] {
        &self.allowed_host
    }
}

fn parse_instant(text: &str) -> Result<OffsetDateTime, String> {
    OffsetDateTime::parse(text, &Rfc3339)
        .map_err(|error| format!("expected an RFC 3339 instant: {error}"))
}

fn after_help() -> String {
    let line = |server: &HostedServer| {
        let only = if server.offers_stdio() { "" } else { "  (HTTP only)" };
        format!("  {:<22}{}{only}\n", server.name(), server.path())
    };
    let servers: String = servers::all(Clock::System).iter().map(line).collect();
    let line = |agent: &HostedAgent| format!("  {:<22}{}\n", agent.name(), agent.path());
    let agents: String = agents::all(Clock::System).iter().map(line).collect();
    format!(
        "Servers and their paths:\n{servers}\nAgents (A2A) and their paths:\n{agents}\n\
         GET /healthz answers 200. SIGTERM or ctrl-c ends the process within a second."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_stdio_server_is_rejected_with_known_servers() {
        let error = Cli::try_parse_from(["demo-backend", "--stdio", "clock-server"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let text = error.to_string();
        assert!(text.contains("clock-server") && text.contains("time-server"), "{text}");
        assert!(!text.contains("bench-many"), "{text}");
    }

    #[test]
    fn default_mode_is_http_on_the_documented_port() {
        let cli = Cli::try_parse_from(["demo-backend"]).unwrap();
        assert_eq!(cli.mode(), Mode::Http("127.0.0.1:7090".into()));
    }

    #[test]
    fn fixed_time_stops_the_clock() {
        let cli = Cli::try_parse_from(["x", "--fixed-time", "2026-01-15T12:00:00+02:00"]).unwrap();
        assert_eq!(cli.clock().timestamp(), "2026-01-15T10:00:00Z");
        assert!(Cli::try_parse_from(["x", "--fixed-time", "yesterday"]).is_err());
    }
}
