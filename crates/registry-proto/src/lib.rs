//! The gRPC API of the registry: types generated from `proto/`, and their conversions.

/// The generated types and service stubs of `registry.v1`.
#[expect(
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod v1 {
    tonic::include_proto!("registry.v1");
}

pub mod codec;
pub mod convert;

/// The compiled descriptors for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/registry_descriptor.bin"));
