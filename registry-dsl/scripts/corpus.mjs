// Writes tests/corpus/documents.jsonl, one {"name","text"} per line: small registry files for every rule that needs no
// registry. tests/corpus/golden.jsonl has the findings of `registryctl validate` about each: see scripts/golden.mjs.
import { writeFileSync } from "node:fs";

const documents = [];
const add = (name, file) => documents.push({ name, text: typeof file === "string" ? file : JSON.stringify(file) });
const copy = (value) => structuredClone(value);

const V = "1.0.0";
const schema = (name, schema = true, more = {}) => ({ name, version: V, schema, ...more });
const server = (name, tools = [], more = {}) => ({
  name,
  version: V,
  provides: tools.map((tool) => ({ tool, version: V })),
  ...more,
});
const sourced = (name, of = "s", more = {}) => ({
  name,
  version: V,
  source: { server: of, serverVersion: V, tool: name },
  ...more,
});
const dependency = (name, version = V) => ({ type: "tool", name, version });
const composed = (name, spec, depends = [], more = {}) => ({
  name,
  version: V,
  spec,
  depends: depends.map((one) => (typeof one === "string" ? dependency(one) : one)),
  ...more,
});
const agent = (name, depends = [], more = {}) => ({
  name,
  version: V,
  description: "d",
  url: "https://a.example",
  protocolVersion: "1.0",
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  skills: [{ id: "s", name: "S", description: "d", tags: [] }],
  capabilities: { extensions: [{ uri: "urn:agentgateway:sbom", params: { depends } }] },
  ...more,
});
const policy = (name, more = {}) => ({ name, version: V, ...more });
const file = (lists) => ({ schemaVersion: "2.0", schemas: [], servers: [], tools: [], agents: [], ...lists });

const object = (properties, required = [], more = {}) => ({ type: "object", properties, required, ...more });
const text = { type: "string" };
const integer = { type: "integer" };

/** A file with tools of one server. */
const tools = (list, more = {}) => {
  const own = list
    .filter(({ source }) => source?.server === "s" && source.tool !== undefined)
    .map(({ source }) => source.tool);
  return file({
    servers: [
      server(
        "s",
        [...new Set(own)].filter((name) => list.some((tool) => tool.name === name)),
      ),
    ],
    tools: list,
    ...more,
  });
};
const search = sourced("search", "s", {
  inputSchema: object({ query: text, limit: integer }, ["query"]),
  outputSchema: object(
    { hits: { type: "array", items: object({ id: text, score: { type: "number" } }, ["id"]) }, next: text },
    ["hits"],
  ),
});
const store = sourced("store", "s", {
  inputSchema: object({ title: text, size: integer }, ["title"]),
  outputSchema: object({ id: text }, ["id"]),
});
const composition = (spec, more = {}, depends = ["search", "store"]) =>
  tools([
    search,
    store,
    composed("c", spec, depends, { inputSchema: object({ query: text, count: integer }, ["query"]), ...more }),
  ]);
const pipeline = (...steps) => ({ pipeline: { steps } });
const step = (id, tool, input) => ({
  id,
  operation: typeof tool === "string" ? { tool: { name: tool } } : tool,
  ...(input === undefined ? {} : { input }),
});
const construct = (fields) => ({ construct: { fields } });

// The structure of every kind: each member is removed, null, of another type, and next to an unknown one.
const full = file({
  schemas: [schema("A", { type: "object" }, { description: "d", metadata: { owner: "o" } })],
  servers: [server("s", ["t"], { description: "d", exposes: ["prompts"], metadata: { owner: "o" } })],
  tools: [
    sourced("t", "s", {
      title: "T",
      description: "d",
      inputSchema: object({ a: { $ref: "#A:1.0.0" }, b: text }),
      outputSchema: object({ c: text }),
      outputTransform: { mappings: { c: { path: "$.c" } } },
      annotations: { readOnlyHint: true, title: "T" },
      execution: { taskSupport: "optional" },
      _meta: { "com.example/a": 1 },
      metadata: { tags: [] },
      source: { server: "s", serverVersion: V, tool: "t", defaults: { b: "x" }, hideFields: ["b"] },
    }),
    composed(
      "c",
      pipeline(
        step("one", "t", construct({ a: { input: { path: "$" } } })),
        step("two", { agent: { name: "team/a", skill: "s" } }, { reference: { step: "one", path: "$.c" } }),
      ),
      ["t", { type: "agent", name: "team/a", version: V, skill: "s" }],
      { deprecated: true, deprecationMessage: "old", replacement: "tool/t@1.0.0", sunsetDate: "2030-01-31" },
    ),
  ],
  agents: [
    agent("team/a", [dependency("t")], {
      provider: { organization: "O", url: "https://o.example" },
      security: [{ a: [] }],
      securitySchemes: { a: {} },
      metadata: { owner: "o" },
      skills: [
        {
          id: "s",
          name: "S",
          description: "d",
          tags: ["x"],
          examples: ["e"],
          inputModes: ["text/plain"],
          outputModes: ["text/plain"],
          inputSchema: object({ text }),
          outputSchema: object({}),
        },
      ],
      capabilities: {
        streaming: true,
        pushNotifications: false,
        stateTransitionHistory: true,
        extensions: [
          { uri: "urn:agentgateway:sbom", description: "d", required: true, params: { depends: [dependency("t")] } },
        ],
      },
    }),
  ],
  policies: [
    policy("p", {
      description: "d",
      appliesTo: {
        callers: ["team/a", "tag:x"],
        tools: ["t"],
        skills: ["team/a/s"],
        servers: ["s"],
        destructive: false,
      },
      mode: "audit",
      default: "deny",
      authorization: { cedar: "permit(principal, action, resource);" },
      price: { reportedBy: "_meta.cost", maximum: "2", perCall: "1.5", failures: "free", perRound: "0.1" },
      budgets: [
        {
          name: "b",
          per: "team",
          limit: "10",
          window: "day",
          timeZone: "Europe/Berlin",
          unpriced: "deny",
          onUnavailable: { allow: "1" },
          alertAt: [0.5],
        },
        { name: "f", per: "agent", limit: "1", window: "P14D", anchor: "2026-01-05T00:00:00Z" },
      ],
      rates: [{ per: ["caller"], limit: 5, window: "PT1M", burst: 2, reach: "fleet" }],
      limits: { trace: { calls: 5, hops: 3, cost: "1" } },
      inspection: {
        arguments: { credential: "block" },
        results: { contact: "tokenize" },
        except: [{ tool: "t", pointer: "/b" }],
        restoreFor: ["t"],
        binary: "block",
      },
      approval: {
        when: "destructive",
        approvers: ["team:x"],
        quorum: 2,
        fourEyes: true,
        expiresAfter: "PT1H",
        standingFor: "P1D",
        show: ["/b"],
      },
      maxStaleness: "PT5M",
      metadata: { owner: "o" },
    }),
  ],
});
add("full", full);

const parentAt = (root, path) => path.slice(0, -1).reduce((value, name) => value[name], root);
/** The paths of members and items below the entity at `/LIST/INDEX`, without those of open JSON. */
function* paths(value, path) {
  if (path.length > 2) yield path;
  const isOpen = [
    "metadata",
    "securitySchemes",
    "inputSchema",
    "outputSchema",
    "defaults",
    "_meta",
    "annotations",
    "execution",
  ].includes(path.at(-1));
  if (typeof value === "object" && value !== null && !isOpen) {
    for (const name of Object.keys(value))
      yield* paths(value[name], [...path, Array.isArray(value) ? Number(name) : name]);
  }
}
const OTHERS = [7, "x", true, [], {}];
const typeOf = (value) => (Array.isArray(value) ? "array" : typeof value);
let turn = 0;
for (const list of ["schemas", "servers", "tools", "agents", "policies"]) {
  full[list].forEach((entity) => {
    const own = { schemaVersion: "2.0", [list]: [entity] };
    for (const path of paths(entity, [list, 0])) {
      const change = (label, edit) => {
        const changed = copy(own);
        edit(parentAt(changed, path), path.at(-1));
        add(`structure/${label}/${list}/${entity.name}/${path.slice(2).join("/")}`, changed);
      };
      const value = parentAt(own, path)[path.at(-1)];
      const others = OTHERS.filter((one) => typeOf(one) !== typeOf(value));
      turn += 1;
      if (typeof path.at(-1) === "string") change("removed", (parent, member) => delete parent[member]);
      change("type", (parent, member) => (parent[member] = others[turn % others.length]));
      if (turn % 3 === 0) change("null", (parent, member) => (parent[member] = null));
      if (typeOf(value) === "object")
        change("unknown", (parent, member) => (parent[member] = { ...value, bogus: 1, $comment: "ok" }));
    }
  });
}

// Texts that are no file.
for (const [name, body] of Object.entries({
  empty: "",
  word: "x",
  array: "[]",
  null: "null",
  number: "1",
  truncated: '{"schemaVersion": "2.0"',
  trailing: '{"schemaVersion": "2.0"} x',
  comma: '{"schemaVersion": "2.0",}',
  "no-version": "{}",
  "other-version": '{"schemaVersion": "3.0"}',
  "number-version": '{"schemaVersion": 2.0}',
  "unknown-member": '{"schemaVersion": "2.0", "tool": []}',
  "duplicate-top": '{"schemaVersion": "2.0", "tools": [], "tools": []}',
  "duplicate-nested":
    '{"schemaVersion":"2.0","schemas":[{"name":"A","version":"1.0.0","schema":{"type":"object","type":"string"}}]}',
  "duplicate-escaped":
    '{"schemaVersion":"2.0","schemas":[{"name":"A","version":"1.0.0","schema":{"a":1,"\\u0061":2}}]}',
  "lone-surrogate":
    '{"schemaVersion":"2.0","schemas":[{"name":"A","version":"1.0.0","description":"\\ud800","schema":true}]}',
  bom: '\ufeff{"schemaVersion": "2.0"}',
  "control-character": '{"schemaVersion":"2.0","\u0001":1}',
  "nested-deep": `{"schemaVersion":"2.0","schemas":${"[".repeat(200)}${"]".repeat(200)}}`,
  "list-of-numbers": '{"schemaVersion": "2.0", "tools": [1, null, "x"]}',
  "lists-of-other-types": '{"schemaVersion": "2.0", "tools": {}, "agents": 1, "policies": "x"}',
  "version-1": '{"schemaVersion": "1.0", "tools": [{"name": "t", "source": {"target": "s", "tool": "t"}}]}',
}))
  add(`text/${name}`, body);

// Numbers: beyond 64 bits, beyond doubles, and their spellings.
for (const number of [
  "9007199254740992",
  "9007199254740993",
  "-9007199254740993",
  "9223372036854775808",
  "18446744073709551616",
  "1e17",
  "1e400",
  "-0",
  "1.0",
  "1E2",
  "0.1",
  "123456789.123456789",
  "1e-400",
  "01",
  "+1",
  ".5",
  "0x1",
  "NaN",
]) {
  add(
    `number/${number}`,
    `{"schemaVersion":"2.0","schemas":[{"name":"A","version":"1.0.0","schema":{"const":${number}}}]}`,
  );
}
for (const amount of [
  "0",
  "1",
  "0.015",
  "0.0000001",
  "1e3",
  "-1",
  "+1",
  "01",
  "1.",
  ".5",
  "",
  " 1",
  "9223372036854.775807",
  "9223372036854.775808",
  "99999999999999999999999999",
  "1_000",
  "١",
]) {
  add(`amount/${amount}`, tools([search], { policies: [policy("p", { price: { perCall: amount } })] }));
}
add("amount/number", tools([search], { policies: [policy("p", { price: { perCall: 0.015 } })] }));
for (const duration of [
  "PT30S",
  "P1D",
  "PT0S",
  "P1000D",
  "P1001D",
  "P1Y",
  "P1M",
  "PT1.5S",
  "pt1s",
  "PT",
  "P",
  "1h",
  "PT1S1M",
  "P1DT",
  "PT99999999999999999999S",
  "P1W",
  "-PT1S",
]) {
  add(
    `duration/${duration}`,
    tools([search], { policies: [policy("p", { rates: [{ limit: 1, window: duration }] })] }),
  );
}
for (const [name, members] of Object.entries({
  hour: { window: "hour" },
  week: { window: "week" },
  fortnight: { window: "fortnight" },
  zone: { window: "day", timeZone: "Mars/Olympus" },
  alias: { window: "day", timeZone: "europe/berlin" },
  "fixed-zone": { window: "P14D", timeZone: "UTC" },
  "calendar-anchor": { window: "day", anchor: "2026-01-01T00:00:00Z" },
  "bad-anchor": { window: "P1D", anchor: "2026-13-01T00:00:00Z" },
  "alert-zero": { window: "day", alertAt: [0] },
  "alert-fine": { window: "day", alertAt: [0.00001] },
  "alert-above": { window: "day", alertAt: [1.5] },
  "alert-many": { window: "day", alertAt: Array.from({ length: 17 }, (_, index) => (index + 1) / 20) },
  deny: { window: "day", onUnavailable: "deny" },
  "allow-text": { window: "day", onUnavailable: "allow" },
}))
  add(
    `budget/${name}`,
    tools([search], {
      policies: [
        policy("p", { price: { perCall: "1" }, budgets: [{ name: "b", per: "fleet", limit: "5", ...members }] }),
      ],
    }),
  );
add(
  "budget/duplicate",
  tools([search], {
    policies: [
      policy("p", {
        price: { perCall: "1" },
        budgets: [1, 2].map(() => ({ name: "b", per: "fleet", limit: "5", window: "day" })),
      }),
    ],
  }),
);
add(
  "budget/unpriced",
  tools([search], { policies: [policy("p", { budgets: [{ name: "b", per: "fleet", limit: "5", window: "day" }] })] }),
);
add(
  "budget/redefined",
  tools([search], {
    policies: ["1.0.0", "1.1.0"].map((version, index) => ({
      name: "p",
      version,
      price: { perCall: "1" },
      budgets: [{ name: "b", per: "fleet", limit: "5", window: index ? "week" : "day" }],
    })),
  }),
);
add(
  "price/overlap",
  tools([search], { policies: ["p", "q"].map((name) => policy(name, { price: { perCall: "1" } })) }),
);
add(
  "price/per-call-above-maximum",
  tools([search], { policies: [policy("p", { price: { reportedBy: "_meta.cost", maximum: "1", perCall: "2" } })] }),
);
add("price/maximum-of-fixed", tools([search], { policies: [policy("p", { price: { perCall: "1", maximum: "2" } })] }));
for (const path of ["_meta.cost", "/_meta/cost", "/a~2", "a..b", "", "."])
  add(
    `price/path/${path}`,
    tools([search], { policies: [policy("p", { price: { reportedBy: path, maximum: "1" } })] }),
  );

// Names and versions.
for (const name of [
  "a",
  "A.b_c-1",
  "a b",
  "",
  ".",
  "..",
  "a/b",
  "a/b/c",
  "/a",
  "ä",
  "a\u200bb",
  "x".repeat(128),
  "x".repeat(129),
  `${"n".repeat(100)}/${"x".repeat(99)}`,
  `${"n".repeat(100)}/${"x".repeat(100)}`,
]) {
  const label = name.length > 20 ? `${name.length}-${name.includes("/")}` : name;
  add(`name/schema/${label}`, file({ schemas: [schema(name)] }));
  add(`name/server/${label}`, file({ servers: [server(name)] }));
}
for (const version of [
  "1.0.0",
  "1.0.0-rc.1",
  "1.0.0+build.5",
  "1.0.0-0.3.7",
  "1.0",
  "1",
  "v1.0.0",
  "01.0.0",
  "1.0.0-01",
  "1.0.0-",
  "1.0.0+",
  "latest",
  "*",
  "^1.0.0",
  "1.0.0 ",
  "",
  "18446744073709551615.0.0",
  "18446744073709551616.0.0",
  `1.0.0-${"a".repeat(260)}`,
]) {
  add(`version/${version.slice(0, 20)}`, file({ schemas: [{ name: "A", version, schema: true }] }));
}
add(
  "version/pre-release-line",
  file({
    schemas: ["1.0.0-rc.1", "1.0.0-rc.2", "1.0.0"].map((version) => ({
      name: "A",
      version,
      schema: object({ a: text }, version === "1.0.0" ? ["a"] : []),
    })),
  }),
);
add("version/same-key-twice", file({ schemas: [schema("A"), schema("A")] }));
add("version/same-key-other-content", file({ schemas: [schema("A"), schema("A", false)] }));

// JSON Schemas.
const used = (body, more = []) =>
  file({
    schemas: [schema("A", body), ...more],
    servers: [server("s", ["t"])],
    tools: [sourced("t", "s", { inputSchema: object({ a: { $ref: "#A:1.0.0" } }) })],
  });
for (const [name, body] of Object.entries({
  true: true,
  false: false,
  empty: {},
  "bad-type": { type: "text" },
  "bad-keyword": { minimum: "1" },
  "bad-required": { required: "a" },
  "unknown-keyword": { colour: "red" },
  "remote-ref": { $ref: "https://example.com/s" },
  "file-ref": { $ref: "other.json" },
  "root-ref": { properties: { a: { $ref: "#" } } },
  "defs-ref": { $defs: { a: text }, $ref: "#/$defs/a" },
  "missing-defs": { $ref: "#/$defs/a" },
  "anchor-ref": { $defs: { a: { $anchor: "x" } }, $ref: "#x" },
  "missing-anchor": { $ref: "#x" },
  "registered-ref": { $ref: "#B:1.0.0" },
  "missing-registered": { $ref: "#C:1.0.0" },
  "other-version": { $ref: "#B:1.0.1" },
  "bad-version": { $ref: "#B:1.0" },
  "latest-ref": { $ref: "#B:latest" },
  "colon-ref": { $ref: "#B:" },
  "build-ref": { $ref: "#B:1.0.0+b" },
  "encoded-ref": { $defs: { "a b": text }, $ref: "#/$defs/a%20b" },
  "id-ref": { $id: "https://example.com/x", $defs: { a: { $id: "y" } }, $ref: "y" },
  "dynamic-ref": { $dynamicAnchor: "n", properties: { a: { $dynamicRef: "#n" } } },
  "recursive-ref": { $recursiveRef: "#" },
  "draft-7": { $schema: "http://json-schema.org/draft-07/schema#", definitions: { a: text }, $ref: "#/definitions/a" },
  "draft-4": { $schema: "http://json-schema.org/draft-04/schema#", exclusiveMinimum: true, minimum: 1 },
  "unknown-draft": { $schema: "https://example.com/draft" },
  "meta-schema": { $ref: "https://json-schema.org/draft/2020-12/schema" },
  "self-cycle": { properties: { a: { $ref: "#A:1.0.0" } } },
  "bad-format": { format: "no-such" },
  "enum-empty": { enum: [] },
  "not-a-list": { allOf: {} },
  deep: { items: { items: { items: { items: { items: {} } } } } },
  "length-code-points": { const: "😀", maxLength: 1 },
  "property-names": { propertyNames: { pattern: "^[a-z]+$" } },
  "multiple-of-zero": { multipleOf: 0 },
  "min-length-negative": { minLength: -1 },
  "min-length-fraction": { minLength: 1.5 },
  "min-length-whole": { minLength: 1.0 },
}))
  add(`schema/${name}`, used(body, [schema("B", text)]));
add(
  "schema/cycle",
  file({ schemas: [schema("A", { items: { $ref: "#B:1.0.0" } }), schema("B", { items: { $ref: "#A:1.0.0" } })] }),
);
add("schema/unused", file({ schemas: [schema("A")] }));
for (const [name, inputSchema] of Object.entries({
  text: { type: "string" },
  none: {},
  true: true,
  false: false,
  list: { type: ["object", "null"] },
  ref: { $ref: "#A:1.0.0" },
})) {
  add(
    `schema/input/${name}`,
    file({ schemas: [schema("A", text)], servers: [server("s", ["t"])], tools: [sourced("t", "s", { inputSchema })] }),
  );
}

// Regular expressions: ECMA-262 against those of the engine.
for (const pattern of [
  "^a$",
  "(?=a)b",
  "(?!a)b",
  "(?<=a)b",
  "(?<!a)b",
  "(a)\\1",
  "(?<n>a)\\k<n>",
  "\\d+",
  "\\u0041",
  "\\u{1F600}",
  "\\x41",
  "\\cA",
  "\\p{L}",
  "\\p{Script=Greek}",
  "\\p{Emoji}",
  "[\\w-]",
  "[^]",
  "[]",
  "a{2,1}",
  "a{1001}",
  "(a{1000}){1000}",
  "(",
  "[",
  "*",
  "a**",
  "\\",
  "\\_",
  "(?i)a",
  "\\A",
  "\\z",
  "\\Z",
  "[[:alpha:]]",
  "$a",
  "a|",
  "(?:)",
  "\\b",
  "\\0",
  "/",
  "😀",
  "[😀-😂]",
  ".",
]) {
  add(`pattern/${pattern}`, used({ type: "string", pattern }));
}
add("keyword/typo", used({ type: "object", requried: ["a"], propertys: { a: true }, "x-requried": true }));
add("pattern/properties", used({ patternProperties: { "(?<=a)b": true, "(": true } }));

// Servers, tools and their sources.
add("provision/unknown", file({ servers: [server("s", ["t"])] }));
add(
  "provision/other-version",
  file({ servers: [{ name: "s", version: V, provides: [{ tool: "t", version: "2.0.0" }] }], tools: [sourced("t")] }),
);
add("source/unknown", file({ tools: [sourced("t", "nowhere")] }));
add("source/similar", file({ servers: [server("weather-server", [])], tools: [sourced("t", "weather-sever")] }));
add("source/not-provided", file({ servers: [server("s", [])], tools: [sourced("t")] }));
add(
  "source/alias",
  tools([search, sourced("alias", "s", { source: { server: "s", serverVersion: V, tool: "search" } })]),
);
add(
  "source/alias-of-unknown",
  tools([search, sourced("alias", "s", { source: { server: "s", serverVersion: V, tool: "find" } })]),
);
add(
  "source/upstream-name",
  file({
    servers: [server("s", ["dir_read"])],
    tools: [sourced("dir_read", "s", { source: { server: "s", serverVersion: V, tool: "dir/read all" } })],
  }),
);
add(
  "source/target-of-older-files",
  file({
    servers: [server("s", ["t"])],
    tools: [{ name: "t", version: V, source: { target: "s", serverVersion: V, tool: "t" }, defaults: { a: 1 } }],
  }),
);
add(
  "source/target-contradicts",
  file({
    servers: [server("s", ["t"])],
    tools: [{ name: "t", version: V, source: { target: "x", server: "s", serverVersion: V, tool: "t" } }],
  }),
);
add(
  "source/defaults-contradict",
  file({
    servers: [server("s", ["t"])],
    tools: [
      {
        name: "t",
        version: V,
        source: { server: "s", serverVersion: V, tool: "t", defaults: { a: 1 } },
        defaults: { a: 2 },
      },
    ],
  }),
);
add("implementation/both", tools([{ ...search, spec: pipeline(step("a", "search")) }]));
add("implementation/neither", tools([{ name: "t", version: V }]));
add(
  "implementation/defaults-of-composition",
  tools([search, { ...composed("c", pipeline(step("a", "search")), ["search"]), defaults: {} }]),
);
add(
  "tool-name/shared",
  file({
    servers: [server("s", ["t"]), { name: "r", version: V, provides: [{ tool: "t", version: "2.0.0" }] }],
    tools: [sourced("t"), { name: "t", version: "2.0.0", source: { server: "r", serverVersion: V, tool: "t" } }],
  }),
);
for (const [name, source] of Object.entries({
  hidden: { hideFields: ["limit"] },
  "hidden-unknown": { hideFields: ["limti"] },
  "hidden-nested": { hideFields: ["query.a"] },
  "hidden-required": { hideFields: ["query"], defaults: { query: "x" } },
  "default-unknown": { defaults: { limti: 1 } },
  "default-type": { defaults: { limit: "x" } },
  "default-variable": { defaults: { query: "${REGION}" } },
})) {
  add(`argument/${name}`, tools([{ ...search, source: { ...search.source, ...source } }]));
  add(
    `argument/closed/${name}`,
    tools([
      {
        ...search,
        inputSchema: { ...search.inputSchema, additionalProperties: false },
        source: { ...search.source, ...source },
      },
    ]),
  );
}
for (const [name, annotations] of Object.entries({
  type: { readOnlyHint: "yes" },
  title: { title: 1 },
  misspelled: { readonlyHint: true },
  other: { "x-y": 1 },
  contradiction: { readOnlyHint: true, destructiveHint: true },
}))
  add(`annotation/${name}`, tools([{ ...search, annotations }]));
for (const name of ["delete_account", "send_mail", "transfer", "get_deleted", "deletion", "DeleteUser", "read"]) {
  add(`annotation/doubtful/${name}`, tools([sourced(name, "s", { annotations: { readOnlyHint: true } })]));
  add(
    `annotation/harmless/${name}`,
    tools([sourced(name, "s", { annotations: { destructiveHint: false, openWorldHint: false } })]),
  );
}
for (const taskSupport of ["forbidden", "required", "never", 1])
  add(`execution/${taskSupport}`, tools([{ ...search, execution: { taskSupport } }]));
for (const key of [
  "com.example/a",
  "registry/a",
  "modelcontextprotocol.io/a",
  "a.modelcontextprotocol/b",
  "x.mcp/y",
  "plain",
])
  add(`meta/${key}`, tools([{ ...search, _meta: { [key]: 1 } }]));
const header = (property, more = {}) =>
  tools([
    sourced("t", "s", {
      inputSchema: { ...object({ a: property, b: { type: "string", "x-mcp-header": "Other" } }), ...more },
    }),
  ]);
for (const [name, property] of Object.entries({
  valid: { type: "string", "x-mcp-header": "Region" },
  duplicate: { type: "string", "x-mcp-header": "other" },
  token: { type: "string", "x-mcp-header": "a b" },
  empty: { type: "string", "x-mcp-header": "" },
  type: { type: "number", "x-mcp-header": "N" },
  list: { type: ["string", "null"], "x-mcp-header": "N" },
  value: { type: "string", "x-mcp-header": 1 },
  nested: object({ c: { type: "boolean", "x-mcp-header": "C" } }),
  items: { type: "array", items: { type: "string", "x-mcp-header": "I" } },
  choice: { anyOf: [{ type: "string", "x-mcp-header": "C" }] },
  integer: { type: "integer", maximum: 9007199254740993, "x-mcp-header": "I" },
}))
  add(`header/${name}`, header(property));
for (const [name, serverJson] of Object.entries({
  empty: {},
  url: { name: "a.example/b", description: "d", version: V, remotes: [{ type: "sse", url: "x" }] },
  type: { name: 1 },
}))
  add(`server-json/${name}`, file({ servers: [server("s", [], { metadata: { serverJson } })] }));

// Dependencies.
const skillOf = (skill) => ({ type: "agent", name: "b", version: V, ...(skill === undefined ? {} : { skill }) });
add("dependency/known", tools([search], { agents: [agent("a", [dependency("search")])] }));
add("dependency/unknown", file({ agents: [agent("a", [dependency("search")])] }));
add("dependency/other-version", tools([search], { agents: [agent("a", [dependency("search", "1.0.1")])] }));
add("dependency/skill", file({ agents: [agent("a", [skillOf("s")]), agent("b")] }));
add("dependency/skill-missing", file({ agents: [agent("a", [skillOf()]), agent("b")] }));
add("dependency/skill-unknown", file({ agents: [agent("a", [skillOf("nap")]), agent("b")] }));
add(
  "dependency/cycle",
  file({ agents: [agent("a", [skillOf("s")]), agent("b", [{ type: "agent", name: "a", version: V, skill: "s" }])] }),
);
add("dependency/self", file({ agents: [agent("b", [skillOf("s")])] }));
add(
  "dependency/tool-cycle",
  file({ tools: [composed("a", pipeline(step("x", "b")), ["b"]), composed("b", pipeline(step("x", "a")), ["a"])] }),
);
add(
  "dependency/ambiguous",
  file({
    servers: [
      {
        name: "s",
        version: V,
        provides: [
          { tool: "t", version: V },
          { tool: "t", version: "2.0.0" },
        ],
      },
    ],
    tools: [sourced("t"), { ...sourced("t"), version: "2.0.0" }],
    agents: [agent("a", [dependency("t"), dependency("t", "2.0.0")])],
  }),
);
add("dependency/undeclared", composition(pipeline(step("a", "search", { input: { path: "$" } })), {}, []));
add("dependency/unused", composition(pipeline(step("a", "search", { input: { path: "$" } }))));
add("dependency/twice", composition(pipeline(step("a", "search")), {}, ["search", "search"]));
for (const state of ["deprecated", "retired"]) {
  add(
    `lifecycle/${state}-dependency`,
    tools([{ ...search, [state]: true, deprecationMessage: "old" }], { agents: [agent("a", [dependency("search")])] }),
  );
  add(`lifecycle/${state}-alone`, tools([{ ...search, [state]: true }]));
}
for (const [name, members] of Object.entries({
  "message-only": { deprecationMessage: "old" },
  "replacement-unknown": { deprecated: true, replacement: "tool/x@1.0.0" },
  "replacement-self": { deprecated: true, replacement: "tool/search@1.0.0" },
  "replacement-kind": { deprecated: true, replacement: "server/s@1.0.0" },
  "replacement-form": { deprecated: true, replacement: "search" },
  "replacement-retired": { deprecated: true, replacement: "tool/store@1.0.0" },
  sunset: { retired: true, sunsetDate: "2030-02-29" },
  "sunset-form": { deprecated: true, sunsetDate: "2030/01/01" },
  force: { deprecated: true, forceReason: "x" },
  "force-empty": { retired: true, forceReason: "" },
  control: { deprecated: true, deprecationMessage: "a\u0007b" },
  status: { status: "deprecated" },
  state: { state: 1 },
  false: { deprecated: false, retired: false },
  long: { deprecated: true, deprecationMessage: "x".repeat(4097) },
}))
  add(
    `lifecycle/${name}`,
    tools([
      { ...search, ...members },
      { ...store, retired: true },
    ]),
  );
add(
  "lifecycle/records",
  file({
    schemas: [schema("A")],
    records: [{ key: "schema/A@1.0.0", lifecycle: { state: "deprecated", notice: { message: "old" } } }],
  }),
);
add(
  "lifecycle/records-not-registered",
  file({ schemas: [schema("A")], records: [{ key: "schema/B@1.0.0", lifecycle: { state: "retired" } }] }),
);
add(
  "lifecycle/records-without-key",
  file({ schemas: [schema("A")], records: [{ lifecycle: { state: "retired" } }, 7] }),
);
add(
  "extension/misspelled",
  file({
    agents: [
      agent("a", [], { capabilities: { extensions: [{ uri: "urn:agentgateway:sbomb", params: { depends: [] } }] } }),
    ],
  }),
);
add(
  "extension/twice",
  file({
    agents: [
      agent("a", [], {
        capabilities: { extensions: [{ uri: "urn:agentgateway:sbom" }, { uri: "urn:agentgateway:sbom" }] },
      }),
    ],
  }),
);
add(
  "skill/duplicate",
  file({
    agents: [agent("a", [], { skills: [1, 2].map(() => ({ id: "s", name: "S", description: "d", tags: [] })) })],
  }),
);

// Compositions.
const find = step("find", "search", construct({ query: { path: "$.query" } }));
for (const [name, spec] of Object.entries({
  valid: pipeline(find, step("keep", "store", construct({ title: { reference: { step: "find", path: "$.next" } } }))),
  empty: {},
  two: { ...pipeline(find), filter: { predicate: { field: "$.a", op: "eq", value: 1 } } },
  unknown: { pipe: {} },
  "no-steps": { pipeline: {} },
  "empty-steps": pipeline(),
  "duplicate-id": pipeline(find, find),
  "empty-id": pipeline(step("", "search")),
  "later-step": pipeline(step("a", "search", { reference: { step: "b", path: "$" } }), step("b", "search")),
  "unknown-step": pipeline(step("a", "search", { step: { stepId: "x", path: "$" } })),
  "bad-path": pipeline(step("a", "search", { path: "query" })),
  "path-syntax": pipeline(step("a", "search", { path: "$.[" })),
  "path-filter": pipeline(step("a", "search", { path: "$.a[?@.b == 1]" })),
  "two-operations": pipeline({ id: "a", operation: { tool: "search", agent: { name: "b", skill: "s" } } }),
  "no-operation": pipeline({ id: "a" }),
  "unknown-binding": pipeline(step("a", "search", { value: 1 })),
  "error-binding": pipeline(step("a", "search", { error: { path: "$" } })),
  "short-tool": pipeline({ id: "a", operation: { tool: "search" }, input: construct({ query: { constant: "x" } }) }),
  "bad-tool-name": pipeline(step("a", "a b")),
  "wrong-type": pipeline(step("a", "search", construct({ query: { constant: 1 } }))),
  "missing-required": pipeline(step("a", "search", construct({ limit: { constant: 1 } }))),
  "maybe-missing": pipeline(
    find,
    step("keep", "store", construct({ title: { reference: { step: "find", path: "$.next" } } })),
  ),
  "never-selects": pipeline(
    find,
    step("keep", "store", construct({ title: { reference: { step: "find", path: "$.none" } } })),
  ),
  retry: { retry: { inner: { tool: { name: "search" } }, maxAttempts: 3, backoff: { fixed: { delayMs: 1 } } } },
  "retry-attempts": {
    retry: { inner: { tool: { name: "search" } }, maxAttempts: 101, backoff: { fixed: { delayMs: 1 } } },
  },
  "retry-zero": { retry: { inner: { tool: { name: "search" } }, maxAttempts: 0, backoff: {} } },
  "retry-backoff": {
    retry: {
      inner: { tool: { name: "search" } },
      maxAttempts: 2,
      backoff: { linear: { initialDelayMs: 5, incrementMs: 1, maxDelayMs: 1 } },
      jitter: 2,
    },
  },
  timeout: { timeout: { inner: { tool: { name: "search" } }, durationMs: 86400001 } },
  cache: { cache: { inner: { tool: { name: "search" } }, keyPaths: [], ttlSeconds: 0 } },
  idempotent: { idempotent: { inner: { tool: { name: "search" } }, keyPaths: ["$.query"], onDuplicate: "again" } },
  breaker: {
    circuitBreaker: {
      name: "",
      inner: { tool: { name: "search" } },
      failureThreshold: 1,
      failureWindowSeconds: 1,
      resetTimeoutSeconds: 1,
    },
  },
  letter: { deadLetter: { inner: { tool: { name: "search" } }, deadLetterTool: "store", rethrow: true } },
  claim: {
    claimCheck: {
      storeTool: "store",
      retrieveTool: "search",
      inner: { tool: { name: "search" } },
      retrieveAtEnd: "yes",
    },
  },
  "filter-op": { filter: { predicate: { field: "$.a", op: "like", value: 1 } } },
  "filter-in": { filter: { predicate: { field: "$.a", op: "in", value: 1 } } },
  "filter-object": { filter: { predicate: { field: "$.a", op: "eq", value: 1 } } },
  map: {
    schemaMap: { mappings: { a: { path: "$.query" }, b: { template: { template: "{x}", vars: { x: "$.query" } } } } },
  },
  "map-empty": { schemaMap: { mappings: {} } },
  "map-vars": { schemaMap: { mappings: { a: { template: { template: "{y}", vars: {} } } } } },
  "map-each-item": { schemaMap: { mappings: { "a[*].b": { path: "$.x" } } } },
  "map-field": { schemaMap: { mappings: { "a[0]": { path: "$" } } } },
  each: { mapEach: { inner: { tool: { name: "search" } }, maxConcurrency: 0 } },
  gather: {
    scatterGather: {
      targets: [{ tool: { name: "search" } }, { pattern: { schemaMap: { mappings: { a: { path: "$" } } } } }],
      aggregation: { ops: [{ flatten: true }, { limit: { count: 3 } }] },
    },
  },
  "gather-empty": { scatterGather: { targets: [], aggregation: { ops: [] } } },
  "gather-op": {
    scatterGather: {
      targets: [{ tool: "search" }],
      aggregation: { ops: [{ flatten: false }, { sort: { field: "$.a", order: "up" } }] },
    },
  },
  comment: { $comment: "ok", pipeline: { $comment: "ok", steps: [{ $comment: "ok", ...find }] } },
  fraction: { timeout: { inner: { tool: "search" }, durationMs: 1.5 } },
  saga: {
    saga: {
      steps: [
        {
          id: "a",
          name: "A",
          action: { tool: { name: "search" } },
          compensate: { tool: { name: "store" } },
          input: construct({ query: { path: "$.query" } }),
          compensateInput: construct({ title: { error: { path: "$.message" } } }),
        },
      ],
      sagaIdPath: "$.query",
      output: construct({ hits: { reference: { step: "a", path: "$.hits" } } }),
    },
  },
  "saga-needless": {
    saga: {
      steps: [
        {
          id: "a",
          name: "A",
          action: { tool: { name: "search" } },
          compensateOnUnknown: true,
          compensateInput: { path: "$" },
        },
      ],
    },
  },
  deep: Array.from({ length: 17 }).reduce((inner) => ({ mapEach: { inner: { pattern: inner } } }), pipeline(find)),
  many: pipeline(...Array.from({ length: 257 }, (_, index) => step(`s${index}`, "search"))),
}))
  add(`composition/${name}`, composition(spec));
add(
  "composition/hidden-field",
  tools([
    { ...search, source: { ...search.source, hideFields: ["limit"], defaults: { limit: 1 } } },
    composed("c", pipeline(step("a", "search", construct({ query: { constant: "x" }, limit: { constant: 1 } }))), [
      "search",
    ]),
  ]),
);
add("composition/read-only", composition(pipeline(find), { annotations: { readOnlyHint: true } }));
add("composition/output-schema", composition(pipeline(find), { outputSchema: object({ id: text }, ["id"]) }));
add("composition/output-transform", tools([{ ...search, outputTransform: { mappings: { a: { paths: ["$.x"] } } } }]));
add(
  "composition/transform-of-composition",
  composition(pipeline(find), { outputTransform: { mappings: { a: { path: "$.hits" } } } }),
);

// Compatibility inside of one file.
for (const [name, [before, after]] of Object.entries({
  compatible: [object({ a: text }, ["a"]), object({ a: text, b: text }, ["a"])],
  breaking: [object({ a: text }), object({ a: text }, ["a"])],
  narrower: [
    { type: "string", maxLength: 5 },
    { type: "string", maxLength: 3 },
  ],
  undecided: [
    { type: "string", pattern: "^(a|b)*$" },
    { type: "string", pattern: "^(b|a)*$" },
  ],
  "code-points": [{ maxLength: 1, enum: ["😀"] }, { maxLength: 1 }],
})) {
  add(
    `compatibility/${name}`,
    file({
      schemas: [
        { name: "A", version: "1.0.0", schema: before },
        { name: "A", version: "1.1.0", schema: after },
      ],
    }),
  );
  add(
    `compatibility/tool/${name}`,
    file({
      servers: [
        {
          name: "s",
          version: V,
          provides: [
            { tool: "t", version: "1.0.0" },
            { tool: "t", version: "1.1.0" },
          ],
        },
      ],
      tools: ["1.0.0", "1.1.0"].map((version, index) => ({
        ...sourced("t"),
        version,
        inputSchema: object({ v: index ? after : before }),
      })),
    }),
  );
}

// Policies.
const cedar = (text, more = {}) =>
  tools([search], {
    policies: [policy("p", { appliesTo: { tools: ["search"] }, authorization: { cedar: text }, ...more })],
  });
for (const [name, condition] of Object.entries({
  forbid: "forbid(principal, action, resource);",
  permit: "permit(principal, action, resource);",
  syntax: "forbid(principal, action);",
  empty: "",
  comment: "// nothing",
  unknown: "forbid(principal, action, resource) when { context.args.nope == 1 };",
  known: 'forbid(principal, action, resource) when { context.args.query == "x" };',
  type: "forbid(principal, action, resource) when { context.args.query > 1 };",
  optional: "forbid(principal, action, resource) when { context.args.limit > 1 };",
  has: "forbid(principal, action, resource) when { context.args has limit && context.args.limit > 1 };",
  entity: 'forbid(principal == Agent::"nobody", action, resource);',
  action: 'forbid(principal, action == Action::"x", resource);',
  impossible: "forbid(principal, action, resource) when { false };",
  two: "forbid(principal, action, resource); forbid(principal, action, resource);",
  template: "forbid(principal == ?principal, action, resource);",
})) {
  add(`policy/cedar/${name}`, cedar(condition));
  add(`policy/cedar/deny/${name}`, cedar(condition, { default: "deny" }));
}
add("policy/denies-all", tools([search], { policies: [policy("p", { default: "deny" })] }));
add(
  "policy/burst-zero",
  tools([search], { policies: [policy("p", { rates: [{ limit: 1, window: "PT1M", burst: 0 }] })] }),
);
for (const pattern of ["search", "sea*", "serach", "*", "a b", "", "x".repeat(257), "tag:"])
  add(
    `policy/selector/${pattern.slice(0, 10)}`,
    tools([search], {
      policies: [
        policy("p", { appliesTo: { tools: [pattern], callers: [pattern] }, rates: [{ limit: 1, window: "PT1M" }] }),
      ],
    }),
  );
add("policy/selector/empty", tools([search], { policies: [policy("p", { appliesTo: { tools: [], skills: [] } })] }));
add("policy/selector/no-callers", tools([search], { policies: [policy("p", { appliesTo: { callers: [] } })] }));
for (const staleness of ["PT1S", "PT24S", "PT25S", "P1D"])
  add(`policy/staleness/${staleness}`, tools([search], { policies: [policy("p", { maxStaleness: staleness })] }));
for (const [name, inspection] of Object.entries({
  nothing: {},
  strict: { profile: "strict" },
  both: { profile: "strict", results: { contact: "log" } },
  class: { results: { contct: "log" } },
  change: { arguments: { contact: "redact" } },
  pointer: { results: { contact: "log" }, except: [{ tool: "search", pointer: "query" }] },
  undeclared: { arguments: { contact: "log" }, except: [{ tool: "search", pointer: "/qeury" }] },
  restore: { results: { contact: "tokenize" }, restoreFor: ["serach"] },
  ineffective: { results: { contact: "log" }, restoreFor: ["search"] },
}))
  add(
    `policy/inspection/${name}`,
    tools([search], { policies: [policy("p", { appliesTo: { tools: ["search"] }, inspection })] }),
  );
for (const [name, approval] of Object.entries({
  empty: {},
  quorum: { quorum: 11 },
  caller: { approvers: ["caller"] },
  mixed: { approvers: ["caller", "team:a"], quorum: 2 },
  unknown: { approvers: ["bob"] },
  none: { approvers: [] },
  show: { show: ["/query", "limit"] },
}))
  add(`policy/approval/${name}`, tools([search], { policies: [policy("p", { approval })] }));
add(
  "policy/regresses",
  tools([search], {
    policies: ["1.1.0", "1.0.5"].map((version) => ({ name: "p", version, rates: [{ limit: 1, window: "PT1M" }] })),
  }),
);
add(
  "policy/relaxed",
  tools([search], {
    policies: [
      ["1.0.0", "enforce"],
      ["1.1.0", "audit"],
    ].map(([version, mode]) => ({ name: "p", version, mode, rates: [{ limit: 1, window: "PT1M" }] })),
  }),
);
add(
  "policy/tightened",
  tools([search], {
    policies: [
      ["1.0.0", "audit"],
      ["1.1.0", "enforce"],
    ].map(([version, mode]) => ({ name: "p", version, mode, rates: [{ limit: 1, window: "PT1M" }] })),
  }),
);

// Sizes, and texts with code points beyond UTF-16 units.
add("size/description", file({ schemas: [schema("A", true, { description: "x".repeat(8193) })] }));
add("size/description-code-points", file({ schemas: [schema("A", true, { description: "😀".repeat(2048) })] }));
add("size/description-bytes", file({ schemas: [schema("A", true, { description: "😀".repeat(2049) })] }));
add(
  "size/depth",
  file({
    schemas: [
      schema(
        "A",
        Array.from({ length: 70 }).reduce((inner) => ({ items: inner }), {}),
      ),
    ],
  }),
);
add(
  "size/list",
  file({
    servers: [
      server(
        "s",
        Array.from({ length: 1001 }, (_, index) => `t${index}`),
      ),
    ],
  }),
);
add("size/problems", file({ schemas: Array.from({ length: 1100 }, () => ({})) }));
add("order/utf-16", file({ schemas: [schema("A", { const: { "\ue000": 1, "😀": 2 } })] }));

const names = new Set(documents.map(({ name }) => name));
if (names.size !== documents.length) throw new Error("two documents have one name");
writeFileSync(
  new URL("../tests/corpus/documents.jsonl", import.meta.url),
  documents.map((one) => `${JSON.stringify(one)}\n`).join(""),
);
console.log(`${documents.length} documents`);
