/** Colors, and escapes for untrusted texts. */

import type { WriteStream } from "node:tty";

/** The meaning of a color. */
export type Paint = "bad" | "careful" | "good" | "frame" | "strong" | "dim";

const CODES: { readonly [P in Paint]: string } = {
  bad: "1;31",
  careful: "1;33",
  good: "32",
  frame: "1;34",
  strong: "1",
  dim: "2",
};

/** Whether a stream gets colors. */
export class Style {
  readonly #isColored: boolean;

  constructor(isColored: boolean) {
    this.#isColored = isColored;
  }

  /** The style of a terminal. `NO_COLOR` and `TERM=dumb` disable colors. */
  static of(stream: Pick<WriteStream, "isTTY">, isPlain: boolean): Style {
    const { NO_COLOR: noColor, TERM: term } = process.env;
    return new Style(Boolean(stream.isTTY) && !isPlain && !noColor && term !== "dumb");
  }

  paint(paint: Paint, text: string): string {
    return this.#isColored ? `\u001b[${CODES[paint]}m${text}\u001b[0m` : text;
  }
}

/** Control characters, and characters that are invisible or change the display of others. */
const HIDDEN = new RegExp(
  "[\\p{Cc}\\u{ad}\\u{34f}\\u{61c}\\u{115f}\\u{1160}\\u{17b4}\\u{17b5}\\u{180b}-\\u{180f}\\u{200b}-\\u{200f}" +
    "\\u{2028}-\\u{202e}\\u{2060}-\\u{206f}\\u{3164}\\u{feff}\\u{ffa0}\\u{fff0}-\\u{fffb}\\u{1bca0}-\\u{1bca3}" +
    "\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]",
  "gu",
);

/** A text with escapes for characters that could control the terminal. */
export function printable(text: string): string {
  return text.replace(HIDDEN, (character) => {
    if (character === "\t") return " ";
    if (character === "\n") return "\\n";
    if (character === "\r") return "\\r";
    return `\\u{${(character.codePointAt(0) as number).toString(16)}}`;
  });
}
