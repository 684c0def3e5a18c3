/** Mistakes that the compiler finds. `tsc` checks this file; a line without its error fails the type check. */

import { expectTypeOf, it } from "vitest";

import {
  agent,
  filter,
  pipeline,
  policy,
  retry,
  saga,
  scatterGather,
  schema,
  server,
  tool,
  where,
  type Infer,
} from "../src/index.ts";

const Page = schema("Page", "1.0.0", {
  type: "object",
  properties: { title: { type: "string" }, size: { type: "integer" }, kind: { enum: ["html", "text"] } },
  required: ["title"],
});
const pages = server("pages", "1.0.0");
const fetchPage = tool("fetch", "1.0.0", {
  inputSchema: {
    type: "object",
    properties: { url: { type: "string" }, depth: { type: "integer" } },
    required: ["url"],
  },
  outputSchema: Page,
}).source(pages);
const store = tool("store", "1.0.0", {
  inputSchema: {
    type: "object",
    properties: {
      title: { type: "string" },
      size: { type: "integer" },
      tags: { type: "array", items: { type: "string" } },
    },
    required: ["title"],
  },
}).source(pages);
const Input = { type: "object", properties: { link: { type: "string" } }, required: ["link"] } as const;
const card = { description: "", url: "", protocolVersion: "", defaultInputModes: [], defaultOutputModes: [] };
const writer = agent("writer", "1.0.0", card).skill("write", {
  name: "",
  description: "",
  tags: [],
  outputSchema: Page,
});

it("schemas describe types", () => {
  expectTypeOf<Infer<typeof Page>>().toEqualTypeOf<{
    readonly title: string;
    readonly size?: number;
    readonly kind?: "html" | "text";
  }>();
  expectTypeOf<Infer<{ type: ["string", "null"] }>>().toEqualTypeOf<string | null>();
  expectTypeOf<Infer<{ anyOf: [{ const: 1 }, { type: "array"; items: { type: "boolean" } }] }>>().toEqualTypeOf<
    1 | boolean[]
  >();
  expectTypeOf<Infer<true>>().toBeAny();
});

const page = pipeline(Input).step("page", fetchPage, ({ input }) => ({ url: input.link }));
const action = { name: "A", action: fetchPage } as const;

/** Never called: only the compiler reads it. */
export function mistakes(): void {
  // @ts-expect-error a renamed tool is no longer defined
  pipeline().step("a", fetchPages);
  // @ts-expect-error a renamed skill is no longer defined
  pipeline().step("a", writer.skills.writing);
  // @ts-expect-error a renamed step is no longer defined
  page.step("b", store, ({ steps }) => ({ title: steps.pages.title }));
  // @ts-expect-error the result of the step has no such field
  page.step("b", store, ({ steps }) => ({ title: steps.page.name }));
  // @ts-expect-error the field has another type
  page.step("b", store, ({ steps }) => ({ title: steps.page.size }));
  page.step("b", store, ({ steps }) => ({
    // @ts-expect-error the error is at the member, not at the callback
    title: steps.page.size,
  }));
  scatterGather({ aggregation: [] }, Input).target(fetchPage, ({ input }) => ({
    url: input.link,
    // @ts-expect-error the target has no such field
    deep: 1,
  }));
  // @ts-expect-error the input has no such field
  page.step("b", fetchPage, ({ input }) => ({ url: input.url }));
  // @ts-expect-error the required field of the tool is missing
  page.step("b", fetchPage, () => ({ depth: 1 }));
  // @ts-expect-error the tool has no such field
  page.step("b", fetchPage, ({ input }) => ({ url: input.link, deep: 1 }));
  // @ts-expect-error a constant of another type
  page.step("b", fetchPage, () => ({ url: 1 }));
  // @ts-expect-error inner operations keep their types
  page.step("b", retry(fetchPage, { maxAttempts: 2, backoff: { fixed: { delayMs: 1 } } }), () => ({ link: "x" }));
  const order = saga(Input).step("a", { ...action, input: ({ input }) => ({ url: input.link }) });
  // @ts-expect-error the result of an earlier step of a saga has no such field
  order.output(({ steps }) => ({ x: steps.a.name }));
  // @ts-expect-error compensations are typed too
  order.step("b", { ...action, compensate: store, compensateInput: () => ({ name: "x" }) });
  // @ts-expect-error a field that the tool does not have
  tool("alias", "1.0.0", { inputSchema: Page }).source(pages, { hideFields: ["depth"] });
  // @ts-expect-error an unknown comparison
  filter(where("$.a", "equals", 1));
  // @ts-expect-error amounts are texts
  policy("p", "1.0.0", { price: { perCall: 0.5 } });
  // @ts-expect-error an unknown field
  server("s", "1.0.0", { provide: [] });
  // @ts-expect-error a version without its patch number
  server("s", "1.0");
  // @ts-expect-error a range
  schema("A", "^1.0.0", true);
}

/** Never called: definitions that the compiler must accept. */
export function accepted(): void {
  pipeline(Input)
    .step("page", fetchPage, ({ input }) => ({ url: input.link }))
    .step("write", writer.skills.write)
    .step("stored", store, ({ steps }) => ({ title: steps.write.title, size: steps.page.size, tags: ["a"] }));
  // The registry, not the compiler, proves that a text is one of an enumeration.
  pipeline(Input).step("a", tool("t", "1.0.0", { inputSchema: Page }).source(pages), ({ input }) => ({
    title: "x",
    kind: input.link,
  }));
  pipeline().step("a", fetchPage, ({ input }) => ({ url: input.anything.at.all }));
  // Validation checks versions that are not literals.
  for (const version of ["1.0.0", "1.10.0-rc.1+build.5"]) tool("t", version).source(pages);
  policy("p", "1.10.0-rc.1+build.5", {});
}
