/** The registry's rules as a WebAssembly module. */

import type { Diagnostic } from "./diagnostic.ts";
import { DslError } from "./errors.ts";

/** The interface of the module. Pointers and lengths are in bytes. */
interface Exports {
  readonly memory: WebAssembly.Memory;
  readonly alloc: (length: number) => number;
  readonly free: (pointer: number, length: number) => void;
  /**
   * Validates the text of a registry file. Returns the pointer of the JSON answer in the upper half and its length in
   * the lower. The caller frees both texts.
   */
  readonly validate: (pointer: number, length: number) => bigint;
}

const MODULE = new URL("../wasm/registry_rules.wasm", import.meta.url);

let compiled: Promise<WebAssembly.Module> | undefined;
let instance: Exports | undefined;

/** The findings of the registry's rules about the text of a registry file. */
export async function check(text: string): Promise<Diagnostic[]> {
  compiled ??= compile();
  const module = await compiled.catch((error: unknown) => {
    compiled = undefined;
    throw new DslError(
      "rules-unavailable",
      `cannot load the rules from ${MODULE.href}: ${(error as Error).message}`,
      MODULE.protocol === "file:"
        ? "install the package again; in a checkout of the repository, run `registry-dsl/scripts/build-wasm.sh`"
        : "serve `wasm/registry_rules.wasm` of the package there, as application/wasm",
      { cause: error },
    );
  });
  instance ??= (await WebAssembly.instantiate(module)).exports as unknown as Exports;
  try {
    const { diagnostics } = JSON.parse(call(instance, text)) as { diagnostics: Diagnostic[] };
    return diagnostics;
  } catch (error) {
    // The memory of a module that has trapped is in an unknown state.
    instance = undefined;
    throw new DslError(
      "rules-unavailable",
      `the rules stopped: ${(error as Error).message}`,
      "validate the file with `registryctl validate`, and report it",
      { cause: error },
    );
  }
}

/** Calls the module with a text, and reads the text of its answer. */
function call({ memory, alloc, free, validate }: Exports, input: string): string {
  const bytes = new TextEncoder().encode(input);
  const pointer = alloc(bytes.length);
  new Uint8Array(memory.buffer, pointer, bytes.length).set(bytes);
  const packed = BigInt.asUintN(64, validate(pointer, bytes.length));
  free(pointer, bytes.length);
  const [at, length] = [Number(packed >> 32n), Number(packed & 0xffff_ffffn)];
  const output = new TextDecoder().decode(new Uint8Array(memory.buffer, at, length));
  free(at, length);
  return output;
}

async function compile(): Promise<WebAssembly.Module> {
  if (MODULE.protocol !== "file:") return WebAssembly.compileStreaming(fetch(MODULE));
  // Bundlers for browsers must not resolve the name.
  const name = "node:fs/promises";
  const { readFile } = (await import(
    /* @vite-ignore */ /* webpackIgnore: true */ name
  )) as typeof import("node:fs/promises");
  return WebAssembly.compile(await readFile(MODULE));
}
