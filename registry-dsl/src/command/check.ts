/** `check`: the rules of the registry, offline. */

import type { Registry } from "../registry.ts";
import { validate } from "../validate.ts";
import { rejected } from "./failure.ts";
import { counts } from "./plan.ts";
import { Report } from "./report.ts";
import { printJson, type Screen } from "./screen.ts";

/** Prints the verdict, and the questions that need a registry. */
export async function check(registry: Registry, to: Screen): Promise<void> {
  const { diagnostics, undecided } = await validate(registry);
  const report = new Report(diagnostics, registry);
  const isAccepted = !report.hasErrors;
  if (to.isJson) {
    printJson(to, { accepted: isAccepted, diagnostics: report.json, undecided });
  } else {
    to.error(report.render(to.errors));
  }
  if (!isAccepted) throw rejected(`invalid: ${report.counts}`);
  if (to.isJson) return;
  const summary = report.counts === "" ? "" : `; ${report.counts}`;
  to.out(`valid: ${counts(registry.entities.flatMap(({ effects }) => effects))}${summary}\n`);
  const subjects = undecided.filter(({ subject }) => subject !== "reference").map(({ message }) => message);
  to.out(`undecided without a registry: ${subjects.join("; ")}\n`);
}
