//! Parses the envelope: members of raw text, each at most once. The result can have another type.
//!
//! Unknown members are ignored, as JSON-RPC peers do.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    ErrorObject, Id, InvalidMessage, Message, Notification, Request, Response, ResponsePayload,
    read_object, read_string,
};

const NAMES: [&str; 5] = ["jsonrpc", "id", "method", "params", "error"];
const RESULT: &str = "result";

/// The members of an envelope. All but the result are raw.
pub(super) struct Envelope<'a, R> {
    members: [Option<&'a RawValue>; NAMES.len()],
    result: Option<R>,
}

impl<'a, R: Deserialize<'a>> Envelope<'a, R> {
    /// Reads the members of one object.
    pub(super) fn parse(text: &'a str) -> Result<Self, InvalidMessage> {
        let Slots { members, result, .. } = slots(text, &NAMES, Some(RESULT))?;
        Ok(Self { members, result })
    }

    /// The id, if it is valid.
    pub(super) fn id(&self) -> Option<Id<'a>> {
        let [_, id, ..] = self.members;
        Id::parse(id?.get()).ok()
    }

    /// Decides what kind of message this is.
    pub(super) fn into_message(self) -> Result<Message<'a, R>, InvalidMessage> {
        let [version, id, method, params, error] = self.members;
        if version.map(RawValue::get) != Some("\"2.0\"") {
            return Err(InvalidMessage::Version);
        }
        match (method, self.result, error) {
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

fn response<'a, R>(
    id: Option<&'a RawValue>,
    outcome: ResponsePayload<'a, R>,
) -> Result<Message<'a, R>, InvalidMessage> {
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
    slots::<IgnoredAny, N>(text, names, None).map(|slots| slots.members)
}

/// Reads these members of a JSON object as raw text, and the one named `result` as another type.
fn slots<'a, R: Deserialize<'a>, const N: usize>(
    text: &'a str,
    names: &'static [&'static str; N],
    result: Option<&'static str>,
) -> Result<Slots<'a, R, N>, InvalidMessage> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let members = Members { names, result, read: PhantomData::<R> };
    let read = members.deserialize(&mut deserializer);
    let slots = read.and_then(|slots| deserializer.end().map(|()| slots));
    let slots = slots.map_err(|error| syntax(&error))?;
    match slots.duplicate {
        Some(name) => Err(InvalidMessage::Duplicate(name)),
        None => Ok(slots),
    }
}

struct Slots<'a, R, const N: usize> {
    members: [Option<&'a RawValue>; N],
    result: Option<R>,
    duplicate: Option<&'static str>,
}

struct Members<R, const N: usize> {
    names: &'static [&'static str; N],
    result: Option<&'static str>,
    read: PhantomData<R>,
}

impl<'de, R: Deserialize<'de>, const N: usize> DeserializeSeed<'de> for Members<R, N> {
    type Value = Slots<'de, R, N>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, R: Deserialize<'de>, const N: usize> Visitor<'de> for Members<R, N> {
    type Value = Slots<'de, R, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { names, result, .. } = self;
        let mut slots = Slots { members: [None; N], result: None, duplicate: None };
        while let Some(slot) = map.next_key_seed(SlotName { names, result })? {
            let Some(index) = slot else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let is_repeated = match slots.members.get_mut(index) {
                Some(member) => member.replace(map.next_value()?).is_some(),
                None => slots.result.replace(map.next_value()?).is_some(),
            };
            if is_repeated {
                slots.duplicate = names.get(index).copied().or(result);
            }
        }
        Ok(slots)
    }
}

/// Reads a member name as its index. The result follows the other names.
struct SlotName {
    names: &'static [&'static str],
    result: Option<&'static str>,
}

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
        Ok(self.names.iter().chain(&self.result).position(|known| *known == name))
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
