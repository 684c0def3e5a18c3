//! Parses the envelope: six members of raw text, each at most once.
//!
//! Unknown members are ignored, as JSON-RPC peers do.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    ErrorObject, Id, InvalidMessage, Message, Notification, Request, Response, ResponsePayload,
    read_object,
};

const NAMES: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The raw members of an envelope.
#[derive(Default)]
pub(super) struct Envelope<'a> {
    slots: [Option<&'a RawValue>; NAMES.len()],
    duplicate: Option<&'static str>,
}

impl<'a> Envelope<'a> {
    /// Reads the members of one object.
    pub(super) fn parse(text: &'a str) -> Result<Self, InvalidMessage> {
        let envelope: Self = serde_json::from_str(text).map_err(|error| syntax(&error))?;
        envelope.duplicate.map_or(Ok(envelope), |name| Err(InvalidMessage::Duplicate(name)))
    }

    /// The id, if it is valid.
    pub(super) fn id(&self) -> Option<Id<'a>> {
        let [_, id, ..] = self.slots;
        Id::parse(id?.get()).ok()
    }

    /// Decides what kind of message this is.
    pub(super) fn into_message(self) -> Result<Message<'a>, InvalidMessage> {
        let [version, id, method, params, result, error] = self.slots;
        if version.map(RawValue::get) != Some("\"2.0\"") {
            return Err(InvalidMessage::Version);
        }
        match (method, result, error) {
            (Some(method), None, None) => {
                let method = string(method.get())?;
                let params = object(params)?;
                Ok(match id {
                    Some(id) => {
                        Message::Request(Request { id: Id::parse(id.get())?, method, params })
                    }
                    None => Message::Notification(Notification { method, params }),
                })
            }
            (None, Some(result), None) => response(id, ResponsePayload::Result(result)),
            (None, None, Some(error)) => {
                let error: ErrorObject<'a> =
                    read_object(error).ok_or(InvalidMessage::ErrorObject)?;
                response(id, ResponsePayload::Error(error))
            }
            _ => Err(InvalidMessage::Kind),
        }
    }
}

fn response<'a>(
    id: Option<&'a RawValue>,
    outcome: ResponsePayload<'a>,
) -> Result<Message<'a>, InvalidMessage> {
    let id = id.map(RawValue::get).filter(|id| *id != "null").map(Id::parse).transpose()?;
    if id.is_none() && matches!(outcome, ResponsePayload::Result(_)) {
        return Err(InvalidMessage::Id);
    }
    Ok(Message::Response(Response { id, outcome }))
}

fn string(raw: &str) -> Result<Cow<'_, str>, InvalidMessage> {
    let inner = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inner {
        Some(inner) if !inner.contains('\\') => Ok(Cow::Borrowed(inner)),
        Some(_) => serde_json::from_str(raw).map(Cow::Owned).map_err(|_| InvalidMessage::Method),
        None => Err(InvalidMessage::Method),
    }
}

/// Some clients send `null` for absent parameters.
fn object(raw: Option<&RawValue>) -> Result<Option<&RawValue>, InvalidMessage> {
    match raw {
        Some(raw) if raw.get() == "null" => Ok(None),
        Some(raw) if !raw.get().starts_with('{') => Err(InvalidMessage::Params),
        raw => Ok(raw),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(Slot(slot)) = map.next_key()? {
            let Some(index) = slot else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if envelope.slots[index].replace(map.next_value()?).is_some() {
                envelope.duplicate = Some(NAMES[index]);
            }
        }
        Ok(envelope)
    }
}

/// The index of a member name.
struct Slot(Option<usize>);

impl<'de> Deserialize<'de> for Slot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(SlotName)
    }
}

struct SlotName;

impl Visitor<'_> for SlotName {
    type Value = Slot;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Slot, E> {
        Ok(Slot(NAMES.iter().position(|known| *known == name)))
    }
}

/// The body as text. The position of invalid UTF-8 is reported as a column of the first line.
pub(super) fn text(body: &[u8]) -> Result<&str, InvalidMessage> {
    std::str::from_utf8(body)
        .map_err(|error| InvalidMessage::Syntax { line: 1, column: error.valid_up_to() + 1 })
}

/// Checks whether an invalid message is at least JSON.
pub(super) fn validate(text: &str) -> Result<(), InvalidMessage> {
    serde_json::from_str::<IgnoredAny>(text).map(drop).map_err(|error| syntax(&error))
}

fn syntax(error: &serde_json::Error) -> InvalidMessage {
    InvalidMessage::Syntax { line: error.line(), column: error.column() }
}

/// Rejects deep nesting, which later parsers could answer with recursion.
pub(super) fn check_depth(body: &[u8], limit: usize) -> Result<(), InvalidMessage> {
    // A text with fewer brackets than the limit cannot be nested more deeply.
    if memchr::memchr2_iter(b'{', b'[', body).nth(limit).is_none() {
        return Ok(());
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > limit {
            return Err(InvalidMessage::TooDeep { limit });
        }
    }
    Ok(())
}
