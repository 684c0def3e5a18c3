import { fileURLToPath } from "node:url";

import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { alias: { "registry-dsl": fileURLToPath(new URL("src/index.ts", import.meta.url)) } },
  test: { include: ["tests/**/*.test.ts"], testTimeout: 60_000 },
});
