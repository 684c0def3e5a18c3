//! Reads `mcpServers`: the servers of an MCP client's file become targets.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use gateway_protocol::naming::Prefix;
use gateway_upstream::{
    Addresses, ChildLimits, SecretSource, TargetConfig, TargetId, TransportConfig, redact_url,
};
use http::Uri;
use registry_core::{Kind, Name};
use registry_import::mcp_servers::{self, Expanded, McpServer, Transport};

use super::{
    Args, Command, ancestors,
    args::ToolPrefix,
    problem::Problems,
    read::Section,
    secret,
    target::{check_header, endpoint},
};
use crate::{
    files::read_text,
    source::{DiscoveredServer, DiscoveryConfig},
};

/// `mcpServers.prefix`.
const PREFIXES: &[(&str, ToolPrefix)] =
    &[("never", ToolPrefix::Never), ("always", ToolPrefix::Always)];

/// Environment variables that a child process inherits, to find its files. All others are withheld.
const INHERITED: [&str; 9] =
    ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];

pub(super) struct Servers {
    file: PathBuf,
    prefix: ToolPrefix,
    targets: Vec<TargetConfig>,
    skipped: Vec<String>,
    warnings: Vec<String>,
}

/// Reads the file that the flags or the section name. Invalid servers are skipped and reported.
pub(super) fn read(
    problems: &Problems,
    root: &Section<'_>,
    args: &Args,
    listen: SocketAddr,
) -> Option<Servers> {
    let section = root.section("mcpServers");
    let written = section.find("file").and_then(|field| field.text()).map(PathBuf::from);
    let prefix = section.choice("prefix", PREFIXES, ToolPrefix::default());
    section.finish();
    let (file, field) = match (&args.mcp_servers, written) {
        (Some(file), _) => (file.clone(), "--mcp-servers"),
        (None, Some(file)) => (file, "mcpServers.file"),
        (None, None) => return None,
    };
    let name = file.display();
    let text = read_text(&file, mcp_servers::FILE_BYTES);
    let text = text.map_err(|e| problems.at(0, field, format!("cannot read {name}: {e}"))).ok()?;
    let found = mcp_servers::parse(&text, &|variable| resolve(variable, &file));
    let found = found.map_err(|e| problems.at(0, field, format!("{name}: {e}"))).ok()?;
    let in_file = |problem: &mcp_servers::Problem| format!("{name}: {problem}");
    let mut skipped: Vec<_> = found.problems.iter().map(in_file).collect();
    let warnings = found.warnings.iter().map(in_file).collect();
    let has_listener = !matches!(args.command, Some(Command::Stdio(_)));
    let own = has_listener.then_some(listen);
    let mut targets = Vec::new();
    for server in found.servers {
        let label = server.name.clone();
        match target(server, own) {
            Ok(target) => targets.push(target),
            Err(problem) => skipped.push(format!("{name}: {label}: {problem}")),
        }
    }
    let extended = ancestors::extend(&file, &mut targets);
    extended.map_err(|e| problems.at(0, field, e.to_string())).ok()?;
    let prefix = args.tool_prefix.unwrap_or(prefix);
    Some(Servers { file, prefix, targets, skipped, warnings })
}

impl Servers {
    /// Adds the servers to the targets of the configuration file, which take precedence.
    pub(super) fn join(
        self,
        targets: &mut Vec<TargetConfig>,
        configuration: &Path,
    ) -> DiscoveryConfig {
        let Self { file, prefix, targets: found, mut skipped, warnings } = self;
        let configured: Vec<Name> = targets.iter().map(|t| t.server.name.clone()).collect();
        let mut servers = Vec::new();
        for target in found {
            if configured.contains(&target.server.name) {
                let name = &target.server.name;
                skipped.push(format!(
                    "{}: {name}: `targets` in {} already has this server; remove one of them",
                    file.display(),
                    configuration.display()
                ));
                continue;
            }
            servers.push(DiscoveredServer {
                id: target.server.clone(),
                transport: target.transport.clone(),
            });
            targets.push(target);
        }
        let has_prefix = prefix == ToolPrefix::Always;
        DiscoveryConfig { file, servers, has_prefix, skipped, warnings }
    }
}

/// The value of a variable in the file.
fn resolve(variable: &str, file: &Path) -> Option<String> {
    if variable != mcp_servers::WORKSPACE_FOLDER {
        return secret::variable(variable);
    }
    let folder = mcp_servers::workspace_folder(file).ok()?;
    folder.to_str().map(str::to_owned)
}

/// The target of a server. `own` is the address of this gateway.
fn target(server: McpServer, own: Option<SocketAddr>) -> Result<TargetConfig, String> {
    let McpServer { name, transport, timeout, auto_start, .. } = server;
    let transport = match transport {
        Transport::Http { url, headers } => {
            let headers = secrets(headers);
            headers.iter().try_for_each(|(name, value)| check_header(name, value))?;
            let (url, addresses) = (endpoint(&url)?, Addresses::default());
            if own.is_some_and(|own| reaches(&url, own)) {
                let shown = redact_url(&url);
                return Err(format!("{shown} is the address of this gateway; remove the server"));
            }
            TransportConfig::Http { url, headers, auth: None, tls: None, addresses, is_grpc: false }
        }
        Transport::Stdio { command, args, env, cwd } => TransportConfig::Stdio {
            command: command.into(),
            args,
            env: environment(env),
            cwd,
            limits: ChildLimits::default(),
            max_caller_children: None,
        },
    };
    let prefix = Prefix::of_server(name.as_str());
    let server = TargetId { kind: Kind::Server, name, version: None };
    let (exposes, tenant, timeout) = (None, None, Some(timeout));
    Ok(TargetConfig { server, prefix, exposes, tenant, transport, timeout, auto_start })
}

/// Whether a listener at this address receives the requests to a URL.
fn reaches(url: &str, listener: SocketAddr) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let default_port = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let ip = listener.ip();
    let is_own_host = match host.parse::<IpAddr>() {
        Ok(host) => host == ip || ip.is_unspecified() && host.is_loopback(),
        Err(_) => host == "localhost" && (ip.is_loopback() || ip.is_unspecified()),
    };
    is_own_host && uri.port_u16().unwrap_or(default_port) == listener.port()
}

fn secrets(pairs: BTreeMap<String, Expanded>) -> BTreeMap<String, SecretSource> {
    pairs.into_iter().map(|(name, text)| (name, SecretSource::text(text.value))).collect()
}

fn environment(written: BTreeMap<String, Expanded>) -> BTreeMap<String, SecretSource> {
    let inherited = INHERITED
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), SecretSource::text(secret::variable(name)?))));
    inherited.chain(secrets(written)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{
        super::{Config, StdioArgs},
        *,
    };

    #[test]
    fn server_at_own_address_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("servers.json");
        let servers = r#"{ "mcpServers": { "own": { "url": "http://localhost:7080/mcp" },
            "other": { "url": "http://localhost:7081/mcp" } } }"#;
        fs::write(&file, servers).unwrap();
        let served = |command: Option<Command>| {
            let args = Args { mcp_servers: Some(file.clone()), command, ..Args::default() };
            let config = Config::parse(&file, "", &args).unwrap();
            let names = config.targets.iter().map(|target| target.server.name.to_string());
            (names.collect::<Vec<_>>(), config.mcp_servers.unwrap().skipped.len())
        };
        assert_eq!(served(None), (vec!["other".to_owned()], 1));
        // A bridge has no address.
        let bridge = Command::Stdio(StdioArgs::default());
        assert_eq!(served(Some(bridge)), (vec!["own".to_owned(), "other".to_owned()], 0));
    }

    #[test]
    fn duplicate_server_names_both_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("servers.json");
        fs::write(&file, r#"{ "mcpServers": { "docs": { "command": "docs" } } }"#).unwrap();
        let configuration = dir.path().join("gateway.yaml");
        let args = Args {
            config: Some(configuration.clone()),
            mcp_servers: Some(file.clone()),
            ..Args::default()
        };
        let yaml = "targets: [{ server: docs, version: '*', http: 'http://h/mcp' }]";
        let config = Config::parse(&configuration, yaml, &args).unwrap();
        let skipped = config.mcp_servers.unwrap().skipped.join("\n");
        for path in [&file, &configuration] {
            assert!(skipped.contains(path.to_str().unwrap()), "{skipped}");
        }
    }

    #[test]
    fn own_address_is_recognized_in_urls() {
        for (url, listener, expected) in [
            ("http://127.0.0.1:7080/mcp", "127.0.0.1:7080", true),
            ("http://localhost:7080", "[::1]:7080", true),
            ("http://[::1]:7080/mcp", "[::]:7080", true),
            ("https://127.0.0.1/mcp", "0.0.0.0:443", true),
            ("http://127.0.0.1:7081/mcp", "127.0.0.1:7080", false),
            ("http://127.0.0.1:7080/mcp", "192.0.2.1:7080", false),
            ("http://example.com:7080/mcp", "0.0.0.0:7080", false),
        ] {
            assert_eq!(reaches(url, listener.parse().unwrap()), expected, "{url} {listener}");
        }
    }
}
