import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";

import { addresses } from "../src/command/access.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
// Files below the package find it by its own name.
const directory = mkdtempSync(join(root, "tests", ".command-"));
const file = join(directory, "registry.ts");
const closers: (() => void)[] = [];

interface Outcome {
  readonly code: number | null;
  readonly out: string;
  readonly error: string;
}

/** Runs the built command. */
function run(args: readonly string[], environment: NodeJS.ProcessEnv = {}): Promise<Outcome> {
  const { REGISTRY_URL: _, REGISTRY_TOKEN: __, ...inherited } = process.env;
  const child = spawn(process.execPath, [join(root, "dist/command/main.js"), ...args], {
    cwd: directory,
    env: { ...inherited, USER: "ann", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [out, error] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (error += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, out, error }));
  });
}

type Answer = { readonly status?: number; readonly body: unknown };

/** A registry that answers each method in turn, and its requests. */
async function registryServer(answers: { readonly [method: string]: readonly Answer[] }) {
  const requests: { readonly method: string; readonly headers: NodeJS.Dict<string | string[]>; readonly body: any }[] =
    [];
  const http = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk: Buffer) => (text += chunk.toString()));
    request.on("end", () => {
      const method = (request.url ?? "").split("/").at(-1) ?? "";
      const earlier = requests.filter((one) => one.method === method).length;
      requests.push({ method, headers: request.headers, body: JSON.parse(text) });
      const { status = 200, body } = answers[method]?.[earlier] ?? { status: 500, body: "unexpected" };
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  closers.push(() => http.close());
  return { requests, url: `http://127.0.0.1:${(http.address() as AddressInfo).port}` };
}

const key = (kind: string, name: string) => ({ kind: `ENTITY_KIND_${kind}`, name, version: "1.0.0" });
const digest = `sha256:${"ab".repeat(32)}`;
const change = (action: string, kind: string, name: string) => ({
  key: key(kind, name),
  action: `CHANGE_ACTION_${action}`,
  digest,
});
const PLAN = {
  revision: "7",
  plan: [
    change("UNCHANGED", "SCHEMA", "Query"),
    change("REGISTER", "SERVER", "docs"),
    change("REGISTER", "TOOL", "search"),
  ],
};
const NOTHING = {
  revision: "7",
  plan: [
    change("UNCHANGED", "SCHEMA", "Query"),
    change("UNCHANGED", "SERVER", "docs"),
    change("UNCHANGED", "TOOL", "search"),
  ],
};
const NO_NODES = { body: { graph: {}, revision: "7" } };

beforeAll(() => {
  writeFileSync(
    file,
    `import { registry, schema, server, tool } from "registry-dsl";

const name: string = "search";
const Query = schema("Query", "1.0.0", {
  type: "object",
  properties: { query: { type: "string" } },
});
const docs = server("docs", "1.0.0");
const search = tool(name, "1.0.0", {
  description: "Find documents",
  inputSchema: Query,
}).source(docs);

export default registry([Query, docs, search]);
`,
  );
});
afterEach(() => closers.splice(0).forEach((close) => close()));
afterAll(() => rmSync(directory, { recursive: true }));

describe("build", () => {
  it("registry file is written and compared", async () => {
    const out = join(directory, "registry.json");
    const missing = await run(["build", "registry.ts", "--out", out, "--check"]);
    expect([missing.code, missing.out]).toEqual([1, ""]);
    expect((await run(["build", "registry.ts", "--out", out])).code).toBe(0);
    const printed = await run(["build", "registry.ts"]);
    expect(printed.out).toBe(readFileSync(out, "utf8"));
    expect((await run(["build", "registry.ts", "--out", out, "--check"])).code).toBe(0);
    writeFileSync(out, printed.out.replace("Find", "Search"));
    expect((await run(["build", "registry.ts", "--out", out, "--check"])).code).toBe(1);
  });

  it("file without a registry is an error", async () => {
    writeFileSync(join(directory, "other.ts"), "export const a: number = 1;\n");
    expect(await run(["build", "other.ts"])).toMatchObject({ code: 2, out: "" });
    expect(await run(["build", "nowhere.ts"])).toMatchObject({ code: 2, out: "" });
  });

  it("errors of the source name their place", async () => {
    const source = readFileSync(file, "utf8");
    const failed = async (name: string, text: string) => {
      writeFileSync(join(directory, name), text);
      return run(["build", name]);
    };
    const thrown = await failed("thrown.ts", source.replace("const docs", "null!.x;\nconst docs"));
    expect([thrown.code, thrown.error]).toEqual([2, expect.stringContaining(" --> thrown.ts:8:")]);
    const syntax = await failed("syntax.ts", source.replace("const docs", "const const docs"));
    expect([syntax.code, syntax.error]).toEqual([2, expect.stringMatching(/syntax\.ts:8/)]);
    const value = source.replace('description: "Find documents"', "metadata: { since: new Date() }");
    const invalid = await failed("value.ts", value);
    expect(invalid).toMatchObject({ code: 1, out: "" });
    expect(invalid.error).toMatchInlineSnapshot(`
      "error: the value at /metadata/since is an instance of Date, which is not JSON
       --> value.ts:9:16
        = help: use null, booleans, finite numbers, strings, arrays and object literals
      "
    `);
  });

  it("invalid arguments are errors", async () => {
    for (const args of [
      ["biuld", "registry.ts"],
      ["build"],
      ["build", "a.ts", "b.ts"],
      ["build", "registry.ts", "--yes"],
      ["plan", "registry.ts", "--output", "xml"],
      ["build", "registry.ts", "--check"],
      ["check", "registry.ts", "--bogus"],
      ["init", "registry.ts"],
      ["init", "."],
    ]) {
      expect((await run(args)).code, args.join(" ")).toBe(2);
    }
    expect((await run(["--help"])).out.split("\n").every((line) => line.length <= 100)).toBe(true);
  });
});

describe("check", () => {
  it("valid registry is counted", async () => {
    expect(await run(["check", "registry.ts"])).toMatchInlineSnapshot(`
      {
        "code": 0,
        "error": "",
        "out": "valid: 3 register
      undecided without a registry: compatibility with registered versions and policies; owners, scopes and roles
      ",
      }
    `);
  });

  it("findings point to the source", async () => {
    writeFileSync(
      join(directory, "broken.ts"),
      readFileSync(file, "utf8")
        .replace('type: "string"', 'type: "text"')
        .replace('server("docs", "1.0.0")', 'server("docs", "1.0.0").provides()')
        .replace(".source(docs)", '.source(docs, { tool: "find", hideFields: ["qeury" as never] })'),
    );
    const { code, out, error } = await run(["check", "broken.ts"]);
    expect([code, out]).toEqual([1, ""]);
    expect(error).toMatchInlineSnapshot(`
      "error[schema-invalid]: "text" is not a type; the types are array, boolean, integer, null, number, object and string
       --> broken.ts:6:26
        |
      6 |   properties: { query: { type: "text" } },
        |                          ^^^^
        = help: see https://json-schema.org for the syntax of the keyword

      error[source-not-provided]: server/docs@1.0.0 does not provide \`find\`
        --> broken.ts:12:19
         |
      12 | }).source(docs, { tool: "find", hideFields: ["qeury" as never] });
         |                   ^^^^
         = help: the server provides no tools; register a version that does

      warning[document-invalid]: the hidden field \`qeury\` is not in the input schema
        --> broken.ts:12:33
         |
      12 | }).source(docs, { tool: "find", hideFields: ["qeury" as never] });
         |                                 ^^^^^^^^^^
         = help: did you mean \`query\`?

      error: invalid: 2 errors, 1 warning
      "
    `);
  });

  it("result is available as JSON", async () => {
    const { code, out } = await run(["check", "broken.ts", "--output", "json"]);
    const { accepted, diagnostics } = JSON.parse(out);
    expect([code, accepted]).toEqual([1, false]);
    expect(diagnostics[0]).toMatchObject({
      severity: "error",
      pointer: expect.any(String),
      file: expect.stringContaining("broken.ts"),
      line: expect.any(Number),
      column: expect.any(Number),
    });
  });
});

describe("plan", () => {
  it("plan is that of the registry", async () => {
    const { url, requests } = await registryServer({ ApplyChanges: [{ body: PLAN }], GetDependents: [NO_NODES] });
    const outcome = await run(["plan", "registry.ts", "--registry", url, "--exit-code"]);
    expect(outcome).toMatchInlineSnapshot(`
      {
        "code": 5,
        "error": "error: changes are pending
      ",
        "out": "   EFFECT     KIND    NAME    VERSION  DIGEST
      =  unchanged  schema  Query   1.0.0    abababababab
      +  register   server  docs    1.0.0    abababababab
      +  register   tool    search  1.0.0    abababababab
      plan: 2 register, 1 unchanged
      dry run: the registry stays at revision 7
      ",
      }
    `);
    expect(requests.map(({ method }) => method)).toEqual(["ApplyChanges", "GetDependents"]);
    expect(requests[0]?.body).toMatchObject({ validateOnly: true, author: "ann" });
    expect(requests[0]?.body.requestId).toBeUndefined();
    expect(requests[1]?.body).toEqual({ keys: [key("SCHEMA", "Query")], maxDepth: 0, at: { revision: "7" } });
  });

  it("unchanged entity with its lifecycle is one line", async () => {
    const lifecycle = (action: string) => ({ ...change(action, "TOOL", "search"), digest: "" });
    const { url } = await registryServer({
      ApplyChanges: [
        { body: { ...NOTHING, plan: [...NOTHING.plan, lifecycle("UNCHANGED")] } },
        { body: { ...NOTHING, plan: [...NOTHING.plan, lifecycle("DEPRECATE")] } },
      ],
      GetDependents: [NO_NODES, NO_NODES],
    });
    const planned = async () => (await run(["plan", "registry.ts", "--registry", url])).out;
    expect(await planned()).toContain("plan: 3 unchanged\n");
    expect(await planned()).toMatchInlineSnapshot(`
      "   EFFECT     KIND    NAME    VERSION  DIGEST
      =  unchanged  schema  Query   1.0.0    abababababab
      =  unchanged  server  docs    1.0.0    abababababab
      =  unchanged  tool    search  1.0.0    abababababab
      ~  deprecate  tool    search  1.0.0
      plan: 1 deprecate, 3 unchanged
      dry run: the registry stays at revision 7
      "
    `);
  });

  it("retired entities are named", async () => {
    const node = { key: key("TOOL", "search"), lifecycleState: "LIFECYCLE_STATE_RETIRED" };
    const { url } = await registryServer({
      ApplyChanges: [{ body: NOTHING }],
      GetDependents: [{ body: { graph: { nodes: [node] } } }],
    });
    expect(await run(["plan", "registry.ts"], { REGISTRY_URL: url })).toMatchInlineSnapshot(`
      {
        "code": 0,
        "error": "",
        "out": "plan: 3 unchanged
      tool/search@1.0.0 stays retired; \`registryctl restore tool/search@1.0.0\` makes that version active
      dry run: the registry stays at revision 7
      ",
      }
    `);
  });

  it("findings of the registry point to the source", async () => {
    const finding = {
      code: "not-owner",
      severity: "DIAGNOSTIC_SEVERITY_ERROR",
      entity: key("TOOL", "search"),
      change: 2,
      pointer: "/description",
      message: "tool/search belongs to `docs`",
      help: "ask its owner",
    };
    const { url } = await registryServer({ ApplyChanges: [{ body: { revision: "7", diagnostics: [finding] } }] });
    const { code, out, error } = await run(["plan", "registry.ts", "--registry", url]);
    expect([code, out]).toEqual([1, ""]);
    expect(error).toMatchInlineSnapshot(`
      "error[not-owner]: tool/search belongs to \`docs\`
        --> registry.ts:10:3
         |
      10 |   description: "Find documents",
         |   ^^^^^^^^^^^
         = help: ask its owner

      error: rejected: 1 error; nothing was changed
      "
    `);
  });
});

describe("apply", () => {
  it("changes are applied with one request id", async () => {
    const { url, requests } = await registryServer({
      ApplyChanges: [{ body: PLAN }, { body: { ...PLAN, revision: "8", committed: true } }],
      GetDependents: [NO_NODES],
    });
    const outcome = await run(["apply", "registry.ts", "--registry", url, "--yes", "-m", "Add search"], {
      REGISTRY_TOKEN: "secret\n",
    });
    expect(outcome).toMatchObject({ code: 0, error: "" });
    expect(outcome.out).toMatchInlineSnapshot(`
      "   EFFECT     KIND    NAME    VERSION  DIGEST
      =  unchanged  schema  Query   1.0.0    abababababab
      +  register   server  docs    1.0.0    abababababab
      +  register   tool    search  1.0.0    abababababab
      plan: 2 register, 1 unchanged
      applied: the registry is at revision 8
      "
    `);
    const [, , commit] = requests;
    expect(commit?.headers["authorization"]).toBe("Bearer secret");
    expect(commit?.body).toMatchObject({
      validateOnly: false,
      message: "Add search",
      requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    expect(commit?.body.author).toBeUndefined();
  });

  it("nothing is applied without changes or confirmation", async () => {
    const same = await registryServer({ ApplyChanges: [{ body: NOTHING }], GetDependents: [NO_NODES] });
    expect(await run(["apply", "registry.ts", "--registry", same.url])).toMatchInlineSnapshot(`
      {
        "code": 0,
        "error": "",
        "out": "plan: 3 unchanged
      nothing to change: the registry stays at revision 7
      ",
      }
    `);
    const other = await registryServer({ ApplyChanges: [{ body: PLAN }], GetDependents: [NO_NODES] });
    expect((await run(["apply", "registry.ts", "--registry", other.url])).code).toBe(2);
    expect(other.requests.map(({ method }) => method)).toEqual(["ApplyChanges", "GetDependents"]);
  });

  it("rejections have the reason of the registry", async () => {
    const body = {
      code: "aborted",
      message: "base_revision is 7 but the registry is at revision 9",
      details: [
        { type: "google.rpc.ErrorInfo", value: "", debug: { reason: "BASE_REVISION_MISMATCH", domain: "registry" } },
      ],
    };
    const { url } = await registryServer({ ApplyChanges: [{ status: 409, body }] });
    expect(await run(["apply", "registry.ts", "--registry", url, "--yes", "--base-revision", "7"]))
      .toMatchInlineSnapshot(`
      {
        "code": 1,
        "error": "error[BASE_REVISION_MISMATCH]: base_revision is 7 but the registry is at revision 9
      ",
        "out": "",
      }
    `);
  });

  it("transient failures are repeated with one request id", async () => {
    const busy = {
      status: 503,
      body: {
        code: "unavailable",
        message: "busy",
        details: [{ type: "google.rpc.ErrorInfo", value: "", debug: { reason: "CONTENTION" } }],
      },
    };
    const { url, requests } = await registryServer({
      ApplyChanges: [{ body: PLAN }, busy, { body: { ...PLAN, revision: "8", committed: true } }],
      GetDependents: [NO_NODES],
    });
    expect((await run(["apply", "registry.ts", "--registry", url, "--yes", "--request-id", "r1"])).code).toBe(0);
    expect(requests.map(({ body }) => body.requestId)).toEqual([undefined, undefined, "r1", "r1"]);
  });

  it("result is available as JSON", async () => {
    const { url } = await registryServer({
      ApplyChanges: [{ body: PLAN }, { body: { ...PLAN, revision: "8", committed: true } }],
      GetDependents: [NO_NODES],
    });
    const { out } = await run(["apply", "registry.ts", "--registry", url, "--yes", "--output", "json"]);
    expect(JSON.parse(out)).toEqual({
      accepted: true,
      revision: 8,
      committed: true,
      dryRun: false,
      diagnostics: [],
      plan: [
        { kind: "schema", name: "Query", version: "1.0.0", effect: "unchanged", digest },
        { kind: "server", name: "docs", version: "1.0.0", effect: "register", digest },
        { kind: "tool", name: "search", version: "1.0.0", effect: "register", digest },
      ],
    });
  });

  it("commit with an unknown outcome can be repeated", async () => {
    const details = [{ type: "google.rpc.ErrorInfo", value: "", debug: { reason: "DEADLINE_EXCEEDED" } }];
    const late = { status: 504, body: { code: "deadline_exceeded", message: "late", details } };
    const { url } = await registryServer({ ApplyChanges: [{ body: PLAN }, late], GetDependents: [NO_NODES] });
    const { code, error } = await run(["apply", "registry.ts", "--registry", url, "--yes", "--request-id", "r1"]);
    expect([code, error]).toEqual([4, expect.stringContaining("--request-id r1")]);
  });

  it("missing token has a remedy", async () => {
    const details = [{ type: "google.rpc.ErrorInfo", value: "", debug: { reason: "CREDENTIALS_MISSING" } }];
    const body = { code: "unauthenticated", message: "no credentials", details };
    const { url } = await registryServer({ ApplyChanges: [{ status: 401, body }] });
    const { code, error } = await run(["plan", "registry.ts", "--registry", url]);
    expect([code, error]).toEqual([1, expect.stringContaining("set REGISTRY_TOKEN")]);
  });

  it("server without TLS has a remedy", async () => {
    const { url } = await registryServer({});
    const { code, error } = await run(["plan", "registry.ts", "--registry", url.replace("http", "https")]);
    expect([code, error]).toEqual([3, expect.stringMatching(/TLS failed: wrong version number\n.*write http:/)]);
  });

  it("redirects are not followed", async () => {
    const http = createServer((_, response) => response.writeHead(301, { location: "http://127.0.0.1:1/" }).end());
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    closers.push(() => http.close());
    const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
    const { code, error } = await run(["plan", "registry.ts", "--registry", url]);
    expect([code, error]).toEqual([3, expect.stringContaining("redirect")]);
  });

  it("the first address sets the scheme of later ones", () => {
    for (const list of ["https://a:1,b:2", "grpcs://a:1, https://b:2/"]) {
      expect(addresses(list)).toEqual(["https://a:1", "https://b:2"]);
    }
    expect(addresses("a:1,http://b:2")).toEqual(["http://a:1", "http://b:2"]);
    for (const mixed of ["https://a:1,http://b:2", "http://a:1,grpcs://b:2", "a:1,https://b:2"]) {
      expect(() => addresses(mixed)).toThrow("the servers have different schemes");
    }
  });

  it("tokens are not sent unencrypted to other hosts", async () => {
    const { code, error } = await run([
      "plan",
      "registry.ts",
      "--registry",
      "http://registry.example:7070",
      "--token",
      "secret",
    ]);
    expect(code).toBe(2);
    expect(error).not.toContain("secret");
  });

  it("other servers are not taken for a registry", async () => {
    const { url } = await registryServer({ ApplyChanges: [{ status: 404, body: "not found" }] });
    expect((await run(["plan", "registry.ts", "--registry", url])).code).toBe(4);
    expect((await run(["plan", "registry.ts", "--registry", "ftp://x"])).code).toBe(2);
  });
});

describe("from", () => {
  it("written TypeScript builds the same file", async () => {
    const example = join(root, "tests/data/registry-v2.json");
    expect((await run(["from", example, "--out", "copy.ts"])).code).toBe(0);
    expect((await run(["build", "copy.ts"])).out).toBe(readFileSync(example, "utf8"));
  });

  it("invalid files are rejected", async () => {
    writeFileSync(join(directory, "invalid.json"), '{"schemaVersion":"2.0","tools":[{}]}');
    expect(await run(["from", "invalid.json"])).toMatchObject({ code: 1, out: "" });
    expect(await run(["from", "nowhere.json"])).toMatchObject({ code: 2, out: "" });
    writeFileSync(join(directory, "latin1.json"), Buffer.from('{"schemaVersion":"2.0","x":"\xe9"}', "latin1"));
    expect(await run(["from", "latin1.json"])).toMatchObject({ code: 2, out: "" });
  });
});

describe("init", () => {
  it("next command installs the packed file", async () => {
    expect(await run(["init", "project"])).toMatchObject({
      code: 0,
      error: "",
      out: "project written to project; run `npm install --save-dev PACKAGE` and `npm run check` there, with the path of the packed registry-dsl\n",
    });
  });
});
