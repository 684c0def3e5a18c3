// Packs the package, installs it in a fresh directory, makes a project from the template there, and uses it.
import { strict as assert } from "node:assert";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const directory = mkdtempSync(join(tmpdir(), "registry-dsl-"));

const run = (cwd, program, ...args) =>
  execFileSync(program, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
const npm = (cwd, ...args) => run(cwd, "npm", ...args, "--no-audit", "--no-fund", "--prefer-offline");

try {
  const [packed] = JSON.parse(npm(root, "pack", "--json", "--pack-destination", directory));
  const files = packed.files.map(({ path }) => path);
  for (const wanted of [
    "LICENSE",
    "README.md",
    "dist/index.js",
    "dist/index.d.ts",
    "dist/command/main.js",
    "wasm/registry_rules.wasm",
    "template/src/registry.ts",
  ]) {
    assert(files.includes(wanted), `the package has no ${wanted}`);
  }
  assert(!files.some((path) => /^(src|tests|node_modules)\//.test(path)), "the package has sources or tests");
  const archive = join(directory, packed.filename);

  // The command alone makes the project.
  const outer = join(directory, "outer");
  npm(directory, "install", "--prefix", outer, archive);
  run(outer, "npx", "registry-dsl", "init", "project");

  const project = join(outer, "project");
  // The file replaces the published version that the template names.
  npm(project, "install", "--save-dev", archive);
  assert.equal(readFileSync(join(project, ".gitignore"), "utf8"), "node_modules\n");

  const checked = npm(project, "run", "--silent", "check");
  assert.match(checked, /^valid: 6 register$/m);
  npm(project, "run", "build");
  assert(existsSync(join(project, "registry.json")));
  npm(project, "run", "verify");

  // A renamed field is an error of the compiler.
  const source = join(project, "src/pages.ts");
  const [schema, ...rest] = readFileSync(source, "utf8").split("export const pages");
  writeFileSync(source, [schema.replaceAll("title", "name"), ...rest].join("export const pages"));
  assert.throws(
    () => execFileSync("npx", ["tsc"], { cwd: project, stdio: "pipe" }),
    ({ stdout }) => /registry\.ts.*TS2339/.test(String(stdout)),
  );

  // The library runs without the command, and without its development dependencies.
  const program =
    'import { registry, schema, validate } from "registry-dsl"; const { diagnostics } = await validate(registry([schema("A", "1.0.0", true)])); console.log(diagnostics.map(({ code }) => code).join());';
  assert.equal(run(outer, "node", "--input-type=module", "--eval", program).trim(), "schema-unused");
  console.log("the package works in a fresh directory");
} finally {
  rmSync(directory, { recursive: true, force: true });
}
