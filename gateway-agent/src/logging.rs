//! Plain text logs in the format of `tracing_subscriber`, without colors.
//!
//! Each call logs one event of about thirty fields, which took a sixth of the CPU time of a call;
//! this formatter takes half of that. Colors and JSON use the library's formatters.

use std::fmt::{self, Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{FormatFields, format::Writer},
};

/// The field with the text of an event.
const MESSAGE: &str = "message";

/// Writes fields as `name=value`, with quoted texts.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainFields;

impl<'w> FormatFields<'w> for PlainFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = Visitor { writer, is_first: true, outcome: Ok(()) };
        fields.record(&mut visitor);
        visitor.outcome
    }
}

struct Visitor<'w> {
    writer: Writer<'w>,
    is_first: bool,
    outcome: fmt::Result,
}

impl Visitor<'_> {
    fn field(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        if self.outcome.is_ok() {
            self.outcome = self.name(field).and_then(|()| value(&mut self.writer));
        }
    }

    fn name(&mut self, field: &Field) -> fmt::Result {
        if !std::mem::take(&mut self.is_first) {
            self.writer.write_char(' ')?;
        }
        if field.name() == MESSAGE {
            return Ok(());
        }
        self.writer.write_str(field.name())?;
        self.writer.write_char('=')
    }
}

impl Visit for Visitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == MESSAGE {
            return self.record_debug(field, &format_args!("{value}"));
        }
        self.field(field, |writer| {
            let is_plain =
                |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
            if !value.bytes().all(is_plain) {
                return write!(writer, "{value:?}");
            }
            writer.write_char('"')?;
            writer.write_str(value)?;
            writer.write_char('"')
        });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.field(field, |writer| write!(Escaping(writer), "{value:?}"));
    }
}

/// Escapes control characters, which could control the operator's terminal.
struct Escaping<'a, 'w>(&'a mut Writer<'w>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        // Multi-byte characters include the control characters of Latin-1.
        if text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
            return self.0.write_str(text);
        }
        text.chars().try_for_each(|c| {
            if steers(c) { write!(self.0, "{}", c.escape_unicode()) } else { self.0.write_char(c) }
        })
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
