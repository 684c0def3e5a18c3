//! The digest of the arguments of a call, and their preview for approvers.

use a2a::extensions::Extensions;
use approval::ArgumentsKey;
use gateway_protocol::jsonrpc::ObjectWriter;
use registry_core::Digest;
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    inspection::Inspections,
    pipeline::{admit::ContinuedIds, arguments::Arguments},
};

/// Maximum length of a preview, in bytes. A registry adds its encryption.
const PREVIEW_BYTES: usize = 48_000;

/// The pointer of the arguments in the data of a message.
pub(super) const ARGUMENTS: &str = "/arguments";

/// The arguments of a call as approvals use them.
#[derive(Debug)]
pub(super) struct ApprovedArguments {
    pub(super) digest: Digest,
    /// JSON text for approvers.
    pub(super) preview: String,
    /// The same for the caller, without redactions.
    pub(super) own: String,
}

/// Describes arguments as JSON text. `shown`: the pointers of the arguments that approvers see. Empty:
/// all, without values of inspected classes. Fails with a problem and its remedy.
pub(super) fn describe(
    given: &str,
    key: &ArgumentsKey,
    shown: &[String],
    inspections: &Inspections,
) -> Result<ApprovedArguments, String> {
    let raw = RawValue::from_string(given.to_owned()).map_err(|e| e.to_string())?;
    let mut arguments = Arguments::new(Some(&raw)).map_err(|e| e.to_string())?;
    let value = arguments.value().map_err(|e| e.to_string())?;
    let digest = key.digest(value).ok_or_else(|| {
        "the arguments have a number that cannot be compared exactly (an integer outside of 64 bits, or \
         a fraction with more than 15 digits); pass it as a string"
            .to_owned()
    })?;
    let own = if shown.is_empty() { value.to_string() } else { selected(value, shown) };
    if own.len() > PREVIEW_BYTES {
        return Err(format!(
            "the arguments have {} bytes; approvers see at most {PREVIEW_BYTES}; shorten them, or select \
             arguments with `show` in the policy",
            own.len()
        ));
    }
    let preview =
        if shown.is_empty() { inspections.redacted_json(&own) } else { Some(own.clone()) };
    let preview = preview.ok_or_else(|| {
        "the names of arguments have personal data or credentials, which approvers must not see; \
         select arguments with `show` in the policy"
            .to_owned()
    })?;
    Ok(ApprovedArguments { digest, preview, own })
}

/// The data of a message to an agent as JSON text: its arguments, its extensions, and all other
/// parameters except those that differ for each sending.
pub(super) fn of_message(
    arguments: Option<&RawValue>,
    rest: &RawValue,
    (extensions, continues): (Option<&Extensions>, ContinuedIds<'_>),
) -> String {
    let mut rest: Value = serde_json::from_str(rest.get()).unwrap_or_default();
    if let Some(message) = rest.get_mut("message").and_then(Value::as_object_mut) {
        for id in ["messageId", "taskId", "contextId"] {
            message.remove(id);
        }
    }
    if let Some(configuration) = rest.get_mut("configuration").and_then(Value::as_object_mut) {
        configuration.retain(|name, value| !is_delivery(name, value));
        if configuration.is_empty()
            && let Some(rest) = rest.as_object_mut()
        {
            rest.remove("configuration");
        }
    }
    let mut data = ObjectWriter::with_capacity(256);
    data.raw("arguments", arguments.map_or("null", RawValue::get))
        .raw("request", &rest.to_string());
    let extensions: Vec<_> = extensions.into_iter().flat_map(Extensions::iter).collect();
    if !extensions.is_empty() {
        data.raw("extensions", &json!(extensions).to_string());
    }
    let ContinuedIds { task, context, references } = continues;
    let references = references.map(Value::to_string);
    for (name, ids) in [("task", task), ("context", context), ("references", references.as_deref())]
    {
        if let Some(ids) = ids {
            // Ids of agents are not shown.
            data.string(name, &Digest::compute(ids.as_bytes()).to_string());
        }
    }
    data.finish_string()
}

/// Whether a member of a message's configuration selects only how its answer is delivered. A value of
/// another type could contain instructions.
fn is_delivery(name: &str, value: &Value) -> bool {
    match name {
        "returnImmediately" | "blocking" => value.is_boolean(),
        "historyLength" => value.is_u64(),
        _ => false,
    }
}

/// The selected values by their pointers.
fn selected(value: &Value, shown: &[String]) -> String {
    let found = |pointer: &str| Some((pointer.to_owned(), value.pointer(pointer)?.clone()));
    let selected: Map<_, _> = shown.iter().filter_map(|pointer| found(pointer)).collect();
    Value::Object(selected).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(given: &str, shown: &[&str]) -> Result<ApprovedArguments, String> {
        let shown: Vec<_> = shown.iter().map(|pointer| (*pointer).to_owned()).collect();
        describe(given, &ArgumentsKey::new(&[7; 32]), &shown, &Inspections::default())
    }

    #[test]
    fn preview_has_no_personal_data() {
        let found = described(r#"{ "to": "ann@firm.de", "amount": 7 }"#, &[]).unwrap();
        let preview: Value = serde_json::from_str(&found.preview).unwrap();
        assert_eq!(preview, json!({ "to": "[redacted:contact]", "amount": 7 }));
        assert!(described(r#"{ "ann@firm.de": 1 }"#, &[]).is_err());
    }

    #[test]
    fn preview_has_selected_arguments_only() {
        let given = r#"{ "order": { "id": "A-7" }, "to": "ann@firm.de" }"#;
        let found = described(given, &["/order/id", "/missing", "/to"]).unwrap();
        let preview: Value = serde_json::from_str(&found.preview).unwrap();
        assert_eq!(preview, json!({ "/order/id": "A-7", "/to": "ann@firm.de" }));
    }

    #[test]
    fn digest_is_that_of_the_value() {
        let digest = |given: &str| described(given, &[]).unwrap().digest;
        assert_eq!(digest(r#"{"a":1,"b":2}"#), digest(r#"{ "b": 2, "a": 1.0 }"#));
        assert_ne!(digest(r#"{"a":1}"#), digest(r#"{"a":"1"}"#));
    }

    #[test]
    fn delivery_of_the_answer_is_no_part_of_a_message() {
        let of = |params: Value| {
            let rest = RawValue::from_string(params.to_string()).unwrap();
            of_message(None, &rest, (None, ContinuedIds::default()))
        };
        let plain = of(json!({ "message": {} }));
        let delivered = json!({ "returnImmediately": true, "historyLength": 2 });
        assert_eq!(of(json!({ "message": {}, "configuration": delivered })), plain);
        assert_eq!(of(json!({ "message": {}, "configuration": {} })), plain);
        for other in [
            json!({ "returnImmediately": true, "metadata": {} }),
            json!({ "historyLength": { "instructions": "all" } }),
            json!({ "returnImmediately": "all" }),
        ] {
            assert_ne!(of(json!({ "message": {}, "configuration": other })), plain);
        }
    }

    #[test]
    fn unusable_arguments_are_rejected() {
        let long = format!(r#"{{ "text": "{}" }}"#, "x".repeat(PREVIEW_BYTES));
        for given in [&*long, r#"{ "a": 1, "a": 2 }"#, r#"{ "a": 123456789012345678901234567890 }"#]
        {
            assert!(described(given, &[]).is_err());
        }
        assert!(described(&long, &["/id"]).is_ok());
    }
}
