//! Compiles the proto files with protox, so that no protoc has to be installed.

use std::{env, fs, path::PathBuf};

const FILES: &[&str] = &[
    "registry/v1/discovery.proto",
    "registry/v1/access.proto",
    "registry/v1/common.proto",
    "registry/v1/entity.proto",
    "registry/v1/registry.proto",
    "registry/v1/audit.proto",
    "registry/v1/history.proto",
    "registry/v1/graph.proto",
    "registry/v1/sync.proto",
    "registry/v1/sbom.proto",
    "registry/v1/ledger.proto",
    "registry/v1/usage.proto",
    "registry/v1/approvals.proto",
    "registry/v1/trace.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=../../proto");
    let descriptors = protox::Compiler::new(["../../proto"])?
        .include_source_info(true)
        .include_imports(true)
        .open_files(FILES)?
        .encode_file_descriptor_set();
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs::write(out.join("registry_descriptor.bin"), &descriptors)?;
    let set = <prost_types::FileDescriptorSet as prost::Message>::decode(descriptors.as_slice())?;
    tonic_prost_build::configure().bytes(".").codec_path("crate::codec::Codec").compile_fds(set)?;
    Ok(())
}
