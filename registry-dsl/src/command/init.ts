/** `init`: makes a project from the template. */

import { cpSync, existsSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { usage } from "./failure.ts";
import type { Screen } from "./screen.ts";

const TEMPLATE = fileURLToPath(new URL("../../template", import.meta.url));

/** Copies the template into a new or empty directory. */
export function init(directory: string, to: Screen): void {
  if (existsSync(directory) && (!statSync(directory).isDirectory() || readdirSync(directory).length > 0)) {
    throw usage(`${directory} is not an empty directory`, "choose a new one");
  }
  try {
    cpSync(TEMPLATE, directory, { recursive: true });
    // npm packs no file with this name.
    writeFileSync(join(directory, ".gitignore"), "node_modules\n");
  } catch (error) {
    throw usage(`cannot write ${directory}: ${(error as Error).message}`);
  }
  to.out(
    `project written to ${directory}; run \`npm install --save-dev PACKAGE\` and \`npm run check\` there, ` +
      "with the path of the packed registry-dsl\n",
  );
}
