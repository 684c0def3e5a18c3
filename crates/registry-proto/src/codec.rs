//! A prost codec with small buffers.
//!
//! The codec of tonic allocates 8 KiB for each direction of each stream. With thousands of idle followers, that
//! would be most of the server's memory.

use std::marker::PhantomData;

use prost::Message;
use tonic::{
    Status,
    codec::{BufferSettings, Codec as Codecs, EncodeBuf, Encoder as Encodes},
};
use tonic_prost::ProstDecoder;

/// The initial size of a buffer in bytes.
const BUFFER: usize = 512;
/// Messages are combined up to this size in bytes.
const TOGETHER: usize = 32 * 1024;

/// Encodes `T` and decodes `U`.
#[derive(Debug, Clone, Copy)]
pub struct Codec<T, U>(PhantomData<fn(T) -> U>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codecs for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = Encoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        Encoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::new(BUFFER, TOGETHER))
    }
}

/// Encodes messages into buffers of the right size.
#[derive(Debug, Clone, Copy)]
pub struct Encoder<T>(PhantomData<fn(T)>);

impl<T: Message> Encodes for Encoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(item.encoded_len());
        item.encode(buffer).map_err(|e| Status::internal(format!("encoding failed: {e}")))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, TOGETHER)
    }
}
