import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterAll, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const checkout = mkdtempSync(join(tmpdir(), "registry-dsl-"));
const copy = join(checkout, "registry-dsl");
afterAll(() => rmSync(checkout, { recursive: true }));

it("pack without the rules names the commands that build them", () => {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as any;
  expect(scripts.prepack).toMatch(/^node scripts\/prepack\.mjs && /);
  mkdirSync(join(copy, "scripts"), { recursive: true });
  copyFileSync(join(root, "scripts/prepack.mjs"), join(copy, "scripts/prepack.mjs"));
  writeFileSync(join(checkout, "LICENSE"), "");
  const prepack = () => spawnSync(process.execPath, ["scripts/prepack.mjs"], { cwd: copy, encoding: "utf8" });
  const { status, stderr } = prepack();
  expect([status, stderr.trimEnd().split("\n").length]).toEqual([1, 1]);
  expect(stderr).toContain("wasm/registry_rules.wasm is missing: run `scripts/build-wasm.sh`");
  expect(stderr).toContain("`rustup target add wasm32-unknown-unknown`");
  mkdirSync(join(copy, "wasm"));
  writeFileSync(join(copy, "wasm/registry_rules.wasm"), "");
  expect([prepack().status, existsSync(join(copy, "LICENSE"))]).toEqual([0, true]);
});
