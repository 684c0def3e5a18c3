/** Plans of batches, in the form of `registryctl`. */

import type { PlannedChange } from "../client.ts";
import { printable, type Paint, type Style } from "./style.ts";

const EFFECTS = ["register", "deprecate", "retire", "restore", "unchanged", "unknown"];
const HEADING = ["", "EFFECT", "KIND", "NAME", "VERSION", "DIGEST"];

/** The number of changes with an effect. */
export function effective(plan: readonly PlannedChange[]): number {
  return plan.filter(({ effect }) => effect !== "unchanged").length;
}

/** `34 register, 2 unchanged`. */
export function counts(plan: readonly Pick<PlannedChange, "effect">[]): string {
  const parts = EFFECTS.flatMap((effect) => {
    const count = plan.filter((change) => change.effect === effect).length;
    return count > 0 ? [`${count} ${effect}`] : [];
  });
  return parts.length === 0 ? "nothing" : parts.join(", ");
}

/** A table with a line per change. */
export function table(plan: readonly PlannedChange[], style: Style): string {
  const rows = plan.map(({ key, effect, digest }) => {
    const [mark, paint] = marked(effect);
    const short = digest.replace(/^sha256:/, "").slice(0, 12);
    return { paint, cells: [mark, effect, key.kind, key.name, key.version, short].map(printable) };
  });
  const all: { paint: Paint; cells: string[] }[] = [{ paint: "strong", cells: HEADING }, ...rows];
  const widths = HEADING.map((_, column) => Math.max(...all.map(({ cells }) => (cells[column] ?? "").length)));
  const line = (cells: string[]): string =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd();
  return all.map(({ paint, cells }) => `${style.paint(paint, line(cells))}\n`).join("");
}

function marked(effect: string): readonly [string, Paint] {
  if (effect === "register") return ["+", "good"];
  return effect === "unchanged" ? ["=", "dim"] : ["~", "careful"];
}

/** A change as JSON. */
export function json({ key, effect, digest }: PlannedChange): object {
  const { kind, name, version } = key;
  return { kind, name, version, effect, ...(digest === "" ? {} : { digest }) };
}
