// Writes tests/corpus/golden.jsonl: the findings of the registry about each document of the corpus, in the same order.
// node scripts/golden.mjs REGISTRYCTL
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const [registryctl] = process.argv.slice(2);
if (registryctl === undefined) throw new Error("usage: node scripts/golden.mjs REGISTRYCTL");

const corpus = new URL("../tests/corpus/", import.meta.url);
const documents = readFileSync(new URL("documents.jsonl", corpus), "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line));

/** The findings about one text. Places in the file depend on its layout only. */
function findings({ name, text }) {
  const { stdout, stderr } = spawnSync(registryctl, ["validate", "--output", "json", "-f", "-"], {
    input: text,
    encoding: "utf8",
  });
  try {
    const { diagnostics } = JSON.parse(stdout);
    // The hint at `registryctl import` is about the command, not about a rule.
    const ofRules = diagnostics.filter(
      ({ pointer, help }) => pointer !== "" || !help?.includes("`registryctl import registry"),
    );
    return ofRules.map(({ code, severity, entity, pointer, message, help }) => ({
      code,
      severity,
      entity,
      pointer,
      message,
      help,
    }));
  } catch {
    throw new Error(`${name}: ${stderr}`);
  }
}

const lines = documents.map((one) => `${JSON.stringify({ name: one.name, diagnostics: findings(one) })}\n`);
writeFileSync(new URL("golden.jsonl", corpus), lines.join(""));
