//! Reads the `targets` list.
//!
//! Targets may name servers that are not registered, because the catalog can change at any time.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::PathBuf,
};

use gateway_protocol::naming::Prefix;
use gateway_upstream::{
    Addresses, ChildLimits, Grant, SecretSource, TargetConfig, TargetId, TransportConfig,
    redact_url,
};
use http::{HeaderName, HeaderValue, Uri};
use registry_core::{Kind, Name, Version, entity::Exposure, parse_positive_duration};

use super::{
    auth,
    read::{Field, Section},
    secret, tls,
};
use crate::identity::settings::AuthenticationConfig;

/// Headers that the gateway sets itself. The prefix `mcp-` is reserved for the protocol, too.
const RESERVED_HEADERS: [&str; 14] = [
    "a2a-version",
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// Reads all targets. Invalid ones are skipped and reported.
pub(super) fn read(root: &Section<'_>, authentication: &AuthenticationConfig) -> Vec<TargetConfig> {
    let items = root.find("targets").map(|field| field.list()).unwrap_or_default();
    let mut servers = HashSet::new();
    let mut prefixes: HashMap<Prefix, Name> = HashMap::new();
    let mut targets = Vec::new();
    for item in items {
        let Some(target) = target(&item) else { continue };
        if authentication.jwt.is_none() && target.transport.grant() == Some(Grant::TokenExchange) {
            item.problem(
                "`tokenExchange` needs `identity.jwt`, because it exchanges the tokens of callers",
            );
        }
        let name = &target.server.name;
        if target.server.kind == Kind::Server
            && let owner = prefixes.entry(target.prefix.clone()).or_insert_with(|| name.clone())
            && owner != name
        {
            item.problem(format!(
                "{name} and {owner} have the same prefix `{}`, so their tools and prompts would have equal \
                 names; set another `prefix` for one of them",
                target.prefix.as_str()
            ));
        }
        if servers.insert(target.server.clone()) {
            targets.push(target);
        } else {
            item.problem(format!("{} already has a target; remove one of them", target.server));
        }
    }
    targets
}

fn target(item: &Field<'_>) -> Option<TargetConfig> {
    let section = item.section();
    let agent = section.find("agent");
    let is_agent = agent.is_some();
    let name =
        agent.or_else(|| section.require("server", "set it to the name of a registered server"));
    let version = section
        .require("version", "set it to an exact version, or to \"*\" for all other versions");
    let server = id(if is_agent { Kind::Agent } else { Kind::Server }, name, version);
    // Agents expose no names, so a prefix has no effect.
    let prefix = (!is_agent).then(|| section.find("prefix")).flatten();
    let prefix = prefix.map(|field| field.parse(self::prefix));
    let exposes = (!is_agent).then(|| section.find("exposes")).flatten();
    let exposes = exposes.map(|field| exposures(&field));
    let tenant = is_agent.then(|| section.find("tenant")).flatten();
    let tenant = tenant.and_then(|field| field.parse(self::tenant));
    let timeout = section.find("timeout").and_then(|field| field.parse(parse_positive_duration));
    let auto_start = section.switch("autoStart", true);
    let transport = if is_agent { over_http(&section) } else { transport(&section) };
    section.finish();
    let server = server?;
    let prefix = match prefix {
        Some(prefix) => prefix?,
        None => Prefix::of_server(server.name.as_str()),
    };
    let transport = transport?;
    Some(TargetConfig { server, prefix, exposes, tenant, transport, timeout, auto_start })
}

fn exposures(field: &Field<'_>) -> Vec<Exposure> {
    let items = field.list();
    items.iter().filter_map(|item| item.parse(exposure)).collect()
}

fn exposure(text: &str) -> Result<Exposure, String> {
    let found = Exposure::ALL.into_iter().find(|exposure| exposure.as_str() == text);
    found.ok_or_else(|| format!("`{text}` cannot be exposed; use `prompts` or `resources`"))
}

fn prefix(text: &str) -> Result<Prefix, String> {
    Prefix::parse(text).ok_or_else(|| {
        format!(
            "`{text}` is not a prefix; use a letter, followed by letters, digits, dots and hyphens"
        )
    })
}

fn tenant(text: &str) -> Result<Box<str>, &'static str> {
    if text.is_empty() {
        return Err("the tenant is empty; set it as in the agent's card, or remove it");
    }
    Ok(text.into())
}

fn id(kind: Kind, name: Option<Field<'_>>, version: Option<Field<'_>>) -> Option<TargetId> {
    let name = name?.parse(|text| Name::parse(kind, text));
    let version = version?.parse(|text| match text {
        "*" => Ok(None),
        exact => Version::parse(exact).map(Some),
    });
    Some(TargetId { kind, name: name?, version: version? })
}

/// Agents have URLs only.
fn over_http(section: &Section<'_>) -> Option<TransportConfig> {
    let url = section.require("http", "set it to the URL of the agent's JSON-RPC endpoint");
    let words = [("json", false), ("grpc", true)];
    let is_grpc = section.choice("transport", &words, false);
    http(section, &url?, is_grpc)
}

fn transport(section: &Section<'_>) -> Option<TransportConfig> {
    match (section.find("http"), section.find("stdio")) {
        (Some(url), None) => http(section, &url, false),
        (None, Some(stdio)) => child(stdio.section()),
        (Some(_), Some(_)) => {
            section.problem("`http` and `stdio` are both set; remove one of them");
            None
        }
        (None, None) => {
            section.problem("set `http: URL` or `stdio: { command: … }`");
            None
        }
    }
}

fn http(section: &Section<'_>, url: &Field<'_>, is_grpc: bool) -> Option<TransportConfig> {
    let headers = headers(section);
    let url = url.parse(endpoint);
    let tls = section.find("tls").map(|field| tls::read_target(&field, url.as_deref()));
    let auth = section.find("auth").map(|field| auth::read(&field, url.as_deref()).map(Box::new));
    if auth.is_some() && headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
        section.problem("`auth` and a header `authorization` are both set; remove one of them");
    }
    let auth = match auth {
        Some(auth) => Some(auth?),
        None => None,
    };
    let words = [("usual", Addresses::Usual), ("any", Addresses::Any)];
    let addresses = section.choice("addresses", &words, Addresses::default());
    Some(TransportConfig::Http { url: url?, headers, auth, tls, addresses, is_grpc })
}

pub(super) fn endpoint(text: &str) -> Result<String, String> {
    let uri: Option<Uri> = text.parse().ok();
    let authority = uri.as_ref().and_then(Uri::authority);
    if authority.is_some_and(|authority| authority.as_str().contains('@')) {
        let shown = redact_url(text);
        return Err(format!(
            "the URL of {shown} contains a user and a password; remove them, and set \
             `headers: {{ authorization: … }}` instead"
        ));
    }
    let good = uri.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
    });
    if !good {
        let shown = redact_url(text);
        return Err(format!("`{shown}` is not a URL such as http://127.0.0.1:7090/mcp"));
    }
    Ok(text.to_owned())
}

fn headers(section: &Section<'_>) -> BTreeMap<String, SecretSource> {
    let headers = secret::pairs(section.find("headers").as_ref());
    for (name, value) in &headers {
        if let Err(problem) = check_header(name, value) {
            section.problem(format!("headers: {problem}"));
        }
    }
    headers
}

pub(super) fn check_header(name: &str, value: &SecretSource) -> Result<(), String> {
    if name.parse::<HeaderName>().is_err() {
        return Err(format!("`{name}` is not a header name"));
    }
    let lower = name.to_ascii_lowercase();
    if RESERVED_HEADERS.contains(&lower.as_str()) || lower.starts_with("mcp-") {
        return Err(format!("the gateway sets the header `{name}` itself; remove it"));
    }
    if value.read().is_ok_and(|value| value.parse::<HeaderValue>().is_err()) {
        return Err(format!("the value of `{name}` has characters that HTTP headers do not allow"));
    }
    Ok(())
}

fn child(section: Section<'_>) -> Option<TransportConfig> {
    let command = section.require("command", "set it to the program to start");
    let command = command.and_then(|field| field.text()).map(PathBuf::from);
    let args = section.texts("args");
    let env = secret::pairs(section.find("env").as_ref());
    for name in env.keys().filter(|name| name.is_empty() || name.contains(['=', '\0'])) {
        section.problem(format!("env: `{name}` is not a valid variable name"));
    }
    let env = child_environment(env);
    let cwd = section.find("cwd").and_then(|field| field.text()).map(PathBuf::from);
    if command.as_ref().is_some_and(|command| command.as_os_str().is_empty()) {
        section.problem("`command` is empty; set it to the program to start");
    }
    let limits = limits(&section);
    let max_caller_children = section.find("maxCallerChildren").and_then(|field| field.positive());
    section.finish();
    Some(TransportConfig::Stdio { command: command?, args, env, cwd, limits, max_caller_children })
}

fn limits(section: &Section<'_>) -> ChildLimits {
    let section = section.section("limits");
    let limit = |name| section.find(name).and_then(|field| field.positive());
    let limits = ChildLimits {
        memory_bytes: limit("memoryBytes"),
        cpu_seconds: limit("cpuSeconds"),
        open_files: limit("openFiles"),
        processes: limit("processes"),
    };
    if limits != ChildLimits::default() && cfg!(not(target_os = "linux")) {
        section.problem("is supported on Linux only; remove it");
    }
    section.finish();
    limits
}

/// The configured variables, and the gateway's `PATH` to find programs. The child inherits nothing
/// else.
fn child_environment(
    mut configured: BTreeMap<String, SecretSource>,
) -> BTreeMap<String, SecretSource> {
    if let Some(path) = secret::variable("PATH") {
        configured.entry("PATH".to_owned()).or_insert(SecretSource::text(path));
    }
    configured
}
