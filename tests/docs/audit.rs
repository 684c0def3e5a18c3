//! The fields of the gateway's audit events, and the limits of `audit verify`.

use std::fs;

use crate::{assert_same, scan};

const FIELDS: &[(&str, &str)] = &[
    (
        "event",
        "the method: `tools/call`, `resources/subscribe`; `composition/step` for a step; for `subscriptions/listen` one event per resource, and `tasks/get` for each poll of a task; for A2A the method of 1.0, such as `SendMessage`; for AIO the method without the agent, such as `tools.call`, or `call` for a name of a tool or skill",
    ),
    ("request_id", "`X-Request-Id` of the request, or a new id"),
    ("trace_id", "trace of the call"),
    ("span_id", "span of the call at the gateway"),
    ("client_trace", "`trace_id` of a call of AIO, also a generated one"),
    ("task_id", "`task_id` of the caller, from `meta` or `_meta` (at most 128 bytes)"),
    ("agent", "name of the registered agent"),
    ("agent_version", "its version"),
    ("claimed_agent", "agent that the request names, if it cannot be used"),
    (
        "principal",
        "authenticated identity: the name in the certificate, `iss` and `sub` of the token, or `sha256:` \
         and the SHA-256 of the API key, as in `identity.apiKeys`",
    ),
    (
        "identified_by",
        "kind of credential: `certificate`, `token`, `api-key`, `headers`, `client-info`, `none`",
    ),
    ("client", "name in MCP `clientInfo`"),
    ("client_version", "version in MCP `clientInfo`"),
    (
        "tool",
        "requested name (at most 128 bytes): a tool or prompt, scheme and authority of a resource, the tool that started a task, `AGENT/SKILL` for a skill, the agent of another A2A operation",
    ),
    ("composition", "the composition that made the call, for `composition/step`"),
    ("composition_version", "its version"),
    ("purpose", "purpose of a step: `step` or `compensation`"),
    ("tool_version", "version of the called tool"),
    ("server", "server of the tool, or `agent/NAME`"),
    ("server_version", "its version"),
    ("revision", "revision of the catalog that decided"),
    ("catalog_age_seconds", "seconds since the catalog was known to be the latest"),
    ("staleness", "calls that this age allows: `serve`, `read-only`, `reject`"),
    ("era", "`modern` (MCP 2026-07-28, A2A 1.0) or `legacy` (earlier versions)"),
    ("permit", "decision: `allow`, `warn:REASON` or `deny:REASON`; see below"),
    (
        "policies",
        "verdict of each policy that applies: `NAME@VERSION:allow`, `:deny:REASON`, `:audit:REASON` or, when another policy denied the call first, `:undecided`; separated by spaces",
    ),
    (
        "stored_policies",
        "verdicts of the policies for the tools behind a stored result that a composition returned",
    ),
    ("invocation", "id of a call that a policy rejected, as the caller sees it"),
    ("approval", "id of the approval that the call used, needs or was denied"),
    ("price", "price that the call reserved, in the currency of the registry"),
    ("price_policy", "policy of the price: `NAME@VERSION`"),
    (
        "charged",
        "charge of all rounds of the call; the reserved price if the outcome is unknown. Negative: the result of a task lowers the charge of the call that started it",
    ),
    ("budgets", "budgets that the price charges: `POLICY/BUDGET`, separated by spaces"),
    (
        "inspection",
        "credentials and personal data in arguments and results: `DIRECTION.CLASS:ACTION=COUNT`, separated by spaces; `audit-ACTION` for policies in audit mode",
    ),
    ("input", "validation of the arguments: `skipped`, `valid`, `violated`, `unusable-schema`"),
    ("output", "validation of the result, with the same values"),
    ("outcome", "see below"),
    ("cost", "`metadata.cost` of the tool's registration, for calls with a result"),
    ("error", "reason of a failure, for operators"),
    ("duration_ms", "duration in milliseconds"),
    ("request_bytes", "size of the request"),
    ("response_bytes", "size of the response"),
];

const OUTCOMES: &[(&str, &str)] = &[
    ("ok", "the call succeeded"),
    ("tool-error", "the tool returned `isError`"),
    ("input-required", "the client must repeat the call with input"),
    ("denied", "the policy rejected the call"),
    ("invalid-input", "the arguments violate the schema"),
    ("invalid-output", "the result violates its schema, or cannot be projected"),
    ("misconfigured", "no target, an unusable schema, or a missing variable"),
    ("upstream-failed", "the upstream is unreachable, or violated the protocol"),
    ("upstream-timeout", "no response in time"),
    (
        "upstream-busy",
        "the queue or the caller's quota is full, the circuit breaker is open, or the target is stopped",
    ),
    ("cancelled", "the caller cancelled or disconnected"),
];

const PERMITS: &[(&str, &str)] = &[
    ("undeclared-dependency", "the agent does not declare the tool, or it cannot be served here"),
    (
        "retired-dependency",
        "the agent declares the tool in a version that is retired, or whose server is; with `warn`, the newest version was called",
    ),
    ("unknown-caller", "the caller is not a registered agent"),
    (
        "no-such-tool",
        "the tool is not registered, or cannot be served here: it has no target, or it or its server is retired",
    ),
    ("retired-agent", "the version of the agent is retired"),
    (
        "unknown-version",
        "the version of the agent is not registered, or missing at a gateway whose scope lacks versions of it",
    ),
    ("quarantined", "the tool is quarantined"),
    ("stale-catalog", "the catalog is too old for this tool"),
];

const VERDICTS: &[(&str, &str)] = &[
    ("UNAUTHORIZED", "a policy does not allow the call"),
    ("POLICY_ERROR", "a policy could not be evaluated"),
    ("RATE_LIMITED", "a rate of a policy is exhausted, or the trace is too long"),
    ("STALE_POLICY", "the catalog is too old for a policy"),
    ("BUDGET_EXCEEDED", "a budget does not cover the call"),
    ("PII_DETECTED", "inspection found a value that a policy blocks"),
    ("APPROVAL_REQUIRED", "the call needs the approval of a person"),
    ("APPROVAL_UNAVAILABLE", "the approval cannot be requested or used now"),
    ("APPROVAL_DENIED", "a person denied the approval"),
];

fn rows(table: &[(&str, &str)]) -> Vec<[String; 2]> {
    table.iter().map(|(name, meaning)| [format!("`{name}`"), (*meaning).to_owned()]).collect()
}

fn names<'a>(table: &[(&'a str, &str)]) -> Vec<&'a str> {
    table.iter().map(|(name, _)| *name).collect()
}

#[test]
fn reference_of_audit_fields_is_current() {
    let text = scan::read("gateway-agent/src/audit.rs");
    let (_, event) = text.split_once("target: \"audit\",").expect("an audit event");
    let fields = scan::arguments(event).into_iter().filter_map(|field| {
        let code = field.lines().find(|line| !line.trim_start().starts_with("//"))?;
        Some(code.split('=').next()?.trim().to_owned())
    });
    assert_same("audit fields", &names(FIELDS), &fields.collect::<Vec<_>>());
    let outcomes = scan::words(&scan::read("crates/gateway-policy/src/outcome.rs"));
    assert_same("outcomes", &names(OUTCOMES), &outcomes);
    let mut permits = scan::words(&scan::read("crates/gateway-policy/src/permit.rs"));
    permits.sort();
    permits.dedup();
    assert_same("permits", &names(PERMITS), &permits);
    let mut verdicts = scan::words(&scan::read("crates/policy/src/verdict.rs"));
    verdicts.dedup();
    assert_same("verdicts", &names(VERDICTS), &verdicts);
    let body = format!(
        "The gateway logs one event per call with the target `audit`. Fields without a value are \
         omitted. [Audit calls](../operate/monitor.md#audit-calls) has examples.\n\n{}\n## \
         Outcomes\n\n{}\n## Decisions\n\nThe reasons in `permit`:\n\n{}\nPolicies have these reasons, in `permit` and \
         in `policies`; [Read a denial](../governance.md#read-a-denial) has details:\n\n{}",
        reference_pages::table(["field", "meaning"], &rows(FIELDS)),
        reference_pages::table(["`outcome`", "meaning"], &rows(OUTCOMES)),
        reference_pages::table(["reason", "meaning"], &rows(PERMITS)),
        reference_pages::table(["reason", "meaning"], &rows(VERDICTS)),
    );
    reference_pages::check("audit-fields.md", "Audit fields", &body);
}

/// The tables that `audit verify` reads.
const VERIFIED: [&str; 6] =
    ["changes", "commits", "entities", "head", "registry", "setting_changes"];

#[test]
fn tables_without_verification_are_documented() {
    let page = scan::read("docs/audit.md");
    let (_, list) = page.split_once("Not verified: ").expect("a list of tables");
    let listed = list.lines().next().unwrap_or_default().split('`').skip(1).step_by(2);
    let listed: Vec<&str> = listed.collect();
    let is_listed = |table: &str| {
        listed.iter().any(|known| match known.strip_suffix('…') {
            Some(prefix) => table.starts_with(prefix),
            None => *known == table,
        })
    };
    let mut missing = Vec::new();
    let files = fs::read_dir(acceptance::root().join("migrations/postgres")).expect("migrations");
    for file in files {
        let text = fs::read_to_string(file.expect("a file").path()).expect("a migration");
        for table in text.lines().filter_map(|line| line.strip_prefix("CREATE TABLE ")) {
            let table = table.split_whitespace().next().unwrap_or_default();
            if !VERIFIED.contains(&table) && !is_listed(table) {
                missing.push(table.to_owned());
            }
        }
    }
    assert_eq!(missing, [""; 0]);
}
