/** The order of exact versions: the precedence of Semantic Versioning 2.0.0, then the build metadata. */

import { compareTexts } from "./json.ts";

/** The form of exact versions. */
type Exact = `${number}.${number}.${number}${string}`;

/** A version. The compiler checks literals; validation checks computed texts, too. */
export type Version<V extends string> = string extends V ? string : V extends Exact ? V : Exact;

const VERSION = /^(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?$/;

/** Compares two versions. Texts that are no versions come last. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [VERSION.exec(a), VERSION.exec(b)];
  if (left === null || right === null) {
    return Number(left === null) - Number(right === null) || compareTexts(a, b);
  }
  for (const part of [1, 2, 3]) {
    const order = compareNumbers(left[part] ?? "", right[part] ?? "");
    if (order !== 0) return order;
  }
  // Numbers with leading zeros are invalid, and must not be equal to others.
  return comparePreReleases(left[4], right[4]) || compareBuilds(left[5] ?? "", right[5] ?? "") || compareTexts(a, b);
}

/** Digits may exceed every number type, so they are compared as texts. */
function compareNumbers(a: string, b: string): number {
  const [left, right] = [a.replace(/^0+/, ""), b.replace(/^0+/, "")];
  return left.length - right.length || compareTexts(left, right);
}

const isNumeric = (text: string): boolean => /^\d*$/.test(text);

/** A release is higher than its pre-releases. */
function comparePreReleases(a: string | undefined, b: string | undefined): number {
  if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
  return compareIdentifiers(a, b, compareNumbers);
}

/** Equal numbers with more leading zeros are higher, so that different metadata is never equal. */
function compareBuilds(a: string, b: string): number {
  return compareIdentifiers(a, b, (left, right) => compareNumbers(left, right) || left.length - right.length);
}

/** Numeric identifiers are lower than others, and a prefix is lower than a longer list. */
function compareIdentifiers(a: string, b: string, numeric: (a: string, b: string) => number): number {
  const [left, right] = [a.split("."), b.split(".")];
  for (const [index, one] of left.entries()) {
    const other = right[index];
    if (other === undefined) return 1;
    const order =
      isNumeric(one) && isNumeric(other)
        ? numeric(one, other)
        : Number(isNumeric(other)) - Number(isNumeric(one)) || compareTexts(one, other);
    if (order !== 0) return order;
  }
  return left.length - right.length;
}
