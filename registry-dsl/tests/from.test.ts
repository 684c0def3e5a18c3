import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { afterAll, expect, it } from "vitest";

import { typescriptOf } from "../src/command/from.ts";
import { writeJson, type JsonObject, type JsonValue, type Node } from "../src/json.ts";
import { compareKeys, KINDS, PLURALS } from "../src/key.ts";
import { normalDocument } from "../src/normal.ts";
import type { Registry } from "../src/registry.ts";

const read = (name: string): string => readFileSync(new URL(`data/${name}`, import.meta.url), "utf8");
const directory = mkdtempSync(fileURLToPath(new URL(".from-", import.meta.url)));
afterAll(() => rmSync(directory, { recursive: true }));

let count = 0;

/** A file as the registry writes it. */
function normalText(file: JsonObject): string {
  const members = KINDS.map((kind) => {
    const list = (file[PLURALS[kind]] ?? []) as readonly JsonObject[];
    const key = ({ name, version }: JsonObject) => ({ kind, name: String(name), version: String(version) });
    return [
      PLURALS[kind],
      [...list].sort((a, b) => compareKeys(key(a), key(b))).map((one) => normalDocument(kind, one)),
    ] as const;
  });
  const written = members.filter(([name, list]) => name !== "policies" || list.length > 0);
  return writeJson(new Map<string, Node>([["schemaVersion", "2.0"], ...written]));
}

/** The registry that the TypeScript of a file builds. */
async function rebuilt(value: JsonValue): Promise<{ readonly code: string; readonly text: string }> {
  const code = typescriptOf(value, "registry.json");
  const file = `${directory}/file${(count += 1)}.ts`;
  writeFileSync(file, code);
  const { default: registry } = (await import(file)) as { default: Registry };
  return { code, text: registry.toJSON() };
}

it("generated TypeScript builds the same bytes", async () => {
  for (const name of ["registry-v2.json", "other-forms.normal.json"]) {
    expect((await rebuilt(JSON.parse(read(name)) as JsonValue)).text).toBe(read(name));
  }
});

it("generated TypeScript of other spellings builds the normal form", async () => {
  expect((await rebuilt(JSON.parse(read("other-forms.json")) as JsonValue)).text).toBe(read("other-forms.normal.json"));
});

it("readable documents of the corpus are rebuilt in normal form", async () => {
  const lines = (name: string): any[] =>
    read(`../corpus/${name}`)
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as unknown);
  const unreadable = [
    "document-invalid",
    "implementation-ambiguous",
    "name-invalid",
    "version-invalid",
    "already-registered",
  ];
  const golden = lines("golden.jsonl");
  let rebuiltCount = 0;
  for (const [index, { name, text }] of lines("documents.jsonl").entries()) {
    const errors = golden[index].diagnostics.filter(
      ({ code, severity }: any) => severity === "error" && unreadable.includes(code),
    );
    if (
      errors.length > 0 ||
      name.startsWith("lifecycle/records") ||
      name === "text/version-1" ||
      name === "version/same-key-twice"
    )
      continue;
    const value = JSON.parse(text.replace(/^\ufeff/, "")) as JsonObject;
    expect((await rebuilt(value)).text, name).toBe(normalText(value));
    rebuiltCount += 1;
  }
  expect(rebuiltCount).toBeGreaterThan(200);
});

it("committed example is what the command writes", () => {
  const example = readFileSync(new URL("../examples/registry-v2.ts", import.meta.url), "utf8");
  expect(typescriptOf(JSON.parse(read("registry-v2.json")) as JsonValue, "registry-v2.json")).toBe(example);
});

it("derived provisions are not written", async () => {
  const source = (name: string, upstream: string): JsonValue => ({
    name,
    version: "1.0.0",
    source: { server: "s", serverVersion: "1.0.0", tool: upstream },
  });
  const provides = (...tools: string[]): JsonValue => tools.map((tool) => ({ tool, version: "1.0.0" }));
  const file = (tools: JsonValue[], provided: JsonValue): JsonObject => ({
    schemaVersion: "2.0",
    schemas: [],
    servers: [{ name: "s", version: "1.0.0", provides: provided }],
    tools,
    agents: [],
  });
  const renamed = [source("a", "far"), source("b", "far")];
  const derived = file(renamed, provides("a", "b"));
  const explicit = file([...renamed, source("far", "far")], provides("a", "b", "far"));
  for (const [value, isWritten] of [[derived, false] as const, [explicit, true] as const]) {
    const { code, text } = await rebuilt(value);
    expect(JSON.parse(text)).toEqual(value);
    expect(code.includes(".provides(")).toBe(isWritten);
  }
});

it("references to entities outside of the file are kept", async () => {
  const file = {
    schemaVersion: "2.0",
    schemas: [{ name: "A", version: "1.0.0", schema: { $ref: "#B:1.0.0" } }],
    servers: [{ name: "s", version: "1.0.0", provides: [{ tool: "elsewhere", version: "1.0.0" }] }],
    tools: [
      {
        name: "a",
        version: "1.0.0",
        source: { server: "away", serverVersion: "1.0.0", tool: "a" },
        deprecated: true,
        replacement: "tool/b@2.0.0",
      },
      {
        name: "c",
        version: "1.0.0",
        spec: { retry: { inner: { tool: { name: "far" } }, maxAttempts: 2, backoff: { fixed: { delayMs: 1 } } } },
        depends: [{ type: "tool", name: "far", version: "1.0.0" }],
      },
      {
        name: "undeclared",
        version: "1.0.0",
        spec: { mapEach: { inner: { tool: { name: "far" } } } },
        depends: [{ type: "agent", name: "x", version: "1.0.0", skill: "s" }],
      },
    ],
    agents: [],
  };
  expect(JSON.parse((await rebuilt(file)).text)).toEqual(file);
});

it("cycles become later calls", async () => {
  const tool = (name: string, other: string): JsonValue => ({
    name,
    version: "1.0.0",
    spec: { pipeline: { steps: [{ id: "a", operation: { tool: { name: other } } }] } },
    depends: [{ type: "tool", name: other, version: "1.0.0" }],
  });
  const schema = (name: string, other: string): JsonValue => ({
    name,
    version: "1.0.0",
    schema: { $ref: `#${other}:1.0.0` },
  });
  const file = {
    schemaVersion: "2.0",
    schemas: [schema("A", "B"), schema("B", "A")],
    servers: [],
    tools: [tool("a", "b"), tool("b", "a")],
    agents: [],
  };
  expect(JSON.parse((await rebuilt(file)).text)).toEqual(file);
});

it("lifecycles of an export are read from its records", async () => {
  const file = {
    schemaVersion: "2.0",
    schemas: [{ name: "A", version: "1.0.0", schema: true, retired: true }],
    servers: [],
    tools: [],
    agents: [],
    records: [{ key: "schema/A@1.0.0", lifecycle: { state: "deprecated", notice: { message: "old" } } }],
  };
  expect(JSON.parse((await rebuilt(file)).text).schemas).toEqual([
    { name: "A", version: "1.0.0", schema: true, deprecated: true, deprecationMessage: "old" },
  ]);
});

it("names of constants are unique identifiers", async () => {
  const names = ["a-b", "a_b", "a.b", "1st", "delete", "schema", "steps", "Registry", "registry", "constructor"];
  const file = {
    schemaVersion: "2.0",
    schemas: names.flatMap((name) => ["1.0.0", "2.0.0-rc.1"].map((version) => ({ name, version, schema: true }))),
    servers: names.map((name) => ({ name, version: "1.0.0", provides: [] })),
    tools: [],
    agents: [],
  };
  const { code, text } = await rebuilt(file);
  expect(JSON.parse(text).schemas).toHaveLength(20);
  const constants = [...code.matchAll(/^const (\S+)/gm)].map(([, name]) => name);
  expect(new Set(constants).size).toBe(30);
});
