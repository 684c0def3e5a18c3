//! Builds a [`Config`] from a file and the flags.

use std::{
    collections::BTreeMap,
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use gateway_policy::{Access, RuntimeValidation, ToolValidation, ValidationMode};
use gateway_upstream::{Addresses, UpstreamLimits};
use registry_core::{
    checkpoint::{InvalidVerifierKey, VerifierKey},
    parse_duration, parse_positive_duration, parse_socket_address,
};

use super::{
    Args, CONTRACT_MODES, Config, DEFAULT_BUFFERED_BYTES, DEFAULT_HOPS, DEFAULT_REQUEST_BYTES,
    DENIAL_FORMS, InvalidConfig, Problem, REGISTRATION_MODES, RegistryConfig, VIOLATION_MODES,
    ancestors, credentials, identity, is_exposed, mcp_servers, observability, origins,
    problem::Problems,
    read::Section,
    scope, staleness, target, tls, tool_limits, tools,
    yaml::{self, Node},
};
use crate::{
    files::read_text,
    pipeline::{AgentBridges, DenialForm, PushSettings, ToolLimits},
    registrations::{DataAgentSettings, SelfRegistration},
    seal,
    source::{InvalidSource, Source, SourceConfig},
    startup::StartupValidation,
};

/// Maximum size of a configuration file, in bytes.
const FILE_BYTES: u64 = 4 * 1024 * 1024;
/// Maximum length of a gateway's name, in bytes; the registry API has the same limit.
const NAME_BYTES: usize = 128;

const DEFAULT_CACHE: &str = "./cache/registry-v2.json";
/// The file of approvals without a registry.
const PROPOSALS: &str = "proposals.json";
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7080);
const DEFAULT_POLL: Duration = Duration::from_secs(10);
/// Equal to the registry's default.
const DEFAULT_DRAIN_NOTICE: Duration = Duration::from_millis(200);

/// Values of `validation.startup.*`.
const FINDING_MODES: &[(&str, ValidationMode)] = &[
    ("error", ValidationMode::Error),
    ("warn", ValidationMode::Warn),
    ("ignore", ValidationMode::Ignore),
];
/// Values of `validation.runtime.unknownCaller` and `undeclaredDependency`.
const ACCESS_MODES: &[(&str, Access)] =
    &[("allow", Access::Allow), ("warn", Access::Warn), ("deny", Access::Deny)];

impl Config {
    /// Reads the configuration file and applies the flags.
    pub fn load(args: &Args) -> Result<Self, InvalidConfig> {
        let file = args.file();
        let unread = |message: String| InvalidConfig {
            file: file.clone(),
            problems: vec![Problem { line: None, field: String::new(), message }],
        };
        let is_named = args.registry.is_some() || args.mcp_servers.is_some();
        let is_optional = args.config.is_none() && is_named;
        let text = match read_text(&file, FILE_BYTES) {
            Ok(text) => text,
            Err(e) if is_optional && e.kind() == std::io::ErrorKind::NotFound => {
                // Without a file, problems are those of the flags.
                let servers = args.mcp_servers.clone().unwrap_or(file);
                return Self::parse(&servers, "", args);
            }
            Err(e) => {
                let remedy = if args.config.is_some() {
                    ""
                } else {
                    "; name it with --config, write one with `gateway-agent config init`, or start \
                     with --mcp-servers FILE"
                };
                return Err(unread(format!("cannot read the file: {e}{remedy}")));
            }
        };
        Self::parse(&file, &text, args)
    }

    /// Parses a configuration and applies the flags.
    pub fn parse(file: &Path, text: &str, args: &Args) -> Result<Self, InvalidConfig> {
        let invalid = |problems| InvalidConfig { file: file.to_owned(), problems };
        let root = yaml::parse(text).map_err(|e| {
            let line = e.location().map(|location| location.line());
            let index = line.and_then(|line| usize::try_from(line.saturating_sub(1)).ok());
            let written = index.and_then(|index| text.lines().nth(index));
            let hint = written.and_then(yaml::hint).unwrap_or_default();
            let message = format!("not valid YAML: {}{hint}", e.without_snippet());
            invalid(vec![Problem { line, field: String::new(), message }])
        })?;
        let problems = Problems::default();
        let config = config(&problems, &root, args);
        let found = problems.into_sorted();
        match config {
            Some(config) if found.is_empty() => Ok(config),
            _ => Err(invalid(found)),
        }
    }
}

fn config(problems: &Problems, root: &Node, args: &Args) -> Option<Config> {
    let root = Section::root(problems, root);
    let name = name(&root, args);
    let tls = tls::read(&root, args);
    let requires_certificates = tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    let (identity, authentication) = identity::read(&root, requires_certificates);
    let listen =
        listen(&root, args, |listen| is_exposed(listen, tls.as_ref(), identity, &authentication));
    let servers = mcp_servers::read(problems, &root, args, listen);
    let has_servers = args.mcp_servers.is_some() || root.find("mcpServers").is_some();
    let registry = registry(problems, &root, args, has_servers);
    let mut targets = target::read(&root, &authentication);
    if let Err(e) = ancestors::extend(&args.file(), &mut targets) {
        problems.at(0, "targets", e.to_string());
    }
    let mcp_servers = servers.map(|servers| servers.join(&mut targets, &args.file()));
    let variables = variables(&root);
    let limits = limits(&root);
    let admin = observability::admin(&root);
    let tracing = observability::tracing(&root);
    let drain_notice = root.find("drainNotice").and_then(|field| field.parse(parse_duration));
    let drain_timeout =
        drain_timeout(&root, tool_limits::longest_call(&limits.upstream, &limits.tools));
    let session_key_file = session_key_file(&root);
    let denials = denials(&root);
    let (a2a_url, push) = a2a(&root);
    let source = registry.as_ref().map(|registry| &registry.source.address);
    let (agents, data_agents) = agents(&root, source);
    let trace_values = root.switch("traceValues", false);
    let allowed_origins = root.parsed("allowedOrigins", origins::origin);
    let allowed_hosts = root.parsed("allowedHosts", origins::host);
    root.finish();
    Some(Config {
        args: args.clone(),
        name,
        listen,
        tls,
        allowed_origins,
        allowed_hosts,
        registry: registry?,
        identity,
        authentication,
        targets,
        mcp_servers,
        variables,
        hops: limits.hops,
        request_bytes: limits.request_bytes,
        buffered_bytes: limits.buffered_bytes,
        address_connections: limits.address_connections,
        limits: limits.upstream,
        tool_limits: limits.tools,
        drain_notice: drain_notice.unwrap_or(DEFAULT_DRAIN_NOTICE),
        drain_timeout,
        session_key_file,
        denials,
        a2a_url,
        push,
        agents,
        data_agents,
        trace_values,
        admin,
        tracing,
    })
}

/// Must be at least the longest call timeout, or a shutdown would abort such calls.
fn drain_timeout(root: &Section<'_>, longest_call: Duration) -> Option<Duration> {
    let field = root.find("drainTimeout")?;
    let timeout = field.parse(parse_duration)?;
    if timeout < longest_call {
        field.problem(format!(
            "{timeout:?} is shorter than the longest call, {longest_call:?} (the longest callTimeoutMs and \
             connectTimeoutMs): set it to at least {longest_call:?}, or lower those limits"
        ));
    }
    Some(timeout)
}

fn denials(root: &Section<'_>) -> DenialForm {
    let section = root.section("governance");
    let denials = section.choice("denials", DENIAL_FORMS, DenialForm::default());
    section.finish();
    denials
}

fn a2a(root: &Section<'_>) -> (Option<String>, Option<PushSettings>) {
    let section = root.section("a2a");
    let url = section.find("url").and_then(|field| field.parse(origins::base_url));
    let push = section.find("pushNotifications").map(|field| {
        if url.is_none() {
            field.problem("set `a2a.url` to the URL at which the agents reach this gateway");
        }
        let section = field.section();
        let words =
            [("public", Addresses::Public), ("usual", Addresses::Usual), ("any", Addresses::Any)];
        let addresses = section.choice("addresses", &words, Addresses::Public);
        let allow_http = section.switch("allowHttp", false);
        section.finish();
        PushSettings { addresses, allow_http }
    });
    section.finish();
    (url, push)
}

fn agents(root: &Section<'_>, source: Option<&Source>) -> (AgentBridges, DataAgentSettings) {
    let section = root.section("agents");
    let as_tools = section.switch("asTools", false);
    let of_tools = section.switch("ofTools", false);
    let default = SelfRegistration::default();
    let registration = section.choice("selfRegistration", REGISTRATION_MODES, default);
    if registration != SelfRegistration::Off
        && matches!(source, Some(Source::Http(_) | Source::File(_)))
    {
        let message = "selfRegistration needs a registry: set registry.source to \
                       grpc(s)://host:port, or start with --mcp-servers FILE";
        section.problem(message);
    }
    let endpoints = section.parsed("endpoints", origins::origin);
    section.finish();
    (AgentBridges { as_tools, of_tools }, DataAgentSettings { registration, endpoints })
}

/// Reads the file once, so that an invalid file is a problem of the configuration.
fn session_key_file(root: &Section<'_>) -> Option<PathBuf> {
    let field = root.find("sessionKeyFile")?;
    let file = PathBuf::from(field.text()?);
    if let Err(e) = seal::check_key_file(&file) {
        field.problem(format!("cannot use {}: {e}", file.display()));
    }
    Some(file)
}

fn name(root: &Section<'_>, args: &Args) -> String {
    let written = root.find("name").and_then(|field| field.text());
    let name = args.name.clone().or(written).unwrap_or_else(host_name);
    if name.is_empty() || name.len() > NAME_BYTES || name.chars().any(char::is_control) {
        let message = format!("must have 1 to {NAME_BYTES} bytes and no control characters");
        root.problem_of("name", args.name.is_some().then_some("--name"), message);
    }
    name
}

/// The host name of the kernel; containers have their own.
fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "gateway".to_owned() } else { name.to_owned() }
}

fn listen(
    root: &Section<'_>,
    args: &Args,
    is_exposed: impl FnOnce(SocketAddr) -> bool,
) -> SocketAddr {
    let written = root.find("listen").and_then(|field| field.parse(parse_socket_address));
    let listen = args.listen.or(written).unwrap_or(DEFAULT_LISTEN);
    if is_exposed(listen) && !args.insecure {
        let message = format!(
            "{listen} can be reached from other machines, and callers need not authenticate over \
             TLS; set `tls.clientCaFile`, or `tls.certFile` and `identity.required` with `apiKeys` \
             or `jwt`, listen on 127.0.0.1, or accept the risk with --insecure"
        );
        root.problem_of("listen", args.listen.is_some().then_some("--listen"), message);
    }
    listen
}

fn registry(
    problems: &Problems,
    root: &Section<'_>,
    args: &Args,
    has_servers: bool,
) -> Option<RegistryConfig> {
    let section = root.section("registry");
    let source = if let Some(text) = &args.registry {
        let told = |e: InvalidSource| problems.at(0, "--registry", e.to_string());
        text.parse::<Source>().map_err(told).ok()
    } else if has_servers && section.find("source").is_none() {
        Some(Source::Discovered)
    } else {
        let help = "set it to grpc(s)://host:port, http(s)://host/registry.json or file://path, or \
                    start with --mcp-servers FILE";
        section.require("source", help).and_then(|field| field.parse(str::parse))
    };
    section.allow("source");
    let written_origin = args.registry.as_ref().and_then(|_| {
        let text = section.find("source")?.text()?;
        Some(text.parse::<Source>().ok()?.origin())
    });
    let written = section.find("cache").and_then(|field| field.text()).map(PathBuf::from);
    let written = args.cache.clone().or(written).or_else(|| args.default_cache.clone());
    let is_in_data = written.is_none() && matches!(source, Some(Source::Discovered));
    let cache = written.unwrap_or_else(|| match source {
        Some(Source::Discovered) => args.data().join("cache").join("registry-v2.json"),
        _ => PathBuf::from(DEFAULT_CACHE),
    });
    let proposals =
        if is_in_data { args.data().join(PROPOSALS) } else { cache.with_file_name(PROPOSALS) };
    let unusable = match (args.approve, &source) {
        (Some(_), Some(Source::Grpc(_))) => {
            Some("the registry has the policies; register one with the member `approval`")
        }
        (Some(_), _) if root.find("admin").is_none() => {
            Some("people decide at the admin address; set `admin`, such as `admin: 127.0.0.1:7081`")
        }
        _ => None,
    };
    if let Some(message) = unusable {
        problems.at(0, "--approve", message.to_owned());
    }
    if cache.file_name().is_none() {
        let message = "must name a file, not a directory";
        section.problem_of("cache", args.cache.is_some().then_some("--cache"), message);
    }
    let key = key(problems, &section, args);
    let credentials = credentials::read_section(&section, args, source.as_ref());
    let scope = scope::read(&section, args, source.as_ref());
    let poll = section.find("pollInterval").and_then(|field| field.parse(parse_positive_duration));
    let poll_interval = poll.unwrap_or(DEFAULT_POLL);
    let max_staleness = staleness::read(&section);
    let validation = section.section("validation");
    let (startup, (runtime, tools)) = (startup(&validation), runtime(&validation));
    validation.finish();
    section.finish();
    let source = SourceConfig { address: source?, scope, credentials, poll_interval };
    let written_origin = written_origin.unwrap_or(source.address.origin());
    Some(RegistryConfig {
        source,
        written_origin,
        key,
        cache,
        proposals,
        max_staleness,
        runtime,
        tools,
        startup,
    })
}

fn key(problems: &Problems, section: &Section<'_>, args: &Args) -> Option<VerifierKey> {
    let written = section.find("key").and_then(|field| field.parse(str::parse));
    let Some(text) = &args.registry_key else { return written };
    let told = |e: InvalidVerifierKey| problems.at(0, "--registry-key", e.to_string());
    text.parse().map_err(told).ok()
}

fn startup(validation: &Section<'_>) -> StartupValidation {
    let section = validation.section("startup");
    let default = StartupValidation::default();
    let startup = StartupValidation {
        missing_entity: section.choice("missingEntity", FINDING_MODES, default.missing_entity),
        deprecated_entity: section.choice(
            "deprecatedEntity",
            FINDING_MODES,
            default.deprecated_entity,
        ),
        unused_schema: section.choice("unusedSchema", FINDING_MODES, default.unused_schema),
    };
    section.finish();
    startup
}

fn runtime(validation: &Section<'_>) -> (RuntimeValidation, Vec<ToolValidation>) {
    let section = validation.section("runtime");
    let default = RuntimeValidation::default();
    let undeclared = default.undeclared_dependency;
    let runtime = RuntimeValidation {
        input_validation: section.choice(
            "inputValidation",
            VIOLATION_MODES,
            default.input_validation,
        ),
        output_validation: section.choice(
            "outputValidation",
            VIOLATION_MODES,
            default.output_validation,
        ),
        contract_drift: section.choice("contractDrift", CONTRACT_MODES, default.contract_drift),
        unknown_caller: section.choice("unknownCaller", ACCESS_MODES, default.unknown_caller),
        undeclared_dependency: section.choice("undeclaredDependency", ACCESS_MODES, undeclared),
    };
    let tools = tools::read(&section);
    section.finish();
    (runtime, tools)
}

fn variables(root: &Section<'_>) -> BTreeMap<String, String> {
    let variables = root.pairs("variables");
    for name in variables.keys() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_word) {
            let message = format!("variables: `{name}` must be letters, digits and `_` only");
            root.problem(message);
        }
    }
    variables
}

/// The `limits` section.
struct Limits {
    hops: u32,
    request_bytes: usize,
    buffered_bytes: usize,
    address_connections: Option<usize>,
    upstream: UpstreamLimits,
    tools: Vec<ToolLimits>,
}

fn limits(root: &Section<'_>) -> Limits {
    let section = root.section("limits");
    let default = UpstreamLimits::default();
    let hops = section.positive("hops", DEFAULT_HOPS);
    let request_bytes = section.positive("requestBytes", DEFAULT_REQUEST_BYTES);
    let buffered_bytes = section.positive("bufferedBytes", DEFAULT_BUFFERED_BYTES);
    let address_connections = section.find("addressConnections").and_then(|f| f.positive());
    let upstream = UpstreamLimits {
        response_bytes: section.positive("responseBytes", default.response_bytes),
        sessions: section.positive("sessions", default.sessions),
        requests: section.positive("upstreamRequests", default.requests),
        waiting: section.positive("upstreamWaiting", default.waiting),
        connect_timeout_ms: section.positive("connectTimeoutMs", default.connect_timeout_ms),
        list_timeout_ms: section.positive("listTimeoutMs", default.list_timeout_ms),
        call_timeout_ms: section.positive("callTimeoutMs", default.call_timeout_ms),
    };
    let tools = tool_limits::read(&section);
    let needed = request_bytes.saturating_add(upstream.response_bytes).saturating_mul(4);
    if buffered_bytes < needed {
        section.problem(format!(
            "bufferedBytes is {buffered_bytes}, and one caller can use a quarter of it, which is less than \
             a request and its result can take; set it to at least {needed}, or lower requestBytes or \
             responseBytes"
        ));
    }
    section.finish();
    Limits { hops, request_bytes, buffered_bytes, address_connections, upstream, tools }
}
