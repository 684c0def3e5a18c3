//! The errors of the gateway and of compositions.

use std::collections::BTreeSet;

use crate::{assert_same, scan};

/// Reasons, cause, JSON-RPC code, HTTP status for modern and for legacy clients.
const REJECTIONS: &[[&str; 5]] = &[
    ["origin host", "`Origin` or `Host` is not allowed", "-32600", "403", "403"],
    ["unauthenticated", "missing credentials", "-32600", "401", "401"],
    [
        "invalid-token",
        "an invalid or expired token or key; `WWW-Authenticate` names the issuer",
        "-32600",
        "401",
        "401",
    ],
    [
        "insufficient-scope",
        "the token lacks scopes; `WWW-Authenticate` lists them",
        "-32600",
        "403",
        "403",
    ],
    ["accept", "`Accept` lacks a media type", "-32600", "406", "406"],
    ["content-type", "`Content-Type` is not JSON", "-32600", "415", "415"],
    ["too-large", "the request exceeds `limits.requestBytes`", "-32600", "413", "413"],
    ["invalid-message", "invalid JSON", "-32700", "400", "400"],
    [
        "invalid-message incomplete client-response",
        "a batch, no message, or too deeply nested; truncated; a response",
        "-32600",
        "400",
        "400",
    ],
    [
        "invalid-params missing-meta",
        "parameters of a wrong type; missing metadata",
        "-32602",
        "400",
        "400",
    ],
    [
        "missing-extension",
        "a method of tasks, or `taskIds`, without the declared extension; `data` has `requiredCapabilities`",
        "-32021",
        "400",
        "–",
    ],
    ["header-mismatch", "an `Mcp-*` header differs from the body", "-32020", "400", "400"],
    [
        "unsupported-version",
        "an unsupported protocol version; `data` lists the supported ones",
        "-32022",
        "400",
        "400",
    ],
    ["unknown-method", "an unknown method", "-32601", "404", "200"],
    [
        "session-required",
        "no session, and not a [plain](../mcp.md#call-a-tool-with-curl) `tools/list` or `tools/call`",
        "-32600",
        "–",
        "400",
    ],
    [
        "event-unknown",
        "a `Last-Event-ID` that cannot be [resumed](../sessions.md)",
        "-32600",
        "–",
        "400",
    ],
    ["id-in-use", "the id of a running request of the session", "-32600", "–", "400"],
    [
        "session-unknown",
        "an unknown, ended or foreign session: call `initialize` again",
        "-32600",
        "–",
        "404",
    ],
    ["invalid-cursor", "a cursor of another list", "-32602", "200", "200"],
    ["no-catalog", "no catalog is loaded yet", "-32603", "200", "200"],
    ["no-randomness", "the system has no random numbers", "-32603", "503", "503"],
    [
        "too-many-streams too-many-sessions",
        "too many event streams, or sessions in use, of this caller (429) or of all (503)",
        "-32603",
        "429, 503",
        "429, 503",
    ],
    [
        "buffers-full",
        "`limits.bufferedBytes` is used up by this caller or address (429) or by all (503): retry after `Retry-After`; `data` has `reason`, `setting`, `limitBytes`, `sharedBy`",
        "-32603",
        "429, 503",
        "429, 503",
    ],
];

/// Cause, JSON-RPC code or `result`, HTTP status for modern and for legacy clients.
const CALLS: &[[&str; 4]] = &[
    ["an unknown tool, or one that the policy denies", "-32602", "200", "200"],
    [
        "the caller declares the tool in a version that is retired, or whose server is",
        "-32602",
        "200",
        "200",
    ],
    ["an `Mcp-Param-*` header differs from its argument", "-32020", "400", "400"],
    [
        "input for a call that no longer waits, of another caller, or with other parameters: call again without it",
        "-32602",
        "200",
        "–",
    ],
    ["an unknown task, or one of another caller", "-32602", "200", "–"],
    ["`arguments` is not an object, or has duplicate keys", "-32602", "200", "200"],
    ["the tool [must be called as a task](../mcp.md#tasks), or must not", "-32601", "200", "200"],
    [
        "the server needs a capability that the client did not declare; `data` has `requiredCapabilities`",
        "-32021",
        "400",
        "400",
    ],
    [
        "no target for the server, an unusable input schema, a missing variable: nothing was called",
        "-32603",
        "200",
        "200",
    ],
    [
        "the upstream's JSON-RPC error; -32000 to -32099 become -32603; without `data` if the tool has a [projection](../virtual-tools.md#change-the-result)",
        "its own",
        "200",
        "200",
    ],
    [
        "the arguments violate the schema (with `deny`), include a [hidden one](../virtual-tools.md#set-and-hide-arguments), or have an unknown [placeholder](../inspection-policies.md#restore-tokenized-values)",
        "result",
        "200",
        "200",
    ],
    [
        "the catalog is [too old](../operate/staleness.md) for this tool; `_meta[\"registry/catalog\"]` has `reason: STALE_CATALOG`: nothing was called",
        "result",
        "200",
        "200",
    ],
    [
        "the tool is [quarantined](../operate/contracts.md): nothing was called",
        "result",
        "200",
        "200",
    ],
    [
        "the server is down, did not respond to the connection, or rejects the gateway (HTTP 401, 403, 429): nothing was called",
        "result",
        "200",
        "200",
    ],
    [
        "no [access token](../operate/targets.md#authenticate-to-upstream-servers) for the server, or no token of the caller to exchange: nothing was called",
        "result",
        "200",
        "200",
    ],
    [
        "the server's queue is full, its circuit breaker is open, it is stopped, or has its maximum of child processes: nothing was called",
        "result",
        "200",
        "200",
    ],
    [
        "the call asks its caller something, and the caller's [quota](limits.md#quotas-of-callers-at-the-gateway) of waiting calls is used up: it may have run",
        "result",
        "200",
        "200",
    ],
    ["too many watched resources of this server or this caller", "-32603", "200", "200"],
    [
        "no result within `limits.callTimeoutMs`, a protocol violation, or a child process that ended: it may have run",
        "result",
        "200",
        "200",
    ],
    [
        "a result that is too long, violates its schema (with `deny`), cannot be [projected](../virtual-tools.md#change-the-result), or requests input repeatedly",
        "result",
        "200",
        "200",
    ],
    ["no memory for a result (`limits.bufferedBytes`)", "result", "200", "200"],
    [
        "a [composition](../compositions.md) with a failed step; `_meta` has `registry/failure` and `registry/steps`",
        "result",
        "200",
        "200",
    ],
    [
        "prompts, resources, completion, tasks: every case with a result above",
        "-32603",
        "200",
        "200",
    ],
    ["an unknown or denied prompt or reference", "-32602", "200", "200"],
    ["an unknown or denied resource; `data` has its `uri`", "-32602, legacy -32002", "200", "200"],
];

/// Reason, meaning.
const STEPS: &[[&str; 2]] = &[
    ["tool-error", "the tool returned `isError`; `result` has its result"],
    [
        "invalid-value",
        "a binding, condition or operation does not fit the value; the message names both",
    ],
    ["timeout", "a `timeout`, an attempt of a `retry`, or a saga took too long"],
    ["no-results", "no target of a scatter returned a result"],
    ["circuit-open", "the circuit breaker is open"],
    [
        "inexact-key",
        "a key has a number that JSON readers round; nothing was called. Pass it as a string",
    ],
    ["missing-key", "a path of `keyPaths` or `sagaIdPath` selects nothing; nothing was called"],
    ["duplicate", "the operation ran before (`onDuplicate: error`)"],
    ["capacity", "the maximum of keys or sagas is reached; nothing was called"],
    ["dead-letter-failed", "the operation and its dead-letter tool failed"],
    [
        "saga-failed",
        "a saga did not complete; the message names the step and the remaining effects",
    ],
    ["journal", "the journal of sagas cannot be written; nothing was called"],
    ["cancelled", "the caller disconnected; the outcome is unknown"],
    ["abandoned", "the gateway stopped; the outcome is unknown"],
    ["limit", "a limit of items, calls, bytes or memory of one call"],
];

/// Reason, cause, HTTP status of A2A.
const AGENTS: &[[&str; 3]] = &[
    [
        "AGENT_NOT_FOUND",
        "the agent is not registered, has no target, or is not visible to the caller",
        "404",
    ],
    [
        "AGENT_RETIRED",
        "the caller declares a retired version of the agent; started tasks can be read and canceled",
        "404",
    ],
    ["SKILL_NOT_FOUND", "`skillId` of the message is no skill of the agent", "400"],
    ["QUARANTINED", "the agent is [quarantined](../operate/contracts.md)", "503"],
    ["STALE_CATALOG", "the catalog is [too old](../operate/staleness.md)", "503"],
    ["NO_CATALOG", "no catalog is loaded yet", "503"],
    ["GATEWAY_STOPPING", "the gateway stopped before the agent answered", "503"],
    ["CIRCUIT_OPEN", "the agent keeps failing: retry after `Retry-After`", "503"],
    ["AGENT_OVERLOADED", "the agent's queue is full", "503"],
    ["AGENT_UNAVAILABLE", "the agent cannot be reached, or rejects the gateway", "503"],
    ["AGENT_NOT_CONFIGURED", "no target is configured for the agent", "503"],
    ["AGENT_TIMEOUT", "no answer within `limits.callTimeoutMs`; the task may run", "504"],
    ["STREAM_TIME_LIMIT", "a stream lasted 1 h; the task continues: subscribe again", "504"],
    ["QUOTA_EXCEEDED", "the caller uses its quota of a limited resource", "429"],
    ["HOP_LIMIT_EXCEEDED", "agents call each other in a [loop](../a2a.md#limit-loops)", "429"],
    ["TOO_MANY_PUSH_CONFIGS", "the caller has 100 configurations of unfinished tasks", "429"],
    ["PUSH_QUEUE_FULL", "notifications of an agent wait for a slow receiver", "503"],
    ["NO_AGENT_CREDENTIAL", "no access token for the agent", "403"],
    ["INVALID_INPUT", "data violates the input schema; `pointer` has its place", "400"],
    ["UNKNOWN_PLACEHOLDER", "the request has an unknown placeholder", "400"],
    ["INVALID_OUTPUT", "data of the answer violates the output schema", "500"],
    ["AGENT_ANSWER_TOO_LARGE", "the answer exceeds `limits.responseBytes`", "500"],
    ["INVALID_AGENT_ANSWER", "the answer violates the protocol", "500"],
    ["NO_CARD", "the registration of the agent cannot be read", "500"],
    ["INVALID_CARD", "the registration of the agent has no valid card", "500"],
    ["GATEWAY_ERROR", "another failure of the gateway; see its log", "500"],
];

fn owned<const N: usize>(row: &[&str; N]) -> [String; N] {
    row.map(str::to_owned)
}

/// The reasons of the gateway's errors of A2A.
fn reasons_of_a2a() -> Vec<String> {
    let failure = scan::read("gateway-agent/src/a2a/failure.rs");
    let literals = failure.split('"').skip(1).step_by(2);
    let is_reason = |word: &&str| {
        word.contains('_')
            && word.starts_with(|char: char| char.is_ascii_uppercase())
            && word.chars().all(|char| char.is_ascii_uppercase() || char == '_')
            || *word == "QUARANTINED"
    };
    let mut found: BTreeSet<_> = literals.filter(is_reason).map(str::to_owned).collect();
    let error = scan::read("crates/a2a/src/error.rs");
    let (_, invalid) = error.split_once("INVALID_ANSWER: &str = \"").expect("the constant");
    found.extend(invalid.split('"').next().map(str::to_owned));
    let own = scan::function(&error, "fn is_own(self)");
    for source in scan::sources(&["gateway-agent/src/a2a", "crates/a2a/src"]) {
        let set = source.split(".with_reason(\"").skip(1);
        found.extend(set.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
        for made in source.split("Failure::new(ErrorKind::").skip(1) {
            let end = made.find("\n    }\n").or_else(|| made.find("\n}\n"));
            let function = &made[..end.unwrap_or(made.len())];
            let kind = made.split(',').next().unwrap_or_default();
            if own.contains(&format!("Self::{kind}\n")) && !function.contains(".with_reason(") {
                found.insert(upper_case(kind));
            }
        }
    }
    // Rejected requests have this reason, too.
    found.remove("UNAUTHENTICATED");
    found.into_iter().collect()
}

/// The reason of a kind: `AGENT_NOT_FOUND` for `AgentNotFound`.
fn upper_case(kind: &str) -> String {
    let mut reason = String::new();
    for char in kind.chars() {
        if char.is_ascii_uppercase() && !reason.is_empty() {
            reason.push('_');
        }
        reason.push(char.to_ascii_uppercase());
    }
    reason
}

#[test]
fn reference_of_gateway_errors_is_current() {
    let files = [
        "gateway-agent/src/mcp/rejection.rs",
        "gateway-agent/src/ingress/error.rs",
        "gateway-agent/src/identity/challenge.rs",
    ];
    let found: Vec<_> = files.iter().flat_map(|file| scan::words(&scan::read(file))).collect();
    let mut documented: Vec<_> =
        REJECTIONS.iter().flat_map(|[reasons, ..]| reasons.split(' ')).collect();
    documented.sort_unstable();
    documented.dedup();
    assert_same("reasons of rejections", &documented, &found);

    let protocol = scan::read("crates/gateway-protocol/src/jsonrpc.rs");
    let codes = protocol.split(": i64 = ").skip(1).filter_map(|rest| rest.split(';').next());
    let codes: Vec<_> = codes.map(|code| code.replace('_', "")).collect();
    let rejections = REJECTIONS.iter().map(|row| row[2]);
    let calls = CALLS.iter().map(|row| row[1]);
    let used: String = rejections.chain(calls).collect();
    let unused: Vec<_> = codes.iter().filter(|code| !used.contains(code.as_str())).collect();
    assert!(!codes.is_empty() && unused.is_empty(), "not documented: {unused:?}");

    let failure = scan::read("crates/gateway-compose/src/failure.rs");
    let mut found = scan::words(scan::function(&failure, "fn reason(&self)"));
    found.push("invalid-value".to_owned());
    found.sort();
    found.dedup();
    let documented: Vec<_> = STEPS.iter().map(|[reason, _]| *reason).collect();
    assert_same("reasons of steps", &documented, &found);

    let found = reasons_of_a2a();
    let documented: Vec<_> = AGENTS.iter().map(|[reason, ..]| *reason).collect();
    assert_same("reasons of A2A", &documented, &found);

    let rejections: Vec<_> = REJECTIONS
        .iter()
        .map(|[reasons, cause, code, modern, legacy]| {
            let reasons: Vec<_> = reasons.split(' ').map(|word| format!("`{word}`")).collect();
            let [cause, code, modern, legacy] = owned(&[cause, code, modern, legacy]);
            [reasons.join(", "), cause, code, modern, legacy]
        })
        .collect();
    let calls: Vec<_> = CALLS.iter().map(owned).collect();
    let agents: Vec<_> = AGENTS
        .iter()
        .map(|[reason, cause, status]| {
            [format!("`{reason}`"), (*cause).to_owned(), (*status).to_owned()]
        })
        .collect();
    let steps: Vec<_> = STEPS
        .iter()
        .map(|[reason, meaning]| [format!("`{reason}`"), (*meaning).to_owned()])
        .collect();
    let body = format!(
        "The last columns are the HTTP status for clients of 2026-07-28 (modern) and of earlier \
         revisions (legacy). [Handle errors](../errors.md#gateway-errors) has an overview.\n\n## \
         Rejected requests\n\nMetric `gateway_requests_rejected_total`.\n\n{}\n## Calls\n\n`result` \
         is a result with `isError: true`.\n\n{}\n## A2A\n\n`ErrorInfo` has the domain \
         `gateway-agent` and one of these reasons, the reason of a \
         [policy](audit-fields.md#decisions), or the reason of a rejected request above in upper \
         case. JSON-RPC has the code -32000 and the same status. For status 400 and 500 it has \
         -32602 and -32603 with status 200. Errors of agents keep their code and domain. [Use \
         agents](../a2a.md#handle-errors) has an overview.\n\n{}\n## Failed steps\n\nA failed \
         [composition](../compositions.md) names one of these reasons in `registry/failure` and \
         `registry/steps`; `retryIf`, `failureIf` and compensations read it as `$.reason`. A failed \
         call of a step has its [outcome](audit-fields.md#outcomes) as the reason.\n\n{}",
        reference_pages::table(["reason", "cause", "code", "modern", "legacy"], &rejections),
        reference_pages::table(["cause", "code", "modern", "legacy"], &calls),
        reference_pages::table(["reason", "cause", "status"], &agents),
        reference_pages::table(["reason", "meaning"], &steps),
    );
    reference_pages::check("gateway-errors.md", "Errors of the gateway", &body);
}
