/** Runs a TypeScript file that exports a registry. */

import { existsSync } from "node:fs";
import { register } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { Registry } from "../registry.ts";
import { usage } from "./failure.ts";

/** The registry that a file exports as `default`. */
export async function load(file: string): Promise<Registry> {
  const path = resolve(file);
  if (!existsSync(path)) throw usage(`cannot read ${file}: there is no such file`);
  await prepare(path);
  const module = (await import(pathToFileURL(path).href)) as { default?: unknown };
  if (module.default instanceof Registry) return module.default;
  throw usage(
    `${file} does not export a registry`,
    "write `export default registry([…])`, with the installed registry-dsl",
  );
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
