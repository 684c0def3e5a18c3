/** Errors of the command, with the exit codes of `registryctl`. */

import { RegistryFailure, type FailureKind } from "../client.ts";
import { DslError } from "../errors.ts";
import { printable, type Style } from "./style.ts";

/** An error of the command. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly exitCode: number;
  readonly help: string | undefined;

  constructor(exitCode: number, message: string, help?: string) {
    super(message);
    this.exitCode = exitCode;
    this.help = help;
  }
}

/** Invalid arguments or files. */
export function usage(message: string, help?: string): Failure {
  return new Failure(2, message, help);
}

/** Rejected definitions, after their findings were printed. */
export function rejected(message: string): Failure {
  return new Failure(1, message);
}

const EXIT_CODES: { readonly [K in FailureKind]: number } = {
  rejected: 1,
  invalid: 1,
  unreachable: 3,
  server: 4,
  "invalid-response": 4,
};

const HELP: { readonly [reason: string]: string } = {
  CREDENTIALS_MISSING: "set REGISTRY_TOKEN, or pass --token-file FILE",
  CREDENTIALS_INVALID: "check REGISTRY_TOKEN or --token-file",
};

/** The text and the exit code of an error. */
export function describe(error: unknown, style: Style): { readonly text: string; readonly exitCode: number } {
  const { exitCode, reason, help } = parts(error);
  const head = style.paint("bad", reason === "" ? "error" : `error[${printable(reason)}]`);
  const message = String(error instanceof Error ? error.message : error)
    .split(/\r?\n/)
    .map(printable)
    .join("\n");
  const remedy = help === undefined ? "" : `  = help: ${printable(help)}\n`;
  return { text: `${head}: ${message}\n${remedy}`, exitCode };
}

function parts(error: unknown): {
  readonly exitCode: number;
  readonly reason: string;
  readonly help: string | undefined;
} {
  if (error instanceof Failure) return { exitCode: error.exitCode, reason: "", help: error.help };
  if (error instanceof DslError) return { exitCode: 1, reason: "", help: error.help };
  if (error instanceof RegistryFailure) {
    const { kind, reason } = error;
    const help = kind === "unreachable" ? "--registry or REGISTRY_URL sets the address of the registry" : HELP[reason];
    return { exitCode: EXIT_CODES[kind], reason, help };
  }
  return { exitCode: 1, reason: "", help: undefined };
}
