//! Multimodal values of AIO, and their form as content of MCP and parts of A2A.
//!
//! URLs are passed on and never fetched.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use registry_core::document::parse_json;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use crate::{failure::Failure, fields::Fields, text::is_printable};

/// Maximum characters of a URL.
const URL_CHARACTERS: usize = 8_192;
/// Prefix of the URIs of embedded resources. MCP requires a URI, and a value has none.
const EMBEDDED: &str = "urn:aio:";
/// Base64 of the bytes that identify a media type.
const HEAD_CHARACTERS: usize = 32;

/// A kind of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Modality {
    /// `text`.
    Text,
    /// `image`.
    Image,
    /// `audio`.
    Audio,
    /// `video`.
    Video,
    /// `file`.
    File,
}

/// A value `{type, value}`.
#[derive(Debug, Clone, PartialEq)]
pub enum Media {
    /// Text.
    Text(String),
    /// A public URL.
    Url {
        /// The kind, not `Text`.
        modality: Modality,
        /// The URL.
        url: String,
    },
    /// Base64.
    Data {
        /// The kind, not `Text`.
        modality: Modality,
        /// The media type.
        media_type: String,
        /// Base64 with padding.
        base64: String,
    },
    /// A file with JSON.
    Json(Value),
}

impl Modality {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Text, Self::Image, Self::Audio, Self::Video, Self::File];

    /// The value of `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Image => "image",
            Self::Audio => "audio",
            Self::Video => "video",
            Self::File => "file",
        }
    }

    /// Parses the value of `type`.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|modality| modality.as_str() == text)
    }

    /// The kind of a media type. Texts are files if they are not sent as text.
    fn of_media_type(media_type: &str) -> Self {
        match media_type.split('/').next() {
            Some("image") => Self::Image,
            Some("audio") => Self::Audio,
            Some("video") => Self::Video,
            _ => Self::File,
        }
    }

    /// The kinds of values that agents with this media type accept.
    pub fn of_mode(media_type: &str) -> &'static [Self] {
        match media_type.split('/').next().map(str::trim) {
            Some("*") => &Self::ALL,
            Some("text") => &[Self::Text],
            Some("image") => &[Self::Image],
            Some("audio") => &[Self::Audio],
            Some("video") => &[Self::Video],
            _ => &[Self::File],
        }
    }

    /// The media type of a URL, whose content is unknown.
    fn wildcard(self) -> Option<&'static str> {
        match self {
            Self::Image => Some("image/*"),
            Self::Audio => Some("audio/*"),
            Self::Video => Some("video/*"),
            Self::Text | Self::File => None,
        }
    }

    /// The media type of data by its first bytes, else the usual one.
    fn media_type(self, head: &[u8]) -> &'static str {
        match (self, head) {
            (Self::Image, [0x89, b'P', b'N', b'G', ..]) => "image/png",
            (Self::Image, [0xff, 0xd8, 0xff, ..]) => "image/jpeg",
            (Self::Image, [b'G', b'I', b'F', b'8', ..]) => "image/gif",
            (Self::Image, [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..]) => {
                "image/webp"
            }
            (Self::Image, _) => "image/*",
            (Self::Audio, [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..]) => {
                "audio/wav"
            }
            (Self::Audio, [b'O', b'g', b'g', b'S', ..]) => "audio/ogg",
            (Self::Audio, _) => "audio/mpeg",
            (Self::Video, [0x1a, 0x45, 0xdf, 0xa3, ..]) => "video/webm",
            (Self::Video, _) => "video/mp4",
            (_, [b'%', b'P', b'D', b'F', ..]) => "application/pdf",
            _ => "application/octet-stream",
        }
    }
}

impl Media {
    /// Reads a value at this pointer.
    pub(crate) fn read(raw: &RawValue, at: String) -> Result<Self, Failure> {
        let fields = Fields::open(raw, at)?;
        fields.reject_unknown(&["type", "value"])?;
        let kind = fields.required_text("type")?;
        let modality = Modality::parse(&kind)
            .ok_or_else(|| fields.invalid("type", "use text, image, audio, video or file"))?;
        let value = fields.raw("value");
        let value = value.ok_or_else(|| fields.invalid("value", "a value is required"))?;
        if modality == Modality::File && value.get().starts_with(['{', '[']) {
            let json = parse_json(value.get().as_bytes());
            return json.map(Self::Json).map_err(|error| fields.invalid("value", error));
        }
        let text = fields.required_text("value")?.into_owned();
        if modality == Modality::Text {
            return Ok(Self::Text(text));
        }
        Self::of_text(modality, text).map_err(|problem| fields.invalid("value", problem))
    }

    /// A URL, a `data:` URL, or base64.
    fn of_text(modality: Modality, text: String) -> Result<Self, &'static str> {
        let has_scheme = |scheme: &str| {
            text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        };
        if has_scheme("https://") || has_scheme("http://") {
            if !is_printable(&text, URL_CHARACTERS) || text.contains([' ', '"', '<', '>', '\\']) {
                return Err("the URL is too long or has characters that URLs do not allow");
            }
            return Ok(Self::Url { modality, url: text });
        }
        let (media_type, base64) = if has_scheme("data:") {
            let (media_type, base64) = text["data:".len()..]
                .split_once(";base64,")
                .ok_or("a data URL with a media type and base64 is required")?;
            (Some(media_type.to_ascii_lowercase()), base64.to_owned())
        } else {
            (None, text)
        };
        if STANDARD.decode(&base64).is_err() {
            return Err("a public URL or valid base64 with padding is required");
        }
        let media_type = match media_type {
            Some(media_type) if !is_media_type(&media_type) => {
                return Err("the media type of the data URL is invalid");
            }
            Some(media_type) => media_type,
            None => {
                let head = &base64[..base64.len().min(HEAD_CHARACTERS)];
                modality.media_type(&STANDARD.decode(head).unwrap_or_default()).to_owned()
            }
        };
        let is_other =
            modality != Modality::File && modality != Modality::of_media_type(&media_type);
        if is_other {
            return Err("the media type of the data URL contradicts `type`");
        }
        Ok(Self::Data { modality, media_type, base64 })
    }

    /// The kind.
    pub fn modality(&self) -> Modality {
        match self {
            Self::Text(_) => Modality::Text,
            Self::Url { modality, .. } | Self::Data { modality, .. } => *modality,
            Self::Json(_) => Modality::File,
        }
    }

    /// The value as `{type, value}`. Media types are not part of it.
    pub fn to_value(&self) -> Value {
        let value = match self {
            Self::Text(text) | Self::Url { url: text, .. } | Self::Data { base64: text, .. } => {
                text.as_str().into()
            }
            Self::Json(value) => value.clone(),
        };
        json!({ "type": self.modality().as_str(), "value": value })
    }

    /// The content block of MCP.
    pub fn to_mcp(&self) -> Value {
        match self {
            Self::Text(text) => json!({ "type": "text", "text": text }),
            Self::Url { modality, url } => {
                let name = url.rsplit('/').find(|part| !part.is_empty()).unwrap_or(url);
                let mut link = json!({ "type": "resource_link", "uri": url, "name": name });
                if let Some(media_type) = modality.wildcard() {
                    link["mimeType"] = media_type.into();
                }
                link
            }
            Self::Data { modality: Modality::Image | Modality::Audio, media_type, base64 } => {
                let kind = self.modality().as_str();
                json!({ "type": kind, "data": base64, "mimeType": media_type })
            }
            Self::Data { modality, media_type, base64 } => {
                let uri = format!("{EMBEDDED}{}", modality.as_str());
                let resource = json!({ "uri": uri, "mimeType": media_type, "blob": base64 });
                json!({ "type": "resource", "resource": resource })
            }
            Self::Json(value) => {
                let (uri, text) = (format!("{EMBEDDED}json"), value.to_string());
                let resource = json!({ "uri": uri, "mimeType": "application/json", "text": text });
                json!({ "type": "resource", "resource": resource })
            }
        }
    }

    /// The value of a content block of MCP. `None`: the block is of an unknown kind.
    pub fn of_mcp(block: &Value) -> Option<Self> {
        let text = |name: &str| block.get(name)?.as_str().map(str::to_owned);
        match block.get("type")?.as_str()? {
            "text" => text("text").map(Self::Text),
            "image" => Some(Self::Data {
                modality: Modality::Image,
                media_type: text("mimeType")?,
                base64: text("data")?,
            }),
            "audio" => Some(Self::Data {
                modality: Modality::Audio,
                media_type: text("mimeType")?,
                base64: text("data")?,
            }),
            "resource_link" => {
                let modality = Modality::of_media_type(&text("mimeType").unwrap_or_default());
                Some(Self::Url { modality, url: text("uri")? })
            }
            "resource" => Self::of_resource(block.get("resource")?),
            _ => None,
        }
    }

    fn of_resource(resource: &Value) -> Option<Self> {
        let text = |name: &str| resource.get(name)?.as_str().map(str::to_owned);
        let media_type = text("mimeType").unwrap_or_else(|| "application/octet-stream".to_owned());
        if let Some(base64) = text("blob") {
            let uri = text("uri")?;
            let named = uri.strip_prefix(EMBEDDED).and_then(Modality::parse);
            let modality = named.filter(|named| *named != Modality::Text);
            let modality = modality.unwrap_or_else(|| Modality::of_media_type(&media_type));
            return Some(Self::Data { modality, media_type, base64 });
        }
        let text = text("text")?;
        if media_type == "application/json"
            && let Ok(value @ (Value::Object(_) | Value::Array(_))) = parse_json(text.as_bytes())
        {
            return Some(Self::Json(value));
        }
        Some(Self::Text(text))
    }

    /// The part of A2A 1.0.
    pub fn to_a2a(&self) -> Value {
        match self {
            Self::Text(text) => json!({ "text": text }),
            Self::Url { modality, url } => match modality.wildcard() {
                Some(media_type) => json!({ "url": url, "mediaType": media_type }),
                None => json!({ "url": url }),
            },
            Self::Data { media_type, base64, .. } => {
                json!({ "raw": base64, "mediaType": media_type })
            }
            Self::Json(value) => json!({ "data": value, "mediaType": "application/json" }),
        }
    }

    /// The value of a part of A2A 1.0. `None`: the part has no content. Data that is neither an
    /// object nor a list becomes text, because a value of AIO cannot express it otherwise.
    pub fn of_a2a(part: &Value) -> Option<Self> {
        let text = |name: &str| part.get(name)?.as_str().map(str::to_owned);
        if let Some(text) = text("text") {
            return Some(Self::Text(text));
        }
        let media_type = text("mediaType").unwrap_or_else(|| "application/octet-stream".to_owned());
        let modality = Modality::of_media_type(&media_type);
        if let Some(base64) = text("raw") {
            return Some(Self::Data { modality, media_type, base64 });
        }
        if let Some(url) = text("url") {
            return Some(Self::Url { modality, url });
        }
        match part.get("data")? {
            data @ (Value::Object(_) | Value::Array(_)) => Some(Self::Json(data.clone())),
            data => Some(Self::Text(data.to_string())),
        }
    }
}

/// The values of content blocks of MCP. A block of another kind becomes a file with its JSON.
pub fn values_of_mcp<'a>(blocks: impl IntoIterator<Item = &'a Value>) -> Vec<Value> {
    let value = |block: &Value| value_or_json(Media::of_mcp(block), block);
    blocks.into_iter().map(value).collect()
}

/// The values of parts of A2A 1.0. A part of another kind becomes a file with its JSON.
pub fn values_of_a2a<'a>(parts: impl IntoIterator<Item = &'a Value>) -> Vec<Value> {
    let value = |part: &Value| value_or_json(Media::of_a2a(part), part);
    parts.into_iter().map(value).collect()
}

fn value_or_json(media: Option<Media>, original: &Value) -> Value {
    media.unwrap_or_else(|| Media::Json(original.clone())).to_value()
}

/// Whether a text is `type/subtype` without parameters.
fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "!#$&-^_.+".contains(c);
        (1..=127).contains(&part.len()) && part.chars().all(is_allowed)
    };
    text.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(value: &Value) -> Result<Media, String> {
        let text = value.to_string();
        let raw: &RawValue = serde_json::from_str(&text).unwrap();
        Media::read(raw, "/input".to_owned())
            .map_err(|failure| failure.data["pointer"].as_str().unwrap().to_owned())
    }

    fn value(kind: &str, value: impl Into<Value>) -> Value {
        json!({ "type": kind, "value": value.into() })
    }

    #[test]
    fn invalid_values_are_rejected_with_pointer() {
        for (bad, pointer) in [
            (json!({}), "/input/type"),
            (json!({ "type": "text" }), "/input/value"),
            (json!({ "type": "text", "value": 1 }), "/input/value"),
            (json!({ "type": "text", "value": "a", "x": 1 }), "/input/x"),
            (json!({ "type": "Text", "value": "a" }), "/input/type"),
            (value("image", "not base64"), "/input/value"),
            (value("image", "aGk"), "/input/value"),
            (value("image", "aGk=\n"), "/input/value"),
            (value("image", "_-8="), "/input/value"),
            (value("image", json!({})), "/input/value"),
            (value("image", "ftp://a.example/x"), "/input/value"),
            (value("image", "https://a.example/x y"), "/input/value"),
            (value("image", "https://a.example/\u{0}"), "/input/value"),
            (value("image", format!("https://a.example/{}", "a".repeat(8_192))), "/input/value"),
            (value("image", "data:image/png,abc"), "/input/value"),
            (value("image", "data:image;base64,aGk="), "/input/value"),
            (value("image", "data:audio/mpeg;base64,aGk="), "/input/value"),
            (value("image", "data:image/png\n;base64,aGk="), "/input/value"),
        ] {
            assert_eq!(read(&bad), Err(pointer.to_owned()), "{bad}");
        }
    }

    #[test]
    fn media_types_come_from_first_bytes() {
        let cases: [(&str, &[u8], &str); 8] = [
            ("image", b"\x89PNG\r\n\x1a\n", "image/png"),
            ("image", b"\xff\xd8\xff\xe0", "image/jpeg"),
            ("image", b"RIFF\0\0\0\0WEBPVP8 and more bytes than the head has", "image/webp"),
            ("image", b"?", "image/*"),
            ("audio", b"ID3", "audio/mpeg"),
            ("video", b"\x1a\x45\xdf\xa3", "video/webm"),
            ("file", b"%PDF-1.7", "application/pdf"),
            ("file", b"", "application/octet-stream"),
        ];
        for (kind, bytes, media_type) in cases {
            let media = read(&value(kind, STANDARD.encode(bytes))).unwrap();
            let Media::Data { media_type: found, .. } = media else { panic!("{media:?}") };
            assert_eq!(found, media_type);
        }
    }

    #[test]
    fn foreign_content_is_converted() {
        let blob = json!({ "uri": "file:///a", "mimeType": "video/mp4", "blob": "aGk=" });
        let found = Media::of_mcp(&json!({ "type": "resource", "resource": blob })).unwrap();
        assert_eq!(found.to_value(), value("video", "aGk="));
        let text = json!({ "uri": "file:///a", "text": "hi" });
        let found = Media::of_mcp(&json!({ "type": "resource", "resource": text })).unwrap();
        assert_eq!(found.to_value(), value("text", "hi"));
        assert_eq!(Media::of_mcp(&json!({ "type": "smell" })), None);
        assert_eq!(Media::of_a2a(&json!({ "data": 7 })).unwrap().to_value(), value("text", "7"));
        assert_eq!(
            Media::of_a2a(&json!({ "data": [7] })).unwrap().to_value(),
            value("file", json!([7]))
        );
        assert_eq!(Media::of_a2a(&json!({})), None);
    }

    #[test]
    fn unknown_content_becomes_file() {
        let blocks = [json!({ "type": "text", "text": "hi" }), json!({ "type": "smell", "n": 1 })];
        let expected = [value("text", "hi"), value("file", blocks[1].clone())];
        assert_eq!(values_of_mcp(&blocks), expected);
        let parts = [json!({ "text": "hi" }), json!({ "smell": 1 })];
        assert_eq!(values_of_a2a(&parts), [value("text", "hi"), value("file", parts[1].clone())]);
    }

    #[test]
    fn media_types_are_kinds_of_values() {
        for (mode, expected) in [
            ("text/plain", &[Modality::Text][..]),
            ("image/*", &[Modality::Image]),
            ("application/json", &[Modality::File]),
            ("*/*", &Modality::ALL),
        ] {
            assert_eq!(Modality::of_mode(mode), expected, "{mode}");
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let media = proptest::sample::select(vec!["image", "audio", "video", "file"]);
        let bytes = proptest::collection::vec(any::<u8>(), 0..40);
        prop_oneof![
            ".{0,20}".prop_map(|text| value("text", text)),
            (media.clone(), bytes).prop_map(|(kind, bytes)| value(kind, STANDARD.encode(bytes))),
            (media, "https?://[a-z]{1,8}/[a-z/.]{0,8}").prop_map(|(kind, url)| value(kind, url)),
            proptest::collection::vec(any::<i32>(), 0..4).prop_map(|list| value("file", list)),
            "[a-z]{1,4}".prop_map(|name| value("file", json!({ name: [null, "a"] }))),
        ]
    }

    proptest! {
        #[test]
        fn values_survive_mcp_and_a2a(value in values()) {
            let media = read(&value).unwrap();
            prop_assert_eq!(&media.to_value(), &value);
            prop_assert_eq!(Media::of_mcp(&media.to_mcp()), Some(media.clone()));
            prop_assert_eq!(Media::of_a2a(&media.to_a2a()), Some(media));
        }

        #[test]
        fn arbitrary_values_are_read_without_panic(kind in "text|image|file", text in ".{0,40}|data:.{0,20}|http.{0,20}") {
            if let Ok(media) = read(&value(&kind, text)) {
                prop_assert_eq!(Media::of_mcp(&media.to_mcp()), Some(media));
            }
        }
    }
}
