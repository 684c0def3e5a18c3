//! Strings, numbers and keys of a JSON text, with their positions and pointers.

use std::{borrow::Cow, fmt::Write as _, ops::Range, sync::Arc};

use memchr::{memchr, memchr2};
use registry_core::entity::policy::DataClass;

use crate::{finding::Part, placeholder::redaction};

/// Maximum nesting.
pub const MAX_DEPTH: usize = 1_024;
/// Maximum bytes of a pointer before `…`.
const POINTER_BYTES: usize = 1_024;
/// Maximum bytes of a key, as written, that are context for its values. Detectors read 64 characters, and
/// each of them may be an escape of six bytes. The key is unescaped again for each value.
const CONTEXT_KEY_BYTES: usize = 6 * 65;

/// The shortest value has six bytes: `a@b.co`, with quotes.
const MIN_STRING: usize = 8;
/// The shortest number is one of nine digits.
const MIN_NUMBER: usize = 9;
/// Members of a pair of name and value, as in the environment of a container.
const NAMES: [&str; 4] = ["name", "key", "Name", "Key"];
const VALUES: [&str; 2] = ["value", "Value"];
/// Maximum digits of a number that is read as an integer. No value has more digits.
const INTEGER_DIGITS: usize = 40;

/// The text is not JSON, or too deep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidJson {
    /// The text is not JSON.
    #[error("invalid JSON at byte {0}")]
    Syntax(usize),
    /// The text has more than [`MAX_DEPTH`] levels.
    #[error("JSON nested deeper than {MAX_DEPTH} levels at byte {0}")]
    TooDeep(usize),
}

/// A key, a string or a number.
#[derive(Debug)]
pub(crate) struct Token {
    /// Its bytes in the text, with quotes.
    pub(crate) span: Range<usize>,
    pub(crate) part: Part,
    pub(crate) is_number: bool,
}

/// A token that is long enough for a value.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) token: Token,
    /// The unescaped text.
    pub(crate) text: Cow<'a, str>,
    /// The start of the name of the innermost member around it. Keys have none.
    pub(crate) key: Cow<'a, str>,
}

#[derive(Debug, Clone)]
enum Frame {
    Array {
        index: usize,
    },
    Object {
        /// The bytes of the current key, with quotes.
        key: Range<usize>,
        /// The class of a value in the key, which pointers do not show.
        hidden: Option<DataClass>,
        /// The bytes of the last string that was `name` or `key`, with quotes.
        name: Range<usize>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    CommaOrEnd,
}

/// Reads tokens in their order. It also accepts control characters and unknown escapes in strings.
pub(crate) struct Reader<'a> {
    json: &'a str,
    at: usize,
    frames: Vec<Frame>,
    expected: Expected,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(json: &'a str) -> Self {
        Self { json, at: 0, frames: Vec::new(), expected: Expected::Value }
    }

    /// The next token that is long enough for a value, or `None` after the end of the document.
    pub(crate) fn next_candidate(&mut self) -> Result<Option<Candidate<'a>>, InvalidJson> {
        while let Some(token) = self.next_token()? {
            if token.span.len() < if token.is_number { MIN_NUMBER } else { MIN_STRING } {
                continue;
            }
            let text = value(&self.json[token.span.clone()]);
            let key = match token.part {
                Part::Key => Cow::default(),
                Part::Value => self.nearest_key(),
            };
            return Ok(Some(Candidate { token, text, key }));
        }
        Ok(None)
    }

    /// The next token, or `None` after the end of the document.
    pub(crate) fn next_token(&mut self) -> Result<Option<Token>, InvalidJson> {
        loop {
            let Some(byte) = self.skip_space() else {
                let is_complete = self.frames.is_empty() && self.expected == Expected::CommaOrEnd;
                return if is_complete { Ok(None) } else { Err(self.invalid()) };
            };
            match (self.expected, byte) {
                (Expected::Key | Expected::KeyOrEnd, b'"') => return self.key().map(Some),
                (Expected::Value | Expected::ValueOrEnd, b'"') => {
                    let span = self.string()?;
                    self.keep_name(&span);
                    self.expected = Expected::CommaOrEnd;
                    return Ok(Some(Token { span, part: Part::Value, is_number: false }));
                }
                (Expected::Value | Expected::ValueOrEnd, b'-' | b'0'..=b'9') => {
                    let span = self.run(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
                    self.expected = Expected::CommaOrEnd;
                    return Ok(Some(Token { span, part: Part::Value, is_number: true }));
                }
                _ => self.punctuation(byte)?,
            }
        }
    }

    /// Reads a bracket, a comma, `true`, `false` or `null`.
    fn punctuation(&mut self, byte: u8) -> Result<(), InvalidJson> {
        match (self.expected, byte) {
            (Expected::Value | Expected::ValueOrEnd, b'{') => {
                self.open(
                    Frame::Object { key: 0..0, hidden: None, name: 0..0 },
                    Expected::KeyOrEnd,
                )?;
            }
            (Expected::Value | Expected::ValueOrEnd, b'[') => {
                self.open(Frame::Array { index: 0 }, Expected::ValueOrEnd)?;
            }
            (Expected::Value | Expected::ValueOrEnd, b't' | b'f' | b'n') => {
                let word = self.run(|b| b.is_ascii_lowercase());
                if !matches!(&self.json[word], "true" | "false" | "null") {
                    return Err(self.invalid());
                }
                self.expected = Expected::CommaOrEnd;
            }
            (Expected::CommaOrEnd, b',') => {
                self.at += 1;
                self.expected = match self.frames.last_mut() {
                    Some(Frame::Array { index }) => {
                        *index += 1;
                        Expected::Value
                    }
                    Some(Frame::Object { .. }) => Expected::Key,
                    None => return Err(self.invalid()),
                };
            }
            (Expected::CommaOrEnd | Expected::KeyOrEnd | Expected::ValueOrEnd, b'}' | b']') => {
                let is_object = matches!(self.frames.pop(), Some(Frame::Object { .. }));
                if is_object != (byte == b'}') {
                    return Err(self.invalid());
                }
                self.at += 1;
                self.expected = Expected::CommaOrEnd;
            }
            _ => return Err(self.invalid()),
        }
        Ok(())
    }

    fn open(&mut self, frame: Frame, expected: Expected) -> Result<(), InvalidJson> {
        if self.frames.len() == MAX_DEPTH {
            return Err(InvalidJson::TooDeep(self.at));
        }
        self.frames.push(frame);
        self.at += 1;
        self.expected = expected;
        Ok(())
    }

    fn key(&mut self) -> Result<Token, InvalidJson> {
        let span = self.string()?;
        if self.skip_space() != Some(b':') {
            return Err(self.invalid());
        }
        self.at += 1;
        if let Some(Frame::Object { key, hidden, .. }) = self.frames.last_mut() {
            (*key, *hidden) = (span.clone(), None);
        }
        self.expected = Expected::Value;
        Ok(Token { span, part: Part::Key, is_number: false })
    }

    fn string(&mut self) -> Result<Range<usize>, InvalidJson> {
        let start = self.at;
        let bytes = self.json.as_bytes();
        let mut at = start + 1;
        loop {
            let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) else {
                return Err(self.invalid());
            };
            at += found;
            if bytes[at] == b'"' {
                self.at = at + 1;
                return Ok(start..self.at);
            }
            at += 2;
        }
    }

    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> Range<usize> {
        let start = self.at;
        let rest = &self.json.as_bytes()[start..];
        self.at += rest.iter().position(|byte| !belongs(*byte)).unwrap_or(rest.len());
        start..self.at
    }

    /// The next byte that is no white space.
    fn skip_space(&mut self) -> Option<u8> {
        let rest = &self.json.as_bytes()[self.at..];
        let space = rest.iter().position(|byte| !b" \n\r\t".contains(byte));
        self.at += space.unwrap_or(rest.len());
        self.json.as_bytes().get(self.at).copied()
    }

    fn invalid(&self) -> InvalidJson {
        InvalidJson::Syntax(self.at)
    }

    /// Keeps a string that names the member `value` after it.
    fn keep_name(&mut self, span: &Range<usize>) {
        if let Some(Frame::Object { key, name, .. }) = self.frames.last_mut()
            && NAMES.contains(&&*key_start(self.json, key))
        {
            *name = span.clone();
        }
    }

    /// The start of the name of the innermost member around the last token. `API_KEY` is that of the
    /// value in `{"name": "API_KEY", "value": "…"}`.
    pub(crate) fn nearest_key(&self) -> Cow<'a, str> {
        let frames = self.frames.iter().rev();
        let mut keys = frames.filter_map(|frame| match frame {
            Frame::Object { key, name, .. } => {
                let own = key_start(self.json, key);
                let is_named = !name.is_empty() && VALUES.contains(&&*own);
                Some(if is_named { key_start(self.json, name) } else { own })
            }
            Frame::Array { .. } => None,
        });
        keys.next().unwrap_or_default()
    }

    /// Hides the last key in pointers: it has a value of this class.
    pub(crate) fn hide_key(&mut self, class: DataClass) {
        if let Some(Frame::Object { hidden, .. }) = self.frames.last_mut() {
            *hidden = Some(class);
        }
    }

    /// The JSON pointer of the last token.
    pub(crate) fn pointer(&self) -> Arc<str> {
        let mut pointer = String::new();
        for frame in &self.frames {
            // Writing into a string cannot fail.
            let _ = match frame {
                Frame::Array { index } => write!(pointer, "/{index}"),
                Frame::Object { hidden: Some(class), .. } => {
                    write!(pointer, "/{}", redaction(*class))
                }
                Frame::Object { key, .. } => {
                    let raw = &self.json[key.clone()];
                    let raw = &raw[..raw.floor_char_boundary(2 * POINTER_BYTES)];
                    write!(pointer, "/{}", string(raw).replace('~', "~0").replace('/', "~1"))
                }
            };
            if pointer.len() > POINTER_BYTES {
                pointer.truncate(pointer.floor_char_boundary(POINTER_BYTES));
                pointer.push('…');
                break;
            }
        }
        pointer.into()
    }
}

/// The start of a key, or of a string that names a member.
fn key_start<'a>(json: &'a str, key: &Range<usize>) -> Cow<'a, str> {
    let raw = &json[key.clone()];
    string(&raw[..raw.floor_char_boundary(CONTEXT_KEY_BYTES)])
}

/// The text of a JSON string, or a number as written. An invalid escape becomes U+FFFD.
pub(crate) fn string(raw: &str) -> Cow<'_, str> {
    let Some(inner) = raw.strip_prefix('"') else { return raw.into() };
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    if memchr(b'\\', inner.as_bytes()).is_none() {
        return inner.into();
    }
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr(b'\\', rest.as_bytes()) {
        text += &rest[..at];
        let (char, length) = escape(&rest[at..]);
        text.push(char);
        rest = rest.get(at + length..).unwrap_or_default();
    }
    text += rest;
    text.into()
}

/// The text of a JSON string, or a number. A number with an integral value is written in digits:
/// serializers write `4111111111111111.0` and `4.111111111111111e15` for integers.
pub(crate) fn value(raw: &str) -> Cow<'_, str> {
    if raw.starts_with('"') { string(raw) } else { integer(raw).map_or(raw.into(), Cow::Owned) }
}

/// The digits of a number that has a fraction or an exponent, and an integral value.
fn integer(raw: &str) -> Option<String> {
    if !raw.contains(['.', 'e', 'E']) {
        return None;
    }
    let (mantissa, exponent) = raw.split_once(['e', 'E']).unwrap_or((raw, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (sign, whole) = whole.split_at(usize::from(whole.starts_with('-')));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    // The digits before the decimal point.
    let length = exponent.parse::<i64>().ok()?.checked_add(i64::try_from(whole.len()).ok()?)?;
    let length = length - i64::try_from(all.len() - digits.len()).ok()?;
    let length = usize::try_from(length).ok().filter(|length| *length <= INTEGER_DIGITS)?;
    let digits = digits.trim_end_matches('0');
    (digits.len() <= length).then(|| format!("{sign}{digits:0<length$}"))
}

/// The character of the escape at the start of a text, and the length of the escape.
fn escape(text: &str) -> (char, usize) {
    let simple = |char| (char, 2);
    match text.as_bytes().get(1) {
        Some(b'n') => simple('\n'),
        Some(b'r') => simple('\r'),
        Some(b't') => simple('\t'),
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(byte @ (b'"' | b'\\' | b'/')) => simple(char::from(*byte)),
        Some(b'u') => unicode_escape(text),
        _ => (char::REPLACEMENT_CHARACTER, 1),
    }
}

fn unicode_escape(text: &str) -> (char, usize) {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
    };
    let Some(first) = unit(0) else { return (char::REPLACEMENT_CHARACTER, 2) };
    let units = [Some(first), unit(6)].into_iter().flatten();
    match char::decode_utf16(units).next() {
        Some(Ok(char)) => (char, 6 * char.len_utf16()),
        _ => (char::REPLACEMENT_CHARACTER, 6),
    }
}

/// Writes a text as JSON string.
pub(crate) fn write_string(text: &str, json: &mut String) {
    json.push('"');
    for char in text.chars() {
        match char {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\0'..='\u{1f}' => {
                let _ = write!(json, "\\u{:04x}", u32::from(char));
            }
            char => json.push(char),
        }
    }
    json.push('"');
}

/// Whether a text is a JSON object or array.
pub(crate) fn is_document(text: &str) -> bool {
    let mut reader = Reader::new(text);
    let is_container = matches!(reader.skip_space(), Some(b'{' | b'['));
    is_container
        && loop {
            match reader.next_token() {
                Ok(Some(_)) => {}
                Ok(None) => break true,
                Err(_) => break false,
            }
        }
}

/// The JSON document with its strings replaced where the function returns a text. Keys and numbers
/// stay. A string that is a JSON object or array is not passed to the function; its keys and strings are.
pub fn map_strings(
    json: &str,
    mut map: impl FnMut(&str) -> Option<String>,
) -> Result<String, InvalidJson> {
    let is_value = |token: &Token| token.part == Part::Value;
    map_tokens(json, is_value, |text| {
        if is_document(text) {
            map_tokens(text, |_| true, &mut map).ok().filter(|mapped| mapped != text)
        } else {
            map(text)
        }
    })
}

/// Calls `visit` with each name and string of a JSON document.
pub fn each_string(json: &str, mut visit: impl FnMut(&str)) -> Result<(), InvalidJson> {
    let mut reader = Reader::new(json);
    while let Some(token) = reader.next_token()? {
        if !token.is_number {
            visit(&string(&json[token.span]));
        }
    }
    Ok(())
}

fn map_tokens(
    json: &str,
    is_read: impl Fn(&Token) -> bool,
    mut map: impl FnMut(&str) -> Option<String>,
) -> Result<String, InvalidJson> {
    let mut written = String::with_capacity(json.len());
    let mut end = 0;
    let mut reader = Reader::new(json);
    while let Some(token) = reader.next_token()? {
        if token.is_number || !is_read(&token) {
            continue;
        }
        if let Some(text) = map(&string(&json[token.span.clone()])) {
            written += &json[end..token.span.start];
            write_string(&text, &mut written);
            end = token.span.end;
        }
    }
    written += &json[end..];
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(json: &str) -> Result<Vec<(String, String)>, InvalidJson> {
        let mut reader = Reader::new(json);
        let mut found = Vec::new();
        while let Some(token) = reader.next_token()? {
            found.push((reader.pointer().to_string(), string(&json[token.span]).into_owned()));
        }
        Ok(found)
    }

    #[test]
    fn tokens_have_pointers() {
        let json = r#" {"a/b":[1,{"~":"x\n\ud83d\ude00"}],"c":{},"d":[[],-2.5e3,null,true]} "#;
        let found = tokens(json).unwrap();
        let found: Vec<_> = found.iter().map(|(at, text)| (at.as_str(), text.as_str())).collect();
        let expected = [
            ("/a~1b", "a/b"),
            ("/a~1b/0", "1"),
            ("/a~1b/1/~0", "~"),
            ("/a~1b/1/~0", "x\n😀"),
            ("/c", "c"),
            ("/d", "d"),
            ("/d/1", "-2.5e3"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn invalid_json_is_rejected() {
        for json in [
            "", "{", "[1,]", "{\"a\"}", "{\"a\":}", "[1}", "\"a", "\"a\\\"", "nul", "1 2", "{1:2}",
            "[,1]", "]",
        ] {
            assert!(matches!(tokens(json), Err(InvalidJson::Syntax(_))), "{json}");
        }
        assert!(matches!(tokens(&"[".repeat(2_000)), Err(InvalidJson::TooDeep(MAX_DEPTH))));
    }

    #[test]
    fn long_pointers_are_cut() {
        let json = format!(r#"{{"{}":"x"}}"#, "é".repeat(10_000));
        let found = tokens(&json).unwrap();
        assert!(found[0].0.len() <= POINTER_BYTES + "…".len());
        assert!(found[0].0.ends_with('…'));
    }

    #[test]
    fn long_keys_are_cut_as_context() {
        let json = format!(r#"{{"phone{}":"x"}}"#, "\\n".repeat(10_000));
        let mut reader = Reader::new(&json);
        while reader.next_token().unwrap().is_some_and(|token| token.part == Part::Key) {}
        let key = reader.nearest_key();
        assert!(key.starts_with("phone\n") && key.len() <= CONTEXT_KEY_BYTES, "{}", key.len());
    }

    #[test]
    fn invalid_escapes_are_replaced() {
        assert_eq!(string(r#""\ud800x\u12g4\q""#), "\u{fffd}x\u{fffd}12g4\u{fffd}q");
    }

    #[test]
    fn integral_numbers_are_written_in_digits() {
        for (raw, expected) in [
            ("4111.0", "4111"),
            ("4.111e3", "4111"),
            ("41.110E+4", "411100"),
            ("-4e2", "-400"),
            ("4111", "4111"),
            ("4.111", "4.111"),
            ("4.111e2", "4.111e2"),
            ("4e-2", "4e-2"),
            ("4e999999999999", "4e999999999999"),
        ] {
            assert_eq!(value(raw), expected);
        }
    }

    #[test]
    fn written_strings_are_read_again() {
        let text = "a\"\\\n\r\t\u{1}é😀/";
        let mut json = String::new();
        write_string(text, &mut json);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        assert_eq!(string(&json), text);
    }

    #[test]
    fn names_and_strings_are_visited() {
        let mut texts = Vec::new();
        each_string(r#"{"a":["\u0062",1],"c":{}}"#, |text| texts.push(text.to_owned())).unwrap();
        assert_eq!(texts, ["a", "b", "c"]);
        assert!(each_string("[1,", |_| {}).is_err());
    }

    #[test]
    fn mapped_document_keeps_other_bytes() {
        let json = r#"{ "a": "x", "b" : [1, "y"], "x": null }"#;
        let mapped = map_strings(json, |text| (text == "x").then(|| "\"z\"".to_owned()));
        assert_eq!(mapped.unwrap(), r#"{ "a": "\"z\"", "b" : [1, "y"], "x": null }"#);
    }

    #[test]
    fn mapped_document_in_string_stays_one() {
        let json = r#"["{\"x\": [\"x\", 1, \"y\"]}", "[x]"]"#;
        let mut texts = Vec::new();
        let mapped = map_strings(json, |text| {
            texts.push(text.to_owned());
            (text == "x").then(|| "\"".to_owned())
        });
        let expected = serde_json::json!([r#"{"\"": ["\"", 1, "y"]}"#, "[x]"]);
        let mapped: serde_json::Value = serde_json::from_str(&mapped.unwrap()).unwrap();
        assert_eq!(mapped, expected);
        assert_eq!(texts, ["x", "x", "y", "[x]"]);
    }
}
