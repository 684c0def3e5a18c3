//! The members of objects and the items of arrays in JSON texts. Nothing is collected: a text can have
//! millions.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer as _,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Calls `visit` with each member of an object; another value has none.
pub(crate) fn each_member<'a>(
    object: &'a RawValue,
    visit: impl FnMut(&str, &'a RawValue),
) -> Result<(), serde_json::Error> {
    struct Members<F>(F);

    impl<'de, F: FnMut(&str, &'de RawValue)> Visitor<'de> for Members<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some(Name(name)) = map.next_key()? {
                (self.0)(&name, map.next_value()?);
            }
            Ok(())
        }
    }

    if !object.get().starts_with('{') {
        return Ok(());
    }
    serde_json::Deserializer::from_str(object.get()).deserialize_map(Members(visit))
}

/// Calls `visit` with each item of an array.
pub(crate) fn each_item<'a>(array: &'a RawValue, visit: impl FnMut(usize, &'a RawValue)) {
    struct Items<F>(F);

    impl<'de, F: FnMut(usize, &'de RawValue)> Visitor<'de> for Items<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
            let mut index = 0;
            while let Some(item) = seq.next_element()? {
                (self.0)(index, item);
                index += 1;
            }
            Ok(())
        }
    }

    // The items of a valid array are valid.
    let _ = serde_json::Deserializer::from_str(array.get()).deserialize_seq(Items(visit));
}
