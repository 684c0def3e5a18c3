//! One call over Connect.

use std::borrow::Cow;

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Version,
    header::{
        ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TE,
        TRANSFER_ENCODING, VARY,
    },
};
use http_body_util::BodyExt as _;
use prost_reflect::{MessageDescriptor, MethodDescriptor};
use prost_types::method_options::IdempotencyLevel;
use tonic::{Code, Status};

use super::{
    compression::{GZIP, accepts_gzip, compress, decompress, is_gzip},
    messages::{self, Encoding},
};
use crate::{
    grpc::{connect as status, too_large},
    http::guard,
};

const PROTOCOL_VERSION: &str = "connect-protocol-version";
const TIMEOUT: &str = "connect-timeout-ms";
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Larger messages are translated outside of the async runtime.
const INLINE_BYTES: usize = 64 << 10;

/// Base64 in URLs, whose padding is optional.
const URL_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub(super) fn is_streaming(method: &MethodDescriptor) -> bool {
    method.is_client_streaming() || method.is_server_streaming()
}

/// Whether a method may be called with `GET`.
pub(super) fn is_safe(method: &MethodDescriptor) -> bool {
    let options = method.method_descriptor_proto().options.as_ref();
    options.is_some_and(|o| o.idempotency_level() == IdempotencyLevel::NoSideEffects)
}

/// A call of a unary method.
pub(super) struct Call {
    input: MessageDescriptor,
    output: MessageDescriptor,
    encoding: Encoding,
    is_compressed: bool,
    /// The message of a `GET`.
    message: Option<Bytes>,
    accepts_gzip: bool,
}

impl Call {
    pub(super) fn of_post(
        method: &MethodDescriptor,
        encoding: Encoding,
        request: &Request,
    ) -> Result<Self, Status> {
        let headers = request.headers();
        if let Some(version) = headers.get(PROTOCOL_VERSION).filter(|version| *version != "1") {
            let problem = format!("unknown version {version:?}; send 1");
            return Err(status::invalid_parameter(PROTOCOL_VERSION, &problem));
        }
        let compression = headers.get(CONTENT_ENCODING).map_or(Ok(""), HeaderValue::to_str);
        Ok(Self {
            input: method.input(),
            output: method.output(),
            encoding,
            is_compressed: is_gzip(compression.unwrap_or("with invalid characters"))?,
            message: None,
            accepts_gzip: accepts_gzip(headers),
        })
    }

    pub(super) fn of_get(method: &MethodDescriptor, request: &Request) -> Result<Self, Status> {
        // Browsers send no origin with a GET of the same origin, which DNS rebinding imitates.
        if let Some(reason) = guard::rejection(request) {
            return Err(status::foreign_host(reason));
        }
        if !is_safe(method) {
            return Err(status::side_effects(request.uri().path()));
        }
        let query = request.uri().query().unwrap_or_default().as_bytes();
        let mut call = Self {
            input: method.input(),
            output: method.output(),
            encoding: Encoding::Json,
            is_compressed: false,
            message: None,
            accepts_gzip: accepts_gzip(request.headers()),
        };
        let (mut message, mut is_base64, mut encoding) = (Cow::Borrowed(""), false, None);
        for (name, value) in form_urlencoded::parse(query) {
            match &*name {
                "connect" if value != "v1" => {
                    return Err(status::invalid_parameter("connect", "unknown version; send v1"));
                }
                "encoding" => encoding = Encoding::named(&value),
                "message" => message = value,
                "base64" => is_base64 = value == "1",
                "compression" => call.is_compressed = is_gzip(&value)?,
                // Caches may add parameters.
                _ => {}
            }
        }
        let missing = || status::invalid_parameter("encoding", "send json or proto");
        call.encoding = encoding.ok_or_else(missing)?;
        call.message = Some(if is_base64 {
            let decoded = URL_BASE64.decode(&*message);
            let invalid = |e| status::invalid_parameter("message", &format!("invalid base64: {e}"));
            decoded.map_err(invalid)?.into()
        } else if call.encoding == Encoding::Proto && message.contains(char::REPLACEMENT_CHARACTER)
        {
            let problem = "not UTF-8; send it in URL-safe base64, with base64=1";
            return Err(status::invalid_parameter("message", problem));
        } else {
            Bytes::from(message.into_owned())
        });
        Ok(call)
    }

    /// The gRPC request for a request. Its body is read and translated when the service reads it, so the deadline
    /// of the call applies.
    pub(super) fn request(
        self,
        mut request: Request,
        limit: usize,
    ) -> Result<(Self, Request), Status> {
        let timeout = grpc_timeout(request.headers())?;
        let headers = request.headers_mut();
        remove_protocol(headers);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(TE, HeaderValue::from_static("trailers"));
        if let Some(timeout) = timeout {
            headers.insert(GRPC_TIMEOUT, timeout);
        }
        *request.method_mut() = Method::POST;
        // gRPC requires HTTP/2.
        *request.version_mut() = Version::HTTP_2;
        let (input, encoding, is_compressed) =
            (self.input.clone(), self.encoding, self.is_compressed);
        let message = self.message.clone();
        let request = request.map(|body| {
            let body = message.map_or(body, Body::from);
            let reading = async move {
                let (bytes, body) = receive(body, limit).await?;
                let is_long = is_compressed || bytes.len() > INLINE_BYTES;
                let translated = translate(is_long, move || {
                    let bytes = if is_compressed { decompress(&bytes, limit)? } else { bytes };
                    messages::frame(&input, encoding, &bytes)
                });
                let frame = translated.await;
                // The body holds the reserved memory of the received bytes.
                drop(body);
                frame
            };
            Body::from_stream(stream::once(reading))
        });
        Ok((self, request))
    }

    /// The response for a gRPC response, or its error.
    pub(super) async fn response(self, response: Response) -> Result<Response, Status> {
        let (mut parts, body) = response.into_parts();
        if let Some(status) = status::read(&parts.headers).filter(is_error) {
            return Err(status);
        }
        let body = body.collect().await.map_err(status::incomplete_body)?;
        let status = body.trailers().and_then(status::read);
        let status =
            status.unwrap_or_else(|| status::untranslatable(&"a response without a status"));
        if is_error(&status) {
            return Err(status);
        }
        let frame = body.to_bytes();
        let Self { output, encoding, accepts_gzip, message, .. } = self;
        let translated = translate(frame.len() > INLINE_BYTES, move || {
            let body = messages::unframed(&output, encoding, frame)?;
            let compressed = if accepts_gzip { compress(&body) } else { None };
            Ok((body, compressed))
        });
        let (body, compressed) = translated.await?;
        let headers = &mut parts.headers;
        remove_protocol(headers);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(encoding.content_type()));
        if compressed.is_some() {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(GZIP));
        }
        if message.is_some() {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            headers.append(VARY, HeaderValue::from_name(ACCEPT_ENCODING));
        }
        Ok((parts.headers, compressed.unwrap_or(body)).into_response())
    }
}

fn is_error(status: &Status) -> bool {
    status.code() != Code::Ok
}

/// Removes the headers of a protocol. The others are those of the call.
fn remove_protocol(headers: &mut HeaderMap) {
    const STANDARD: [HeaderName; 6] =
        [ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TE, TRANSFER_ENCODING];
    let is_of_protocol = |name: &&HeaderName| {
        STANDARD.contains(name)
            || name.as_str().starts_with("connect-")
            || name.as_str().starts_with("grpc-")
    };
    let removed: Vec<_> = headers.keys().filter(is_of_protocol).cloned().collect();
    for name in removed {
        headers.remove(name);
    }
}

/// The timeout of Connect, at most ten digits of milliseconds, as the timeout of gRPC, at most eight digits.
fn grpc_timeout(headers: &HeaderMap) -> Result<Option<HeaderValue>, Status> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    let digits = value.to_str().ok().filter(|text| {
        (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    });
    let milliseconds = digits.and_then(|digits| digits.parse::<u64>().ok());
    let invalid = || status::invalid_parameter(TIMEOUT, "send at most ten digits");
    let milliseconds = milliseconds.ok_or_else(invalid)?;
    let timeout = match milliseconds {
        0..100_000_000 => format!("{milliseconds}m"),
        _ => format!("{}S", milliseconds / 1_000),
    };
    Ok(HeaderValue::try_from(timeout).ok())
}

/// Reads a body of at most `limit` bytes.
async fn receive(mut body: Body, limit: usize) -> Result<(Bytes, Body), Status> {
    let mut received = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(status::incomplete_body)?;
        let Ok(data) = frame.into_data() else { continue };
        if received.len() + data.len() > limit {
            return Err(too_large(limit));
        }
        received.extend_from_slice(&data);
    }
    Ok((received.freeze(), body))
}

/// Translates a message.
async fn translate<T: Send + 'static>(
    is_long: bool,
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    if !is_long {
        return work();
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|failed| Err(status::untranslatable(&failed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_becomes_that_of_grpc() {
        let timeout = |text: &'static str| {
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static(TIMEOUT), text.parse().unwrap())]);
            grpc_timeout(&headers).map(|value| value.unwrap().to_str().unwrap().to_owned())
        };
        assert_eq!(timeout("0").unwrap(), "0m");
        assert_eq!(timeout("99999999").unwrap(), "99999999m");
        assert_eq!(timeout("100000000").unwrap(), "100000S");
        assert_eq!(timeout("9999999999").unwrap(), "9999999S");
        for bad in ["", "-1", "1.5", "1s", "10000000000"] {
            assert_eq!(timeout(bad).unwrap_err().code(), Code::InvalidArgument, "{bad}");
        }
        assert!(grpc_timeout(&HeaderMap::new()).unwrap().is_none());
    }
}
