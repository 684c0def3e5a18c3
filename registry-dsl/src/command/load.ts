/** Runs a TypeScript file that exports a registry. */

import { existsSync } from "node:fs";
import { register } from "node:module";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { positionOf, type Position } from "../call-site.ts";
import { RegistryFailure } from "../client.ts";
import { DslError } from "../errors.ts";
import { Registry } from "../registry.ts";
import { Failure, usage } from "./failure.ts";

/** The registry that a file exports as `default`. */
export async function load(file: string): Promise<Registry> {
  const path = resolve(file);
  if (!existsSync(path)) throw usage(`cannot read ${file}: there is no such file`);
  await prepare(path);
  const module = await run(path, file);
  if (module.default instanceof Registry) return module.default;
  throw usage(
    `${file} does not export a registry`,
    "write `export default registry([…])`, with the installed registry-dsl",
  );
}

/** Runs a module. */
async function run(path: string, file: string): Promise<{ readonly default?: unknown }> {
  try {
    return (await import(pathToFileURL(path).href)) as { readonly default?: unknown };
  } catch (error) {
    if (error instanceof DslError || error instanceof RegistryFailure) throw error;
    const message = `cannot run ${file}: ${error instanceof Error ? error.message : String(error)}`;
    const help = error instanceof SyntaxError ? "`tsc` names the place of a syntax error" : undefined;
    throw new Failure(2, message, help, error instanceof Error ? placeOf(error) : undefined);
  }
}

/** The place of an error in a module. Node.js writes that of an import before the stack. */
function placeOf(error: Error): Position | undefined {
  const [, url, line] = /^(file:.+):(\d+)\n/.exec(error.stack ?? "") ?? [];
  if (url === undefined) return positionOf(error);
  return { file: fileURLToPath(url), line: Number(line), column: 1 };
}

/** Lets Node.js read TypeScript, and maps stacks to its lines. */
async function prepare(path: string): Promise<void> {
  if (!/\.[cm]?ts$/.test(path) || (process.features as { typescript?: unknown }).typescript) return;
  try {
    await import("esbuild");
  } catch {
    throw usage(
      `Node.js ${process.versions.node} reads no TypeScript`,
      "run `npm install --save-dev esbuild`, or use Node.js 22.18 or later",
    );
  }
  process.setSourceMapsEnabled(true);
  register("./hooks.js", import.meta.url);
}
