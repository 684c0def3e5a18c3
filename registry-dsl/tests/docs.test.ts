/** Examples of `docs/typescript.md` that change the project of the template. */

import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterAll, expect, it } from "vitest";

import { tool } from "../src/builder.ts";
import { registry, type Registry } from "../src/registry.ts";
import { validate } from "../src/validate.ts";
import { registryctl } from "./native.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
// Files below the package find it by its own name, so they need no package of their own.
const directory = mkdtempSync(join(root, "tests", ".docs-"));
afterAll(() => rmSync(directory, { recursive: true }));

const page = readFileSync(join(root, "../docs/typescript.md"), "utf8");

/** The first TypeScript below a heading of the page. */
function example(heading: string): string {
  const [, section = ""] = page.split(`\n### ${heading}\n`);
  const [, code = ""] = /```ts\n([^]*?)```/.exec(section) ?? [];
  expect(code, heading).not.toBe("");
  return code;
}

/** The registry of the template, with code at the end of `pages.ts` and with further entities. */
async function project(name: string, code: string, entities: readonly string[]): Promise<Registry> {
  const to = join(directory, name);
  for (const part of ["src", "tsconfig.json"])
    cpSync(join(root, "template", part), join(to, part), { recursive: true });
  const change = (file: string, edit: (text: string) => string): void =>
    writeFileSync(join(to, "src", file), edit(readFileSync(join(to, "src", file), "utf8")));
  change("pages.ts", (text) => `${text}\n${code}`);
  change("registry.ts", (text) =>
    text
      .replace("import { fetchPage", `import { ${[...entities, "fetchPage"].join(", ")}`)
      .replace("registry([Page", `registry([${[...entities, "Page"].join(", ")}`),
  );
  const { stdout, status } = spawnSync(join(root, "node_modules/.bin/tsc"), [], { cwd: to, encoding: "utf8" });
  expect([stdout, status]).toEqual(["", 0]);
  return ((await import(join(to, "src/registry.ts"))) as { default: Registry }).default;
}

/** The findings about a registry whose project was registered as the template. */
async function findings(changed: Registry): Promise<string[]> {
  const against = join(directory, "registered.json");
  writeFileSync(against, (await project("registered", "", [])).toJSON());
  const { diagnostics } = await validate(changed, { deep: { registryctl: registryctl(), against } });
  return diagnostics.map(({ code, message }) => `${code}: ${message}`);
}

it("tool is added to a registered server", async () => {
  const added = await project("added", example("Add a tool to a server"), ["pages2", "listNotes"]);
  expect(await findings(added)).toEqual([]);
  const { servers } = JSON.parse(added.toJSON());
  expect(servers[1].provides.map(({ tool }: any) => tool)).toEqual(["fetch_page", "store_note", "list_notes"]);
});

it("tool of a registered server is replaced", async () => {
  const replaced = await project("replaced", example("Replace a tool"), ["storeNote2"]);
  expect(await findings(replaced)).toEqual([]);
});

it("patterns have the documented signatures", async () => {
  await project("patterns", example("Patterns"), []);
  const { patterns, ...known } = (await import(join(directory, "patterns/src/pages.ts"))) as any;
  const composed = patterns.map((pattern: any, index: number) =>
    tool(`pattern_${index}`, "1.0.0", { description: "An example" }).composition(pattern),
  );
  const written = registry([...(Object.values(known) as any[]), ...composed]);
  const { diagnostics } = await validate(written);
  // The tools of the template do not fit each pattern.
  const invalid = diagnostics.filter(({ code }) => code !== "composition-mismatch");
  expect(invalid.map(({ entity, message }) => `${entity?.name}: ${message}`)).toEqual([]);
  const { tools } = JSON.parse(written.toJSON());
  const specs = tools.flatMap(({ spec }: any) => Object.keys(spec ?? {}));
  const [, table = ""] = page.split("| function | differences from the fields |\n");
  const rows = table.split("\n\n")[0]?.matchAll(/^\| `(\w+)\(/gm) ?? [];
  expect(specs.sort()).toEqual([...rows].map(([, name]) => name).sort());
});
