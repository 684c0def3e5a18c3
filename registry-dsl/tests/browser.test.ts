import { fileURLToPath } from "node:url";

import { build } from "esbuild";
import { expect, it } from "vitest";

it("library is bundled for browsers without modules of Node.js", async () => {
  const { outputFiles, metafile } = await build({
    entryPoints: [fileURLToPath(new URL("../src/index.ts", import.meta.url))],
    bundle: true,
    format: "esm",
    platform: "browser",
    write: false,
    metafile: true,
  });
  expect(Object.values(metafile.outputs).flatMap(({ imports }) => imports)).toEqual([]);
  expect(Object.keys(metafile.inputs).every((path) => !path.includes("node_modules"))).toBe(true);
  expect(outputFiles).toHaveLength(1);
});
