//! The arguments of a call: raw bytes until a check needs their values, parsed at most once.
//!
//! Repeated member names are rejected: the gateway would check one value and the upstream might
//! read the other.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};

/// Maximum length of a member name in a message, in characters.
const NAME_CHARS: usize = 64;

/// Why arguments are rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidArguments {
    /// The arguments are not a JSON object.
    #[error("`arguments` is not an object")]
    NotAnObject,
    /// An object has a member name twice, or a number is out of range.
    #[error("`arguments` is not usable: {0}")]
    Ambiguous(String),
    /// The values of placeholders make the arguments too long.
    #[error(
        "`arguments` exceeds {limit_bytes} bytes with the values of its placeholders; use fewer"
    )]
    TooLong {
        /// The limit.
        limit_bytes: usize,
    },
}

/// The arguments of one call.
#[derive(Debug)]
pub struct Arguments<'a> {
    raw: Option<Cow<'a, RawValue>>,
    parsed: Option<Value>,
    /// Whether defaults were added.
    is_changed: bool,
    /// The text before that.
    given: Option<Cow<'a, RawValue>>,
}

impl<'a> Arguments<'a> {
    /// Absent arguments are an empty object.
    pub fn new(raw: Option<&'a RawValue>) -> Result<Self, InvalidArguments> {
        match raw {
            Some(raw) if !raw.get().starts_with('{') => Err(InvalidArguments::NotAnObject),
            raw => Ok(Self::of(raw.map(Cow::Borrowed))),
        }
    }

    fn of(raw: Option<Cow<'a, RawValue>>) -> Self {
        Self { raw, parsed: None, is_changed: false, given: None }
    }

    /// Releases the parsed value, which takes many times the memory of the text.
    pub(super) fn forget_value(&mut self) {
        self.parsed = None;
    }

    /// Replaces the arguments.
    pub(super) fn replace(&mut self, raw: Box<RawValue>) {
        *self = Self::of(Some(Cow::Owned(raw)));
    }

    /// The arguments for the upstream.
    pub fn raw(&self) -> Option<&RawValue> {
        self.raw.as_deref()
    }

    /// The arguments without the defaults, which the definition of the tool determines. Hidden ones are
    /// among the defaults.
    pub(super) fn given(&self) -> Option<&RawValue> {
        if self.is_changed { self.given.as_deref() } else { self.raw() }
    }

    /// The arguments as a JSON value, parsed once.
    pub fn value(&mut self) -> Result<&Value, InvalidArguments> {
        if self.parsed.is_none() {
            self.parsed = Some(match &self.raw {
                Some(raw) => parse(raw)?,
                None => Value::Object(Map::new()),
            });
        }
        Ok(self.parsed.get_or_insert_default())
    }

    /// The members of the arguments, parsed once.
    pub fn members(&mut self) -> Result<&Map<String, Value>, InvalidArguments> {
        self.value()?.as_object().ok_or(InvalidArguments::NotAnObject)
    }

    /// Changes the arguments and serializes them again for the upstream.
    pub fn change<E: From<InvalidArguments>>(
        &mut self,
        change: impl FnOnce(&mut Map<String, Value>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.value()?;
        let Some(Value::Object(members)) = &mut self.parsed else {
            return Err(InvalidArguments::NotAnObject.into());
        };
        change(members)?;
        if !std::mem::replace(&mut self.is_changed, true) {
            self.given = self.raw.take();
        }
        // A map of JSON values always serializes.
        self.raw = serde_json::value::to_raw_value(members).ok().map(Cow::Owned);
        Ok(())
    }
}

fn parse(raw: &RawValue) -> Result<Value, InvalidArguments> {
    let mut reader = serde_json::Deserializer::from_str(raw.get());
    Strict.deserialize(&mut reader).map_err(|error| InvalidArguments::Ambiguous(error.to_string()))
}

/// Reads a JSON value and rejects repeated member names.
#[derive(Clone, Copy)]
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(Name(name)) = map.next_key()? {
            let value = map.next_value_seed(self)?;
            if members.contains_key(&*name) {
                let name: String = name.chars().take(NAME_CHARS).collect();
                return Err(A::Error::custom(format!("the member {name:?} is repeated")));
            }
            members.insert(name.into_owned(), value);
        }
        Ok(Value::Object(members))
    }
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
