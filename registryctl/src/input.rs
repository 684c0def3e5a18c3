//! Input files: read with a limit, parsed as JSON or YAML, and kept as text, so that findings can show
//! their lines.

mod cache;
mod json;
mod lines;
mod yaml;

use std::{
    fmt,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use lines::Lines;
use serde_json::Value;

/// Maximum size of a file.
pub(crate) const FILE_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) path: PathBuf,
    pub(crate) reason: String,
}

impl Unreadable {
    fn new(path: &Path, reason: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// A position in a text. Lines and columns start at 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Json,
    Yaml,
}

impl Syntax {
    /// The syntax of a text without a file extension.
    fn of(text: &str) -> Self {
        if text.trim_start().starts_with(['{', '[']) { Self::Json } else { Self::Yaml }
    }
}

/// The part of a member that a finding concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Key,
    Value,
}

/// The text of one file.
#[derive(Debug)]
pub(crate) struct Source {
    name: String,
    text: String,
    syntax: Syntax,
    lines: OnceLock<Lines>,
}

/// Invalid JSON or YAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) position: Option<Position>,
    pub(crate) message: String,
}

impl SyntaxError {
    /// The remedy.
    pub(crate) fn help(&self) -> &'static str {
        if self.message.contains(" nested deeper than ") {
            "flatten the value"
        } else {
            "check the text there, or before it"
        }
    }
}

impl Source {
    /// Reads a file, or standard input for `-`.
    pub(crate) fn read(path: &Path) -> Result<Self, Unreadable> {
        Self::read_within(path, FILE_BYTES)
    }

    /// Reads a file of at most this number of bytes.
    pub(crate) fn read_within(path: &Path, bytes: u64) -> Result<Self, Unreadable> {
        if path == Path::new("-") {
            return Self::read_stdin(&mut io::stdin().lock(), bytes);
        }
        let mut file = File::open(path).map_err(|e| Unreadable::new(path, e))?;
        let text = read_text(&mut file, path, bytes)?;
        let syntax = if has_extension(path, &["yaml", "yml"]) {
            Syntax::Yaml
        } else if has_extension(path, &["json"]) {
            Syntax::Json
        } else {
            Syntax::of(&text)
        };
        Ok(Self::new(path.display().to_string(), text, syntax))
    }

    /// Reads at most this number of bytes from standard input.
    pub(crate) fn read_stdin(stdin: &mut impl Read, bytes: u64) -> Result<Self, Unreadable> {
        let text = read_text(stdin, Path::new("-"), bytes)?;
        let syntax = Syntax::of(&text);
        Ok(Self::new("<stdin>".to_owned(), text, syntax))
    }

    /// Generated JSON, with a name for messages.
    pub(crate) fn generated(name: &str, text: String) -> Self {
        Self::new(name.to_owned(), text, Syntax::Json)
    }

    fn new(name: String, text: String, syntax: Syntax) -> Self {
        Self { name, text, syntax, lines: OnceLock::new() }
    }

    fn lines(&self) -> &Lines {
        self.lines.get_or_init(|| Lines::new(&self.text))
    }

    /// The path, or `<stdin>`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// A line of the text, counted from 1.
    pub(crate) fn line(&self, line: usize) -> Option<&str> {
        self.lines().line(&self.text, line)
    }

    /// The positions of bytes of the text.
    pub(crate) fn positions(&self, bytes: &[usize]) -> Vec<Position> {
        self.lines().positions(&self.text, bytes)
    }

    /// Parses the text.
    pub(crate) fn value(&self) -> Result<Value, SyntaxError> {
        match self.syntax {
            Syntax::Json => json::parse(&self.text),
            Syntax::Yaml => yaml::parse(&self.text),
        }
    }

    /// The start of the keys or values at these JSON pointers. A missing value has the position of the
    /// innermost value around it.
    pub(crate) fn locate(&self, parts: &[(&str, Part)]) -> Vec<Option<Position>> {
        match self.syntax {
            Syntax::Json => json::locate(&self.text, parts).map_or_else(
                || vec![None; parts.len()],
                |bytes| self.positions(&bytes).into_iter().map(Some).collect(),
            ),
            Syntax::Yaml => yaml::locate(&self.text, parts),
        }
    }
}

/// The file itself, or the files directly in a directory, by name.
pub(crate) fn expand(path: &Path) -> Result<Vec<PathBuf>, Unreadable> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(|e| Unreadable::new(path, e))? {
        let file = entry.map_err(|e| Unreadable::new(path, e))?.path();
        if file.is_file() && has_extension(&file, &["json", "yaml", "yml"]) {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(Unreadable::new(path, "the directory has no .json, .yaml or .yml file"));
    }
    files.sort();
    Ok(files)
}

/// The subdirectories with files that [`expand`] does not read. Hidden ones, such as `.git`, do not count.
pub(crate) fn skipped(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let is_hidden = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
    let visible = entries.flatten().filter(|entry| !is_hidden(entry)).map(|entry| entry.path());
    let mut skipped: Vec<_> =
        visible.filter(|path| path.is_dir() && expand(path).is_ok()).collect();
    skipped.sort();
    skipped
}

fn has_extension(path: &Path, wanted: &[&str]) -> bool {
    path.extension().is_some_and(|have| wanted.iter().any(|want| have.eq_ignore_ascii_case(want)))
}

fn read_text(reader: &mut impl Read, path: &Path, most: u64) -> Result<String, Unreadable> {
    let text = String::from_utf8(read_bytes(reader, path, most)?)
        .map_err(|e| Unreadable::new(path, format!("not valid UTF-8: {}", e.utf8_error())))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

fn read_bytes(reader: &mut impl Read, path: &Path, most: u64) -> Result<Vec<u8>, Unreadable> {
    let mut bytes = Vec::new();
    reader.take(most + 1).read_to_end(&mut bytes).map_err(|e| Unreadable::new(path, e))?;
    if bytes.len() as u64 > most {
        return Err(Unreadable::new(path, format!("larger than {} MiB", most >> 20)));
    }
    Ok(bytes)
}

/// The segments of a JSON pointer (RFC 6901), unescaped.
fn segments(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|segment| segment.replace("~1", "/").replace("~0", "~"))
}

#[cfg(test)]
mod tests;
