import { readFileSync } from "node:fs";

import { expect, it } from "vitest";

import { validate } from "../src/validate.ts";
import { fromNative, verdicts, type NativeDiagnostic } from "./native.ts";

const lines = <T>(name: string): T[] =>
  readFileSync(new URL(`corpus/${name}`, import.meta.url), "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as T);

const documents = lines<{ name: string; text: string }>("documents.jsonl");
const golden = lines<{ name: string; diagnostics: NativeDiagnostic[] }>("golden.jsonl");

/** Codes of findings that compare with a registry or with its owners. */
const OF_A_REGISTRY = [
  "name-archived",
  "not-owner",
  "outside-scope",
  "policy-incompatible",
  "policy-relaxed",
  "policy-tightened",
  "policy-version-regresses",
  "role-required",
  "setting-invalid",
  "still-needed",
];
/** The code of a list of findings that is cut off. */
const OF_A_LIST = "findings-truncated";

it("corpus has golden findings for every document", () => {
  expect(golden.map(({ name }) => name)).toEqual(documents.map(({ name }) => name));
  expect(documents.length).toBeGreaterThanOrEqual(400);
});

it("corpus covers every code that needs no registry", () => {
  const source = readFileSync(new URL("../../crates/registry-core/src/diagnostic.rs", import.meta.url), "utf8");
  const codes = [...source.matchAll(/^ {4}[A-Z]\w+ = "([a-z-]+)",$/gm)].map(([, code]) => code as string);
  const found = new Set(golden.flatMap(({ diagnostics }) => diagnostics.map(({ code }) => code)));
  expect(codes.length).toBeGreaterThan(40);
  expect(codes.filter((code) => !found.has(code) && ![...OF_A_REGISTRY, OF_A_LIST].includes(code))).toEqual([]);
});

it("module and registry have the same findings", async () => {
  for (const [index, { name, text }] of documents.entries()) {
    const { diagnostics } = await validate(text);
    const wanted = (golden[index]?.diagnostics ?? []).map(fromNative);
    expect(verdicts(diagnostics), name).toEqual(verdicts(wanted));
    const messages = (all: readonly { pointer: string; message: string }[]): string[] =>
      all
        .filter(({ pointer }) => pointer !== "")
        .map(({ message }) => message)
        .sort();
    expect(messages(diagnostics), name).toEqual(messages(wanted));
    const helped = (all: readonly { help: string | null }[]): number => all.filter(({ help }) => help !== null).length;
    expect(helped(diagnostics), name).toBe(helped(wanted));
  }
});
