//! Helpers for JSON objects whose unknown members are kept.

use serde_json::{Map, Value};

pub(crate) type Object = Map<String, Value>;

/// The text of a member.
pub(crate) fn text<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str()
}

/// The text of a member, if it is not empty. Protocol Buffers do not distinguish an empty text from
/// a missing one.
pub(crate) fn filled<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    text(object, name).filter(|text| !text.is_empty())
}

/// The items of a member that is a list.
pub(crate) fn items<'a>(object: &'a Object, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Renames a member unless the new name is taken.
pub(crate) fn rename(object: &mut Object, from: &str, to: &str) {
    if !object.contains_key(to)
        && let Some(value) = object.remove(from)
    {
        object.insert(to.to_owned(), value);
    }
}
