/** `plan` and `apply`: the registry's plan, a confirmation, and one commit. */

import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline/promises";

import { keyMessage } from "../changes.ts";
import { RegistryFailure, type Applied, type CommitFields, type RegistryClient } from "../client.ts";
import type { JsonValue } from "../json.ts";
import { keyText } from "../key.ts";
import type { Registry } from "../registry.ts";
import { connect, hasToken } from "./access.ts";
import type { Options } from "./arguments.ts";
import { Failure, rejected, usage } from "./failure.ts";
import { counts, effective, json, table } from "./plan.ts";
import { Report } from "./report.ts";
import { printJson, type Screen } from "./screen.ts";

/** Maximum number of printed keys. */
const SHOWN = 10;

/** A plan without errors. */
interface Planned extends Applied {
  readonly report: Report;
  /** Unchanged entities that are retired. */
  readonly retired: readonly string[];
}

/** Shows the changes that the registry would make. */
export async function plan(registry: Registry, options: Options, to: Screen): Promise<void> {
  const file = JSON.parse(registry.toJSON()) as JsonValue;
  const planned = await request(connect(options), registry, file, commitFields(options), to);
  finish(planned, undefined, true, to);
  if (options["exit-code"] === true && effective(planned.plan) > 0) throw new Failure(5, "changes are pending");
}

/** Applies the registry file as one commit. */
export async function apply(registry: Registry, options: Options, to: Screen): Promise<void> {
  const client = connect(options);
  const file = JSON.parse(registry.toJSON()) as JsonValue;
  const commit = commitFields(options);
  const planned = await request(client, registry, file, commit, to);
  const changes = effective(planned.plan);
  if (changes === 0) return finish(planned, undefined, false, to);
  if (options.yes !== true) await confirm(changes, to);
  const applied = await client.apply(file, commit).catch((error: unknown) => {
    if (isOutcomeUnknown(error)) {
      to.error(
        `note: the commit may have been stored; repeat the command with --request-id ${commit.requestId} to find out\n`,
      );
    }
    throw withFindings(error, registry, to);
  });
  finish(planned, applied, false, to);
}

function commitFields(options: Options): CommitFields {
  const revision = options["base-revision"];
  if (revision !== undefined && !/^\d+$/.test(revision))
    throw usage(`invalid value ${revision} for --base-revision`, "write a number");
  const local = hasToken(options) ? undefined : process.env["USER"];
  const author = options.author ?? local;
  return {
    requestId: options["request-id"] ?? randomUUID(),
    ...(author === undefined ? {} : { author }),
    ...(options.message === undefined ? {} : { message: options.message }),
    ...(revision === undefined ? {} : { baseRevision: Number(revision) }),
    ...(options["allow-policy-break"] === true ? { allowPolicyBreak: true } : {}),
  };
}

/** Requests a plan and prints it. Errors reject it. */
async function request(
  client: RegistryClient,
  registry: Registry,
  file: JsonValue,
  commit: CommitFields,
  to: Screen,
): Promise<Planned> {
  const planned = await client.plan(file, commit).catch((error: unknown) => {
    throw withFindings(error, registry, to);
  });
  const report = new Report(planned.diagnostics, registry);
  if (report.hasErrors) throw rejectedBatch(report, to);
  const retired = await retiredKeys(client, registry, planned);
  if (!to.isJson) {
    to.error(report.render(to.errors));
    if (effective(planned.plan) > 0) to.out(table(planned.plan, to.style));
    to.out(`plan: ${counts(planned.plan)}\n`);
    if (retired.length > 0) to.out(retiredLine(retired));
  }
  return { ...planned, report, retired };
}

/** The unchanged entities that are retired. Registering an entity again does not restore it. */
async function retiredKeys(client: RegistryClient, registry: Registry, { plan, revision }: Applied): Promise<string[]> {
  const changed = new Set(plan.filter(({ effect }) => effect !== "unchanged").map(({ key }) => keyText(key)));
  const candidates = registry.entities.filter((one) => one.effects.length === 1 && !changed.has(keyText(one)));
  return candidates.length === 0 ? [] : (await client.retired(candidates.map(keyMessage), revision)).map(keyText);
}

function retiredLine(retired: readonly string[]): string {
  const more = retired.length > SHOWN ? ` and ${retired.length - SHOWN} more` : "";
  const stay = retired.length === 1 ? "stays" : "stay";
  return `${retired.slice(0, SHOWN).join(", ")}${more} ${stay} retired; \`registryctl restore ${retired[0]}\` makes that version active\n`;
}

/** Prints the findings of a rejected batch. */
function withFindings(error: unknown, registry: Registry, to: Screen): unknown {
  const isInvalid = error instanceof RegistryFailure && error.kind === "invalid";
  return isInvalid ? rejectedBatch(new Report(error.diagnostics, registry), to) : error;
}

function rejectedBatch(report: Report, to: Screen): Failure {
  if (to.isJson) {
    printJson(to, { accepted: false, diagnostics: report.json });
  } else {
    to.error(report.render(to.errors));
  }
  return rejected(`rejected: ${report.counts}; nothing was changed`);
}

function isOutcomeUnknown(error: unknown): boolean {
  if (!(error instanceof RegistryFailure)) return false;
  const reasons = ["DEADLINE_EXCEEDED", "DeadlineExceeded", "OUTCOME_UNKNOWN"];
  return error.kind === "unreachable" || reasons.includes(error.reason);
}

/** Asks on the terminal. Every answer except `y` and `yes` aborts. */
async function confirm(changes: number, to: Screen): Promise<void> {
  if (!process.stdin.isTTY)
    throw usage("cannot prompt for confirmation: stdin is not a terminal; use --yes or `registry-dsl plan`");
  const question = changes === 1 ? "Apply this change?" : `Apply these ${changes} changes?`;
  to.error(`${question} [y/N] `);
  const reader = createInterface({ input: process.stdin });
  const answer = await reader.question("");
  reader.close();
  if (!["y", "yes"].includes(answer.trim().toLowerCase())) throw rejected("aborted");
}

/** Prints the result. */
function finish(planned: Planned, applied: Applied | undefined, isDryRun: boolean, to: Screen): void {
  const { revision, committed } = applied ?? planned;
  if (to.isJson) {
    printJson(to, {
      accepted: true,
      revision,
      committed: applied !== undefined && committed,
      dryRun: isDryRun,
      plan: planned.plan.map(json),
      diagnostics: planned.report.json,
      ...(planned.retired.length === 0 ? {} : { retired: planned.retired }),
    });
  } else if (isDryRun) {
    to.out(`dry run: the registry stays at revision ${revision}\n`);
  } else if (applied?.committed === true) {
    to.out(`applied: the registry is at revision ${revision}\n`);
  } else {
    to.out(`nothing to change: the registry stays at revision ${revision}\n`);
  }
}
