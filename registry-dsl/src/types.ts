/**
 * The documents of a registry file.
 *
 * Generated from the JSON Schema of the registry by `npm run generate`. Do not edit.
 */

/** Name: 1 to 128 of the characters `A-Z a-z 0-9 _ . -`, but not `.` or `..`. */
export type Name = string;
/** Name of a server or agent, with an optional namespace: `name` with at most 128 characters, or `namespace/name` with at most 200. Characters: `A-Z a-z 0-9 _ . -`. */
export type NamespacedName = string;
/** Exact semantic version (semver 2.0.0), such as `1.4.0` or `2.0.0-rc.1`. Ranges, `*` and `latest` are not stored. */
export type Version = string;
/** Key of an entity: kind, name and exact version, such as `tool/fetch@1.2.3`. */
export type Key = string;
/** Day in UTC, such as `2026-12-31`. */
export type Date = string;
/** Duration of ISO 8601 in whole days, hours, minutes and seconds, from `PT1S` to `P1000D`. */
export type IsoDuration = string;
/** Amount of money as a decimal number with at most six decimals, such as `"0.015"`; not negative, at most 9223372036854.775807. */
export type Amount = string;
/** Name, or pattern of names: each `*` matches any characters. 1 to 256 of the characters `A-Z a-z 0-9 _ . - / *`. */
export type Pattern = string;
/** Name or pattern of agents, or `tag:` followed by a tag of agents. */
export type CallerPattern = string;
/** JSON pointer (RFC 6901) into the arguments, below their root, such as `/card/number`. */
export type ArgumentPointer = string;
/** JSONPath (RFC 9535), such as `$.items[*].id`. At most 1,024 bytes, 16 nested brackets and 4 nested filters. */
export type JsonPath = string;
/** Composition: one pattern. At most 16 nested patterns, and 256 steps and targets in total. */
export type Spec =
  | {
      /** Sequential steps. The first failure ends the pipeline. */
      pipeline: Pipeline;
    }
  | {
      /** Parallel calls of several targets, with aggregated results. */
      scatterGather: ScatterGather;
    }
  | {
      /** Selection of the matching items of an array. */
      filter: Filter;
    }
  | {
      /** Construction of an object from parts of the input. */
      schemaMap: Mappings;
    }
  | {
      /** One operation per item of an array. */
      mapEach: MapEach;
    }
  | {
      /** Steps whose effects are compensated in reverse order if a later one fails. */
      saga: Saga;
    }
  | {
      /** Repetition of an operation after a failure. */
      retry: Retry;
    }
  | {
      /** Time limit of an operation. */
      timeout: Timeout;
    }
  | {
      /** Cache of successful results. */
      cache: Cache;
    }
  | {
      /** Deduplication of calls with the same key. */
      idempotent: Idempotent;
    }
  | {
      /** Suspension of calls to a failing target. */
      circuitBreaker: CircuitBreaker;
    }
  | {
      /** Delivery of failures to a tool. */
      deadLetter: DeadLetter;
    }
  | {
      /** External storage of a large payload. */
      claimCheck: ClaimCheck;
    };
/** Call of a tool or of a skill of an agent, or a nested pattern. */
export type Operation =
  | {
      /** Called tool: its name, or an object with its name. */
      tool: Name | ToolCall;
    }
  | {
      /** Called skill of an agent. */
      agent: AgentCall;
    }
  | {
      /** Nested pattern. */
      pattern: Spec;
    };
/** Target: an operation with an optional input. */
export type ScatterTarget =
  | {
      /** Called tool: its name, or an object with its name. */
      tool: Name | ToolCall;
      /** Input of the target. Default: the input of the pattern. */
      input?: Binding;
    }
  | {
      /** Called skill of an agent. */
      agent: AgentCall;
      /** Input of the target. Default: the input of the pattern. */
      input?: Binding;
    }
  | {
      /** Nested pattern. */
      pattern: Spec;
      /** Input of the target. Default: the input of the pattern. */
      input?: Binding;
    };
/** Operation on the list of results. */
export type AggregationOp =
  | {
      /** Removes one level of nested arrays. */
      flatten: true;
    }
  | {
      /** Keeps the results as separate items. */
      concat: true;
    }
  | {
      /** Sorts the items. */
      sort: Sort;
    }
  | {
      /** Keeps the first item of each key. */
      dedupe: Dedupe;
    }
  | {
      /** Keeps the first items. */
      limit: Limit;
    }
  | {
      /** Merges objects; later members override earlier ones. */
      merge: true;
    };
/** Source of a field. */
export type FieldSource =
  | {
      /** Selection of a path. */
      path: JsonPath;
    }
  | {
      /** Literal value. */
      literal: unknown;
    }
  | {
      /** First selection that is neither missing nor null. */
      coalesce: Coalesce;
    }
  | {
      /** Text with placeholders. */
      template: Template;
    }
  | {
      /** Selected values as texts, joined. */
      concat: Concat;
    }
  | {
      /** Nested object. */
      nested: Mappings;
    };
/** Growth of the delays between attempts. */
export type Backoff =
  | {
      /** Constant delay. */
      fixed: FixedBackoff;
    }
  | {
      /** Growth by a constant increment. */
      linear: LinearBackoff;
    }
  | {
      /** Growth by a constant factor. */
      exponential: ExponentialBackoff;
    };
/** Source of the input of a step. */
export type Binding =
  | {
      /** Part of the input of the surrounding pattern. */
      input: PathBinding;
    }
  | {
      /** Part of the input of the surrounding pattern; short for `input`. */
      path: JsonPath;
    }
  | {
      /** Part of the result of an earlier step. */
      step: StepBinding;
    }
  | {
      /** Part of the result of an earlier step; another form of `step`. */
      reference: ReferenceBinding;
    }
  | {
      /** Literal value. */
      constant: unknown;
    }
  | {
      /** Object whose members are bindings. */
      construct: Construct;
    };
/** Source of the input of a compensation. */
export type CompensationBinding =
  | {
      /** Part of the input of the surrounding pattern. */
      input: PathBinding;
    }
  | {
      /** Part of the input of the surrounding pattern; short for `input`. */
      path: JsonPath;
    }
  | {
      /** Part of the result of an earlier step. */
      step: StepBinding;
    }
  | {
      /** Part of the result of an earlier step; another form of `step`. */
      reference: ReferenceBinding;
    }
  | {
      /** Literal value. */
      constant: unknown;
    }
  | {
      /** Object whose members are bindings. */
      construct: CompensationConstruct;
    }
  | {
      /** Part of the error that the saga compensates. */
      error: PathBinding;
    };

/** Registry file, version 2. A member with the value null is absent. Limits in bytes, the depth of objects, and references between entities cannot be expressed here; `registryctl validate` checks them. */
export interface RegistryFile {
  /** Version of the file format. */
  schemaVersion: "2.0";
  /** Reusable JSON Schemas. */
  schemas?: Schema[];
  /** MCP servers. */
  servers?: Server[];
  /** Tools and compositions. */
  tools?: Tool[];
  /** A2A agents. */
  agents?: Agent[];
  /** Policies about calls. */
  policies?: Policy[];
}
/** Reusable, versioned JSON Schema. Other schemas refer to it as `{ "$ref": "#Name:1.0.0" }`. */
export interface Schema {
  /** Name of the schema. */
  name: Name;
  /** Exact version of the schema. */
  version: Version;
  /** Description for people. */
  description?: string;
  /** The JSON Schema; draft 2020-12 unless its `$schema` names another. */
  schema: {[keyword: string]: unknown} | boolean;
  /** Open metadata, such as `owner`, `repository` and `tags`. Preserved unchanged. */
  metadata?: {
    [k: string]: unknown;
  };
  /** Whether the version is deprecated: it stays usable, and new dependencies get a warning. Default: false. */
  deprecated?: boolean;
  /** Whether the version is retired: new dependencies are rejected. Takes precedence over `deprecated`. Default: false. */
  retired?: boolean;
  /** Reason of the deprecation or retirement, for users of the entity. Requires `deprecated` or `retired`. */
  deprecationMessage?: string;
  /** Recommended replacement: kind, name and exact version. Requires `deprecated` or `retired`. */
  replacement?: Key;
  /** Day (UTC) from which the version may be removed. Requires `deprecated` or `retired`. */
  sunsetDate?: Date;
  /** Reason for retiring the version despite active dependents. Requires `deprecated` or `retired`. */
  forceReason?: string;
}
/** MCP server and the tool versions that it provides. */
export interface Server {
  /** Name of the server, with an optional namespace. */
  name: NamespacedName;
  /** Exact version of the server. */
  version: Version;
  /** Description for people. */
  description?: string;
  /** Tool versions that the server provides. */
  provides: Provision[];
  /** Further features that gateways expose to callers with access to one of its tools. Default: none. */
  exposes?: ("prompts" | "resources")[];
  /** Open metadata, such as `owner`, `repository` and `tags`. Preserved unchanged. */
  metadata?: {
    [k: string]: unknown;
  };
  /** Whether the version is deprecated: it stays usable, and new dependencies get a warning. Default: false. */
  deprecated?: boolean;
  /** Whether the version is retired: new dependencies are rejected. Takes precedence over `deprecated`. Default: false. */
  retired?: boolean;
  /** Reason of the deprecation or retirement, for users of the entity. Requires `deprecated` or `retired`. */
  deprecationMessage?: string;
  /** Recommended replacement: kind, name and exact version. Requires `deprecated` or `retired`. */
  replacement?: Key;
  /** Day (UTC) from which the version may be removed. Requires `deprecated` or `retired`. */
  sunsetDate?: Date;
  /** Reason for retiring the version despite active dependents. Requires `deprecated` or `retired`. */
  forceReason?: string;
}
/** Tool version that a server provides. */
export interface Provision {
  /** Registered name of the tool. */
  tool: Name;
  /** Exact version of the tool. */
  version: Version;
}
/** Tool: one of a server (`source`), perhaps with other arguments or another result, or a composition (`spec`). */
export interface Tool {
  /** Name used in calls. */
  name: Name;
  /** Exact version of the tool. */
  version: Version;
  /** Display title. Default: that of the server's tool. */
  title?: string;
  /** Description for the model. Default: that of the server's tool. */
  description?: string;
  /** Tool of an MCP server behind this one. Exactly one of `source` and `spec` is required. */
  source?: ToolSource;
  /** Composition of other tools and of skills of agents. Exactly one of `source` and `spec` is required. */
  spec?: Spec;
  /** Tools and agents that the composition uses, with exact versions. Default: none. */
  depends?: Dependency[];
  /** JSON Schema of the arguments. Default: that of the server's tool. */
  inputSchema?: {[keyword: string]: unknown} | boolean;
  /** JSON Schema of the structured result. Default: that of the server's tool. */
  outputSchema?: {[keyword: string]: unknown} | boolean;
  /** Projection of the result of the server's tool. */
  outputTransform?: Mappings;
  /** Annotations of MCP about the behavior. Default: those of the server's tool; of a composition, those of its tools combined. */
  annotations?: ToolAnnotations;
  /** Execution properties of MCP. Default: those of the server's tool. */
  execution?: ToolExecution;
  /** Metadata of the definition for MCP clients. Keys of MCP and keys that start with `registry/` are reserved. Default: those of the server's tool. */
  _meta?: {
    [k: string]: unknown;
  };
  /** Open metadata, such as `owner`, `repository` and `tags`. Preserved unchanged. */
  metadata?: {
    [k: string]: unknown;
  };
  /** Whether the version is deprecated: it stays usable, and new dependencies get a warning. Default: false. */
  deprecated?: boolean;
  /** Whether the version is retired: new dependencies are rejected. Takes precedence over `deprecated`. Default: false. */
  retired?: boolean;
  /** Reason of the deprecation or retirement, for users of the entity. Requires `deprecated` or `retired`. */
  deprecationMessage?: string;
  /** Recommended replacement: kind, name and exact version. Requires `deprecated` or `retired`. */
  replacement?: Key;
  /** Day (UTC) from which the version may be removed. Requires `deprecated` or `retired`. */
  sunsetDate?: Date;
  /** Reason for retiring the version despite active dependents. Requires `deprecated` or `retired`. */
  forceReason?: string;
}
/** Tool of an MCP server behind a registered tool. */
export interface ToolSource {
  /** Name of the registered server. */
  server?: NamespacedName;
  /** Exact version of the server. */
  serverVersion: Version;
  /** Name of the tool on that server. */
  tool: string;
  /** Values of omitted arguments. Texts may contain `${NAME}` for variables of the gateway. Default: none. */
  defaults?: {
    [k: string]: unknown;
  };
  /** Arguments that callers neither see nor set. Dotted paths reach nested objects. Default: none. */
  hideFields?: string[];
}
/** Tool or skill of an agent that a composition or an agent uses. */
export interface Dependency {
  /** Kind of the target. */
  type: "tool" | "agent";
  /** Name of the target. */
  name: NamespacedName;
  /** Exact version of the target. */
  version: Version;
  /** Id of the agent's skill. Only for agents. */
  skill?: string;
}
/** Hints of MCP about the behavior of a tool (`ToolAnnotations`). Further members are preserved. */
export interface ToolAnnotations {
  /** Display title. */
  title?: string;
  /** Whether the tool changes nothing. Default: false. */
  readOnlyHint?: boolean;
  /** Whether the tool may change or delete data, instead of only adding some. Default: true. */
  destructiveHint?: boolean;
  /** Whether a repeated call has no further effect. Default: false. */
  idempotentHint?: boolean;
  /** Whether the tool interacts with external entities. Default: true. */
  openWorldHint?: boolean;
  [k: string]: unknown;
}
/** Execution properties of MCP (`ToolExecution`). Further members are preserved. */
export interface ToolExecution {
  /** Whether a call runs as a task: never, as the caller chooses, or always. Default: forbidden. */
  taskSupport?: "forbidden" | "optional" | "required";
  [k: string]: unknown;
}
/** A2A agent: its card, and its dependencies in the extension `urn:agentgateway:sbom`. */
export interface Agent {
  /** Name of the agent, with an optional namespace. */
  name: NamespacedName;
  /** Exact version of the agent. */
  version: Version;
  /** Description for people and models. */
  description: string;
  /** URL of its A2A endpoint. */
  url: string;
  /** A2A protocol version of that endpoint, such as `1.0`. */
  protocolVersion: string;
  /** Accepted media types, unless a skill has its own. */
  defaultInputModes: string[];
  /** Produced media types, unless a skill has its own. */
  defaultOutputModes: string[];
  /** Skills of the agent. */
  skills: Skill[];
  /** Optional features of the protocol, and extensions. */
  capabilities: Capabilities;
  /** Organization that operates the agent. */
  provider?: Provider;
  /** Security requirements of A2A. Preserved unchanged. */
  security?: unknown[];
  /** Security schemes of A2A. Preserved unchanged. */
  securitySchemes?: {
    [k: string]: unknown;
  };
  /** Open metadata, such as `owner`, `repository` and `tags`. Preserved unchanged. */
  metadata?: {
    [k: string]: unknown;
  };
  /** Whether the version is deprecated: it stays usable, and new dependencies get a warning. Default: false. */
  deprecated?: boolean;
  /** Whether the version is retired: new dependencies are rejected. Takes precedence over `deprecated`. Default: false. */
  retired?: boolean;
  /** Reason of the deprecation or retirement, for users of the entity. Requires `deprecated` or `retired`. */
  deprecationMessage?: string;
  /** Recommended replacement: kind, name and exact version. Requires `deprecated` or `retired`. */
  replacement?: Key;
  /** Day (UTC) from which the version may be removed. Requires `deprecated` or `retired`. */
  sunsetDate?: Date;
  /** Reason for retiring the version despite active dependents. Requires `deprecated` or `retired`. */
  forceReason?: string;
}
/** Skill of an agent. */
export interface Skill {
  /** Id, unique within the agent. */
  id: string;
  /** Display name. */
  name: string;
  /** Description for people and models. */
  description: string;
  /** Keywords for search. Default: none. */
  tags?: string[];
  /** Example requests. Default: none. */
  examples?: string[];
  /** Accepted media types. Default: those of the agent. */
  inputModes?: string[];
  /** Produced media types. Default: those of the agent. */
  outputModes?: string[];
  /** JSON Schema of the input data. */
  inputSchema?: {[keyword: string]: unknown} | boolean;
  /** JSON Schema of the output data. */
  outputSchema?: {[keyword: string]: unknown} | boolean;
}
/** Optional features of the protocol that an agent supports. */
export interface Capabilities {
  /** Whether it streams responses. */
  streaming?: boolean;
  /** Whether it pushes updates of tasks to webhooks. */
  pushNotifications?: boolean;
  /** Whether it keeps the history of task states. */
  stateTransitionHistory?: boolean;
  /** Extensions of the protocol. At most one declares dependencies. Default: none. */
  extensions?: Extension[];
}
/** Extension of the protocol. */
export interface Extension {
  /** Identifier of the extension. `urn:agentgateway:sbom` declares the dependencies of the agent. */
  uri: string;
  /** Purpose of the extension for this agent. */
  description?: string;
  /** Whether clients must support it. */
  required?: boolean;
  /** Parameters of the extension. */
  params?: {
    [k: string]: unknown;
  };
}
/** Parameters of the extension `urn:agentgateway:sbom`. */
export interface DependencyParams {
  /** Tools and agents that the agent uses, with exact versions. Default: none. */
  depends?: Dependency[];
}
/** Organization that operates an agent. */
export interface Provider {
  /** Name of the organization. */
  organization: string;
  /** URL of the organization. */
  url?: string;
}
/** Policy about calls: conditions, prices, limits, inspection and approvals. The highest version that is not a pre-release is in force. */
export interface Policy {
  /** Name of the policy. */
  name: Name;
  /** Exact version of the policy. */
  version: Version;
  /** Description for people. */
  description?: string;
  /** Selected calls. Default: all calls. */
  appliesTo?: AppliesTo;
  /** Whether violations are rejected (`enforce`), or only counted and recorded (`audit`). Default: enforce. */
  mode?: "enforce" | "audit";
  /** Decision about selected calls that no `permit` of `authorization` allows. Default: allow. */
  default?: "allow" | "deny";
  /** Conditions of the selected calls. */
  authorization?: Authorization;
  /** Price of the selected calls. The highest price of all policies that select a call applies. */
  price?: Price;
  /** Limits on spending. Default: none. */
  budgets?: Budget[];
  /** Maximum rates of calls. Default: none. */
  rates?: Rate[];
  /** Limits on related calls. */
  limits?: Limits;
  /** Actions on credentials and personal data in arguments and results. */
  inspection?: Inspection;
  /** Approval that the selected calls need. */
  approval?: Approval;
  /** Maximum age of the catalog that decides about a selected call, at least `PT25S`. Default: that of the gateway. */
  maxStaleness?: IsoDuration;
  /** Open metadata, such as `owner`, `repository` and `tags`. Preserved unchanged. */
  metadata?: {
    [k: string]: unknown;
  };
  /** Whether the version is deprecated: it stays usable, and new dependencies get a warning. Default: false. */
  deprecated?: boolean;
  /** Whether the version is retired: new dependencies are rejected. Takes precedence over `deprecated`. Default: false. */
  retired?: boolean;
  /** Reason of the deprecation or retirement, for users of the entity. Requires `deprecated` or `retired`. */
  deprecationMessage?: string;
  /** Recommended replacement: kind, name and exact version. Requires `deprecated` or `retired`. */
  replacement?: Key;
  /** Day (UTC) from which the version may be removed. Requires `deprecated` or `retired`. */
  sunsetDate?: Date;
  /** Reason for retiring the version despite active dependents. Requires `deprecated` or `retired`. */
  forceReason?: string;
}
/** Calls that a policy selects: of these callers, to these tools, skills or servers, with this effect. An absent member selects everything. */
export interface AppliesTo {
  /** Agents by name, or by tag: `tag:prod`. Default: all callers. */
  callers?: CallerPattern[];
  /** Names of tools. A name also selects the aliases of its tool. */
  tools?: Pattern[];
  /** Skills of agents: `AGENT/SKILL`. */
  skills?: Pattern[];
  /** Names of servers, with everything that they provide. */
  servers?: Pattern[];
  /** true: only destructive tools; false: only others. A tool without annotations is destructive. Default: both. */
  destructive?: boolean;
}
/** Conditions of calls. */
export interface Authorization {
  /** `permit` and `forbid` statements in Cedar. At most 65,536 bytes. */
  cedar: string;
}
/** Price of a call: fixed (`perCall`), or reported by its result (`reportedBy` and `maximum`). */
export interface Price {
  /** Price of one call. With `reportedBy`: charge for a result without a usable price, at most `maximum`. */
  perCall?: Amount;
  /** Place of the price in the result: member names separated by dots such as `_meta.cost`, or a JSON pointer (RFC 6901). */
  reportedBy?: string;
  /** Amount that a call reserves, and the charge for a call with an unknown outcome. Required by `reportedBy`, and only allowed with it. */
  maximum?: Amount;
  /** Charge for a call whose received result is an error: the price, or zero. Default: charged. */
  failures?: "charged" | "free";
  /** Charge for a round that asks the caller for input, at most the price or `maximum`. Default: zero. */
  perRound?: Amount;
}
/** Limit on the spending of calls. New versions of a policy keep the spending of budgets with the same name. */
export interface Budget {
  /** Name, unique in the policy. */
  name: Name;
  /** Calls that share the limit: those of one agent, of the agents of one team, of the credentials of one owner, of one tool, or all. */
  per: "agent" | "team" | "principal" | "tool" | "fleet";
  /** Maximum spending in a window. */
  limit: Amount;
  /** Periods whose spending is limited: one without an end (`total`), an hour, a period of the calendar, or a fixed duration such as `P14D`. */
  window: ("total" | "hour" | "day" | "week" | "month" | "year") | IsoDuration;
  /** IANA name of the time zone of a day, week, month or year, such as `Europe/Berlin`. Default: UTC. */
  timeZone?: string;
  /** Start of one of the periods of an hour or a fixed duration, in RFC 3339. Default: 1970-01-01T00:00:00Z. */
  anchor?: string;
  /** Decision about calls without a price. Default: allow. */
  unpriced?: "allow" | "deny";
  /** Decision about calls while a gateway cannot reach the ledger and has spent its grants: `deny`, or an amount that each gateway may spend in a window. Default: deny. */
  onUnavailable?: "deny" | Allowance;
  /** Fractions of the limit whose spending raises an alert, from 0.0001 to 1000 with at most four decimals. Default: none. */
  alertAt?: number[];
}
/** Spending without the ledger. */
export interface Allowance {
  /** Amount that each gateway may spend in a window beyond its grants. */
  allow: Amount;
}
/** Maximum rate of calls. */
export interface Rate {
  /** Properties whose values have separate counts. Default: one count for all calls. */
  per?: ("caller" | "agent" | "principal" | "tool")[];
  /** Maximum number of calls in a window. */
  limit: number;
  /** Window. */
  window: IsoDuration;
  /** Maximum number of calls at once. Default: `limit`. */
  burst?: number;
  /** Gateways whose calls share the rate: each its own, or all of the registry. Default: gateway. */
  reach?: "gateway" | "fleet";
}
/** Limits on related calls. */
export interface Limits {
  /** Limits on the calls of one trace, which stop accidental loops. */
  trace?: TraceLimits;
}
/** Limits on the calls of one trace. */
export interface TraceLimits {
  /** Maximum number of calls. Default: no limit. */
  calls?: number;
  /** Maximum depth of calls that cause each other. Default: no limit. */
  hops?: number;
  /** Maximum cost. Default: no limit. */
  cost?: Amount;
}
/** Actions on data that is found in the arguments and results of the selected calls. */
export interface Inspection {
  /** `strict` rejects all classes of data in both directions, and excludes `arguments` and `results`. Default: only the listed actions. */
  profile?: "strict";
  /** Actions on data in arguments, by class. Default: none. */
  arguments?: ArgumentActions;
  /** Actions on data in results, by class. Default: none. */
  results?: ResultActions;
  /** Arguments that the policy does not inspect. Default: none. */
  except?: InspectionException[];
  /** Tools whose arguments contain the values again that this policy replaced by placeholders. Default: none. */
  restoreFor?: Pattern[];
  /** Decision about images, audio and other content that is not read. Default: allow. */
  binary?: "allow" | "block";
}
/** Actions on data in arguments: record it, or reject the call. */
export interface ArgumentActions {
  /** Keys, tokens and passwords. */
  credential?: "log" | "block";
  /** Numbers of payment cards and bank accounts. */
  financial?: "log" | "block";
  /** Numbers of persons that governments issue. */
  governmentId?: "log" | "block";
  /** E-mail addresses and phone numbers. */
  contact?: "log" | "block";
  /** IP and MAC addresses. */
  network?: "log" | "block";
}
/** Actions on data in results: record it, replace it by a placeholder or a constant text, or reject the result. */
export interface ResultActions {
  /** Keys, tokens and passwords. */
  credential?: "log" | "tokenize" | "redact" | "block";
  /** Numbers of payment cards and bank accounts. */
  financial?: "log" | "tokenize" | "redact" | "block";
  /** Numbers of persons that governments issue. */
  governmentId?: "log" | "tokenize" | "redact" | "block";
  /** E-mail addresses and phone numbers. */
  contact?: "log" | "tokenize" | "redact" | "block";
  /** IP and MAC addresses. */
  network?: "log" | "tokenize" | "redact" | "block";
}
/** Arguments that a policy does not inspect. */
export interface InspectionException {
  /** Names of the tools. A name also selects the aliases of its tool. */
  tool: Pattern;
  /** Place in the arguments. Everything below it is excepted too. */
  pointer: ArgumentPointer;
}
/** Approval of calls by people. */
export interface Approval {
  /** Selected calls that need an approval: all, or those that may perform destructive updates or act in an open world. Default: always. */
  when?: "always" | "destructive";
  /** Principals that may decide; one match suffices: `role:approver`, `team:NAME`, or `caller` alone, which only confirms its own call. Default: role:approver. */
  approvers?: string[];
  /** Number of different people that must approve. Default: 1. */
  quorum?: number;
  /** Whether the caller and the owners of its agent are excluded from the decision. Default: false. */
  fourEyes?: boolean;
  /** Maximum wait for a decision, and for the call after the approval. */
  expiresAfter?: IsoDuration;
  /** Maximum duration of a standing grant. Default: each call needs its own approval. */
  standingFor?: IsoDuration;
  /** Arguments that approvers see. Default: all, redacted. */
  show?: ArgumentPointer[];
}
/** Call of a tool. */
export interface ToolCall {
  /** Name of the tool, which `depends` lists. */
  name: Name;
}
/** Call of a skill of an agent. */
export interface AgentCall {
  /** Name of the agent, which `depends` lists. */
  name: NamespacedName;
  /** Id of the skill. */
  skill: string;
}
/** Sequential steps. The result is that of the last step. */
export interface Pipeline {
  /** Steps in order. */
  steps: PipelineStep[];
}
/** Step of a pipeline. */
export interface PipelineStep {
  /** Id, unique within the pipeline. */
  id: string;
  /** Operation of the step. */
  operation: Operation;
  /** Input of the step. Default: the result of the previous step. */
  input?: Binding;
}
/** Parallel calls of several targets. */
export interface ScatterGather {
  /** Targets. */
  targets: ScatterTarget[];
  /** Operations on the results. */
  aggregation: Aggregation;
  /** Timeout in milliseconds, after which the results received so far are aggregated. Default: none. */
  timeoutMs?: number;
  /** Whether the first failure cancels the other targets. Default: false. */
  failFast?: boolean;
}
/** Operations on the results of a scatter-gather. */
export interface Aggregation {
  /** Operations in order. */
  ops: AggregationOp[];
}
/** Stable order of items: numbers before strings, missing values last. */
export interface Sort {
  /** Sorted field of an item. */
  field: JsonPath;
  /** Direction: smallest first (`asc`) or largest first (`desc`). */
  order: "asc" | "desc";
}
/** Removal of items with an earlier key. */
export interface Dedupe {
  /** Field of an item that is its key. */
  field: JsonPath;
}
/** Number of items. */
export interface Limit {
  /** Maximum number of items. */
  count: number;
}
/** Selection of the matching items of an array. */
export interface Filter {
  /** Condition on an item. */
  predicate: Predicate;
}
/** One operation per item of an array. The first failure cancels the rest. */
export interface MapEach {
  /** Operation per item. */
  inner: Operation;
  /** Maximum number of parallel operations. */
  maxConcurrency?: number;
}
/** Construction of an object from parts of another. */
export interface Mappings {
  /** Fields of the object with their sources: `field`, or `array[*].field` for each item of an array that another mapping builds. At least one. */
  mappings: {
    [k: string]: FieldSource;
  };
}
/** Alternative paths. */
export interface Coalesce {
  /** Paths in order. */
  paths: JsonPath[];
}
/** Text with placeholders. */
export interface Template {
  /** Text with placeholders such as `{name}`. */
  template: string;
  /** Paths of the placeholders, by name. */
  vars: {
    [k: string]: JsonPath;
  };
}
/** Joined texts. */
export interface Concat {
  /** Paths in order. */
  paths: JsonPath[];
  /** Text between the values. Default: empty. */
  separator?: string;
}
/** Steps whose effects are compensated in reverse order if a later one fails. */
export interface Saga {
  /** Steps in order. */
  steps: SagaStep[];
  /** Part of the input that identifies an instance. Default: each call is an instance of its own. */
  sagaIdPath?: JsonPath;
  /** Timeout in milliseconds, after which the saga is compensated. Default: none. */
  timeoutMs?: number;
  /** Result of a completed saga. Default: all results by step id. */
  output?: Binding;
}
/** Step of a saga. */
export interface SagaStep {
  /** Id, unique within the saga. */
  id: string;
  /** Display name. */
  name: string;
  /** Operation of the step. */
  action: Operation;
  /** Operation that undoes the action. */
  compensate?: Operation;
  /** Input of the action. Default: the result of the previous step. */
  input?: Binding;
  /** Input of the compensation. Requires `compensate`. Default: the input of the action. */
  compensateInput?: CompensationBinding;
  /** Whether to compensate if the outcome of the action is unknown. Requires `compensate`. Default: false. */
  compensateOnUnknown?: boolean;
}
/** Repetition of an operation after a failure. */
export interface Retry {
  /** Repeated operation. */
  inner: Operation;
  /** Maximum number of attempts, including the first. */
  maxAttempts: number;
  /** Delay between attempts. */
  backoff: Backoff;
  /** Random variation of a delay as a fraction. Default: 0. */
  jitter?: number;
  /** Condition on failures to retry. Default: all. */
  retryIf?: Predicate;
  /** Timeout of one attempt in milliseconds. Default: none. */
  attemptTimeoutMs?: number;
}
/** Time limit of an operation, which is cancelled on timeout. */
export interface Timeout {
  /** Limited operation. */
  inner: Operation;
  /** Timeout in milliseconds. */
  durationMs: number;
  /** Operation to run on timeout. */
  fallback?: Operation;
  /** Error message without a fallback. */
  message?: string;
}
/** Suspension of calls to a failing target. */
export interface CircuitBreaker {
  /** Name of the breaker. Breakers with the same name share their state. */
  name: string;
  /** Guarded operation. */
  inner: Operation;
  /** Number of failures that open the breaker. */
  failureThreshold: number;
  /** Window for counting failures in seconds. */
  failureWindowSeconds: number;
  /** Time in seconds until a trial call after opening. */
  resetTimeoutSeconds: number;
  /** Number of successes that close the breaker. Default: 1. */
  successThreshold?: number;
  /** Operation to run while the breaker is open. */
  fallback?: Operation;
  /** Condition on results that count as failures. Default: failed calls. */
  failureIf?: Predicate;
}
/** Cache of successful results. */
export interface Cache {
  /** Cached operation. */
  inner: Operation;
  /** Parts of the input that form the key, in addition to the identity of the caller. */
  keyPaths: JsonPath[];
  /** Time to live in seconds. */
  ttlSeconds: number;
  /** Additional seconds during which a stale result is served while it is refreshed. Default: none. */
  staleWhileRevalidateSeconds?: number;
  /** Condition on results to cache. Default: all successes. */
  cacheIf?: Predicate;
}
/** Deduplication of calls with the same key, including concurrent ones. */
export interface Idempotent {
  /** Deduplicated operation. */
  inner: Operation;
  /** Parts of the input that form the key. */
  keyPaths: JsonPath[];
  /** Retention of a key in seconds. */
  ttlSeconds?: number;
  /** Response to a duplicate: the result of the first call (`cached`), the result `null` (`skip`), or an error. */
  onDuplicate: "cached" | "skip" | "error";
}
/** Delivery of failures to a tool, with input, error and number of attempts. */
export interface DeadLetter {
  /** Guarded operation. */
  inner: Operation;
  /** Name of the tool that receives failures. */
  deadLetterTool: Name;
  /** Number of attempts. Default: 1. */
  maxAttempts?: number;
  /** Delay between attempts. Default: none. */
  backoff?: Backoff;
  /** Whether the caller receives the failure, too. */
  rethrow: boolean;
}
/** External storage of a large payload. The inner operation receives a reference. */
export interface ClaimCheck {
  /** Name of the tool that stores the payload. */
  storeTool: Name;
  /** Name of the tool that retrieves the payload. */
  retrieveTool: Name;
  /** Operation that receives the reference. */
  inner: Operation;
  /** Whether the result is the retrieved payload. */
  retrieveAtEnd: boolean;
}
/** Constant delay. */
export interface FixedBackoff {
  /** Delay in milliseconds. */
  delayMs: number;
}
/** Delay that grows by a constant increment. */
export interface LinearBackoff {
  /** First delay in milliseconds. */
  initialDelayMs: number;
  /** Increment in milliseconds. */
  incrementMs: number;
  /** Maximum delay, at least the first one, in milliseconds. */
  maxDelayMs: number;
}
/** Delay that grows by a constant factor. */
export interface ExponentialBackoff {
  /** First delay in milliseconds. */
  initialDelayMs: number;
  /** Maximum delay, at least the first one, in milliseconds. */
  maxDelayMs: number;
  /** Factor. Default: 2. */
  multiplier?: number;
}
/** Part of a value. */
export interface PathBinding {
  /** Path into the value. */
  path: JsonPath;
}
/** Part of the result of an earlier step. */
export interface StepBinding {
  /** Id of the step. */
  stepId: string;
  /** Path into its result. */
  path: JsonPath;
}
/** Part of the result of an earlier step. */
export interface ReferenceBinding {
  /** Id of the step. */
  step: string;
  /** Path into its result. */
  path: JsonPath;
}
/** Object whose members are bindings. */
export interface Construct {
  /** Bindings by member name. */
  fields: {
    [k: string]: Binding;
  };
}
/** Object whose members are bindings. */
export interface CompensationConstruct {
  /** Bindings by member name. */
  fields: {
    [k: string]: CompensationBinding;
  };
}
/** Comparison of one field. A comparison of different types is false, and a missing field satisfies only `ne`. */
export interface Predicate {
  /** Compared field. */
  field: JsonPath;
  /** Operator. `contains`: the field, a text or array, contains the value. `in`: the value, an array, contains the field. */
  op: "eq" | "ne" | "gt" | "gte" | "lt" | "lte" | "contains" | "in";
  /** Value to compare with; an array for `in`. */
  value: unknown;
}
