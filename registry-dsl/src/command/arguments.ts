/** The command line. */

import { parseArgs, type ParseArgsConfig } from "node:util";

import { usage } from "./failure.ts";

type OptionConfig = NonNullable<ParseArgsConfig["options"]>[string];

const OPTIONS = {
  out: { type: "string", short: "o" },
  check: { type: "boolean" },
  registry: { type: "string" },
  token: { type: "string" },
  "token-file": { type: "string" },
  "allow-insecure-token": { type: "boolean" },
  message: { type: "string", short: "m" },
  author: { type: "string" },
  "request-id": { type: "string" },
  "base-revision": { type: "string" },
  "allow-policy-break": { type: "boolean" },
  yes: { type: "boolean", short: "y" },
  "exit-code": { type: "boolean" },
  output: { type: "string" },
  "no-color": { type: "boolean" },
  help: { type: "boolean", short: "h" },
} as const satisfies { readonly [name: string]: OptionConfig };

type OptionName = keyof typeof OPTIONS;

/** The values of the options. */
export type Options = {
  readonly [N in OptionName]?: (typeof OPTIONS)[N]["type"] extends "string" ? string : boolean;
};

const CONNECTION: readonly OptionName[] = [
  "registry",
  "token",
  "token-file",
  "allow-insecure-token",
  "allow-policy-break",
  "base-revision",
];

const COMMANDS = {
  build: ["out", "check"],
  check: ["output"],
  plan: [...CONNECTION, "exit-code", "output"],
  apply: [...CONNECTION, "message", "author", "request-id", "yes", "output"],
  from: ["out"],
  init: [],
} as const satisfies { readonly [command: string]: readonly OptionName[] };

/** The name of a command. */
export type CommandName = keyof typeof COMMANDS;

/** A parsed command line. */
export interface Arguments {
  readonly command: CommandName;
  readonly file: string;
  readonly options: Options;
}

/** The text of `--help`. */
export const HELP = `Write the entities of a registry in TypeScript

Usage: registry-dsl COMMAND FILE [OPTIONS]

Commands:
  build FILE.ts        Write the registry file
  check FILE.ts        Validate with the rules of the registry, offline
  plan FILE.ts         Show the changes that the registry would make
  apply FILE.ts        Register the entities as one commit
  from registry.json   Write TypeScript that builds the same registry file
  init DIRECTORY       Make a project

Options of build and from:
  -o, --out FILE               The written file [default: standard output]
      --check                  build: fail if the file of --out is not up to date

Options of plan and apply:
      --registry URL           [env: REGISTRY_URL] [default: http://127.0.0.1:7070]
      --token TOKEN            API token [env: REGISTRY_TOKEN]
      --token-file FILE        File with the API token [env: REGISTRY_TOKEN_FILE]
      --allow-insecure-token   Send the token over unencrypted connections to other hosts
      --allow-policy-break     Accept tools that policies do not fit; their calls are denied
      --base-revision N        Reject the commit unless this is the current revision
      --exit-code              plan: exit with 5 if something would change
  -m, --message TEXT           apply: commit message
      --author NAME            apply: author [default: the authenticated caller, or the local user]
      --request-id ID          apply: idempotency key of the commit [default: a new UUID]
  -y, --yes                    apply: do not ask for confirmation

Options of all commands:
      --output table|json      check, plan, apply: format of the result
      --no-color               Disable colors
  -h, --help                   Print this help
`;

/** Parses the arguments. `undefined`: help was requested. */
export function parse(words: readonly string[]): Arguments | undefined {
  const { values, positionals } = parsed(words);
  if (values.help || words.length === 0) return undefined;
  const [name, file, ...rest] = positionals;
  const command = (Object.keys(COMMANDS) as CommandName[]).find((one) => one === name);
  if (command === undefined)
    throw usage(`there is no command ${name ?? ""}`, "the commands are build, check, plan, apply, from and init");
  if (file === undefined || rest.length > 0) throw usage(`${command} takes one file`, "see registry-dsl --help");
  const allowed: readonly string[] = [...COMMANDS[command], "no-color"];
  const other = Object.keys(values).find((option) => !allowed.includes(option));
  if (other !== undefined) throw usage(`${command} has no option --${other}`, "see registry-dsl --help");
  if (values.output !== undefined && !["table", "json"].includes(values.output)) {
    throw usage(`invalid value ${values.output} for --output`, "write table or json");
  }
  return { command, file, options: values };
}

function parsed(words: readonly string[]): { values: Options; positionals: string[] } {
  try {
    return parseArgs({ args: [...words], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw usage((error as Error).message, "see registry-dsl --help");
  }
}
