//! The gRPC messages of A2A 1.0: conversion between Protocol Buffers and the JSON of A2A 1.0, which
//! is their canonical JSON form. No I/O.
//!
//! Messages are described at run time by the compiled proto file. Both forms have the same content,
//! except that Protocol Buffers drop members that the standard does not define, and that their
//! numbers are 64-bit floating-point numbers, which are exact up to 2^53.

mod convert;
mod frame;
mod size;
pub mod status;
#[cfg(test)]
mod tests;

use prost_reflect::MethodDescriptor;
use serde_json::Value;

use self::convert::{POOL, decode, encode};
pub use self::{
    convert::InvalidMessage,
    frame::{InvalidFrame, Messages, frame, message},
};

/// The full name of the service, which begins the paths of its methods.
pub const SERVICE: &str = "lf.a2a.v1.A2AService";

/// Converts the request of a method from Protocol Buffers.
pub fn decode_request(method: &str, message: &[u8]) -> Result<Value, InvalidMessage> {
    decode(find(method)?.input(), message)
}

/// Estimates the memory that the conversion of a request needs, in bytes. 0: the method is
/// unknown, so that nothing is converted.
pub fn request_bytes(method: &str, message: &[u8]) -> usize {
    find(method).map_or(0, |method| size::decoded_bytes(&method.input(), message))
}

/// Converts the request of a method to Protocol Buffers.
pub fn encode_request(method: &str, request: &Value) -> Result<Vec<u8>, InvalidMessage> {
    encode(find(method)?.input(), request)
}

/// Converts a response of a method from Protocol Buffers.
pub fn decode_response(method: &str, message: &[u8]) -> Result<Value, InvalidMessage> {
    decode(find(method)?.output(), message)
}

/// Estimates the memory that the conversion of a response needs, in bytes. 0: the method is unknown,
/// so that nothing is converted.
pub fn response_bytes(method: &str, message: &[u8]) -> usize {
    find(method).map_or(0, |method| size::decoded_bytes(&method.output(), message))
}

/// Converts a response of a method to Protocol Buffers.
pub fn encode_response(method: &str, response: &Value) -> Result<Vec<u8>, InvalidMessage> {
    encode(find(method)?.output(), response)
}

fn find(method: &str) -> Result<MethodDescriptor, InvalidMessage> {
    let service = POOL.get_service_by_name(SERVICE);
    let found = service.and_then(|service| service.methods().find(|found| found.name() == method));
    found.ok_or_else(|| InvalidMessage::Method(method.chars().take(64).collect()))
}
