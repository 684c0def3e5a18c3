// Removes former output, so that packages contain no files of deleted modules.
import { rmSync } from "node:fs";

rmSync(new URL("../dist", import.meta.url), { recursive: true, force: true });
