//! Standard output: tables, JSON and raw bytes.

use std::io::{self, Write as _};

use comfy_table::{ContentArrangement, Table, presets::NOTHING};
use serde::Serialize;

use crate::{
    cli::{Format, Globals, Output},
    failure::Failure,
    style::{Paint, Style, printable},
};

/// The format and colors of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    pub(crate) format: Format,
    pub(crate) style: Style,
    /// The style of standard error.
    pub(crate) errors: Style,
}

impl Screen {
    pub(crate) fn new(globals: &Globals) -> Self {
        let (style, errors) =
            (Style::for_stdout(globals.is_plain()), Style::for_stderr(globals.is_plain()));
        let format = if globals.output == Output::Json { Format::Json } else { Format::Table };
        Self { format, style, errors }
    }

    pub(crate) fn line(self, text: &str) -> Result<(), Failure> {
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// Writes bytes unchanged.
    #[expect(clippy::unused_self, reason = "all output goes through the screen")]
    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::Output)
    }

    /// Writes indented JSON.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<(), Failure> {
        // Strings, numbers and JSON always serialize.
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        self.line(&text)
    }

    /// Writes JSON on one line.
    pub(crate) fn json_line(self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).unwrap_or_default();
        self.line(&text)
    }

    pub(crate) fn table(self, table: &TextTable) -> Result<(), Failure> {
        self.bytes(table.render(self.style).as_bytes())
    }
}

/// A table without borders. Rows may have a color.
pub(crate) struct TextTable {
    table: Table,
    paints: Vec<Option<Paint>>,
}

impl TextTable {
    pub(crate) fn new(heading: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(heading.iter().copied());
        Self { table, paints: Vec::new() }
    }

    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.add(None, cells);
    }

    pub(crate) fn painted<T: AsRef<str>>(
        &mut self,
        paint: Paint,
        cells: impl IntoIterator<Item = T>,
    ) {
        self.add(Some(paint), cells);
    }

    fn add<T: AsRef<str>>(&mut self, paint: Option<Paint>, cells: impl IntoIterator<Item = T>) {
        self.table.add_row(cells.into_iter().map(|cell| printable(cell.as_ref()).into_owned()));
        self.paints.push(paint);
    }

    /// The table as text. Whole lines are colored: escape sequences in cells would change widths.
    pub(crate) fn render(&self, style: Style) -> String {
        let paints = std::iter::once(Some(Paint::Strong)).chain(self.paints.iter().copied());
        let mut text = String::new();
        for (line, paint) in self.table.lines().zip(paints) {
            let line = line.strip_prefix(' ').unwrap_or(&line).trim_end();
            text += &paint.map_or_else(|| line.to_owned(), |paint| style.paint(paint, line));
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align_columns_and_escape_cells() {
        let mut table = TextTable::new(&["KIND", "NAME"]);
        table.row(["tool", "größe"]);
        table.painted(Paint::Good, ["agent", "x\ny"]);
        assert_eq!(table.render(Style::Plain), "KIND   NAME\ntool   größe\nagent  x\\ny\n");
        assert!(table.render(Style::Colored).ends_with("\x1b[32magent  x\\ny\x1b[0m\n"));
    }
}
