import { Type } from "@sinclair/typebox";
import { Type as Type1 } from "typebox";
import { expect, expectTypeOf, it } from "vitest";
import { z } from "zod";

import { pipeline, registry, schema, server, tool, type Infer } from "../src/index.ts";

const schemaOf = (entity: ReturnType<typeof schema>): unknown =>
  JSON.parse(registry([entity]).toJSON()).schemas[0].schema;

const Plain = schema("Plain", "1.0.0", { type: "object", properties: { n: { type: "number" } }, required: ["n"] });

it("schemas of Zod are converted and typed", () => {
  const Zod = schema(
    "Zod",
    "1.0.0",
    z.object({ title: z.string().min(1), size: z.int().optional(), kind: z.enum(["a", "b"]).default("a") }),
  );
  expectTypeOf<Infer<typeof Zod>>().toEqualTypeOf<{
    title: string;
    size?: number | undefined;
    kind?: "a" | "b" | undefined;
  }>();
  expect(schemaOf(Zod)).toEqual({
    type: "object",
    properties: {
      title: { type: "string", minLength: 1 },
      size: { type: "integer", minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER },
      kind: { type: "string", enum: ["a", "b"], default: "a" },
    },
    required: ["title"],
  });
});

it("converted schemas of Zod are plain JSON Schema", () => {
  expect(schemaOf(schema("Zod", "1.0.0", z.toJSONSchema(z.string())))).toEqual({ type: "string" });
});

it("schemas of Zod that JSON Schema cannot represent are rejected with their field", () => {
  const list = z.object({ items: z.array(z.object({ "a/b": z.bigint() })) });
  for (const [source, place] of [
    [z.date(), ""],
    [z.object({ since: z.date().optional() }), " at /properties/since"],
    [{ type: "object", properties: { list } }, " at /properties/list/properties/items/items/properties/a~1b"],
  ] as const) {
    expect(() => schema("Zod", "1.0.0", source)).toThrowError(
      expect.objectContaining({
        code: "schema-invalid",
        message: expect.stringContaining(`schema/Zod@1.0.0 has no JSON Schema${place}: `),
      }),
    );
  }
  const search = tool("search", "1.0.0", { inputSchema: z.object({ since: z.date() }) }).source(server("s", "1.0.0"));
  expect(() => registry([search]).toJSON()).toThrow(
    "inputSchema of tool/search@1.0.0 has no JSON Schema at /properties/since: ",
  );
});

it("schemas of libraries without JSON Schema are rejected", () => {
  const source = { "~standard": { version: 1, vendor: "x", validate: () => ({ value: 1 }) } };
  expect(() => schema("Other", "1.0.0", source)).toThrowError(expect.objectContaining({ code: "schema-invalid" }));
});

it("schemas that are functions are converted", () => {
  const standard = { version: 1, vendor: "x", jsonSchema: { input: () => ({ type: "string" }) } };
  const source = Object.assign(() => true, { "~standard": standard });
  const all = { type: "object", properties: { own: source } };
  expect(schemaOf(schema("Callable", "1.0.0", source))).toEqual({ type: "string" });
  expect(schemaOf(schema("All", "1.0.0", all))).toEqual({ type: "object", properties: { own: { type: "string" } } });
});

it("recursive schemas of Zod refer to themselves inside of others", () => {
  const Tree = z.object({
    get children() {
      return z.array(Tree);
    },
  });
  const Forest = { type: "object", properties: { "a/b #1": Tree, other: z.object({ tree: Tree }) } };
  const place = "#/properties/a~1b%20%231";
  const { properties } = schemaOf(schema("Forest", "1.0.0", Forest)) as any;
  expect(properties["a/b #1"].properties.children.items.$ref).toBe(place);
  // The converter moves a recursive part to the definitions of its root.
  const reference: string = properties.other.properties.tree.$ref;
  expect(reference).toMatch(/^#\/properties\/other\//);
  const found = reference
    .slice(2)
    .split("/")
    .reduce((value, name) => value[name], { properties } as any);
  expect(found.properties.children.items.$ref).toBe(reference);
});

it("schemas of TypeBox are converted and typed", () => {
  const Box = schema(
    "Box",
    "1.0.0",
    Type.Object({ title: Type.String(), tags: Type.Optional(Type.Array(Type.String())) }),
  );
  expectTypeOf<Infer<typeof Box>>().toEqualTypeOf<{ tags?: string[]; title: string }>();
  expect(schemaOf(Box)).toEqual({
    type: "object",
    properties: { title: { type: "string" }, tags: { type: "array", items: { type: "string" } } },
    required: ["title"],
  });
});

it("schemas of TypeBox 1 are converted and typed", () => {
  const Box = schema(
    "Box",
    "1.0.0",
    Type1.Object({ title: Type1.String(), tags: Type1.Optional(Type1.Array(Type1.Union([Type1.Literal("a")]))) }),
  );
  expectTypeOf<Infer<typeof Box>>().toEqualTypeOf<{ tags?: "a"[]; title: string }>();
  expect(schemaOf(Box)).toEqual({
    type: "object",
    properties: {
      title: { type: "string" },
      tags: { type: "array", items: { anyOf: [{ type: "string", const: "a" }] } },
    },
    required: ["title"],
  });
});

it("schemas contain schemas of all libraries", () => {
  const All = schema("All", "1.0.0", {
    type: "object",
    properties: { plain: Plain, list: { type: "array", items: Plain }, zod: z.string(), box: Type.Boolean() },
  });
  expectTypeOf<Infer<typeof All>>().toEqualTypeOf<{
    readonly plain?: { readonly n: number };
    readonly list?: { readonly n: number }[];
    readonly zod?: string;
    readonly box?: boolean;
  }>();
  expect(schemaOf(All)).toEqual({
    type: "object",
    properties: {
      plain: { $ref: "#Plain:1.0.0" },
      list: { type: "array", items: { $ref: "#Plain:1.0.0" } },
      zod: { type: "string" },
      box: { type: "boolean" },
    },
  });
});

it("tools take every form of a schema", () => {
  const zod = z.object({ a: z.string() });
  const one = tool("t", "1.0.0", { inputSchema: zod, outputSchema: Plain }).source(server("s", "1.0.0"));
  pipeline(zod).step("a", one, ({ input }) => ({ a: input.a }));
  // @ts-expect-error the schema of Zod has no such field
  pipeline(zod).step("a", one, ({ input }) => ({ a: input.b }));
  const [found] = JSON.parse(registry([one]).toJSON()).tools;
  expect([found.inputSchema, found.outputSchema]).toEqual([
    { type: "object", properties: { a: { type: "string" } }, required: ["a"] },
    { $ref: "#Plain:1.0.0" },
  ]);
});

it("references of every form are kept", () => {
  const forms = [
    "#",
    "#/$defs/a",
    "#anchor",
    "#Name:1.0.0",
    "#Name:2.0.0-rc.1+b",
    "https://example.com/s",
    "other.json#/a",
  ];
  const source = { $defs: { a: true, b: { $anchor: "anchor" } }, anyOf: forms.map(($ref) => ({ $ref })) };
  expect(schemaOf(schema("Refs", "1.0.0", source))).toEqual(source);
});
