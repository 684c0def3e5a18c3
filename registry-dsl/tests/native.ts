/** The registry's rules as native programs, to compare the module with. */

import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { parseKey } from "../src/key.ts";
import type { Diagnostic } from "../src/diagnostic.ts";

/** A finding without texts. */
export type Verdict = string;

/** The comparable parts of findings, in one order. */
export function verdicts(
  diagnostics: readonly Pick<Diagnostic, "code" | "severity" | "entity" | "pointer">[],
): Verdict[] {
  return diagnostics
    .map(({ code, severity, entity, pointer }) => JSON.stringify([code, severity, entity, pointer]))
    .sort();
}

/** A finding of `registryctl`. */
export type NativeDiagnostic = Omit<Diagnostic, "entity"> & { readonly entity: string | null };

/** A finding of `registryctl` in the form of the module. */
export function fromNative({ entity, ...found }: NativeDiagnostic): Diagnostic {
  return { ...found, entity: entity === null ? null : (parseKey(entity) ?? null) };
}

/** The rules of a native program. */
export interface NativeRules {
  check(text: string): Promise<readonly Pick<Diagnostic, "code" | "severity" | "entity" | "pointer">[]>;
  close(): void;
}

/**
 * The program of REGISTRY_RULES, which reads `{"text"}` and writes `{"diagnostics"}` per line; else `registryctl` of
 * REGISTRYCTL or of the debug build, which starts once per text.
 */
export function nativeRules(): NativeRules {
  const program = process.env["REGISTRY_RULES"];
  return program === undefined ? spawned(registryctl()) : lines(program);
}

/** The path of `registryctl`. */
export function registryctl(): string {
  const built = fileURLToPath(new URL("../../target/debug/registryctl", import.meta.url));
  const path = process.env["REGISTRYCTL"] ?? built;
  if (!existsSync(path))
    throw new Error(`${path} is missing: run \`cargo build --bin registryctl\`, or set REGISTRYCTL`);
  return path;
}

function spawned(path: string): NativeRules {
  return {
    async check(text) {
      const { stdout, stderr } = spawnSync(path, ["validate", "--output", "json", "-f", "-"], {
        input: text,
        encoding: "utf8",
      });
      if (stdout === "") throw new Error(stderr);
      const { diagnostics } = JSON.parse(stdout) as { diagnostics: NativeDiagnostic[] };
      return diagnostics
        .filter(({ pointer, help }) => pointer !== "" || !help?.includes("`registryctl import registry"))
        .map(fromNative);
    },
    close() {},
  };
}

function lines(path: string): NativeRules {
  const child = spawn(path, [], { stdio: ["pipe", "pipe", "inherit"] });
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async check(text) {
      // JSON in UTF-8 has no lone surrogates; the module gets the same replacements.
      const wellFormed = Buffer.from(text).toString();
      child.stdin.write(`${JSON.stringify({ text: wellFormed })}\n`);
      const { value, done } = await answers.next();
      if (done === true) throw new Error(`${path} ended`);
      return (JSON.parse(value) as { diagnostics: Diagnostic[] }).diagnostics;
    },
    close: () => child.stdin.end(),
  };
}
