// The TypeScript package in Chromium: the builder, and the rules as WebAssembly, without modules of Node.js.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import http from "node:http";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

const PACKAGE = fileURLToPath(new URL("../../registry-dsl", import.meta.url));
const TYPES = { ".js": "text/javascript", ".wasm": "application/wasm" };

let site;
let browser;
let page;

before(async () => {
  // The built package, as a web server delivers it, and an empty page.
  site = http.createServer(async (request, response) => {
    const type = TYPES[path.extname(request.url)];
    if (type === undefined) return response.setHeader("content-type", "text/html").end("<!doctype html>");
    const content = await readFile(path.join(PACKAGE, request.url)).catch(() => undefined);
    if (content === undefined) return response.writeHead(404).end();
    response.setHeader("content-type", type).end(content);
  });
  site.listen(0, "127.0.0.1");
  await once(site, "listening");
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
  page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${site.address().port}/`);
});

after(async () => {
  await browser?.close();
  site?.close();
});

test("definitions are built and validated in a page", async () => {
  const found = await page.evaluate(async () => {
    const { registry, schema, server, tool, validate } = await import("/dist/index.js");
    const docs = server("docs", "1.0.0");
    const inputSchema = { type: "object", properties: { q: { type: "text" } } };
    const search = tool("search", "1.0.0", { inputSchema }).source(docs);
    const file = registry([docs, search, schema("Unused", "1.0.0", true)]);
    const { diagnostics, undecided } = await validate(file);
    const again = await validate(file.toJSON());
    return {
      tools: JSON.parse(file.toJSON()).tools.map(({ name }) => name),
      found: diagnostics.map(({ code, pointer }) => [code, pointer]),
      again: again.diagnostics.map(({ code }) => code),
      undecided: undecided.map(({ subject }) => subject),
    };
  });
  assert.deepEqual(found, {
    tools: ["search"],
    found: [
      ["schema-invalid", "/tools/0/inputSchema/properties/q/type"],
      ["schema-unused", "/schemas/0"],
    ],
    again: ["schema-invalid", "schema-unused"],
    undecided: ["compatibility", "ownership"],
  });
});

test("findings have the place of the call in a script of the page", async () => {
  await page.addScriptTag({
    type: "module",
    content: `import { registry, schema, validate } from "/dist/index.js";
const file = registry([schema("Wrong", "1.0.0", { type: "text" })]);
window.position = (await validate(file)).diagnostics[0].position;`,
  });
  const position = await (await page.waitForFunction(() => window.position)).jsonValue();
  assert.equal(position.line, 2);
});

test("missing module names its address and the remedy", async () => {
  const other = await browser.newPage();
  await other.route("**/*.wasm", (route) => route.fulfill({ status: 404 }));
  await other.goto(page.url());
  const error = await other.evaluate(async () => {
    const { validate } = await import("/dist/index.js");
    return validate("{}").catch(({ code, message, help }) => ({ code, message, help }));
  });
  assert.equal(error.code, "rules-unavailable");
  assert.match(error.message, /\/wasm\/registry_rules\.wasm/);
  assert.match(error.help, /application\/wasm/);
});
