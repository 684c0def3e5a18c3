import { readFileSync } from "node:fs";

import { expect, it } from "vitest";

// @ts-expect-error the script has no declarations
import { generate } from "../scripts/generate.mjs";

it("types are those of the schema of registry files", async () => {
  const types = readFileSync(new URL("../src/types.ts", import.meta.url), "utf8");
  expect(types, "run `npm run generate`").toBe(await generate());
});
