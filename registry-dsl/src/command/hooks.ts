/** A module loader that removes the types of TypeScript files, for versions of Node.js that do not. */

import { readFile } from "node:fs/promises";
import type { LoadHook } from "node:module";
import { fileURLToPath } from "node:url";

/** Loads TypeScript files; other modules unchanged. */
export const load: LoadHook = async (url, context, nextLoad) => {
  const { pathname, protocol } = new URL(url);
  if (protocol !== "file:" || !/\.m?ts$/.test(pathname)) return nextLoad(url, context);
  const { transform } = await import("esbuild");
  const file = fileURLToPath(url);
  const { code } = await transform(await readFile(file, "utf8"), {
    loader: "ts",
    format: "esm",
    target: "node20",
    sourcemap: "inline",
    sourcefile: file,
  });
  return { format: "module", source: code, shortCircuit: true };
};
