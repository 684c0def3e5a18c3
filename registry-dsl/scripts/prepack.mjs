// Completes the package before it is packed: the license is that of the repository, the rules come from Rust.
import { copyFileSync, existsSync } from "node:fs";

const root = new URL("../", import.meta.url);

if (!existsSync(new URL("wasm/registry_rules.wasm", root))) {
  console.error(
    "error: wasm/registry_rules.wasm is missing: run `scripts/build-wasm.sh`, which needs Rust and its target (`rustup target add wasm32-unknown-unknown`, or on Debian `apt-get install rustc-web rust-web-src`)",
  );
  process.exit(1);
}
copyFileSync(new URL("../LICENSE", root), new URL("LICENSE", root));
