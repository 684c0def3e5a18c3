//! Plain text logs in the format of `tracing_subscriber`, without colors.
//!
//! Each call logs one event of about thirty fields, which took a sixth of the CPU time of a call;
//! this formatter takes half of that. Colors and JSON use the library's formatters.

mod output;

use std::{
    cell::Cell,
    fmt::{self, Debug, Write as _},
};

use tracing::field::{Field, Visit};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{FormatFields, format::Writer},
};

pub use self::output::{FlushGuard, LogOutput};

/// The field with the text of an event.
const MESSAGE: &str = "message";
/// Maximum capacity of a kept line, in bytes.
const KEPT_BYTES: usize = 16 * 1024;

thread_local! {
    /// The buffer of the last line, because each call logs one.
    static LINE: Cell<String> = const { Cell::new(String::new()) };
}

/// Writes fields as `name=value`, with quoted texts.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainFields;

impl<'w> FormatFields<'w> for PlainFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        // Destructors of a thread can log after its buffer was dropped.
        let line = LINE.try_with(Cell::take).unwrap_or_default();
        let mut visitor = Visitor { line, outcome: Ok(()) };
        fields.record(&mut visitor);
        let Visitor { mut line, outcome } = visitor;
        let written = outcome.and_then(|()| writer.write_str(&line));
        if line.capacity() <= KEPT_BYTES {
            line.clear();
            let _ = LINE.try_with(|kept| kept.set(line));
        }
        written
    }
}

/// Collects the fields in a `String`: its methods are inlined, those of a [`Writer`] are not.
struct Visitor {
    line: String,
    outcome: fmt::Result,
}

impl Visitor {
    fn name(&mut self, field: &Field) {
        if !self.line.is_empty() {
            self.line.push(' ');
        }
        if field.name() != MESSAGE {
            self.line.push_str(field.name());
            self.line.push('=');
        }
    }

    fn number(&mut self, field: &Field, value: impl Debug) {
        self.name(field);
        self.write(format_args!("{value:?}"));
    }

    fn write(&mut self, value: fmt::Arguments<'_>) {
        self.outcome = self.outcome.and_then(|()| self.line.write_fmt(value));
    }
}

impl Visit for Visitor {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == MESSAGE {
            return self.record_debug(field, &format_args!("{value}"));
        }
        self.name(field);
        let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
        if !value.bytes().all(is_plain) {
            return self.write(format_args!("{value:?}"));
        }
        self.line.push('"');
        self.line.push_str(value);
        self.line.push('"');
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.number(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.number(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.number(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.name(field);
        let start = self.line.len();
        self.write(format_args!("{value:?}"));
        escape_controls(&mut self.line, start);
    }
}

/// Escapes the control characters after `start`, which could control the operator's terminal.
fn escape_controls(line: &mut String, start: usize) {
    let is_escaped = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    // Multi-byte characters include the control characters of Latin-1.
    if line.as_bytes()[start..].iter().all(|byte| (b' '..0x7f).contains(byte)) {
        return;
    }
    for c in line.split_off(start).chars() {
        if is_escaped(c) { line.extend(c.escape_unicode()) } else { line.push(c) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn plain_format_equals_library_format() {
        let events = || {
            tracing::info!(
                name = "a b", quoted = "a\"b\\c\nd", none = None::<&str>, number = 7_u64,
                ratio = 1.5, negative = -3, shown = %2.5, debug = ?[1, 2], flag = true,
                "a message\nof {} lines", 2
            );
            tracing::warn!(error = %std::io::Error::other("broken"), "größe");
            tracing::info!(target: "audit", event = "tools/call");
        };
        let [own, library] = [true, false].map(|is_own| written(is_own, events));
        assert_eq!(own, library);
    }

    #[test]
    fn control_characters_are_escaped() {
        let events = || {
            tracing::info!(debug = ?'\u{9b}', shown = %"a\x1b[31m", text = "\u{9b}31m", "\x1b[2J");
        };
        let own = written(true, events);
        assert!(own.trim_end().chars().all(|c| !c.is_control()), "{own:?}");
        assert!(own.contains(r"\u{1b}[2J") && own.contains(r"shown=a\u{1b}[31m"), "{own:?}");
    }

    fn written(is_own: bool, events: impl FnOnce()) -> String {
        let log = tempfile::NamedTempFile::new().unwrap();
        let writer = Arc::new(log.reopen().unwrap());
        let builder = tracing_subscriber::fmt().with_ansi(false).without_time();
        let builder = builder.with_writer(writer);
        if is_own {
            let subscriber = builder.fmt_fields(PlainFields).finish();
            tracing::subscriber::with_default(subscriber, events);
        } else {
            tracing::subscriber::with_default(builder.finish(), events);
        }
        std::fs::read_to_string(log.path()).unwrap()
    }
}
