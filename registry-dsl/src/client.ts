/** The registry's API over HTTP: Connect's unary protocol with JSON. */

import { changesOf, kindOf, type Change } from "./changes.ts";
import type { Diagnostic } from "./diagnostic.ts";
import { DslError } from "./errors.ts";
import { isObject, type JsonObject, type JsonValue } from "./json.ts";
import { keyText, type EntityKey } from "./key.ts";

/** A finding about a change of a batch. */
export interface ChangeDiagnostic extends Diagnostic {
  /** The index of the change. */
  readonly change: number | undefined;
}

/** The kind of a failed request. */
export type FailureKind = "unreachable" | "rejected" | "invalid" | "server" | "invalid-response";

/** A failed request. */
export class RegistryFailure extends Error {
  override readonly name = "RegistryFailure";
  readonly kind: FailureKind;
  /** The machine-readable reason of the registry, or the code of the protocol. */
  readonly reason: string;
  /** The findings of a rejected batch. */
  readonly diagnostics: readonly ChangeDiagnostic[];

  constructor(kind: FailureKind, message: string, reason = "", diagnostics: readonly ChangeDiagnostic[] = []) {
    super(message);
    this.kind = kind;
    this.reason = reason;
    this.diagnostics = diagnostics;
  }
}

/** Registry servers and the credentials for them. */
export interface ClientOptions {
  /** The servers of one registry: `https://HOST:PORT`. */
  readonly servers: readonly string[];
  /** An API token. */
  readonly token?: string | undefined;
  /** Sends the token over unencrypted connections to other hosts, too. */
  readonly allowInsecureToken?: boolean | undefined;
}

/** The effect of one change. */
export interface PlannedChange {
  readonly key: EntityKey;
  /** `register`, `deprecate`, `retire`, `restore`, `unchanged`, or an effect of a newer registry. */
  readonly effect: string;
  readonly digest: string;
}

/** The result of a batch. */
export interface Applied {
  readonly revision: number;
  readonly committed: boolean;
  readonly plan: readonly PlannedChange[];
  /** Findings with pointers into the file. */
  readonly diagnostics: readonly Diagnostic[];
}

/** The text of a commit. */
export interface CommitFields {
  readonly message?: string;
  readonly author?: string;
  /** Makes retries safe. */
  readonly requestId?: string;
  readonly baseRevision?: number;
  readonly allowPolicyBreak?: boolean;
}

const CALL_MILLIS = 60_000;
/** Maximum number of attempts, and the wait after the first. The wait doubles after each attempt. */
const ATTEMPTS = 4;
const FIRST_WAIT_MILLIS = 250;

/** Reasons after which a retry may succeed. */
const TRANSIENT = [
  "CONTENTION",
  "DRAINING",
  "REQUEST_MEMORY_LIMIT",
  "OUTCOME_UNKNOWN",
  "RATE_LIMITED",
  "SLOW_READER",
  "TOO_MANY_STREAMS",
  "WRITE_QUEUE_FULL",
];
/** Reasons that concern one server only. */
const OF_ONE_SERVER = ["DATABASE_SCHEMA_TOO_NEW", "DATABASE_UNAVAILABLE", "READ_ONLY"];

/** The codes of the protocol for rejected requests. */
const REJECTIONS = [
  "not_found",
  "invalid_argument",
  "aborted",
  "already_exists",
  "failed_precondition",
  "out_of_range",
  "permission_denied",
  "unauthenticated",
];

/** A client of one registry. */
export class RegistryClient {
  readonly #servers: readonly string[];
  readonly #token: string | undefined;
  #current = 0;

  /** @throws {@link DslError} if the token would be sent unencrypted to another host. */
  constructor({ servers, token, allowInsecureToken }: ClientOptions) {
    const exposed = token === undefined || allowInsecureToken ? undefined : servers.find((one) => !isPrivate(one));
    if (exposed !== undefined) {
      throw new DslError(
        "token-exposed",
        `the token would be sent to ${exposed} unencrypted`,
        "use https://, or `allowInsecureToken` on a trusted network",
      );
    }
    this.#servers = servers;
    this.#token = token;
  }

  /** The plan of a file, without a commit. Findings that would reject the batch are part of it. */
  plan(file: JsonValue, commit: CommitFields = {}): Promise<Applied> {
    const { requestId: _, ...fields } = commit;
    return this.#applyChanges(changesOf(file), fields, true);
  }

  /** Applies a file as one commit. */
  apply(file: JsonValue, commit: CommitFields): Promise<Applied> {
    return this.#applyChanges(changesOf(file), commit, false);
  }

  async #applyChanges(changes: readonly Change[], commit: CommitFields, validateOnly: boolean): Promise<Applied> {
    const { baseRevision, ...fields } = commit;
    const response = await this.#retried("RegistryService/ApplyChanges", {
      changes: changes.map(({ message }) => message),
      ...fields,
      ...(baseRevision === undefined ? {} : { baseRevision: String(baseRevision) }),
      validateOnly,
    }).catch((error: unknown) => {
      throw error instanceof RegistryFailure ? inFile(error, changes) : error;
    });
    return {
      revision: Number(response["revision"] ?? 0),
      committed: response["committed"] === true,
      plan: lines(objects(response["plan"]).map(planned)),
      diagnostics: objects(response["diagnostics"]).map((found) => located(diagnostic(found), changes)),
    };
  }

  /** The keys among these whose entities were retired at a revision. */
  async retired(keys: readonly JsonObject[], revision: number): Promise<EntityKey[]> {
    const found: EntityKey[] = [];
    for (let start = 0; start < keys.length; start += 1_000) {
      const response = await this.call("GraphService/GetDependents", {
        keys: keys.slice(start, start + 1_000),
        maxDepth: 0,
        at: { revision: String(revision) },
      });
      const graph = isObject(response["graph"]) ? response["graph"] : {};
      const nodes = objects(graph["nodes"]).filter((node) => node["lifecycleState"] === "LIFECYCLE_STATE_RETIRED");
      found.push(...nodes.flatMap((node) => keyOf(node["key"]) ?? []));
    }
    return found;
  }

  /** Repeats a request that failed for a transient reason, at the next server if there is one. */
  async #retried(method: string, body: JsonObject): Promise<JsonObject> {
    for (let attempt = 1, wait = FIRST_WAIT_MILLIS; ; attempt += 1, wait *= 2) {
      try {
        return await this.call(method, body);
      } catch (error) {
        if (attempt === ATTEMPTS || !(error instanceof RegistryFailure) || !this.#isRetryable(error)) throw error;
        await new Promise((resolve) => setTimeout(resolve, wait));
        this.#current = (this.#current + 1) % this.#servers.length;
      }
    }
  }

  #isRetryable({ kind, reason }: RegistryFailure): boolean {
    const isServerSpecific = this.#servers.length > 1 && OF_ONE_SERVER.includes(reason);
    return kind === "unreachable" || TRANSIENT.includes(reason) || isServerSpecific;
  }

  /** Calls a method of `registry.v1`. */
  async call(method: string, body: JsonObject): Promise<JsonObject> {
    const address = this.#servers[this.#current] as string;
    const headers = {
      "content-type": "application/json",
      "connect-protocol-version": "1",
      "connect-timeout-ms": String(CALL_MILLIS),
      ...(this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }),
    };
    const request: RequestInit = {
      method: "POST",
      headers,
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(CALL_MILLIS),
      // The API has no redirects; those of proxies turn a POST into a GET.
      redirect: "error",
    };
    let response: Response;
    let text: string;
    try {
      response = await fetch(`${address}/registry.v1.${method}`, request);
      text = await response.text();
    } catch (error) {
      throw new RegistryFailure("unreachable", `cannot reach the registry at ${address}: ${rootCause(error)}`);
    }
    const value = parse(text);
    if (response.ok && isObject(value)) return value;
    if (isObject(value) && typeof value["code"] === "string") throw failure(address, value["code"], value);
    const message = `the server at ${address} is not a registry (HTTP ${response.status}); the default port of a registry is 7070`;
    throw new RegistryFailure("invalid-response", `invalid response from the registry: ${message}`);
  }
}

/** Whether a connection is encrypted, or stays on this machine. */
export function isPrivate(server: string): boolean {
  const { protocol, hostname } = new URL(server);
  return protocol === "https:" || hostname === "localhost" || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
}

/** The innermost cause of an error: `connection refused` instead of `fetch failed`. */
function rootCause(error: unknown): string {
  // Errors of TLS have their reason apart from the place in the source of OpenSSL.
  type SystemError = Error & { readonly code?: string; readonly reason?: string };
  let cause = error as SystemError;
  while (cause.cause instanceof Error) cause = cause.cause as SystemError;
  if (cause.code === "ECONNREFUSED") return "connection refused";
  if (cause.code?.startsWith("ERR_SSL_") && cause.reason) return `TLS failed: ${cause.reason}`;
  return (cause.message || cause.code || String(cause)).toLowerCase();
}

function parse(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

/** The failure of a response of the registry. */
function failure(address: string, code: string, value: JsonObject): RegistryFailure {
  const message = typeof value["message"] === "string" ? value["message"] : "";
  const details = objects(value["details"]);
  // The registry repeats the encoded message of each detail as JSON.
  const detail = (type: string): JsonValue | undefined => details.find((one) => one["type"] === type)?.["debug"];
  const findings = detail("registry.v1.ValidationFailure");
  if (isObject(findings)) {
    const found = objects(findings["diagnostics"]).map(diagnostic);
    return new RegistryFailure("invalid", "rejected by validation", "VALIDATION_FAILED", found);
  }
  const info = detail("google.rpc.ErrorInfo");
  const reason = isObject(info) ? String(info["reason"] ?? "") : "";
  if (code === "unavailable" && reason === "") {
    return new RegistryFailure("unreachable", `cannot reach the registry at ${address}: ${message}`);
  }
  if (REJECTIONS.includes(code)) return new RegistryFailure("rejected", message, reason);
  return new RegistryFailure("server", `the registry failed: ${message}`, reason || codeName(code));
}

/** `deadline_exceeded` is `DeadlineExceeded`. */
function codeName(code: string): string {
  return code
    .split("_")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("");
}

function objects(value: JsonValue | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function keyOf(value: JsonValue | undefined): EntityKey | undefined {
  if (!isObject(value)) return undefined;
  const kind = kindOf(value["kind"]);
  return kind && { kind, name: String(value["name"] ?? ""), version: String(value["version"] ?? "") };
}

const ACTION = "CHANGE_ACTION_";
const EFFECTS = ["REGISTER", "DEPRECATE", "RETIRE", "RESTORE", "UNCHANGED"];

function planned(change: JsonObject): PlannedChange {
  const action = String(change["action"]).replace(ACTION, "");
  return {
    key: keyOf(change["key"]) ?? { kind: "schema", name: "", version: "" },
    effect: EFFECTS.includes(action) ? action.toLowerCase() : "unknown",
    digest: String(change["digest"] ?? ""),
  };
}

/** An entity of a file with its lifecycle is two changes. If neither has an effect, one line says so. */
function lines(changes: readonly PlannedChange[]): PlannedChange[] {
  const unchanged = new Set<string>();
  return changes.filter(({ effect, key }) => {
    if (effect !== "unchanged") return true;
    const isRepeated = unchanged.has(keyText(key));
    unchanged.add(keyText(key));
    return !isRepeated;
  });
}

function diagnostic(found: JsonObject): ChangeDiagnostic {
  return {
    code: String(found["code"]),
    severity: found["severity"] === "DIAGNOSTIC_SEVERITY_WARNING" ? "warning" : "error",
    entity: keyOf(found["entity"]) ?? null,
    change: typeof found["change"] === "number" ? found["change"] : undefined,
    pointer: String(found["pointer"] ?? ""),
    message: String(found["message"]),
    help: typeof found["help"] === "string" ? found["help"] : null,
  };
}

/** The same finding with a pointer into the file. */
function located({ change, ...found }: ChangeDiagnostic, changes: readonly Change[]): ChangeDiagnostic {
  const entity = change === undefined ? "" : (changes[change]?.pointer ?? "");
  return { ...found, change, pointer: `${entity}${found.pointer}` };
}

function inFile(failure: RegistryFailure, changes: readonly Change[]): RegistryFailure {
  const diagnostics = failure.diagnostics.map((found) => located(found, changes));
  return new RegistryFailure(failure.kind, failure.message, failure.reason, diagnostics);
}
