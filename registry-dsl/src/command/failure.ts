/** Errors of the command, with the exit codes of `registryctl`. */

import { positionOf, type Position } from "../call-site.ts";
import { RegistryFailure, type FailureKind } from "../client.ts";
import { DslError } from "../errors.ts";
import { shortPath } from "./report.ts";
import { printable, type Style } from "./style.ts";

/** An error of the command. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly exitCode: number;
  readonly help: string | undefined;
  /** The place in the TypeScript source. */
  readonly position: Position | undefined;

  constructor(exitCode: number, message: string, help?: string, position?: Position) {
    super(message);
    this.exitCode = exitCode;
    this.help = help;
    this.position = position;
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
  const { exitCode, reason, help, position } = parts(error);
  const head = style.paint("bad", reason === "" ? "error" : `error[${printable(reason)}]`);
  const message = String(error instanceof Error ? error.message : error)
    .split(/\r?\n/)
    .map(printable)
    .join("\n");
  const place =
    position === undefined
      ? ""
      : ` ${style.paint("frame", "-->")} ${printable(shortPath(position.file))}:${position.line}:${position.column}\n`;
  const remedy = help === undefined ? "" : `  = help: ${printable(help)}\n`;
  return { text: `${head}: ${message}\n${place}${remedy}`, exitCode };
}

interface Parts {
  readonly exitCode: number;
  readonly reason: string;
  readonly help?: string | undefined;
  readonly position?: Position | undefined;
}

function parts(error: unknown): Parts {
  if (error instanceof Failure) {
    return { exitCode: error.exitCode, reason: "", help: error.help, position: error.position };
  }
  if (error instanceof DslError) {
    const exitCode = error.code === "rules-unavailable" ? 2 : 1;
    return { exitCode, reason: "", help: error.help, position: error.position };
  }
  if (error instanceof RegistryFailure) {
    const { kind, reason } = error;
    return { exitCode: EXIT_CODES[kind], reason, help: kind === "unreachable" ? remedy(error) : HELP[reason] };
  }
  return { exitCode: 1, reason: "", position: error instanceof Error ? positionOf(error) : undefined };
}

/** The remedy for a failed connection. */
function remedy({ message }: RegistryFailure): string {
  if (message.includes("wrong version number")) return "if the registry does not use TLS, write http:// in its URL";
  if (/certificate|altname/.test(message)) {
    return "set NODE_EXTRA_CA_CERTS to the file of the CA, and use a host name that the certificate contains";
  }
  return "--registry or REGISTRY_URL sets the address of the registry";
}
