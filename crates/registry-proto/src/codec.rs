//! How messages are framed: prost's encoding with small buffers.
//!
//! Tonic's own codec gives each side of each stream 8 KiB from the start. A server with thousands
//! of idle followers would hold most of its memory there.

use std::marker::PhantomData;

use prost::Message;
use tonic::{
    Status,
    codec::{BufferSettings, Codec as Codecs, EncodeBuf, Encoder as Encodes},
};
use tonic_prost::ProstDecoder;

/// First size of a buffer, in bytes; it grows with the messages.
const BUFFER: usize = 512;
/// How many bytes of small messages are put together before they are sent.
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

/// Encodes messages, each into a buffer that is large enough at once.
#[derive(Debug, Clone, Copy)]
pub struct Encoder<T>(PhantomData<fn(T)>);

impl<T: Message> Encodes for Encoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(item.encoded_len());
        item.encode(buffer).map_err(|e| Status::internal(format!("a message does not fit: {e}")))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, TOGETHER)
    }
}
