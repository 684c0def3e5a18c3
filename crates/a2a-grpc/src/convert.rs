//! One message in both forms.

use std::sync::LazyLock;

use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions,
};
use serde_json::{Number, Value};

/// Largest magnitude of integers that a 64-bit floating-point number represents without gaps: 2^53.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// The messages of A2A and of errors.
pub(crate) static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let descriptors = include_bytes!(concat!(env!("OUT_DIR"), "/a2a_descriptor.bin"));
    let mut pool = DescriptorPool::decode(descriptors.as_slice()).expect("the build compiled it");
    let rpc = tonic_types::pb::FILE_DESCRIPTOR_SET;
    pool.decode_file_descriptor_set(rpc).expect("compiled by its crate");
    pool
});

/// A message that has no form on the other side.
#[derive(Debug, thiserror::Error)]
pub enum InvalidMessage {
    /// The service has no such method.
    #[error("method {0:?} does not exist")]
    Method(String),
    /// The bytes are no message of the expected type.
    #[error("invalid Protocol Buffers: {0}")]
    Bytes(#[from] prost::DecodeError),
    /// The JSON is no message of the expected type, or a value has no JSON form.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
}

pub(crate) fn decode(
    descriptor: MessageDescriptor,
    message: &[u8],
) -> Result<Value, InvalidMessage> {
    let message = DynamicMessage::decode(descriptor, message)?;
    let options = SerializeOptions::new();
    let mut value = message.serialize_with_options(serde_json::value::Serializer, &options)?;
    restore_integers(&mut value);
    Ok(value)
}

pub(crate) fn encode(
    descriptor: MessageDescriptor,
    value: &Value,
) -> Result<Vec<u8>, InvalidMessage> {
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let message = DynamicMessage::deserialize_with_options(descriptor, value, &options)?;
    Ok(message.encode_to_vec())
}

/// Writes whole numbers without a fraction, as senders of JSON do: agents may read `1.0` as another
/// type than `1`.
fn restore_integers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() <= MAX_EXACT {
                #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
                let whole = float as i64;
                *number = Number::from(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(restore_integers),
        Value::Object(members) => members.values_mut().for_each(restore_integers),
        _ => {}
    }
}
