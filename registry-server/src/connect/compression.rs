//! Gzip of messages, with bounded results.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use http::{HeaderMap, header::ACCEPT_ENCODING};
use tonic::Status;

use crate::grpc::{connect as status, too_large};

pub(super) const GZIP: &str = "gzip";

/// Smaller responses are not compressed.
const COMPRESSED_BYTES: usize = 1024;

/// Reads the name of a compression: whether it is gzip.
pub(super) fn is_gzip(name: &str) -> Result<bool, Status> {
    match name {
        GZIP => Ok(true),
        "" | "identity" => Ok(false),
        other => Err(status::unknown_compression(other)),
    }
}

/// Whether a client reads gzip (RFC 9110, section 12.5.3).
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|entry| {
        let (name, weight) = entry.split_once(';').unwrap_or((entry, ""));
        let weight = weight.trim().trim_start_matches("q=");
        name.trim().eq_ignore_ascii_case(GZIP) && weight.parse::<f32>() != Ok(0.0)
    })
}

/// Decompresses a message of at most `limit` bytes.
pub(super) fn decompress(body: &[u8], limit: usize) -> Result<Bytes, Status> {
    let mut message = Vec::new();
    // One byte more shows that the message is too large.
    let mut decoder = MultiGzDecoder::new(body).take(limit as u64 + 1);
    decoder.read_to_end(&mut message).map_err(|error| status::invalid_gzip(&error))?;
    if message.len() > limit { Err(too_large(limit)) } else { Ok(message.into()) }
}

/// Compresses a body if that is worth the time.
pub(super) fn compress(body: &[u8]) -> Option<Bytes> {
    if body.len() < COMPRESSED_BYTES {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    encoder.write_all(body).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn decompressed_size_is_bounded() {
        let body = compress(&vec![0; 100_000]).unwrap();
        assert!(body.len() < 1_000);
        assert_eq!(decompress(&body, 100_000).unwrap().len(), 100_000);
        assert_eq!(decompress(&body, 99_999).unwrap_err().code(), Code::OutOfRange);
        let cut = &body[..body.len() - 1];
        for bad in [cut, b"{}", b""] {
            assert_eq!(decompress(bad, 100_000).unwrap_err().code(), Code::InvalidArgument);
        }
    }

    #[test]
    fn accepted_encodings_follow_http() {
        for (value, expected) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("identity", false),
            ("x-gzip-like", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, value.parse().unwrap())]);
            assert_eq!(accepts_gzip(&headers), expected, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
