//! Events that repeat the event before them with another text. Agents stream the words of an artifact
//! with such events, whose texts are read and written without a tree.

use std::ops::Range;

use gateway_protocol::jsonrpc::write_string;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::version::Binding;

/// The JSON of an event of 1.0 with an artifact of one part, which has a text.
#[derive(Debug)]
pub struct Template {
    json: Box<[u8]>,
    /// The text with its quotes.
    text: Range<usize>,
}

impl Template {
    /// `None`: the JSON is another event. It has no repeated members.
    pub(super) fn of(json: &[u8], binding: Binding) -> Option<Self> {
        let text = std::str::from_utf8(json).ok()?;
        let update = match binding {
            Binding::JsonRpc => serde_json::from_str::<Response<'_>>(text).ok()?.result.update,
            Binding::HttpJson => serde_json::from_str::<Event<'_>>(text).ok()?.update,
            Binding::Grpc => return None,
        };
        let [Part { text: literal }] = update.artifact.parts;
        let literal = literal.get();
        let start = literal.as_ptr().addr() - text.as_ptr().addr();
        let text = start..start + literal.len();
        literal.starts_with('"').then(|| Self { json: json.into(), text })
    }

    /// The text of an event whose JSON is otherwise equal. `None`: it differs.
    pub(super) fn read(&self, json: &[u8]) -> Option<String> {
        let [before, after] = self.around();
        let literal = json.strip_prefix(before)?.strip_suffix(after)?;
        serde_json::from_slice(literal).ok()
    }

    /// Appends the JSON with another text.
    pub(super) fn write(&self, out: &mut Vec<u8>, text: &str) {
        let [before, after] = self.around();
        out.extend_from_slice(before);
        write_string(out, text);
        out.extend_from_slice(after);
    }

    fn around(&self) -> [&[u8]; 2] {
        [&self.json[..self.text.start], &self.json[self.text.end..]]
    }
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    result: Event<'a>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "artifactUpdate")]
    update: Update<'a>,
}

#[derive(Deserialize)]
struct Update<'a> {
    #[serde(borrow)]
    artifact: Artifact<'a>,
}

#[derive(Deserialize)]
struct Artifact<'a> {
    #[serde(borrow)]
    parts: [Part<'a>; 1],
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const EVENT: &str =
        r#"{"id":1,"result":{"artifactUpdate":{"artifact":{"parts":[{"text": "a" }]},"n":"a"}}}"#;

    #[test]
    fn template_reads_only_events_with_another_text() {
        let template = Template::of(EVENT.as_bytes(), Binding::JsonRpc).unwrap();
        let read = |text: &str| template.read(EVENT.replace(r#" "a" "#, text).as_bytes());
        for (literal, text) in [(r#" "a" "#, "a"), (r#" "" "#, ""), (r#" "\u00e9\"" "#, "é\"")] {
            assert_eq!(read(literal).as_deref(), Some(text));
        }
        for other in [r#" "a","n":"b" "#, r#" "a""#, r" 1 ", " \"a\n\" ", r#" "\" "#, r#" "" } "#] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(template.read(EVENT.replace(r#""n":"a""#, r#""n":"b""#).as_bytes()), None);
        assert_eq!(template.read(b""), None);
    }

    #[test]
    fn template_has_one_part_with_text() {
        let of = |parts: serde_json::Value| {
            let event = json!({ "artifactUpdate": { "artifact": { "parts": parts } } });
            Template::of(event.to_string().as_bytes(), Binding::HttpJson).is_some()
        };
        assert!(of(json!([{ "text": "a", "metadata": {} }])));
        assert!(!of(json!([])) && !of(json!([{ "text": "a" }, { "text": "b" }])));
        assert!(!of(json!([{ "text": 1 }])) && !of(json!([{ "data": "a" }])));
        assert!(Template::of(EVENT.as_bytes(), Binding::HttpJson).is_none());
    }
}
