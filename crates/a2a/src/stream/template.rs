//! Events that repeat the event before them with another text. Agents stream the words of an artifact
//! with such events, whose texts are read and written without a tree.

use gateway_protocol::jsonrpc::write_string;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::version::Binding;

/// Maximum length of a template, in bytes.
const TEMPLATE_BYTES: usize = 4096;

/// The JSON of an event of 1.0 with an artifact of one part, without the text of the part.
#[derive(Debug)]
pub struct Template {
    /// JSON before the opening quote of the text.
    before: Box<[u8]>,
    /// JSON after the closing quote of the text.
    after: Box<[u8]>,
}

impl Template {
    /// The template of an event; `None` for other JSON and long templates. The caller has rejected repeated members.
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
        let (before, after) = (&json[..start], &json[start + literal.len()..]);
        let is_template = literal.starts_with('"') && before.len() + after.len() <= TEMPLATE_BYTES;
        is_template.then(|| Self { before: before.into(), after: after.into() })
    }

    /// The text of an event whose JSON is otherwise equal. `None`: it differs.
    pub(super) fn read(&self, json: &[u8]) -> Option<String> {
        let literal = json.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?;
        serde_json::from_slice(literal).ok()
    }

    /// Appends the JSON with another text.
    pub(super) fn write(&self, out: &mut Vec<u8>, text: &str) {
        out.extend_from_slice(&self.before);
        write_string(out, text);
        out.extend_from_slice(&self.after);
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

    #[test]
    fn template_length_is_limited_without_its_text() {
        let of = |text: usize, name: usize| {
            let event = EVENT.replace(r#" "a" "#, &format!(" \"{}\" ", "a".repeat(text)));
            let event = event.replace(r#""n":"a""#, &format!(r#""n":"{}""#, "a".repeat(name)));
            Template::of(event.as_bytes(), Binding::JsonRpc)
        };
        let rest = EVENT.len() - r#""a"a"#.len();
        let template = of(3 * TEMPLATE_BYTES, TEMPLATE_BYTES - rest).unwrap();
        assert_eq!(template.before.len() + template.after.len(), TEMPLATE_BYTES);
        assert!(of(1, TEMPLATE_BYTES - rest + 1).is_none());
    }
}
