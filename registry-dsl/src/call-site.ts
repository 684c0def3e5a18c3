/** Places of builder calls in the source, for diagnostics. */

/** A place in a source file. Lines and columns start at 1. */
export interface Position {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** A call of the builder. Its stack is parsed only if a diagnostic needs it. */
export class CallSite {
  readonly #error = new Error();

  /** The place of the call. `undefined`: the engine reports no stack. */
  get position(): Position | undefined {
    return positionOf(this.#error);
  }
}

/** The innermost place outside of this library where an error was thrown. */
export function positionOf({ stack = "" }: Error): Position | undefined {
  const frames = stack.split("\n").flatMap((line) => frame(line) ?? []);
  return frames.find(({ file }) => !file.startsWith(LIBRARY) && !file.startsWith("node:"));
}

/** The calls that made an entity: by JSON pointer into its document. */
export type CallSites = Map<string, CallSite>;

/** The directory of this library, whose own frames are skipped. */
const LIBRARY = filePath(new URL(".", import.meta.url).href);

/** `at step (file:///a/b.ts:3:14)` of V8, or `step@https://host/b.ts:3:14` of other engines. */
const FRAME = /^\s*(?:at (?:.*? \()?|(?:[^@]*)@)(.+?):(\d+):(\d+)\)?$/;

function frame(line: string): Position | undefined {
  const parts = FRAME.exec(line);
  if (parts === null) return undefined;
  const [, file, row, column] = parts as unknown as [string, string, string, string];
  return { file: filePath(file.replace(/^async /, "")), line: Number(row), column: Number(column) };
}

/** The path of a `file:` URL, or another text, without a query. */
function filePath(text: string): string {
  const plain = text.replace(/\?.*$/, "");
  const path = plain.startsWith("file://") ? decodeURIComponent(plain.slice("file://".length)) : plain;
  // A URL of Windows has a slash before the drive.
  return path.replace(/^\/(?=[A-Za-z]:)/, "");
}
