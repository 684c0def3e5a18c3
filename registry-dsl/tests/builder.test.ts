import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import {
  agent,
  cache,
  circuitBreaker,
  claimCheck,
  constant,
  deadLetter,
  filter,
  idempotent,
  mapEach,
  pipeline,
  policy,
  raw,
  rawSpec,
  registered,
  registry,
  retry,
  saga,
  scatterGather,
  schema,
  schemaMap,
  select,
  server,
  timeout,
  tool,
  where,
  type Definitions,
  type DslError,
} from "../src/index.ts";

/** The documents of a kind. */
function documents(list: string, definitions: Iterable<Definitions>): any[] {
  return JSON.parse(registry(definitions).toJSON())[list];
}

/** The code of the error that a function throws. */
function codeOf(build: () => unknown): string | undefined {
  try {
    build();
  } catch (error) {
    return (error as DslError).code;
  }
  return undefined;
}

const docs = server("docs", "1.0.0");
const Query = schema("Query", "1.0.0", {
  type: "object",
  properties: { query: { type: "string" }, limit: { type: "integer" } },
  required: ["query"],
});
const Hits = schema("Hits", "1.0.0", {
  type: "object",
  properties: {
    hits: { type: "array", items: { type: "object", properties: { "doc id": { type: "string" } } } },
    next: { type: "string" },
  },
});
const search = tool("search", "1.0.0", { inputSchema: Query, outputSchema: Hits }).source(docs);

describe("registry", () => {
  it("example equals the file of the registry's writer", async () => {
    const { default: example } = await import("../examples/registry-v2.ts");
    expect(example.toJSON()).toBe(readFileSync(new URL("data/registry-v2.json", import.meta.url), "utf8"));
  });

  it("definitions are sorted by kind, name and version", () => {
    const versions = ["1.10.0", "1.2.0", "1.0.0-rc.1", "1.0.0", "1.0.0-rc.1.1"];
    const all = versions.map((version) => schema("A", version, true));
    expect(
      documents("schemas", [all, [schema("B", "0.1.0", true)]]).map(({ name, version }) => name + version),
    ).toEqual(["A1.0.0-rc.1", "A1.0.0-rc.1.1", "A1.0.0", "A1.2.0", "A1.10.0", "B0.1.0"]);
  });

  it("policies are written only if there are any", () => {
    expect(Object.keys(JSON.parse(registry([]).toJSON()))).toEqual([
      "schemaVersion",
      "schemas",
      "servers",
      "tools",
      "agents",
    ]);
    expect(documents("policies", [policy("p", "1.0.0", {})])).toEqual([{ name: "p", version: "1.0.0" }]);
  });

  it("two definitions of one key are rejected", () => {
    expect(codeOf(() => registry([schema("A", "1.0.0", true), schema("A", "1.0.0", false)]))).toBe("entity-duplicate");
    expect(codeOf(() => registry([search, search]))).toBe("entity-duplicate");
  });

  it("both places of a key are named", () => {
    // prettier-ignore
    const [first, second] = [
      schema("A", "1.0.0", true),
      schema("A", "1.0.0", false),
    ] as const;
    const { file, line } = first.sites.get("")?.position ?? { file: "", line: 0 };
    expect(() => registry([first, second])).toThrow(
      `two definitions have the key schema/A@1.0.0: first at ${file}:${line}, then at ${file}:${line + 1}`,
    );
  });

  it("values that are no definitions are rejected", () => {
    expect(codeOf(() => registry([{} as Definitions]))).toBe("entity-expected");
    expect(codeOf(() => registry(["tool" as unknown as Definitions]))).toBe("entity-expected");
  });

  it("pointer locates the deepest call", () => {
    // prettier-ignore
    const steps = pipeline()
      .step("one", search)
      .step("two", search);
    const composed = tool("composed", "1.0.0").composition(steps);
    const file = registry([docs, search, composed]);
    file.toJSON();
    const line = (pointer: string): number => file.locate(pointer)?.position.line ?? 0;
    const first = line("/tools/0");
    expect(line("/tools/0/spec/pipeline/steps/0/id")).toBe(first - 2);
    expect(line("/tools/0/spec/pipeline/steps/1/input/path")).toBe(first - 1);
    expect(file.locate("/tools/0/spec/pipeline/steps/1/input/path")?.rest).toEqual(["input", "path"]);
    expect(file.locate("/tools/9")).toBeUndefined();
    expect(file.locate("")).toBeUndefined();
  });
});

describe("server", () => {
  it("provides the tools that it is the source of", () => {
    const s = server("s", "1.0.0", { exposes: ["prompts"] });
    tool("b", "1.0.0").source(s);
    tool("a", "2.0.0").source(s);
    tool("alias", "1.0.0").source(s, { tool: "a" });
    expect(documents("servers", [s])).toEqual([
      {
        name: "s",
        version: "1.0.0",
        provides: [
          { tool: "b", version: "1.0.0" },
          { tool: "a", version: "2.0.0" },
        ],
        exposes: ["prompts"],
      },
    ]);
  });

  it("provides renamed tools whose upstream tool is not registered", () => {
    const s = server("s", "1.0.0");
    for (const name of ["ts_quote", "quick_quote"]) tool(name, "1.0.0").source(s, { tool: "quote_parcel" });
    tool("ts_track", "2.0.0").source(s, { tool: "dir/track all" });
    expect(documents("servers", [s])[0].provides).toEqual([
      { tool: "ts_quote", version: "1.0.0" },
      { tool: "quick_quote", version: "1.0.0" },
      { tool: "ts_track", version: "2.0.0" },
    ]);
  });

  it("last source of a tool counts", () => {
    const [current, former] = [server("current", "1.0.0"), server("former", "1.0.0")];
    tool("t", "1.0.0").source(former).source(current).source(current);
    const provided = documents("servers", [current, former]).map(({ provides }) => provides);
    expect(provided).toEqual([[{ tool: "t", version: "1.0.0" }], []]);
  });

  it("explicit provisions replace derived ones", () => {
    const s = server("s", "1.0.0");
    const [a, b] = [tool("a", "1.0.0").source(s), tool("b", "1.0.0").source(s)];
    s.provides(b, a);
    expect(documents("servers", [s])[0].provides.map((one: any) => one.tool)).toEqual(["b", "a"]);
  });
});

describe("tool", () => {
  it("source defaults to the tool's own name", () => {
    const alias = tool("alias", "1.0.0", { inputSchema: Query }).source(docs, {
      tool: "search",
      defaults: { limit: 3 },
      hideFields: ["limit"],
    });
    const [written, own] = documents("tools", [alias, search]);
    expect(written.source).toEqual({
      server: "docs",
      serverVersion: "1.0.0",
      tool: "search",
      defaults: { limit: 3 },
      hideFields: ["limit"],
    });
    expect(own.source).toEqual({ server: "docs", serverVersion: "1.0.0", tool: "search" });
    expect(own.inputSchema).toEqual({ $ref: "#Query:1.0.0" });
  });

  it("tool without implementation is rejected at its definition", () => {
    const unfinished = tool("t", "1.0.0");
    expect(() => registry([unfinished]).toJSON()).toThrowError(
      expect.objectContaining({
        code: "implementation-missing",
        position: unfinished.sites.get("")?.position,
      } satisfies Partial<DslError>),
    );
  });

  it("lifecycle follows the document", () => {
    const next = tool("search", "2.0.0").source(docs);
    const old = tool("search", "1.0.0")
      .source(docs)
      .deprecated({ message: "slow", replacement: next, sunsetDate: "2027-01-01" });
    const gone = tool("search", "0.9.0").source(docs).retired({ forceReason: "incident" });
    const [retired, deprecated] = documents("tools", [old, next, gone]);
    expect(Object.entries(retired).slice(3)).toEqual([
      ["retired", true],
      ["forceReason", "incident"],
    ]);
    expect(Object.entries(deprecated).slice(3)).toEqual([
      ["deprecated", true],
      ["deprecationMessage", "slow"],
      ["replacement", "tool/search@2.0.0"],
      ["sunsetDate", "2027-01-01"],
    ]);
  });

  it("values that JSON cannot represent are rejected with their pointer", () => {
    const cycle: Record<string, unknown> = {};
    cycle["self"] = cycle;
    const unusual = [() => 1, Number.NaN, Symbol("x"), [, 1], new Date(), new Map(), search, "\ud800", { "\udc00": 1 }];
    for (const metadata of [...unusual.map((a) => ({ a })), cycle]) {
      expect(codeOf(() => registry([tool("t", "1.0.0", { metadata: metadata as {} }).source(docs)]).toJSON())).toBe(
        "value-invalid",
      );
    }
  });
});

describe("composition", () => {
  const spec = (pattern: Parameters<ReturnType<typeof tool>["composition"]>[0]): any =>
    documents("tools", [tool("t", "1.0.0").composition(pattern)])[0];

  it("bindings are paths, constants and objects of them", () => {
    const found = spec(
      pipeline(Query)
        .step("find", search)
        .step("again", search, ({ input, steps }) => ({ query: steps.find.next, limit: select(input, "$.limit") }))
        .step("odd", schemaMap({ a: "$" }), ({ steps }) => ({
          list: [1, "x"],
          object: constant({ a: 1 }),
          own: steps.again.hits[0]?.["doc id"],
          old: raw({ input: { path: "$" } }),
        })),
    );
    expect(found.spec.pipeline.steps.map((step: any) => step.input)).toEqual([
      undefined,
      { construct: { fields: { query: { reference: { step: "find", path: "$.next" } }, limit: { path: "$.limit" } } } },
      {
        construct: {
          fields: {
            list: { constant: [1, "x"] },
            object: { constant: { a: 1 } },
            own: { reference: { step: "again", path: "$.hits[0]['doc id']" } },
            old: { input: { path: "$" } },
          },
        },
      },
    ]);
    expect(found.depends).toEqual([{ type: "tool", name: "search", version: "1.0.0" }]);
  });

  it("patterns write the grammar of compositions", () => {
    const store = tool("store", "1.0.0").source(docs);
    const load = tool("load", "1.0.0").source(docs);
    const options = { maxAttempts: 2, backoff: { fixed: { delayMs: 5 } } };
    expect(spec(retry(search, { ...options, retryIf: where("$.reason", "eq", "timeout") })).spec).toEqual({
      retry: {
        inner: { tool: { name: "search" } },
        ...options,
        retryIf: { field: "$.reason", op: "eq", value: "timeout" },
      },
    });
    expect(spec(timeout(search, { durationMs: 9, fallback: search })).spec.timeout.fallback).toEqual({
      tool: { name: "search" },
    });
    expect(spec(cache(search, { keyPaths: ["$.query"], ttlSeconds: 1 })).spec.cache.keyPaths).toEqual(["$.query"]);
    expect(spec(idempotent(search, { keyPaths: ["$"], onDuplicate: "skip" })).spec.idempotent.onDuplicate).toBe("skip");
    expect(spec(mapEach(filter(where("$.a", "in", [1])), { maxConcurrency: 2 })).spec.mapEach).toEqual({
      inner: { pattern: { filter: { predicate: { field: "$.a", op: "in", value: [1] } } } },
      maxConcurrency: 2,
    });
    expect(
      spec(circuitBreaker(search, { name: "c", failureThreshold: 1, failureWindowSeconds: 1, resetTimeoutSeconds: 1 }))
        .spec.circuitBreaker.name,
    ).toBe("c");
    const letter = spec(deadLetter(search, { deadLetterTool: store, rethrow: true }));
    expect(letter.spec.deadLetter.deadLetterTool).toBe("store");
    expect(letter.depends.map((one: any) => one.name)).toEqual(["search", "store"]);
    const claim = spec(claimCheck(search, { storeTool: store, retrieveTool: load, retrieveAtEnd: false }));
    expect(claim.depends.map((one: any) => one.name)).toEqual(["store", "search", "load"]);
    const gathered = spec(
      scatterGather({ aggregation: [{ flatten: true }], failFast: true }, Query)
        .target(search)
        .target(search, ({ input }) => ({ query: input.query })),
    );
    expect(gathered.spec.scatterGather).toEqual({
      targets: [
        { tool: { name: "search" } },
        { tool: { name: "search" }, input: { construct: { fields: { query: { path: "$.query" } } } } },
      ],
      aggregation: { ops: [{ flatten: true }] },
      failFast: true,
    });
  });

  it("saga writes steps, compensations and its result", () => {
    const found = spec(
      saga(Query, { id: (input) => input.query, timeoutMs: 5 })
        .step("a", {
          name: "A",
          action: search,
          compensate: search,
          compensateInput: ({ error, steps }) => ({ query: error.message, limit: steps.a.hits as any }),
        })
        .output(({ steps }) => ({ next: steps.a.next })),
    );
    expect(found.spec.saga).toEqual({
      steps: [
        {
          id: "a",
          name: "A",
          action: { tool: { name: "search" } },
          compensate: { tool: { name: "search" } },
          compensateInput: {
            construct: {
              fields: { query: { error: { path: "$.message" } }, limit: { reference: { step: "a", path: "$.hits" } } },
            },
          },
        },
      ],
      sagaIdPath: "$.query",
      timeoutMs: 5,
      output: { construct: { fields: { next: { reference: { step: "a", path: "$.next" } } } } },
    });
  });

  it("explicit dependencies replace derived ones", () => {
    const elsewhere = registered({ type: "agent", name: "writer", version: "1.0.0", skill: "write" });
    const composed = tool("t", "1.0.0")
      .composition(rawSpec({ pipeline: { steps: [{ id: "a", operation: { tool: "search" } }] } }))
      .dependsOn(search, elsewhere);
    const [found] = documents("tools", [composed]);
    expect(found.spec.pipeline.steps[0].operation).toEqual({ tool: "search" });
    expect(found.depends).toEqual([
      { type: "tool", name: "search", version: "1.0.0" },
      { type: "agent", name: "writer", version: "1.0.0", skill: "write" },
    ]);
    expect(spec(pipeline().step("write", elsewhere)).spec.pipeline.steps[0].operation).toEqual({
      agent: { name: "writer", skill: "write" },
    });
  });

  it("steps and paths of another pattern are rejected", () => {
    expect(codeOf(() => pipeline().step("a", search).step("a", search))).toBe("step-duplicate");
    expect(codeOf(() => pipeline().step("a", search, ({ steps }) => (steps as any).later))).toBe("step-unknown");
    let outer: any;
    expect(
      codeOf(() => {
        pipeline(Query).step("a", search, ({ input }) => (outer = input));
        pipeline().step("b", search, () => ({ query: outer.query }));
      }),
    ).toBe("path-foreign");
  });

  it("constants contain no paths, and objects of bindings are literals", () => {
    for (const binding of [
      ({ input }: any) => ({ list: [input.query] }),
      ({ input }: any) => constant({ query: input.query }),
      ({ input }: any) => ({ list: [raw(input)] }),
      ({ steps }: any) => steps,
      () => ({ since: new Date(0) }),
    ]) {
      expect(
        codeOf(() => pipeline(Query).step("a", schemaMap({ x: "$" }), binding)),
        String(binding),
      ).toBe("value-invalid");
    }
  });

  it("members that objects inherit are ordinary names", () => {
    const inherited = JSON.parse('{"__proto__":{"a":1},"constructor":2,"toString":3}') as object;
    const binding = JSON.stringify(
      spec(
        pipeline()
          .step("constructor", search)
          .step("a", schemaMap({ x: "$" }), ({ input, steps }) => ({
            ...inherited,
            path: input.__proto__,
            step: steps.constructor.toString,
          })),
      ).spec.pipeline.steps[1].input.construct.fields,
    );
    expect(JSON.parse(binding)).toEqual(
      JSON.parse(
        '{"__proto__":{"construct":{"fields":{"a":{"constant":1}}}},"constructor":{"constant":2},"toString":{"constant":3},' +
          '"path":{"path":"$.__proto__"},"step":{"reference":{"step":"constructor","path":"$.toString"}}}',
      ),
    );
  });
});

describe("agent", () => {
  const card = {
    description: "d",
    url: "https://a.example",
    protocolVersion: "1.0",
    defaultInputModes: [],
    defaultOutputModes: [],
  };

  it("skills and dependencies are part of the card", () => {
    const writer = agent("team/writer", "1.0.0", { ...card, capabilities: { streaming: true } })
      .skill("write", { name: "Write", description: "w", tags: [], inputSchema: Query })
      .dependsOn(search);
    const reviewer = agent("reviewer", "1.0.0", card)
      .skill("s", { name: "S", description: "s", tags: ["t"] })
      .dependsOn(writer.skills.write);
    const [first, second] = documents("agents", [writer, reviewer]);
    expect(first.capabilities.extensions).toEqual([
      {
        uri: "urn:agentgateway:sbom",
        params: { depends: [{ type: "agent", name: "team/writer", version: "1.0.0", skill: "write" }] },
      },
    ]);
    expect(second.skills).toEqual([
      { id: "write", name: "Write", description: "w", tags: [], inputSchema: { $ref: "#Query:1.0.0" } },
    ]);
    expect(Object.keys(second.capabilities)).toEqual(["streaming", "extensions"]);
  });

  it("extension with dependencies keeps its place and description", () => {
    const extensions = [
      { uri: "urn:agentgateway:sbom", description: "Tools", required: true },
      { uri: "urn:other", params: { a: 1 } },
    ];
    const [found] = documents("agents", [
      agent("a", "1.0.0", { ...card, capabilities: { extensions } }).dependsOn(search),
    ]);
    expect(found.capabilities.extensions.map(({ uri, description }: any) => [uri, description])).toEqual([
      ["urn:agentgateway:sbom", "Tools"],
      ["urn:other", undefined],
    ]);
    expect(found.capabilities.extensions[0].params.depends).toHaveLength(1);
  });
});

describe("policy", () => {
  it("selectors name entities", () => {
    const writer = agent("team/writer", "1.0.0", {
      description: "",
      url: "",
      protocolVersion: "",
      defaultInputModes: [],
      defaultOutputModes: [],
    }).skill("write", { name: "", description: "", tags: [] });
    const [found] = documents("policies", [
      policy("p", "1.0.0", {
        appliesTo: {
          callers: [writer, "tag:prod"],
          tools: [search, "payment_*"],
          skills: [writer.skills.write],
          servers: [docs],
        },
        inspection: {
          results: { credential: "redact" },
          restoreFor: [search],
          except: [{ tool: search, pointer: "/a" }],
        },
      }),
    ]);
    expect(found.appliesTo).toEqual({
      callers: ["team/writer", "tag:prod"],
      tools: ["search", "payment_*"],
      skills: ["team/writer/write"],
      servers: ["docs"],
    });
    expect(found.inspection).toEqual({
      results: { credential: "redact" },
      except: [{ tool: "search", pointer: "/a" }],
      restoreFor: ["search"],
    });
  });
});
