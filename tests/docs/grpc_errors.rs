//! The reasons of gRPC errors.

use crate::{assert_same, scan};

/// Reason, status code, meaning, remedy.
const REASONS: &[[&str; 4]] = &[
    [
        "REVISION_NOT_REACHED",
        "UNAVAILABLE",
        "the server did not reach `min_revision` within 5 s",
        "retry, or use another server",
    ],
    [
        "DIGEST_MISMATCH",
        "ABORTED",
        "`if_digest` of a change does not match the registered digest",
        "read again and decide again",
    ],
    [
        "VALIDATION_FAILED",
        "INVALID_ARGUMENT, FAILED_PRECONDITION, PERMISSION_DENIED",
        "the batch has errors; nothing was changed. Details: `registry.v1.ValidationFailure`",
        "correct the [findings](diagnostics.md); an error has about 5 KiB of them, a dry run 1 MiB",
    ],
    [
        "INVALID_REQUEST",
        "INVALID_ARGUMENT",
        "a field is missing or invalid (details: `google.rpc.BadRequest`); on Sync also no hello in time, or a message out of order",
        "correct the client",
    ],
    [
        "LIMIT_EXCEEDED",
        "INVALID_ARGUMENT",
        "a string or list exceeds its [limit](limits.md)",
        "send less",
    ],
    [
        "PAGE_TOKEN_INVALID",
        "INVALID_ARGUMENT",
        "a page token of another list, changed, or with other filters",
        "start again without it",
    ],
    [
        "INDEX_NOT_READY",
        "UNAVAILABLE",
        "the server has just started and is building the search index",
        "retry after 1 s",
    ],
    [
        "CREDENTIALS_MISSING",
        "UNAUTHENTICATED",
        "the server requires credentials",
        "send `authorization: Bearer TOKEN` (`--token-file`), or a client certificate",
    ],
    [
        "CREDENTIALS_INVALID",
        "UNAUTHENTICATED",
        "unknown, expired, revoked or foreign credentials (the server's log has the reason); also ends streams",
        "get a new token",
    ],
    [
        "PERMISSION_DENIED",
        "PERMISSION_DENIED",
        "the caller lacks the role (metadata `needsOneOf`), or a token exceeds its scopes",
        "request a token with that role from an admin",
    ],
    [
        "RATE_LIMITED",
        "RESOURCE_EXHAUSTED",
        "the principal exceeds `--rate-limit`, or its address has too many failed authentications",
        "retry after the `RetryInfo`",
    ],
    [
        "TOO_MANY_TOKENS",
        "RESOURCE_EXHAUSTED",
        "the limit of 2,000 active tokens is reached",
        "revoke some",
    ],
    ["NOT_FOUND", "NOT_FOUND", "no such entity, revision or active token", "do not retry"],
    [
        "MESSAGE_TOO_LARGE",
        "OUT_OF_RANGE",
        "the request exceeds `--max-message-bytes` (metadata `maxMessageBytes`)",
        "send smaller batches, or raise the limit",
    ],
    ["TIME_AHEAD", "OUT_OF_RANGE", "`at` is after today (UTC)", "request an earlier time"],
    [
        "REVISION_AHEAD",
        "OUT_OF_RANGE",
        "`at` is a future revision (metadata `currentRevision`)",
        "request an earlier one",
    ],
    [
        "VERIFICATION_RUNNING",
        "RESOURCE_EXHAUSTED",
        "the log is being verified for another caller",
        "retry after 5 s",
    ],
    [
        "UNRESOLVED",
        "NOT_FOUND",
        "no version meets a requirement (metadata `unresolved`: the number); the message lists the versions and why each was excluded",
        "relax the constraint, or use `return_partial_success`",
    ],
    [
        "UNIMPLEMENTED",
        "UNIMPLEMENTED",
        "no such method; over Connect also a stream, a `GET` with side effects, or an unknown compression",
        "use a client of this version; the message has the remedy for Connect",
    ],
    [
        "ORIGIN_DENIED",
        "PERMISSION_DENIED",
        "the request is from a web page of an origin that is not in `--cors-origin`, or names another host than localhost over the loopback interface",
        "allow the origin with `--cors-origin`",
    ],
    [
        "BASE_REVISION_MISMATCH",
        "ABORTED",
        "the registry is not at `base_revision` (metadata `currentRevision`)",
        "read again and send the new base",
    ],
    [
        "REQUEST_ID_REUSED",
        "ALREADY_EXISTS",
        "the author used the id for another commit within 7 days (metadata `revision`)",
        "use a new id",
    ],
    [
        "WRITE_QUEUE_FULL",
        "RESOURCE_EXHAUSTED",
        "too many writes wait; nothing was written",
        "retry with the same id after 500 ms",
    ],
    [
        "CONTENTION",
        "ABORTED",
        "other servers committed first several times; nothing was written",
        "retry with the same id after 500 ms",
    ],
    [
        "OUTCOME_UNKNOWN",
        "UNKNOWN",
        "the database was lost during the commit",
        "retry with the same id only, which returns the outcome",
    ],
    [
        "DEADLINE_EXCEEDED",
        "DEADLINE_EXCEEDED",
        "no response in time; a write may still be committed",
        "retry, a write with the same id",
    ],
    [
        "DRAINING",
        "UNAVAILABLE",
        "the server is stopping; nothing was written",
        "retry with the same id at another server; a follower resumes there",
    ],
    [
        "DATABASE_UNAVAILABLE",
        "UNAVAILABLE",
        "the database does not respond; reads and streams continue",
        "retry with the same id when `/readyz` has `database: writable`",
    ],
    [
        "RELAY_NOT_READY",
        "UNAVAILABLE",
        "a [relay](../operate/relays.md) has not reached its registry yet",
        "use another server, or retry later",
    ],
    [
        "READ_ONLY_RELAY",
        "FAILED_PRECONDITION",
        "a [relay](../operate/relays.md) accepts no writes and signs nothing (metadata `upstream`: the server that it follows)",
        "use the registry",
    ],
    [
        "READ_ONLY",
        "UNAVAILABLE",
        "the database accepts no writes, for example a standby",
        "an operator must act; retry later",
    ],
    [
        "DATABASE_FILE_MISSING",
        "UNAVAILABLE",
        "the SQLite file or its journal was deleted, moved or replaced",
        "an operator must [recover it](../operate/backup.md#recover-a-lost-sqlite-file)",
    ],
    [
        "DATABASE_FULL",
        "UNAVAILABLE",
        "the database has no space left",
        "an operator must act; retry later",
    ],
    [
        "DATABASE_SCHEMA_TOO_NEW",
        "UNAVAILABLE",
        "a newer server wrote data that this one cannot read",
        "use another server; [upgrade](../operate/upgrade.md) this one",
    ],
    [
        "DATABASE_CORRUPT",
        "DATA_LOSS",
        "stored data does not match its digests or chain, the log became shorter, or it has a foreign commit",
        "[restore](../operate/backup.md); the log has the place",
    ],
    [
        "INTERNAL",
        "INTERNAL",
        "a defect, or a manual change of the database",
        "see the server's log; report it",
    ],
    [
        "REGISTRY_MISMATCH",
        "FAILED_PRECONDITION",
        "the follower has another registry (metadata `registryId`)",
        "correct its address, or delete its cache (a relay: its database)",
    ],
    [
        "CHAIN_MISMATCH",
        "FAILED_PRECONDITION",
        "the follower has another history (metadata `revision`)",
        "find out which one was [restored](../operate/backup.md#restore-an-older-revision)",
    ],
    [
        "FOLLOWER_AHEAD",
        "FAILED_PRECONDITION",
        "the follower has later revisions than this server (metadata `currentRevision`)",
        "a lagging server: wait, or use another; after a restore as above",
    ],
    [
        "CAPABILITY_MISSING",
        "FAILED_PRECONDITION",
        "a policy is in force, and the follower does not support policies; also ends streams",
        "upgrade the follower",
    ],
    [
        "INVALID_ACK",
        "INVALID_ARGUMENT",
        "the follower acknowledged or rejected a revision that was not sent",
        "correct the follower",
    ],
    [
        "REQUEST_MEMORY_LIMIT",
        "RESOURCE_EXHAUSTED",
        "arriving requests use all their memory",
        "retry with the same id after 1 s",
    ],
    [
        "TOO_MANY_SCOPES",
        "RESOURCE_EXHAUSTED",
        "followers of this server use too many different scopes",
        "use a followed scope, everything, or another server",
    ],
    [
        "SCOPE_QUOTA_EXCEEDED",
        "RESOURCE_EXHAUSTED",
        "the caller follows too many different scopes",
        "use one of them, everything, or raise `--max-scopes-per-caller`",
    ],
    [
        "UPSTREAM_SCOPE_LIMIT",
        "RESOURCE_EXHAUSTED",
        "a [relay](../operate/relays.md) needs more scopes than a server above it allows; the message names the limit",
        "use a scope that is followed there, another server, or raise that limit",
    ],
    [
        "TOO_MANY_STREAMS",
        "RESOURCE_EXHAUSTED",
        "the server has its maximum of followers, or the gateway or relay its maximum of streams of recalls",
        "use another server, retry after 5 s, or close streams",
    ],
    [
        "SLOW_READER",
        "RESOURCE_EXHAUSTED",
        "the client read nothing for 30 s",
        "resume from the last revision; request the export again",
    ],
    [
        "GATEWAY_MAY_SPEND",
        "FAILED_PRECONDITION",
        "the gateway can still spend the rights to reclaim (metadata `retryAfter`: the end of this time)",
        "wait, or stop the gateway and wait; see [budgets](../budgets.md#reclaim-the-rights-of-a-lost-gateway)",
    ],
    [
        "ACCOUNT_CLOSED",
        "FAILED_PRECONDITION",
        "the account has no rights to reclaim",
        "nothing: its rights can be granted again",
    ],
    [
        "WINDOW_CLOSED",
        "FAILED_PRECONDITION",
        "the window of the budget is over, or starts later (metadata `currentWindow`)",
        "use the current window",
    ],
    [
        "AMOUNT_OUT_OF_RANGE",
        "OUT_OF_RANGE",
        "the changed amount does not fit",
        "use a smaller amount",
    ],
    [
        "UPSTREAM_UNAVAILABLE",
        "UNAVAILABLE",
        "a [relay](../operate/relays.md) cannot forward to its upstream (metadata `upstream`); the message has the reason",
        "retry; give the credential of the relay the role `relay`, or repair the connection",
    ],
    [
        "UNKNOWN_GENERATION",
        "FAILED_PRECONDITION",
        "a report has a generation that the ledger cannot have had",
        "connect the gateway to its own registry, or restart it",
    ],
    [
        "PROCESS_RUNNING",
        "FAILED_PRECONDITION",
        "a gateway ends a process of another owner that still reports: `PATH.spend` is a copy, or the gateway has a new name",
        "delete the copy; after a change of the name, the gateway retries by itself",
    ],
    [
        "LEDGER_TRANSACTION_FAILED",
        "UNAVAILABLE",
        "the transaction of a report or an approval did not complete",
        "repeat the message",
    ],
    [
        "APPROVAL_NOT_PENDING",
        "FAILED_PRECONDITION",
        "the approval request is not pending (metadata `state`)",
        "nothing; the caller repeats the call to request another approval",
    ],
    [
        "APPROVER_INELIGIBLE",
        "PERMISSION_DENIED",
        "the caller may not decide about this approval request; the message has the reason",
        "sign in as another person, or with an [identity provider](../approvals.md#decide)",
    ],
    [
        "APPROVAL_DECIDED",
        "FAILED_PRECONDITION",
        "the caller has approved the request, or its approval is not needed any longer",
        "wait for other approvers",
    ],
    [
        "APPROVAL_SEPARATELY",
        "FAILED_PRECONDITION",
        "a batch does not approve requests of policies with `fourEyes` or a quorum",
        "approve the request separately",
    ],
    [
        "APPROVAL_NOT_OPEN",
        "FAILED_PRECONDITION",
        "the request has ended, or the call was sent (metadata `state`)",
        "nothing",
    ],
    [
        "GRANT_NOT_PERMITTED",
        "FAILED_PRECONDITION",
        "a policy permits no standing grant, or an earlier end only (metadata `latestEnd`)",
        "approve this call only, or choose an earlier end",
    ],
    [
        "TOO_MANY_GRANTS",
        "FAILED_PRECONDITION",
        "the requester has 20 standing grants",
        "revoke one, or approve this call only",
    ],
    ["CANCELLED", "CANCELLED", "the client cancelled", "–"],
];

#[test]
fn reference_of_grpc_errors_is_current() {
    let is_reason = |text: &str| {
        text.len() > 3 && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    let sources =
        scan::sources(&["registry-server/src/grpc/status.rs", "registry-server/src/grpc/status"]);
    let texts = sources.iter().flat_map(|source| source.split('"').skip(1).step_by(2));
    let mut found: Vec<_> = texts.filter(|text| is_reason(text)).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    let documented: Vec<_> = REASONS.iter().map(|[reason, ..]| *reason).collect();
    assert_same("reasons of gRPC errors", &documented, &found);
    let rows: Vec<_> = REASONS
        .iter()
        .map(|[reason, code, meaning, remedy]| {
            [
                format!("`{reason}`"),
                format!("`{code}`"),
                (*meaning).to_owned(),
                (*remedy).to_owned(),
            ]
        })
        .collect();
    let body = format!(
        "Each error has a `google.rpc.ErrorInfo` with the domain `registry` and one of these \
         reasons. [Handle errors](../errors.md#grpc-errors) explains retries and request \
         ids.\n\n{}",
        reference_pages::table(["reason", "status", "meaning", "remedy"], &rows),
    );
    reference_pages::check("grpc-errors.md", "Reasons of gRPC errors", &body);
}
