#!/usr/bin/env node
/** The command `registry-dsl`. */

import { apply, plan } from "./apply.ts";
import { HELP, parse, type Arguments } from "./arguments.ts";
import { build } from "./build.ts";
import { check } from "./check.ts";
import { describe } from "./failure.ts";
import { from } from "./from.ts";
import { init } from "./init.ts";
import { load } from "./load.ts";
import { screen, type Screen } from "./screen.ts";

async function run({ command, file, options }: Arguments, to: Screen): Promise<void> {
  switch (command) {
    case "build":
      return build(await load(file), file, options, to);
    case "check":
      return check(await load(file), to);
    case "plan":
      return plan(await load(file), options, to);
    case "apply":
      return apply(await load(file), options, to);
    case "from":
      return from(file, options, to);
    case "init":
      return init(file, to);
  }
}

/** Runs the command and returns the exit code. */
async function main(words: readonly string[]): Promise<number> {
  let to = screen(false, words.includes("--no-color"));
  try {
    const parsed = parse(words);
    if (parsed === undefined) {
      to.out(HELP);
      return 0;
    }
    to = screen(parsed.options.output === "json", parsed.options["no-color"] === true);
    await run(parsed, to);
    return 0;
  } catch (error) {
    const { text, exitCode } = describe(error, to.errors);
    to.error(text);
    return exitCode;
  }
}

// Errors inside of deep values are far from the call that has them.
Error.stackTraceLimit = 200;
// A reader such as `head` closes the pipe when it has enough.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});
process.exitCode = await main(process.argv.slice(2));
