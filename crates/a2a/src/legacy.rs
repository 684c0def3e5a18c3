//! A2A 0.3. Its JSON-RPC binding marks objects with `kind`; its HTTP+JSON binding has the JSON form
//! of the Protocol Buffers, where a message's parts are `content`. Both are read in either binding,
//! because SDKs differ; each binding is written in its own form.

pub(crate) mod card;
pub(crate) mod inbound;
pub(crate) mod outbound;
pub(crate) mod security;

use serde_json::Value;

use crate::{
    json::Object,
    untranslatable::{Problem, Untranslatable},
};

type Translated<T> = Result<T, Untranslatable>;

/// Marks data that is not an object, which 0.3 wraps as `{"value": …}`. The SDKs use this member.
const WRAPPED: &str = "data_part_compat";

fn object(value: Value) -> Translated<Object> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(Untranslatable::new(Problem::Type("an object"))),
    }
}

/// Converts a member. A null one is removed.
fn member(
    object: &mut Object,
    name: &str,
    convert: impl FnOnce(Value) -> Translated<Value>,
) -> Translated<()> {
    match object.remove(name) {
        None | Some(Value::Null) => Ok(()),
        Some(value) => {
            let value = convert(value).map_err(|error| error.at(name))?;
            object.insert(name.to_owned(), value);
            Ok(())
        }
    }
}

/// Converts the items of a list.
fn list(value: Value, convert: impl Fn(Value) -> Translated<Value>) -> Translated<Value> {
    let Value::Array(items) = value else {
        return Err(Untranslatable::new(Problem::Type("a list")));
    };
    let convert = |(i, item)| convert(item).map_err(|error| error.at(i));
    items.into_iter().enumerate().map(convert).collect::<Result<Vec<_>, _>>().map(Value::Array)
}

/// Converts the items of a member that is a list.
fn items(
    object: &mut Object,
    name: &str,
    convert: impl Fn(Value) -> Translated<Value>,
) -> Translated<()> {
    member(object, name, |value| list(value, convert))
}
