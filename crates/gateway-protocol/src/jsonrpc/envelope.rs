//! Parses the envelope: members of raw text, each at most once.
//!
//! Unknown members are ignored, as JSON-RPC peers do.

use std::fmt;

use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    ErrorObject, Id, InvalidMessage, Message, Notification, Request, Response, ResponsePayload,
    read_object, read_string,
};

const NAMES: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The raw members of an envelope.
pub(super) struct Envelope<'a>([Option<&'a RawValue>; NAMES.len()]);

impl<'a> Envelope<'a> {
    /// Reads the members of one object.
    pub(super) fn parse(text: &'a str) -> Result<Self, InvalidMessage> {
        members(text, &NAMES).map(Self)
    }

    /// The id, if it is valid.
    pub(super) fn id(&self) -> Option<Id<'a>> {
        let [_, id, ..] = self.0;
        Id::parse(id?.get()).ok()
    }

    /// Decides what kind of message this is.
    pub(super) fn into_message(self) -> Result<Message<'a>, InvalidMessage> {
        let [version, id, method, params, result, error] = self.0;
        if version.map(RawValue::get) != Some("\"2.0\"") {
            return Err(InvalidMessage::Version);
        }
        match (method, result, error) {
            (Some(method), None, None) => {
                let method = read_string(method).ok_or(InvalidMessage::Method)?;
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

/// Some clients send `null` for absent parameters.
fn object(raw: Option<&RawValue>) -> Result<Option<&RawValue>, InvalidMessage> {
    match raw {
        Some(raw) if raw.get() == "null" => Ok(None),
        Some(raw) if !raw.get().starts_with('{') => Err(InvalidMessage::Params),
        raw => Ok(raw),
    }
}

/// Reads these members of a JSON object, each at most once.
pub(super) fn members<'a, const N: usize>(
    text: &'a str,
    names: &'static [&'static str; N],
) -> Result<[Option<&'a RawValue>; N], InvalidMessage> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = Members(names).deserialize(&mut deserializer);
    let slots = read.and_then(|slots| deserializer.end().map(|()| slots));
    let Slots { values, duplicate } = slots.map_err(|error| syntax(&error))?;
    duplicate.map_or(Ok(values), |name| Err(InvalidMessage::Duplicate(name)))
}

struct Slots<'a, const N: usize> {
    values: [Option<&'a RawValue>; N],
    duplicate: Option<&'static str>,
}

struct Members<const N: usize>(&'static [&'static str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Members<N> {
    type Value = Slots<'de, N>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Members<N> {
    type Value = Slots<'de, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut slots = Slots { values: [None; N], duplicate: None };
        while let Some(slot) = map.next_key_seed(SlotName(self.0))? {
            let Some(index) = slot else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if slots.values[index].replace(map.next_value()?).is_some() {
                slots.duplicate = Some(self.0[index]);
            }
        }
        Ok(slots)
    }
}

/// Reads a member name as its index.
struct SlotName(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for SlotName {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for SlotName {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|known| *known == name))
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
