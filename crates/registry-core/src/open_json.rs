//! Open JSON with sorted members (RFC 8785, section 3.2.3), so that equal documents have equal texts.
//!
//! A map of `serde_json` keeps the order of its text if a program enables `preserve_order`; without that feature,
//! it sorts by UTF-8.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// The members in their order, unless the map has it.
pub(crate) fn sorted_members(map: &Map<String, Value>) -> Option<Vec<(&String, &Value)>> {
    let sort_alike = map.keys().all(|name| sorts_alike(name));
    if sort_alike && map.keys().is_sorted() {
        return None;
    }
    let mut members: Vec<_> = map.iter().collect();
    if sort_alike {
        members.sort_unstable_by_key(|(name, _)| *name);
    } else {
        members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    }
    Some(members)
}

/// Whether byte order equals the order by UTF-16 code units, which section 3.2.3
/// requires. The orders differ from U+E000 on, because surrogates sort before it.
fn sorts_alike(name: &str) -> bool {
    name.bytes().all(|byte| byte < 0xee)
}

/// For `serialize_with` of fields with open JSON.
pub(crate) fn serialize<T: OpenJson, S: Serializer>(
    open: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    open.serialize_sorted(serializer)
}

/// JSON values, and the types of fields with them.
pub(crate) trait OpenJson {
    fn serialize_sorted<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
}

impl OpenJson for Value {
    fn serialize_sorted<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(map) => map.serialize_sorted(serializer),
            Self::Array(items) => items.serialize_sorted(serializer),
            scalar => scalar.serialize(serializer),
        }
    }
}

impl OpenJson for Map<String, Value> {
    fn serialize_sorted<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match sorted_members(self) {
            None => serializer.collect_map(self.iter().map(|(name, value)| (name, Sorted(value)))),
            Some(members) => {
                let members = members.into_iter().map(|(name, value)| (name, Sorted(value)));
                serializer.collect_map(members)
            }
        }
    }
}

impl OpenJson for Vec<Value> {
    fn serialize_sorted<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Sorted))
    }
}

impl<T: OpenJson> OpenJson for Option<T> {
    fn serialize_sorted<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(open) => open.serialize_sorted(serializer),
            None => serializer.serialize_none(),
        }
    }
}

struct Sorted<'a>(&'a Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_sorted(serializer)
    }
}
