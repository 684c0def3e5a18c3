/** The output of a command. */

import { Style } from "./style.ts";

/** Standard output and standard error. */
export interface Screen {
  readonly isJson: boolean;
  readonly style: Style;
  /** The style of standard error. */
  readonly errors: Style;
  readonly out: (text: string) => void;
  readonly error: (text: string) => void;
}

/** The streams of the process. */
export function screen(isJson: boolean, isPlain: boolean): Screen {
  return {
    isJson,
    style: Style.of(process.stdout, isPlain),
    errors: Style.of(process.stderr, isPlain),
    out: (text) => void process.stdout.write(text),
    error: (text) => void process.stderr.write(text),
  };
}

/** Prints a value as indented JSON. */
export function printJson(to: Screen, value: object): void {
  to.out(`${JSON.stringify(value, undefined, 2)}\n`);
}
