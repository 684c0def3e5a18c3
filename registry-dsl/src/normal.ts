/**
 * The normal form of documents: the order of members, omitted defaults, and one spelling of amounts, durations and
 * lists. The registry writes documents in this form. Invalid values stay unchanged, so that validation reports them.
 */

import { compareCodePoints, compareTexts, isObject, type JsonObject, type JsonValue, type Node } from "./json.ts";
import type { Kind } from "./key.ts";

/** Converts a value to its normal form. `undefined`: the member is omitted. */
type Normal = (value: JsonValue) => Node | undefined;

/** The members of an object in their order. A `null` counts as absent. */
interface Shape {
  readonly [name: string]: Normal;
}

const open: Normal = (value) => value;

/** Omits one value. */
const unless =
  (omitted: JsonValue): Normal =>
  (value) =>
    value === omitted ? undefined : value;

/** Omits an object that is empty. */
const unlessEmpty =
  (normal: Normal): Normal =>
  (value) => {
    const node = normal(value);
    const isEmpty = node instanceof Map ? node.size === 0 : isObject(node) && Object.keys(node).length === 0;
    return isEmpty ? undefined : node;
  };

/** An object of the registry's own. Members without a place in the shape follow, so that they are reported. */
const struct =
  (shape: Shape, prepare = (value: JsonObject): JsonObject => value): Normal =>
  (value) => {
    if (!isObject(value)) return value;
    const members = prepare(value);
    const found = new Map<string, Node>();
    for (const [name, normal] of Object.entries(shape)) {
      const member = Object.hasOwn(members, name) ? members[name] : undefined;
      const node = member === undefined || member === null ? undefined : normal(member);
      if (node !== undefined) found.set(name, node);
    }
    const isUnknown = (name: string): boolean => name !== "$comment" && !Object.hasOwn(shape, name);
    for (const name of Object.keys(members).filter(isUnknown).sort(compareTexts)) {
      found.set(name, members[name] as JsonValue);
    }
    return found;
  };

/** A list that is written even if it is empty. */
const list =
  (item: Normal = open): Normal =>
  (value) =>
    Array.isArray(value) ? value.map((one: JsonValue) => item(one) ?? one) : value;

/** A list that is omitted if it is empty. */
const optionalList =
  (item: Normal = open): Normal =>
  (value) =>
    Array.isArray(value) && value.length === 0 ? undefined : list(item)(value);

/** A set of texts in a fixed order. */
const ordered =
  (order: readonly string[]): Normal =>
  (value) => {
    if (!Array.isArray(value) || !value.every((one) => typeof one === "string" && order.includes(one))) return value;
    return value.length === 0 ? undefined : order.filter((one) => value.includes(one));
  };

const AMOUNT = /^(0|[1-9]\d*)(?:\.(\d{1,6}))?$/;

/** `"1.50"` is `"1.5"`. */
const amount: Normal = (value) => {
  const parts = typeof value === "string" ? AMOUNT.exec(value) : null;
  if (parts === null) return value;
  const decimals = (parts[2] ?? "").replace(/0+$/, "");
  return decimals === "" ? (parts[1] as string) : `${parts[1]}.${decimals}`;
};

const DURATION = /^P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$/;
/** 1,000 days in seconds. */
const LONGEST_DURATION = 86_400_000n;

/** `PT60S` is `PT1M`. */
function durationText(text: string): string {
  const parts = DURATION.exec(text);
  if (parts === null) return text;
  const [days, hours, minutes, rest] = parts.slice(1, 5).map((part) => BigInt(part ?? 0)) as [
    bigint,
    bigint,
    bigint,
    bigint,
  ];
  const seconds = days * 86_400n + hours * 3_600n + minutes * 60n + rest;
  if (seconds === 0n || seconds > LONGEST_DURATION) return text;
  const part = (count: bigint, unit: string): string => (count === 0n ? "" : `${count}${unit}`);
  const time = part((seconds / 3_600n) % 24n, "H") + part((seconds / 60n) % 60n, "M") + part(seconds % 60n, "S");
  return `P${part(seconds / 86_400n, "D")}${time === "" ? "" : `T${time}`}`;
}

const duration: Normal = (value) => (typeof value === "string" ? durationText(value) : value);

const TIME = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.(\d+))?(?:Z|[+-]\d{2}:\d{2})$/i;

/** Times have milliseconds in UTC. The start of 1970 is the default. */
const anchor: Normal = (value) => {
  const parts = typeof value === "string" ? TIME.exec(value) : null;
  if (parts === null) return value;
  // The registry ignores digits beyond milliseconds.
  const text = (value as string)
    .replace(/\.(\d{1,3})\d*/, ".$1")
    .replace(" ", "T")
    .toUpperCase();
  const time = Date.parse(text);
  if (Number.isNaN(time)) return value;
  return time === 0 ? undefined : new Date(time).toISOString();
};

/** An hour has no time zone, so it is a fixed length. */
const budgetWindow: Normal = (value) => (value === "hour" ? "PT1H" : duration(value));

const alerts: Normal = (value) => {
  if (!Array.isArray(value) || !value.every((one) => typeof one === "number")) return value;
  return value.length === 0 ? undefined : [...new Set(value)].sort((a, b) => a - b);
};

const DEFAULT_APPROVER = "role:approver";

/** Approvers are a set: the caller, the role, then teams by name. */
const approvers: Normal = (value) => {
  const isApprover = (one: JsonValue): boolean =>
    typeof one === "string" && (one === "caller" || one === DEFAULT_APPROVER || /^team:.*\S/s.test(one));
  if (!Array.isArray(value) || value.length === 0 || !value.every(isApprover)) return value;
  const rank = (one: string): number => ["caller", DEFAULT_APPROVER].indexOf(one) >>> 0;
  const sorted = [...new Set(value as string[])].sort((a, b) => rank(a) - rank(b) || compareCodePoints(a, b));
  return sorted.length === 1 && sorted[0] === DEFAULT_APPROVER ? undefined : sorted;
};

const CLASSES = ["credential", "financial", "governmentId", "contact", "network"];

const actions = unlessEmpty(struct(Object.fromEntries(CLASSES.map((name) => [name, open]))));

const dependency = struct({ type: open, name: open, version: open, skill: open });

const SBOM_EXTENSION = "urn:agentgateway:sbom";

const sbomParams = struct({ depends: list(dependency) }, (params) =>
  params["depends"] === undefined || params["depends"] === null ? { ...params, depends: [] } : params,
);

const extension: Normal = (value) => {
  const isSbom = isObject(value) && value["uri"] === SBOM_EXTENSION;
  const params = isSbom ? sbomParams : unlessEmpty(open);
  return struct({ uri: open, description: open, required: open, params }, (members) =>
    isSbom && (members["params"] ?? null) === null ? { ...members, params: {} } : members,
  )(value);
};

/** Older files have `target`, and `defaults` and `hideFields` next to `source`. */
function currentTool(tool: JsonObject): JsonObject {
  const { source, defaults, hideFields, ...rest } = tool;
  if (!isObject(source)) return tool;
  const { target, ...current } = source;
  const outside = { ...(defaults ? { defaults } : {}), ...(hideFields ? { hideFields } : {}) };
  const server = current["server"] ?? target;
  return { ...rest, source: { ...outside, ...current, ...(server === undefined ? {} : { server }) } };
}

/** Empty lists are omitted next to others. Empty lists alone select nothing, which is an error. */
function currentSelector(members: JsonObject): JsonObject {
  const isEmpty = (value: JsonValue | undefined): boolean => Array.isArray(value) && value.length === 0;
  const resources = ["tools", "skills", "servers"];
  const selects = resources.some((name) => (members[name] ?? null) !== null && !isEmpty(members[name]));
  if (!selects) return members;
  const isKept = ([name, value]: [string, JsonValue]): boolean => !(resources.includes(name) && isEmpty(value));
  return Object.fromEntries(Object.entries(members).filter(isKept));
}

const skill = struct(
  {
    id: open,
    name: open,
    description: open,
    tags: list(),
    examples: optionalList(),
    inputModes: optionalList(),
    outputModes: optionalList(),
    inputSchema: open,
    outputSchema: open,
  },
  (members) => ((members["tags"] ?? null) === null ? { ...members, tags: [] } : members),
);

/** The lifecycle members follow those of the document. */
const LIFECYCLE: Shape = {
  deprecated: unless(false),
  retired: unless(false),
  deprecationMessage: open,
  replacement: open,
  sunsetDate: open,
  forceReason: open,
};

/** A retired entity is not deprecated too. */
function currentLifecycle(members: JsonObject): JsonObject {
  if (members["retired"] !== true) return members;
  const { deprecated: _, ...rest } = members;
  return rest;
}

const entity = (shape: Shape, prepare = (members: JsonObject): JsonObject => members): Normal =>
  struct({ ...shape, ...LIFECYCLE }, (members) => currentLifecycle(prepare(members)));

const ENTITIES: { readonly [K in Kind]: Normal } = {
  schema: entity({ name: open, version: open, description: open, schema: open, metadata: open }),
  server: entity({
    name: open,
    version: open,
    description: open,
    provides: list(struct({ tool: open, version: open })),
    exposes: optionalList(),
    metadata: open,
  }),
  tool: entity(
    {
      name: open,
      version: open,
      title: open,
      description: open,
      source: struct({
        server: open,
        serverVersion: open,
        tool: open,
        defaults: unlessEmpty(open),
        hideFields: optionalList(),
      }),
      spec: open,
      depends: optionalList(dependency),
      inputSchema: open,
      outputSchema: open,
      outputTransform: open,
      annotations: open,
      execution: open,
      _meta: open,
      metadata: open,
    },
    currentTool,
  ),
  agent: entity({
    name: open,
    version: open,
    description: open,
    url: open,
    protocolVersion: open,
    defaultInputModes: list(),
    defaultOutputModes: list(),
    skills: list(skill),
    capabilities: struct({
      streaming: open,
      pushNotifications: open,
      stateTransitionHistory: open,
      extensions: optionalList(extension),
    }),
    provider: struct({ organization: open, url: open }),
    security: optionalList(),
    securitySchemes: open,
    metadata: open,
  }),
  policy: entity({
    name: open,
    version: open,
    description: open,
    appliesTo: unlessEmpty(
      struct(
        {
          callers: open,
          tools: open,
          skills: open,
          servers: open,
          destructive: open,
        },
        currentSelector,
      ),
    ),
    mode: unless("enforce"),
    default: unless("allow"),
    authorization: struct({ cedar: open }),
    price: struct({
      reportedBy: open,
      maximum: amount,
      perCall: amount,
      failures: unless("charged"),
      perRound: amount,
    }),
    budgets: optionalList(
      struct({
        name: open,
        per: open,
        limit: amount,
        window: budgetWindow,
        timeZone: unless("UTC"),
        anchor,
        unpriced: unless("allow"),
        onUnavailable: (value) => (value === "deny" ? undefined : struct({ allow: amount })(value)),
        alertAt: alerts,
      }),
    ),
    rates: optionalList(
      struct({
        per: ordered(["caller", "agent", "principal", "tool"]),
        limit: open,
        window: duration,
        burst: open,
        reach: unless("gateway"),
      }),
    ),
    limits: struct({ trace: struct({ calls: open, hops: open, cost: amount }) }),
    inspection: struct({
      profile: open,
      arguments: actions,
      results: actions,
      except: optionalList(struct({ tool: open, pointer: open })),
      restoreFor: optionalList(),
      binary: unless("allow"),
    }),
    approval: struct({
      when: unless("always"),
      approvers,
      quorum: unless(1),
      fourEyes: unless(false),
      expiresAfter: duration,
      standingFor: duration,
      show: optionalList(),
    }),
    maxStaleness: duration,
    metadata: open,
  }),
};

/** The normal form of a document with its lifecycle members. */
export function normalDocument(kind: Kind, document: JsonValue): Node {
  return ENTITIES[kind](document) ?? document;
}
