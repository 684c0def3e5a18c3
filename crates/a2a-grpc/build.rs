//! Compiles the proto file with protox, so that no protoc has to be installed.

use std::{env, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::Compiler::new(["proto"])?
        .include_imports(true)
        .open_file("lf/a2a/v1/a2a.proto")?
        .encode_file_descriptor_set();
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs::write(out.join("a2a_descriptor.bin"), descriptors)?;
    Ok(())
}
