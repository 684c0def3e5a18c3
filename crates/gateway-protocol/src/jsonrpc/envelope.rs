//! Reading the envelope: six slots of raw text, each filled at most once.
//!
//! Unknown members are skipped, as JSON-RPC peers do.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    ErrorObject, Id, Invalid, Message, Notification, Outcome, Request, Response, read_object,
};

const NAMES: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The members of an envelope as they came.
#[derive(Default)]
pub(super) struct Envelope<'a> {
    slots: [Option<&'a RawValue>; NAMES.len()],
    duplicate: Option<&'static str>,
}

impl<'a> Envelope<'a> {
    /// Reads the members of one object.
    pub(super) fn parse(text: &'a str) -> Result<Self, Invalid> {
        let envelope: Self = serde_json::from_str(text).map_err(|error| syntax(&error))?;
        envelope.duplicate.map_or(Ok(envelope), |name| Err(Invalid::Duplicate(name)))
    }

    /// Decides what kind of message this is.
    pub(super) fn into_message(self) -> Result<Message<'a>, Invalid> {
        let [version, id, method, params, result, error] = self.slots;
        if version.map(RawValue::get) != Some("\"2.0\"") {
            return Err(Invalid::Version);
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
            (None, Some(result), None) => response(id, Outcome::Result(result)),
            (None, None, Some(error)) => {
                let error: ErrorObject<'a> = read_object(error).ok_or(Invalid::ErrorObject)?;
                response(id, Outcome::Error(error))
            }
            _ => Err(Invalid::Kind),
        }
    }
}

fn response<'a>(id: Option<&'a RawValue>, outcome: Outcome<'a>) -> Result<Message<'a>, Invalid> {
    let id = id.map(RawValue::get).filter(|id| *id != "null").map(Id::parse).transpose()?;
    if id.is_none() && matches!(outcome, Outcome::Result(_)) {
        return Err(Invalid::Id);
    }
    Ok(Message::Response(Response { id, outcome }))
}

fn string(raw: &str) -> Result<Cow<'_, str>, Invalid> {
    let inner = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inner {
        Some(inner) if !inner.contains('\\') => Ok(Cow::Borrowed(inner)),
        Some(_) => serde_json::from_str(raw).map(Cow::Owned).map_err(|_| Invalid::Method),
        None => Err(Invalid::Method),
    }
}

/// Absent and `null` are the same; some clients send the latter.
fn object(raw: Option<&RawValue>) -> Result<Option<&RawValue>, Invalid> {
    match raw {
        Some(raw) if raw.get() == "null" => Ok(None),
        Some(raw) if !raw.get().starts_with('{') => Err(Invalid::Params),
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

/// Which slot a key names.
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

/// The body as text; a place in it where it is not UTF-8 counts as a column of its first line.
pub(super) fn text(body: &[u8]) -> Result<&str, Invalid> {
    std::str::from_utf8(body)
        .map_err(|error| Invalid::Syntax { line: 1, column: error.valid_up_to() + 1 })
}

/// Whether the text is JSON at all, for texts that are no message in any case.
pub(super) fn validate(text: &str) -> Result<(), Invalid> {
    serde_json::from_str::<IgnoredAny>(text).map(drop).map_err(|error| syntax(&error))
}

fn syntax(error: &serde_json::Error) -> Invalid {
    Invalid::Syntax { line: error.line(), column: error.column() }
}

/// Refuses deep nesting, which later readers may answer with recursion.
pub(super) fn check_depth(body: &[u8], limit: usize) -> Result<(), Invalid> {
    // Without more brackets than the limit it cannot be deeper.
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
            return Err(Invalid::TooDeep { limit });
        }
    }
    Ok(())
}
