/** `init`: makes a project from the template. */

import { cpSync, existsSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { usage } from "./failure.ts";
import type { Screen } from "./screen.ts";

const TEMPLATE = fileURLToPath(new URL("../../template", import.meta.url));

/** Copies the template into a new or empty directory. */
export function init(directory: string, to: Screen): void {
  if (existsSync(directory) && readdirSync(directory).length > 0) {
    throw usage(`${directory} is not empty`, "choose a new directory");
  }
  cpSync(TEMPLATE, directory, { recursive: true });
  to.out(`project written to ${directory}; run \`npm install\` and \`npm run check\` there\n`);
}
