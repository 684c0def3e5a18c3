//! Valid and invalid configurations.

mod schema;
mod template;
mod tools;

use std::path::Path;

use clap::Parser;
use gateway_policy::Access;
use gateway_upstream::{Addresses, ChildLimits, TransportConfig};
use registry_tls::ClientAuth;

use super::*;
use crate::source::Source;

const DEFAULTS: &str = "registry: { source: grpc://127.0.0.1:7070 }";

fn parse(text: &str) -> Result<Config, Vec<String>> {
    parse_with(text, &Args::default())
}

fn parse_with(text: &str, args: &Args) -> Result<Config, Vec<String>> {
    Config::parse(Path::new("gateway.yaml"), text, args)
        .map_err(|e| e.problems.iter().map(ToString::to_string).collect())
}

#[test]
fn source_alone_is_valid() {
    let config = parse(DEFAULTS).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:7080");
    assert_eq!(
        config.registry.source.address,
        Source::Grpc(vec!["http://127.0.0.1:7070".to_owned()])
    );
    assert_eq!(config.registry.cache, Path::new("./cache/registry-v2.json"));
    assert_eq!(config.registry.source.poll_interval, Duration::from_secs(10));
    assert_eq!(config.registry.startup.missing_entity, ValidationMode::Error);
    assert_eq!(config.registry.runtime.undeclared_dependency, Access::Warn);
    assert_eq!(config.registry.max_staleness, MaxStaleness::default());
    assert!(!config.identity.trust_headers);
    assert!(config.targets.is_empty() && !config.name.is_empty());
}

#[test]
fn comments_before_first_target_are_unlimited() {
    let target = "- { server: a, version: 1.0.0, http: \"http://127.0.0.1:1\" }";
    let text = format!("{DEFAULTS}\ntargets:\n{}  {target}\n", "  #- {}\n".repeat(100));
    assert_eq!(parse(&text).unwrap().targets.len(), 1);
}

#[test]
fn session_key_file_must_contain_keys() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!("{DEFAULTS}\nsessionKeyFile: {}\n", file.path().display());
    std::fs::write(&file, "A".repeat(43)).unwrap();
    assert_eq!(parse(&text).unwrap().session_key_file.as_deref(), Some(file.path()));
    std::fs::write(&file, "A".repeat(44)).unwrap();
    let path = file.path().display().to_string();
    let problems = || parse(&text).unwrap_err().join("\n").replace(&path, "FILE");
    insta::assert_snapshot!(
        problems(),
        @"line 2: sessionKeyFile: cannot use FILE: line 1 must be 32 bytes in base64url (43 characters)"
    );
    drop(file);
    insta::assert_snapshot!(
        problems(),
        @"line 2: sessionKeyFile: cannot use FILE: No such file or directory (os error 2)"
    );
}

#[test]
fn settings_that_flags_override_have_lines() {
    let found = parse(
        "listen: 0.0.0.0:7080
name: ''
registry:
  source: grpc://registry.test:7070
  tokenFile: /nobody/has/this
  cache: /
",
    )
    .unwrap_err();
    insta::assert_snapshot!(found.join("\n"), @"
    line 1: listen: 0.0.0.0:7080 can be reached from other machines, and callers need not authenticate over TLS; set `tls.clientCaFile`, or `tls.certFile` and `identity.required` with `apiKeys` or `jwt`, listen on 127.0.0.1, or accept the risk with --insecure
    line 2: name: must have 1 to 128 bytes and no control characters
    line 4: registry.source: the token would be sent unencrypted; use grpcs:// or https://, or set `allowInsecureToken: true` if the network is trusted
    line 5: registry.tokenFile: invalid token: /nobody/has/this: No such file or directory (os error 2)
    line 6: registry.cache: must name a file, not a directory
    ");
    let args = Args { listen: Some("0.0.0.0:7080".parse().unwrap()), ..Args::default() };
    let found = parse_with(DEFAULTS, &args).unwrap_err();
    insta::assert_snapshot!(found.join("\n"), @"--listen or GATEWAY_LISTEN: 0.0.0.0:7080 can be reached from other machines, and callers need not authenticate over TLS; set `tls.clientCaFile`, or `tls.certFile` and `identity.required` with `apiKeys` or `jwt`, listen on 127.0.0.1, or accept the risk with --insecure");
}

#[test]
fn only_changed_settings_need_restart() {
    let started = parse(DEFAULTS).unwrap();
    let waiting = |more: &str| {
        let changed = parse(&format!("{DEFAULTS}\n{more}")).unwrap();
        changed.needs_restart(&started)
    };
    assert_eq!(waiting("admin: 127.0.0.1:7081"), ["admin"]);
    assert_eq!(waiting("tracing: { recentTraces: 5 }"), ["tracing"]);
    assert_eq!(waiting("allowedHosts: [gateway.example.com]"), <[&str; 0]>::default());
}

#[test]
fn registry_accepts_several_servers() {
    let config = parse("registry: { source: 'grpcs://a:1, b:2' }").unwrap();
    let addresses = ["https://a:1", "https://b:2"].map(str::to_owned);
    assert_eq!(config.registry.source.address, Source::Grpc(addresses.to_vec()));
}

#[test]
fn scope_flag_overrides_list_and_text() {
    let with = |scope: &str| format!("registry:\n  source: grpc://a:1\n  {scope}\n");
    for one in ["scope: agent/x@*", "scope: [agent/x@*]"] {
        assert_eq!(parse(&with(one)).unwrap().registry.source.scope.scope.to_string(), "agent/x@*");
    }
    for (bad, problem) in
        [("scope: { agent: x }", "expected a list"), ("scope: [[a]]", "expected text")]
    {
        let problems = parse(&with(bad)).unwrap_err();
        assert!(problems.len() == 1 && problems[0].contains(problem), "{problems:?}");
    }
    let args = Args { scope: vec!["tag:a".to_owned()], ..Args::default() };
    for file in ["scope: [agent/x@*]", "scopeFile: ./missing"] {
        let scope = parse_with(&with(file), &args).unwrap().registry.source.scope;
        assert_eq!((scope.scope.to_string(), scope.file), ("tag:a".to_owned(), None));
    }
    let both = parse(&with("scope: [agent/x@*]\n  scopeFile: ./missing")).unwrap_err();
    assert!(both[0].contains("scopeFile"), "{both:?}");
}

#[test]
fn all_options_are_read() {
    let config = parse(
        r#"
name: edge-1
listen: "[::1]:9000"
allowedOrigins: [https://app.example.com]
allowedHosts: [gateway.example.com]
registry:
  source: https://registry.example.com/registry.json
  cache: /var/lib/gateway/registry.json
  pollInterval: 2m
  maxStaleness: { tools: 10m, readOnlyTools: 1h }
  validation:
    startup: { missingEntity: warn, deprecatedEntity: error, unusedSchema: warn }
    runtime: { inputValidation: deny, outputValidation: warn, unknownCaller: deny,
               undeclaredDependency: allow }
identity: { trustHeaders: true, scopeByClientInfo: true }
targets:
  - { server: acme/docs, version: 1.2.0, http: http://127.0.0.1:7090/mcp,
      headers: { Authorization: Bearer x, X-Number: 7 }, addresses: any }
  - server: time-server
    version: 1.0.0
    stdio: { command: mcp-time, args: [--zone, UTC, 5], env: { TZ: UTC }, cwd: /tmp,
             limits: { memoryBytes: 1, cpuSeconds: 2, openFiles: 3, processes: 4 },
             maxCallerChildren: 7 }
variables: { TENANT: acme }
limits: { requestBytes: 1000, responseBytes: 2000, sessions: 5, connectTimeoutMs: 1,
          listTimeoutMs: 2, callTimeoutMs: 3 }
"#,
    )
    .unwrap();
    assert_eq!(config.name, "edge-1");
    assert_eq!(config.registry.source.poll_interval, Duration::from_mins(2));
    let MaxStaleness { tools, read_only_tools } = config.registry.max_staleness;
    assert_eq!(
        (tools, read_only_tools),
        (Some(Duration::from_mins(10)), Some(Duration::from_hours(1)))
    );
    assert_eq!(config.registry.runtime.input_validation, ValidationMode::Error);
    assert_eq!(config.limits.call_timeout_ms, 3);
    let TransportConfig::Http { url, headers, addresses, .. } = &config.targets[0].transport else {
        panic!()
    };
    assert_eq!(*addresses, Addresses::Any);
    assert_eq!(url, "http://127.0.0.1:7090/mcp");
    assert_eq!(headers["X-Number"].read().unwrap(), "7");
    let TransportConfig::Stdio { args, env, limits, max_caller_children, .. } =
        &config.targets[1].transport
    else {
        panic!()
    };
    let set = ChildLimits {
        memory_bytes: Some(1),
        cpu_seconds: Some(2),
        open_files: Some(3),
        processes: Some(4),
    };
    assert_eq!((*limits, *max_caller_children), (set, Some(7)));
    assert_eq!((args.len(), env["TZ"].read().unwrap().as_str()), (3, "UTC"));
}

#[test]
fn flags_override_file() {
    let args = Args::parse_from([
        "gateway-agent",
        "--listen=127.0.0.1:1",
        "--registry=file://./r.json",
        "--cache=c.json",
        "--name=n",
    ]);
    let config = parse_with("listen: 127.0.0.1:2\nregistry: { source: nonsense }", &args).unwrap();
    assert_eq!(config.listen.port(), 1);
    assert_eq!(config.registry.source.address, Source::File("./r.json".into()));
    assert_eq!((config.registry.cache.to_str(), config.name.as_str()), (Some("c.json"), "n"));
}

#[test]
fn check_of_a_file_judges_approvals_by_the_written_source() {
    let args = Args::parse_from(["gateway-agent", "--check", "--registry=file://./r.json"]);
    let origin = |text: &str| parse_with(text, &args).unwrap().registry.written_origin;
    assert_eq!(origin(DEFAULTS), Origin::Registry);
    assert_eq!(origin("name: edge"), Origin::File);
}

#[test]
fn gateway_with_credentials_identifies_callers() {
    let deciders = |identity: &str| {
        parse(&format!("{DEFAULTS}\n{identity}")).unwrap().deciders(Origin::Registry)
    };
    assert_eq!(deciders(""), Deciders::Registry { identifies_callers: false });
    let trusting = deciders("identity: { trustHeaders: true }");
    assert_eq!(trusting, Deciders::Registry { identifies_callers: true });
}

#[test]
fn listen_beyond_loopback_needs_insecure() {
    let open = format!("listen: 0.0.0.0:7080\n{DEFAULTS}");
    assert!(parse(&open).unwrap_err()[0].contains("--insecure"));
    let args = Args { insecure: true, ..Args::default() };
    assert_eq!(parse_with(&open, &args).unwrap().listen.to_string(), "0.0.0.0:7080");
}

#[test]
fn reload_never_exposes_started_listener() {
    let keys = format!(
        "identity: {{ required: true, apiKeys: [{{ agent: planner, sha256: {} }}] }}",
        "ab".repeat(32)
    );
    let config = |listen: &str, client_ca: Option<&str>, identity: &str| {
        let tls = ServerFiles {
            certificate: "server.pem".into(),
            key: "server.key".into(),
            client_ca: client_ca.map(Into::into),
            client_crl: None,
            client_auth: ClientAuth::Required,
            protocols: &[],
        };
        let listen = listen.parse().unwrap();
        Config { listen, tls: Some(tls), ..parse(&format!("{DEFAULTS}\n{identity}")).unwrap() }
    };
    let (public, loopback) = ("0.0.0.0:7080", "127.0.0.1:7080");
    let started = config(public, None, &keys);
    for (listen, client_ca, identity, is_applied) in [
        (public, Some("ca.pem"), &*keys, true),
        (loopback, None, &keys, true),
        (public, Some("ca.pem"), "", false),
        (loopback, None, "", false),
    ] {
        let effective = config(listen, client_ca, identity).with_started_values(&started);
        let told = effective.as_ref().err().map(ToString::to_string).unwrap_or_default();
        assert_eq!(effective.is_ok(), is_applied, "{listen} {client_ca:?} {identity}: {told}");
        assert_eq!(told.contains("`required`"), !is_applied, "{told}");
    }
    let mut insecure = config(loopback, None, "");
    insecure.args.insecure = true;
    assert!(insecure.with_started_values(&started).is_ok(), "the risk is accepted");
}

#[test]
fn all_problems_are_reported_with_lines() {
    let found = parse(
        "listen: here
registry:
  source: ftp://x
  pollInterval: 10
  validation: { startup: { missingEntity: fatal }, runtime: { unknownCaller: error } }
identity: { trustHeaders: 1 }
targets:
  - { server: a b, version: 1.0, http: not-a-url }
  - { server: ok, version: 1.0.0 }
  - { server: ok, version: 1.0.0, http: http://h/, stdio: { command: x } }
colour: blue
limits: { sessions: 0 }
",
    )
    .unwrap_err();
    insta::assert_snapshot!(found.join("\n"), @"
    line 1: listen: `here` is not an IP address with a port, such as 127.0.0.1:8080 or [::1]:8080
    line 3: registry.source: `ftp://x` is not a source; use grpc(s)://host:port, http(s)://host/registry.json or file://path
    line 4: registry.pollInterval: `10` is not a duration such as 250ms, 10s, 5m or 2h
    line 5: registry.validation.startup.missingEntity: `fatal` is not one of error, warn, ignore
    line 5: registry.validation.runtime.unknownCaller: `error` is not one of allow, warn, deny
    line 6: identity.trustHeaders: expected true or false, found the number 1
    line 8: targets[0].server: ` ` is not allowed in the name `a b`
    line 8: targets[0].version: expected text; put it in quotes, found the number 1
    line 8: targets[0].http: `not-a-url` is not a URL such as http://127.0.0.1:7090/mcp
    line 9: targets[1]: set `http: URL` or `stdio: { command: … }`
    line 10: targets[2]: `http` and `stdio` are both set; remove one of them
    line 11: colour: unknown field; expected one of name, tls, identity, listen, mcpServers, registry, targets, variables, limits, adminTokenFile, admin, tracing, drainNotice, drainTimeout, sessionKeyFile, governance, a2a, agents, traceValues, allowedOrigins, allowedHosts
    line 12: limits.sessions: expected an integer of at least 1, found the number 0
    ");
}

#[test]
fn hint_needs_unquoted_star() {
    for (line, has_hint) in [
        ("version: *", true),
        ("- { server: a, version: * }", true),
        ("scope: [*]", true),
        ("version: \"*\"", false),
        ("scope: [agent/a@*, '*']", false),
        ("version: [ # *", false),
    ] {
        assert_eq!(yaml::hint(line).is_some(), has_hint, "{line}");
    }
}

#[test]
fn invalid_options_are_rejected() {
    for (text, expected) in [
        ("", "registry.source: missing; set it to grpc(s)://"),
        ("registry: [", "not valid YAML"),
        ("targets:\n  - { server: a, version: *, http: 'http://h' }", "use `\"*\"`"),
        ("targets:\n  - server: a\n    version: *\n    http: 'http://h'", "use `\"*\"`"),
        ("registry: {source: 'grpc://h:1'}\nregistry: {}", "duplicate"),
        ("- 1", "expected a mapping, found a list"),
        ("registry: { source: grpcs://h }", "must be grpc(s)://host:port"),
        (
            "registry: { source: grpcs://h:1, tokenFile: /nobody/has/this }",
            "registry.tokenFile: invalid token: /nobody/has/this",
        ),
        (
            "registry:\n  source: grpcs://h:1\n  caFile: /nobody/has/this",
            "line 3: registry.caFile: cannot use \"/nobody/has/this\"",
        ),
        ("registry: { source: grpcs://h:1, certFile: x }", "set both `certFile` and `keyFile`"),
        (
            "registry: { source: 'grpc://h:1' }\ntls: { certFile: x }",
            "tls: set both `certFile` and `keyFile`",
        ),
        ("registry: { source: grpc://h }", "must be grpc(s)://host:port"),
        ("registry: { source: 'grpc://h:1,' }", "must be grpc(s)://host:port"),
        ("registry: { source: grpc://h:1/path }", "must be grpc(s)://host:port"),
        ("registry: { source: 'http://' }", "is not a URL"),
        ("registry: { source: 'file://' }", "has no path"),
        ("registry: { source: 'grpc://h:1', pollInterval: 0s }", "`0s` is zero"),
        (
            "registry: { source: 'grpc://h:1', maxStaleness: { tools: 1 } }",
            "registry.maxStaleness.tools: `1` is not a duration",
        ),
        (
            "registry: { source: 'grpc://h:1', maxStaleness: { lists: 1h } }",
            "registry.maxStaleness.lists: unknown field; expected one of tools, readOnlyTools",
        ),
        (
            "registry: { source: 'grpc://h:1', maxStaleness: { readOnlyTools: 1h } }",
            "registry.maxStaleness: `readOnlyTools` is set and `tools` is not",
        ),
        (
            "registry: { source: 'grpc://h:1', maxStaleness: { tools: 2h, readOnlyTools: 1h } }",
            "registry.maxStaleness: `tools` is longer than `readOnlyTools`",
        ),
        ("registry: { source: 'grpc://h:1', cache: '/' }", "must name a file"),
        ("registry: { source: 'grpc://h:1' }\nname: ''", "must have 1 to 128 bytes"),
        ("registry: { source: 'grpc://h:1' }\nvariables: { 'a-b': x }", "letters, digits"),
        (
            "registry: { source: 'grpc://h:1' }\ntargets:\n- &t { server: a, version: 1.0.0, http: 'http://h/' }\n- *t",
            "server/a@1.0.0 already has a target",
        ),
        (
            "registry: { source: 'grpc://h:1' }\ntargets: [{ server: a, version: 1.0.0, stdio: {} }]",
            "targets[0].stdio.command: missing",
        ),
        (
            "registry: { source: 'grpc://h:1' }\ntargets: [{ server: a, version: 1.0.0, \
             http: 'http://h/', headers: { 'a b': c } }]",
            "`a b` is not a header name",
        ),
    ] {
        let found = parse(text).unwrap_err().join("\n");
        assert!(found.contains(expected), "{text:?}: no {expected:?} in {found:?}");
    }
}

#[test]
fn problems_of_flags_name_the_flag() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let key = ["--tls-cert", path, "--tls-key", path, "--tls-client-ca", path];
    for (flag, value, others) in [
        ("--tls-client-crl", "nope.crl", &key[..]),
        ("--name", "", &[]),
        ("--listen", "0.0.0.0:7080", &[]),
        ("--cache", "/", &[]),
        ("--scope", "gadget/x@*", &[]),
        ("--registry", "grpc://h", &[]),
        ("--registry-key", "x", &[]),
    ] {
        let arguments = [&["gateway-agent", flag, value][..], others].concat();
        let args = Args::try_parse_from(arguments).unwrap();
        let found = Config::parse(Path::new("gateway.yaml"), DEFAULTS, &args).unwrap_err();
        let fields: Vec<_> = found.problems.iter().map(|p| (p.line, p.field.as_str())).collect();
        assert_eq!(fields, [(None, flag)], "{found}");
    }
}

#[test]
fn flags_and_variables_have_one_name() {
    let command = <Args as clap::CommandFactory>::command();
    for arg in command.get_arguments() {
        let (Some(flag), Some(variable)) = (arg.get_long(), arg.get_env()) else { continue };
        assert_eq!(variable, super::problem::variable_of(flag).as_str());
    }
}

#[test]
fn misspelled_field_has_suggestion() {
    let found = parse("targts: []\nregistry: { source: 'grpc://h:1' }").unwrap_err().join("\n");
    let expected = "targts: unknown field; did you mean `targets`? expected one of name, ";
    assert!(found.contains(expected), "{found}");
}

#[test]
fn stdio_rejects_unknown_fields() {
    for (child, expected) in [
        (
            "command: x, arg: 5",
            "targets[0].stdio.arg: unknown field; did you mean `args`? expected one of command, args, env",
        ),
        ("command: x, limits: { memory: 5 }", "targets[0].stdio.limits.memory: unknown field"),
        ("command: x, limits: { openFiles: 0 }", "expected an integer of at least 1"),
    ] {
        let text =
            format!("{DEFAULTS}\ntargets: [{{ server: a, version: 1.0.0, stdio: {{ {child} }} }}]");
        let found = parse(&text).unwrap_err().join("\n");
        assert!(found.contains(expected), "{child}: {found}");
    }
}

#[test]
fn problems_omit_passwords() {
    let secret = "S3CRET";
    for source in [
        format!("http://user:{secret}@/x"),
        format!("grpc://user:{secret}@h:1"),
        format!("grpcs://user:{secret}@h:1"),
        format!("ftp://user:{secret}@h"),
        format!("user:{secret}@h"),
    ] {
        let written = parse(&format!("registry: {{ source: '{source}' }}")).unwrap_err();
        let args = Args::try_parse_from(["gateway-agent", "--registry", &source]).unwrap();
        let flag = parse_with("", &args).unwrap_err();
        assert!(flag[0].starts_with("--registry or GATEWAY_REGISTRY: "), "{flag:?}");
        let target =
            format!("{DEFAULTS}\ntargets: [{{ server: a, version: 1.0.0, http: '{source}' }}]");
        for found in [written, flag, parse(&target).unwrap_err()] {
            assert!(!found.iter().any(|line| line.contains("S3C")), "{source}: {found:?}");
        }
    }
    let refused = "targets: [{ server: a, version: 1.0.0, http: 'https://u:S3C@h/mcp' }]";
    let found = parse(&format!("{DEFAULTS}\n{refused}")).unwrap_err();
    assert!(found[0].contains("https://h/mcp") && !found[0].contains("S3C"), "{found:?}");
    let misplaced = "targets: [{ server: a, version: 1.0.0, http: 'http://h/', headers: S3C }]";
    let found = parse(&format!("{DEFAULTS}\n{misplaced}")).unwrap_err();
    assert!(!found[0].contains("S3C"), "{found:?}");
}

#[test]
fn meaningless_combinations_are_rejected() {
    let target =
        |more: &str| format!("{DEFAULTS}\ntargets: [{{ server: a, version: 1.0.0, {more} }}]");
    let mut cases = Vec::new();
    for name in [
        "Content-Length",
        "host",
        "connection",
        "transfer-encoding",
        "MCP-Method",
        "accept",
        "content-type",
        "user-agent",
    ] {
        let header = format!("http: 'http://h/', headers: {{ {name}: x }}");
        cases.push((target(&header), "itself; remove it"));
    }
    for origin in [
        "*",
        "evil",
        "https://a.example/path",
        "https://a.example/",
        "https://",
        "null",
        "https://*.example",
        "https://u@a.example",
    ] {
        cases.push((format!("{DEFAULTS}\nallowedOrigins: ['{origin}']"), "is not an origin"));
    }
    for host in ["", "https://a.example", "a.example/path", "*", "u@a.example"] {
        cases.push((format!("{DEFAULTS}\nallowedHosts: ['{host}']"), "is not a host name"));
    }
    for url in [
        "",
        "gateway.example",
        "ftp://h",
        "https://",
        "https://u@h",
        "https://h/?q",
        "https://h/#x",
    ] {
        cases.push((format!("{DEFAULTS}\na2a: {{ url: '{url}' }}"), "is not a base URL"));
    }
    let without_url = "a2a: { pushNotifications: { addresses: any } }";
    cases.push((format!("{DEFAULTS}\n{without_url}"), "set `a2a.url`"));
    let private = "a2a: { url: 'https://h', pushNotifications: { addresses: private } }";
    cases.push((format!("{DEFAULTS}\n{private}"), "is not one of public, usual, any"));
    for name in ["", "A=B"] {
        let child = format!("stdio: {{ command: x, env: {{ '{name}': z }} }}");
        cases.push((target(&child), "is not a valid variable name"));
    }
    for (text, expected) in cases {
        let found = parse(&text).unwrap_err().join("\n");
        assert!(found.contains(expected), "{text:?}: no {expected:?} in {found:?}");
    }
    let good = "allowedOrigins: ['https://a.example:8443', 'vscode-webview://x']\n\
        allowedHosts: [a.example, 'a.example:80', '[::1]', 10.0.0.1]";
    parse(&format!("{DEFAULTS}\n{good}")).unwrap();
    let config = parse(&format!("{DEFAULTS}\na2a: {{ url: 'https://a.example/base/' }}")).unwrap();
    assert_eq!(config.a2a_url.as_deref(), Some("https://a.example/base"));
    assert_eq!(config.push, None);
    let push = "a2a: { url: 'https://h', pushNotifications: { allowHttp: true } }";
    let config = parse(&format!("{DEFAULTS}\n{push}")).unwrap();
    let expected = PushSettings { addresses: Addresses::Public, allow_http: true };
    assert_eq!(config.push, Some(expected));
    assert_eq!(config.agents, AgentBridges::default());
    let config = parse(&format!("{DEFAULTS}\nagents: {{ asTools: true, ofTools: true }}")).unwrap();
    assert_eq!(config.agents, AgentBridges { as_tools: true, of_tools: true });
    assert_eq!(config.data_agents, DataAgentSettings::default());
    let config = parse(&format!(
        "{DEFAULTS}\nagents: {{ selfRegistration: review, endpoints: ['https://a.example'] }}"
    ));
    let expected = DataAgentSettings {
        registration: SelfRegistration::Review,
        endpoints: vec!["https://a.example".to_owned()],
    };
    assert_eq!(config.unwrap().data_agents, expected);
}

#[test]
fn agent_target_supports_only_http() {
    let targets = |list: &str| parse(&format!("{DEFAULTS}\ntargets: [{list}]"));
    let agent = "agent: team/docs, version: 1.2.0, http: 'https://h/a2a', tenant: acme";
    let server = "server: team/docs, version: 1.2.0, http: 'https://h/mcp'";
    let found = targets(&format!("{{ {agent} }}, {{ {server} }}")).unwrap().targets;
    let keys: Vec<_> = found.iter().map(|target| target.server.to_string()).collect();
    assert_eq!(keys, ["agent/team/docs@1.2.0", "server/team/docs@1.2.0"]);
    assert_eq!(found[0].tenant.as_deref(), Some("acme"));
    // Agents expose no names, so no prefix can collide.
    targets(&format!(
        "{{ {agent} }}, {{ server: other, version: 1.0.0, http: 'http://h/', prefix: docs }}"
    ))
    .unwrap();
    for (list, expected) in [
        (
            "{ agent: a, version: 1.0.0 }",
            "http: missing; set it to the URL of the agent's JSON-RPC",
        ),
        ("{ agent: a, version: 1.0.0, stdio: { command: x } }", "http: missing"),
        ("{ agent: a, version: 1.0.0, http: 'http://h/', stdio: { command: x } }", "unknown field"),
        ("{ agent: a, version: 1.0.0, http: 'http://h/', prefix: p }", "unknown field"),
        ("{ agent: a, server: a, version: 1.0.0, http: 'http://h/' }", "unknown field"),
        ("{ agent: a, http: 'http://h/' }", "version: missing"),
        ("{ agent: a, version: 1.0.0, http: 'http://h/', tenant: '' }", "tenant"),
        ("{ server: a, version: 1.0.0, http: 'http://h/', tenant: a }", "unknown field"),
        (
            "{ agent: a, version: 1.0.0, http: 'http://h/', headers: { A2A-Version: 1 } }",
            "itself; remove it",
        ),
    ] {
        let problems = targets(list).unwrap_err().join("\n");
        assert!(problems.contains(expected), "{list}: {problems}");
    }
}

#[test]
fn only_agents_have_grpc() {
    let targets = |list: &str| parse(&format!("{DEFAULTS}\ntargets: [{{ {list}, version: '*' }}]"));
    for (agent, expected) in [
        ("agent: a, http: 'https://h'", false),
        ("agent: a, http: 'https://h', transport: json", false),
        ("agent: a, http: 'https://h', transport: grpc", true),
    ] {
        let config = targets(agent).unwrap();
        let transport = &config.targets[0].transport;
        let TransportConfig::Http { is_grpc, .. } = transport else { panic!("{transport:?}") };
        assert_eq!(*is_grpc, expected, "{agent}");
    }
    for (target, expected) in [
        ("agent: a, http: 'https://h', transport: soap", "not one of json, grpc"),
        ("server: a, http: 'https://h', transport: grpc", "unknown field"),
    ] {
        let problems = targets(target).unwrap_err().join("\n");
        assert!(problems.contains(expected), "{target}: {problems}");
    }
}

#[test]
fn missing_file_has_remedy_unless_named() {
    let named = Args { config: Some(PathBuf::from("/nowhere/gateway.yaml")), ..Args::default() };
    let problem = |args: &Args| Config::load(args).unwrap_err().problems[0].to_string();
    assert!(!problem(&named).contains("--config"), "{}", problem(&named));
    let unnamed = problem(&Args::default());
    assert!(unnamed.contains("--config"), "{unnamed}");
}

#[test]
fn missing_file_needs_flags() {
    let missing = Some(PathBuf::from("/nowhere/gateway.yaml"));
    let source = Some("file://x".to_owned());
    let named = Args { config: missing, registry: source, ..Args::default() };
    let found = Config::load(&named).unwrap_err().to_string();
    assert!(found.contains("/nowhere/gateway.yaml: 1 problem"), "{found}");
}

#[test]
fn admin_beyond_loopback_needs_token() {
    assert!(parse(DEFAULTS).unwrap().admin.is_none());
    let with = |more: &str| parse(&format!("{DEFAULTS}\n{more}"));
    let local = with("admin: 127.0.0.1:7081").unwrap().admin.unwrap();
    assert!(local.token.is_none() && local.listen.port() == 7081);
    let open = with("admin: 0.0.0.0:7081").unwrap_err();
    assert_eq!(open.len(), 1, "{open:?}");
    insta::assert_snapshot!(
        open[0],
        @"line 2: admin: 0.0.0.0:7081 can be reached from other machines; set `adminTokenFile`, or \
          listen on 127.0.0.1"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    let guarded = format!("admin: 0.0.0.0:7081\nadminTokenFile: {}", file.path().display());
    std::fs::write(file.path(), "short").unwrap();
    let short = &with(&guarded).unwrap_err()[0];
    let path = file.path().display().to_string();
    assert!(short.contains(" 16 ") && short.contains(&path), "{short}");
    std::fs::write(file.path(), "0123456789abcdef\n").unwrap();
    let config = with(&guarded).unwrap();
    assert!(!format!("{config:?}").contains("0123456789abcdef"));
    assert_eq!(config.admin.unwrap().token.unwrap().expose(), "0123456789abcdef");
}

#[test]
fn otlp_needs_endpoint_and_valid_ratio() {
    let with = |otlp: &str| parse(&format!("{DEFAULTS}\ntracing: {{ otlp: {otlp} }}"));
    let config = with("{ endpoint: 'http://c:4318', headers: { a: s3cret }, sampleRatio: 0.5 }");
    let config = config.unwrap();
    assert!(!format!("{config:?}").contains("s3cret"));
    let otlp = config.tracing.otlp.unwrap();
    assert_eq!((&*otlp.endpoint, otlp.sample_ratio.to_bits()), ("http://c:4318", 0.5f64.to_bits()));
    for (bad, problem) in [
        ("{}", "missing"),
        ("{ endpoint: 'grpc://c:4317' }", "http(s)://host:port"),
        ("{ endpoint: 'http://u:p@c' }", "without credentials"),
        ("{ endpoint: 'http://c', sampleRatio: 1.5 }", "a number from 0 to 1"),
        ("{ endpoint: 'http://c', headers: { 'a b': x } }", "is not valid in HTTP"),
    ] {
        let problems = with(bad).unwrap_err();
        assert!(problems.len() == 1 && problems[0].contains(problem), "{bad}: {problems:?}");
    }
}

#[test]
fn drain_timeout_covers_longest_call() {
    let with = |more: &str| parse(&format!("{DEFAULTS}\n{more}\n"));
    let timeout = |more: &str| with(more).unwrap().drain_timeout();
    let long = "limits: { tools: [{ tool: fetch, callTimeoutMs: 900000 }] }";
    assert_eq!(timeout(""), Duration::from_mins(10));
    assert_eq!(timeout(long), Duration::from_secs(905));
    assert_eq!(timeout("drainTimeout: 35s"), Duration::from_secs(35));
    let problems = with("drainTimeout: 34s").unwrap_err();
    assert!(problems.len() == 1 && problems[0].contains("35s"), "{problems:?}");
}

#[test]
fn approve_needs_admin_and_no_registry() {
    let with = |source: &str, text: &str| {
        let (approve, registry) = (Some(Approve::Destructive), Some(source.to_owned()));
        parse_with(text, &Args { registry, approve, ..Args::default() })
    };
    let (file, admin) = ("file:///tmp/registry.json", "admin: 127.0.0.1:7081");
    assert!(with(file, admin).unwrap().pipeline().own_policy.is_some());
    for (source, text) in [(file, "{}"), ("grpc://127.0.0.1:7070", admin)] {
        let problems = with(source, text).unwrap_err();
        assert!(problems.len() == 1 && problems[0].contains("--approve"), "{problems:?}");
    }
}
