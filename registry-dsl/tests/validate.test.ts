import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { afterEach, describe, expect, it } from "vitest";

import { pipeline, registry, schema, server, tool, validate, type Definitions } from "../src/index.ts";
import { registryctl, verdicts } from "./native.ts";

const closers: (() => void)[] = [];
afterEach(() => closers.splice(0).forEach((close) => close()));

const codes = async (definitions: Iterable<Definitions>): Promise<string[]> =>
  (await validate(registry(definitions))).diagnostics.map(({ code }) => code);

const docs = server("docs", "1.0.0");
const search = tool("search", "1.0.0", {
  inputSchema: { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
}).source(docs);

describe("validate", () => {
  it("valid registry has no findings", async () => {
    expect(await codes([docs, search])).toEqual([]);
  });

  it("example is valid", async () => {
    const { default: example } = await import("../examples/registry-v2.ts");
    const { diagnostics } = await validate(example);
    expect(diagnostics.filter(({ severity }) => severity === "error")).toEqual([]);
  });

  it("findings have the place of the deepest call", async () => {
    const broken = tool("broken", "1.0.0", {
      inputSchema: { type: "object", properties: {}, additionalProperties: false },
    }).composition(
      pipeline()
        .step("one", search, () => ({ query: "x" }))
        .step("two", search, () => ({ query: 1 }) as any),
    );
    const { diagnostics } = await validate(registry([docs, search, broken]));
    const [mismatch] = diagnostics.filter(({ code }) => code === "composition-mismatch");
    const [entity] = broken.sites.values();
    expect(mismatch?.pointer).toMatch(/^\/tools\/0\/spec\/pipeline\/steps\/1/);
    expect(mismatch?.position).toEqual({
      file: import.meta.filename ?? expect.stringContaining("validate.test.ts"),
      line: (entity?.position?.line ?? 0) + 5,
      column: expect.any(Number),
    });
    expect(mismatch?.entity).toEqual({ kind: "tool", name: "broken", version: "1.0.0" });
  });

  it("replacement can be a later version", async () => {
    const pages = server("pages", "1.0.0");
    const next = tool("fetch", "2.0.0").source(pages);
    const old = tool("fetch", "1.0.0").source(pages).deprecated({ message: "use 2", replacement: next });
    expect(await codes([pages, old, next])).toEqual([]);
  });

  it("server with only renamed tools is valid", async () => {
    const parcels = server("parcels", "1.0.0");
    const all = ["quote_parcel", "track_parcel", "quote_parcel"].map((upstream, index) =>
      tool(`ts_${index}`, "1.0.0").source(parcels, { tool: upstream }),
    );
    expect(await codes([parcels, all])).toEqual([]);
  });

  it("texts and values are validated as written", async () => {
    const twice = await validate('{"schemaVersion":"2.0","tools":[],"tools":[]}');
    expect(twice.diagnostics.map(({ code, pointer }) => [code, pointer])).toEqual([["document-invalid", ""]]);
    const value = await validate({ schemaVersion: "2.0", schemas: [{ name: "a b", version: "1.0.0", schema: true }] });
    expect(value.diagnostics.map(({ code, pointer }) => [code, pointer])).toEqual([
      ["name-invalid", "/schemas/0/name"],
    ]);
    const long = await validate({
      schemaVersion: "2.0",
      schemas: [{ name: "A", version: "1.0.0", schema: { const: 9007199254740993n } }],
    });
    expect(long.diagnostics.map(({ code, pointer }) => [code, pointer])).toEqual([
      ["document-invalid", "/schemas/0/schema/const"],
    ]);
  });

  it("questions for a registry are named", async () => {
    const alone = await validate(registry([schema("A", "1.0.0", { $ref: "#B:1.0.0" })]));
    expect(alone.undecided.map(({ subject, pointer }) => [subject, pointer])).toEqual([
      ["compatibility", undefined],
      ["ownership", undefined],
      ["reference", "/schemas/0/schema/$ref"],
    ]);
  });

  it("calls after each other are independent", async () => {
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, index) => codes(index % 2 ? [docs, search] : [search])),
    );
    expect(all).toEqual(Array.from({ length: 20 }, (_, index) => (index % 2 ? [] : ["source-unknown"])));
  });
});

describe("deep validation", () => {
  it("registryctl decides like the module", async () => {
    const file = registry([search, schema("A", "1.0.0", { type: "no-type" })]);
    const [local, deep] = [await validate(file), await validate(file, { deep: { registryctl: registryctl() } })];
    expect(verdicts(deep.diagnostics)).toEqual(verdicts(local.diagnostics));
    expect(deep.diagnostics.length).toBeGreaterThan(0);
  });

  it("missing registryctl is an error with a remedy", async () => {
    await expect(
      validate(registry([docs, search]), { deep: { registryctl: "/nowhere/registryctl" } }),
    ).rejects.toMatchObject({ code: "rules-unavailable" });
  });

  it("token is not sent unencrypted to another host", async () => {
    const deep = { url: "http://registry.example:7070", token: "secret" };
    await expect(validate(registry([search]), { deep })).rejects.toMatchObject({ code: "token-exposed" });
  });

  it("documents that the registry cannot read are findings", async () => {
    const finding = { code: "document-invalid", severity: "DIAGNOSTIC_SEVERITY_ERROR", change: 0, pointer: "/title" };
    const body = {
      code: "invalid_argument",
      message: "rejected",
      details: [{ type: "registry.v1.ValidationFailure", value: "", debug: { diagnostics: [finding] } }],
    };
    const http = createServer((_, response) => {
      response.writeHead(400, { "content-type": "application/json" }).end(JSON.stringify(body));
    });
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    closers.push(() => http.close());
    const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
    const { diagnostics, undecided } = await validate(registry([docs, search]), { deep: { url } });
    expect(diagnostics).toMatchObject([{ code: "document-invalid", pointer: "/servers/0/title" }]);
    expect(undecided).toEqual([]);
  });

  it("registry decides about the references of a file", async () => {
    const requests: { url: string | undefined; authorization: string | undefined; body: any }[] = [];
    const http = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk: Buffer) => (body += chunk.toString()));
      request.on("end", () => {
        requests.push({ url: request.url, authorization: request.headers.authorization, body: JSON.parse(body) });
        response.setHeader("content-type", "application/json").end(
          JSON.stringify({
            revision: "7",
            diagnostics: [
              {
                code: "not-owner",
                severity: "DIAGNOSTIC_SEVERITY_ERROR",
                change: 0,
                pointer: "",
                message: "m",
                help: "h",
                entity: { kind: "ENTITY_KIND_TOOL", name: "search", version: "1.0.0" },
              },
            ],
          }),
        );
      });
    });
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    closers.push(() => http.close());
    const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/`;
    const { diagnostics, undecided } = await validate(registry([search]), { deep: { url, token: "secret" } });
    expect(undecided).toEqual([]);
    expect(diagnostics.map(({ code, pointer, entity, severity }) => ({ code, pointer, entity, severity }))).toEqual([
      {
        code: "not-owner",
        pointer: "/tools/0",
        entity: { kind: "tool", name: "search", version: "1.0.0" },
        severity: "error",
      },
    ]);
    expect(requests).toMatchObject([
      {
        url: "/registry.v1.RegistryService/ApplyChanges",
        authorization: "Bearer secret",
        body: { validateOnly: true },
      },
    ]);
    const [change] = requests[0]?.body.changes;
    expect(change.registerDocument.kind).toBe("ENTITY_KIND_TOOL");
    expect(JSON.parse(Buffer.from(change.registerDocument.json, "base64").toString())).toMatchObject({
      name: "search",
    });
  });
});
