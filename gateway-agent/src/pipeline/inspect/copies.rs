//! The text blocks of a result that repeat its structured content.
//!
//! Values are compared by their hashes: a parsed value takes many times the memory of its text.

use std::{
    fmt,
    hash::{BuildHasher as _, Hash, RandomState},
};

use serde::{
    Deserializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::inspection::members::{each_item, each_member};

/// A changed result whose text blocks repeat its structured content as in the original result. Blocks
/// that would more than double the result keep their text.
pub(super) fn aligned(original: &str, changed: String) -> String {
    with_copies(original, &changed).unwrap_or(changed)
}

fn with_copies(original: &str, changed: &str) -> Option<String> {
    let hashing = RandomState::new();
    let (before, after) = (Parts::read(original)?, Parts::read(changed)?);
    let value = hash(before.structured.get(), &hashing)?;
    let mut repeating = Vec::new();
    each_item(before.content, |index, block| {
        let text = only_member(block, "text").map(|text| serde_json::from_str(text.get()));
        let text: Option<String> = text.and_then(Result::ok);
        if text.is_some_and(|text| hash(&text, &hashing) == Some(value)) {
            repeating.push(index);
        }
    });
    if repeating.is_empty() {
        return None;
    }
    // A text always serializes.
    let copy = serde_json::to_string(after.structured.get()).ok()?;
    let (mut aligned, mut end, mut repeating) =
        (String::new(), 0, repeating.into_iter().peekable());
    let limit = 2 * changed.len();
    each_item(after.content, |index, block| {
        if repeating.next_if_eq(&index).is_none() || aligned.len() > limit {
            return;
        }
        if let Some(text) = only_member(block, "text") {
            // The text is a part of the result.
            let start = text.get().as_ptr().addr() - changed.as_ptr().addr();
            aligned.push_str(&changed[end..start]);
            aligned.push_str(&copy);
            end = start + text.get().len();
        }
    });
    aligned.push_str(&changed[end..]);
    (aligned.len() <= limit).then_some(aligned)
}

/// The members of a result that can repeat each other.
struct Parts<'a> {
    structured: &'a RawValue,
    content: &'a RawValue,
}

impl<'a> Parts<'a> {
    fn read(result: &'a str) -> Option<Self> {
        let result = serde_json::from_str(result).ok()?;
        let structured = only_member(result, "structuredContent")?;
        let content = only_member(result, "content")?;
        content.get().starts_with('[').then_some(Self { structured, content })
    }
}

/// The value of a member that is not repeated.
fn only_member<'a>(object: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    let (mut found, mut count) = (None, 0);
    let read = each_member(object, |known, value| {
        if known == name {
            (found, count) = (Some(value), count + 1);
        }
    });
    found.filter(|_| read.is_ok() && count == 1)
}

/// The hash of a JSON value. The order of members does not count.
fn hash(json: &str, hashing: &RandomState) -> Option<u64> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let hash = Hashed(hashing).deserialize(&mut reader).ok()?;
    reader.end().ok().map(|()| hash)
}

#[derive(Clone, Copy)]
struct Hashed<'h>(&'h RandomState);

impl Hashed<'_> {
    fn of(self, value: impl Hash) -> u64 {
        self.0.hash_one(value)
    }
}

impl<'de> DeserializeSeed<'de> for Hashed<'_> {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Hashed<'_> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<u64, E> {
        Ok(self.of("null"))
    }

    fn visit_bool<E>(self, value: bool) -> Result<u64, E> {
        Ok(self.of(("bool", value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<u64, E> {
        Ok(self.of(("integer", i128::from(value))))
    }

    fn visit_u64<E>(self, value: u64) -> Result<u64, E> {
        Ok(self.of(("integer", i128::from(value))))
    }

    fn visit_f64<E>(self, value: f64) -> Result<u64, E> {
        Ok(self.of(("float", value.to_bits())))
    }

    fn visit_str<E>(self, value: &str) -> Result<u64, E> {
        Ok(self.of(("string", value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<u64, A::Error> {
        let mut list = self.of("list");
        while let Some(item) = seq.next_element_seed(self)? {
            list = self.of((list, item));
        }
        Ok(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u64, A::Error> {
        let mut members = self.of("object");
        while let Some(name) = map.next_key_seed(self)? {
            let value = map.next_value_seed(self)?;
            members = members.wrapping_add(self.of((name, value)));
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn repeated_text_equals_changed_structured_content() {
        let structured = json!({ "mail": "x@y.org", "id": 1 });
        let other = json!({ "type": "text", "text": "{\"id\":2}" });
        let original = json!({
            "content": [{ "type": "text", "text": structured.to_string() }, other],
            "structuredContent": structured,
        });
        let mut changed = original.clone();
        changed["structuredContent"]["mail"] = "[redacted:contact]".into();
        let aligned = aligned(&original.to_string(), changed.to_string());
        let aligned: Value = serde_json::from_str(&aligned).unwrap();
        let text = aligned["content"][0]["text"].as_str().unwrap();
        let text: Value = serde_json::from_str(text).unwrap();
        assert_eq!(text, changed["structuredContent"]);
        assert_eq!(aligned["content"][1], other);
    }

    #[test]
    fn result_without_copy_stays_unchanged() {
        let original = json!({ "content": [{ "type": "text", "text": "a" }] }).to_string();
        assert_eq!(aligned(&original, "{}".to_owned()), "{}");
    }

    #[test]
    fn values_are_equal_in_any_order_and_spelling() {
        let hashing = RandomState::new();
        let hash = |json: &str| super::hash(json, &hashing);
        for (one, other) in [
            (r#"{"a":[1,"b"],"c":null}"#, r#" {"c":null,"a":[1,"\u0062"]}"#),
            ("[true,-1,2.5]", "[true, -1, 25e-1]"),
        ] {
            assert!(hash(one).is_some() && hash(one) == hash(other), "{one} {other}");
        }
        let different =
            ["1", "\"1\"", "[1]", "[1,2]", "[2,1]", r#"{"1":2}"#, r#"{"2":1}"#, "{}", "[]", "1.5"];
        let hashes: std::collections::HashSet<_> = different.map(hash).into_iter().collect();
        assert_eq!(hashes.len(), different.len());
        assert_eq!(["", "{", "1 2", &"[".repeat(500)].map(hash), [None; 4]);
    }

    #[test]
    fn short_copies_of_a_long_text_do_not_multiply_it() {
        let blocks = vec![r#"{"type":"text","text":"{}"}"#; 1_000].join(",");
        let space = " ".repeat(100_000);
        let result = format!(r#"{{"structuredContent":{{{space}}},"content":[{blocks}]}}"#);
        assert_eq!(aligned(&result, result.clone()), result);
    }
}
