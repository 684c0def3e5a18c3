/** `build`, and the writing of generated files. */

import { readFileSync, writeFileSync } from "node:fs";

import type { Registry } from "../registry.ts";
import type { Options } from "./arguments.ts";
import { rejected, usage } from "./failure.ts";
import type { Screen } from "./screen.ts";

/** Writes the registry file, or compares it with the present one. */
export function build(registry: Registry, source: string, options: Options, to: Screen): void {
  const text = registry.toJSON();
  if (options.check !== true) return write(text, options.out, to);
  if (options.out === undefined) throw usage("--check needs the file to compare with", "add --out FILE");
  if (present(options.out) === text) return to.out(`${options.out} is up to date\n`);
  throw rejected(`${options.out} is not up to date: run \`registry-dsl build ${source} --out ${options.out}\``);
}

function present(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw usage(`cannot read ${file}: ${(error as Error).message}`);
  }
}

/** Writes a text to a file, or to standard output. */
export function write(text: string, file: string | undefined, to: Screen): void {
  if (file === undefined) return to.out(text);
  try {
    writeFileSync(file, text);
  } catch (error) {
    throw usage(`cannot write ${file}: ${(error as Error).message}`);
  }
}
