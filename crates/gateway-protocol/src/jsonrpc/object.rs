//! JSON objects as raw members: reads one level and writes objects from raw parts.

use std::{borrow::Cow, fmt, mem};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// Deserializes a raw object. Derived implementations also accept arrays, which must be rejected
/// here.
pub fn read_object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    let text = raw.get();
    if text.starts_with('{') { serde_json::from_str(text).ok() } else { None }
}

/// Reads a raw string. `None`: the value is not a string.
pub fn read_string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(raw.get()).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// Maximum members that an object holds without an allocation. Most parameters and `_meta` have fewer.
const INLINE_MEMBERS: usize = 4;
/// Maximum members whose names are compared in pairs. The names of more are sorted in a list.
const COMPARED_MEMBERS: usize = 16;

/// One member of an object.
#[derive(Debug, Clone)]
pub struct Member<'a> {
    /// The unescaped name.
    pub name: Cow<'a, str>,
    /// The raw value.
    pub value: &'a RawValue,
}

impl Default for Member<'_> {
    fn default() -> Self {
        Self { name: Cow::Borrowed(""), value: RawValue::NULL }
    }
}

/// The members of an object in their order, with unique names.
#[derive(Debug, Clone, Default)]
pub struct Object<'a> {
    /// The first `count` are members, unless there are more than fit.
    inline: [Member<'a>; INLINE_MEMBERS],
    count: usize,
    /// All members, if there are more than fit.
    all: Vec<Member<'a>>,
}

/// A raw value that is not an object, or an object with duplicate names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the value is not an object with unique member names")]
pub struct InvalidObject;

impl<'a> Object<'a> {
    /// Splits a raw object into its members. It is meant for objects with few members.
    pub fn parse(raw: &'a RawValue) -> Result<Self, InvalidObject> {
        serde_json::from_str(raw.get()).map_err(|_| InvalidObject)
    }

    /// The members in their order.
    pub fn members(&self) -> &[Member<'a>] {
        if self.all.is_empty() { &self.inline[..self.count] } else { &self.all }
    }

    /// The value of one member.
    pub fn find(&self, name: &str) -> Option<&'a RawValue> {
        self.members().iter().find(|member| member.name == name).map(|member| member.value)
    }

    fn push(&mut self, member: Member<'a>) {
        if let Some(free) = self.inline.get_mut(self.count) {
            *free = member;
            self.count += 1;
            return;
        }
        if self.all.is_empty() {
            self.all.extend(mem::take(&mut self.inline));
        }
        self.all.push(member);
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut object = Object::default();
        while let Some(Name(name)) = map.next_key()? {
            object.push(Member { name, value: map.next_value()? });
        }
        if has_duplicates(object.members()) {
            return Err(serde::de::Error::custom("duplicate member name"));
        }
        Ok(object)
    }
}

fn has_duplicates(members: &[Member<'_>]) -> bool {
    if members.len() <= COMPARED_MEMBERS {
        let mut places = members.iter().enumerate();
        let is_known = |(place, member): (usize, &Member<'_>)| {
            members[..place].iter().any(|known| known.name == member.name)
        };
        return places.any(is_known);
    }
    let mut names: Vec<&str> = members.iter().map(|member| member.name.as_ref()).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Writes one JSON object from raw parts.
#[derive(Debug)]
pub struct ObjectWriter {
    text: Vec<u8>,
    /// The offset of the object.
    start: usize,
}

impl ObjectWriter {
    /// Creates an empty object with this capacity.
    pub fn with_capacity(bytes: usize) -> Self {
        Self::after(Vec::with_capacity(bytes + 2))
    }

    /// Creates an empty object that is appended to a text.
    pub fn after(mut text: Vec<u8>) -> Self {
        text.push(b'{');
        let start = text.len();
        Self { text, start }
    }

    /// Adds a member with a JSON value. The name must not need escaping.
    pub fn raw(&mut self, name: &str, value: &str) -> &mut Self {
        debug_assert!(!name.contains(['"', '\\']) && !name.contains(char::is_control));
        if self.text.len() > self.start {
            self.text.push(b',');
        }
        self.text.push(b'"');
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b"\":");
        self.text.extend_from_slice(value.as_bytes());
        self
    }

    /// Adds a member with a JSON value and escapes the name.
    pub fn member(&mut self, name: &str, value: &str) -> &mut Self {
        if self.text.len() > self.start {
            self.text.push(b',');
        }
        write_string(&mut self.text, name);
        self.text.push(b':');
        self.text.extend_from_slice(value.as_bytes());
        self
    }

    /// Adds a member with an escaped string value. The name must not need escaping.
    pub fn string(&mut self, name: &str, value: &str) -> &mut Self {
        self.raw(name, "");
        write_string(&mut self.text, value);
        self
    }

    /// Adds a member with a JSON value or object that is not text. The name must not need escaping.
    pub fn value(&mut self, name: &str, value: &impl Serialize) -> &mut Self {
        self.raw(name, "");
        serde_json::to_writer(&mut self.text, value).expect("a JSON value always serializes");
        self
    }

    /// The finished object.
    pub fn finish(mut self) -> Bytes {
        self.text.push(b'}');
        Bytes::from(self.text)
    }

    /// The text with the finished object at its end.
    pub fn finish_text(mut self) -> Vec<u8> {
        self.text.push(b'}');
        self.text
    }

    /// The finished object as text.
    pub fn finish_string(mut self) -> String {
        self.text.push(b'}');
        String::from_utf8(self.text).expect("the writer only appends text")
    }
}

/// Appends an escaped JSON string.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a string always serializes into a Vec");
}
