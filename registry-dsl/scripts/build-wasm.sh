#!/bin/sh
# Builds registry-dsl/wasm/registry_rules.wasm from crates/registry-wasm.
#
# The standard library for wasm32-unknown-unknown comes from rustup, or is compiled from the sources of
# Debian's rust-web-src with its compiler.
set -eu

cd "$(dirname "$0")/../.."
target=wasm32-unknown-unknown
out=${CARGO_TARGET_DIR:-target}/wasm
# Hash tables have fixed seeds.
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS='--cfg getrandom_backend="custom"'

if [ -d "$(rustc --print target-libdir --target $target)" ]; then
  set --
elif [ -d /usr/lib/rustlib/src/rust/library ]; then
  lld=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-lld
  export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER="$lld"
  export RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
  set -- -Zbuild-std=std,panic_abort
else
  echo "build-wasm: the target $target is not installed; run \`rustup target add $target\`," \
    "or on Debian \`apt-get install rustc-web rust-web-src\`" >&2
  exit 1
fi

cargo build --profile wasm --package registry-wasm --target $target --target-dir "$out" "$@"
mkdir -p registry-dsl/wasm
cp "$out/$target/wasm/registry_rules.wasm" registry-dsl/wasm/
