//! A view's tools as pages of bytes, rendered on first use.
//!
//! The tools of a server are in the order of `provides` of its registration, which an import takes
//! from the server. Servers are sorted by name; compositions follow.
//!
//! A cursor contains the position of the last listed tool, so it stays valid when the list changes.

#[cfg(test)]
mod tests;

use std::{
    fmt::Write as _,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use gateway_protocol::mcp::Era;
use registry_core::{
    Catalog, Entity, Key, Kind, Name,
    entity::{Provision, Tool},
};

use super::{ServedTool, TaskSupport, definition::render};

/// Maximum tools per page.
pub const PAGE_TOOLS: usize = 500;
/// Approximate maximum size of a page, in bytes.
const PAGE_BYTES: usize = 2 * 1024 * 1024;

/// Maximum length of a name in a cursor, in bytes.
const MAX_NAME_BYTES: usize = 4 * 1024;

/// The position of a tool in a list, before its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    is_composed: bool,
    server: Option<Key>,
    /// The index in the server's `provides`, or its length if absent.
    position: usize,
}

impl ListPosition {
    pub(super) fn new(catalog: &Catalog, tool: &Tool) -> Self {
        let Some(source) = tool.source() else {
            return Self { is_composed: true, ..Self::default() };
        };
        let server = source.server_key();
        let record = catalog.find(&server);
        let provides = match record.map(|record| record.document.entity()) {
            Some(Entity::Server(server)) => &server.provides[..],
            _ => &[],
        };
        let is_new =
            |provided: &Provision| provided.tool == tool.name && provided.version == tool.version;
        let position = provides.iter().position(is_new).unwrap_or(provides.len());
        Self { is_composed: false, server: Some(server), position }
    }
}

/// The position after which a list continues, opaque to clients.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(ListPosition, Name);

/// The text is not a cursor of this gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid cursor; start without a cursor")]
pub struct InvalidCursor;

impl Cursor {
    /// Parses the text of a cursor.
    pub fn parse(text: &str) -> Result<Self, InvalidCursor> {
        let text = decode_cursor(text)?;
        let mut parts = text.split(' ');
        let mut next = || parts.next().ok_or(InvalidCursor);
        let (name, position, server) = (next()?, next()?, next()?);
        if parts.next().is_some() {
            return Err(InvalidCursor);
        }
        let name = Name::parse(Kind::Tool, name).map_err(|_| InvalidCursor)?;
        let position = position.parse().map_err(|_| InvalidCursor)?;
        let server = match server {
            "" => None,
            key => Some(key.parse().map_err(|_| InvalidCursor)?),
        };
        Ok(Self(ListPosition { is_composed: server.is_none(), server, position }, name))
    }

    /// The text of the cursor.
    pub fn to_text(&self) -> String {
        let Self(ListPosition { server, position, .. }, name) = self;
        let server = server.as_ref().map_or_else(String::new, Key::to_string);
        encode_cursor(&format!("{name} {position} {server}"))
    }
}

/// Encodes a name as a cursor.
pub fn encode_cursor(name: &str) -> String {
    name.bytes().fold(String::from("t"), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Decodes a cursor.
pub fn decode_cursor(text: &str) -> Result<String, InvalidCursor> {
    let digits = text.strip_prefix('t').ok_or(InvalidCursor)?.as_bytes();
    if digits.is_empty() || digits.len() % 2 != 0 || digits.len() > 2 * MAX_NAME_BYTES {
        return Err(InvalidCursor);
    }
    let byte = |pair: &[u8]| {
        let [high, low] = [hex(pair[0])?, hex(pair[1])?];
        Some(high << 4 | low)
    };
    let bytes: Option<Vec<u8>> = digits.chunks_exact(2).map(byte).collect();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(InvalidCursor)
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// The protocol version of a list's clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// 2026-07-28.
    Modern,
    /// Before 2025-11-25.
    Legacy,
    /// 2025-11-25, which has tasks.
    LegacyTasks,
}

impl From<Era> for Form {
    fn from(era: Era) -> Self {
        match era {
            Era::Modern => Self::Modern,
            Era::Legacy => Self::Legacy,
        }
    }
}

impl Form {
    pub(super) fn era(self) -> Era {
        match self {
            Self::Modern => Era::Modern,
            Self::Legacy | Self::LegacyTasks => Era::Legacy,
        }
    }

    pub(super) fn has_tasks(self) -> bool {
        self == Self::LegacyTasks
    }
}

/// A rendered page.
#[derive(Debug, Clone)]
pub struct Listing {
    /// A JSON array of tools.
    pub tools: Bytes,
    /// The position after which the list continues.
    pub next: Option<Cursor>,
}

#[derive(Debug, Default)]
pub(super) struct Pages(Vec<Page>);

#[derive(Debug)]
struct Page {
    served_tools: Vec<Arc<ServedTool>>,
    modern: OnceLock<Bytes>,
    legacy: OnceLock<Bytes>,
    with_tasks: OnceLock<Bytes>,
}

impl Pages {
    /// Splits sorted tools into pages. Unchanged pages keep their bytes.
    pub(super) fn new(served_tools: &[Arc<ServedTool>], previous: Option<&Self>) -> Self {
        let mut pages = Vec::new();
        let mut rest = served_tools;
        while !rest.is_empty() {
            let (page, after) = rest.split_at(page_len(rest));
            let old = previous.and_then(|previous| previous.0.get(pages.len()));
            pages.push(Page::new(page, old.filter(|old| old.is_unchanged(page))));
            rest = after;
        }
        Self(pages)
    }

    /// The first page, or the page after a cursor.
    pub(super) fn list(&self, after: Option<&Cursor>, form: Form) -> Listing {
        let index = after.map_or(0, |seen| {
            self.0.partition_point(|page| page.last().is_none_or(|last| last <= *seen))
        });
        let Some(page) = self.0.get(index) else {
            return Listing { tools: Bytes::from_static(b"[]"), next: None };
        };
        let next = page.last().filter(|_| index + 1 < self.0.len());
        Listing { tools: page.bytes(form), next }
    }
}

fn page_len(served_tools: &[Arc<ServedTool>]) -> usize {
    let mut bytes = 0;
    let fits = |served: &&Arc<ServedTool>| {
        bytes += served.weight_bytes();
        bytes <= PAGE_BYTES
    };
    served_tools.iter().take(PAGE_TOOLS).take_while(fits).count().max(1)
}

impl Page {
    fn new(served_tools: &[Arc<ServedTool>], same: Option<&Self>) -> Self {
        let kept = |bytes: fn(&Self) -> &OnceLock<Bytes>| {
            same.map(|same| bytes(same).clone()).unwrap_or_default()
        };
        let (modern, legacy) = (kept(|page| &page.modern), kept(|page| &page.legacy));
        let with_tasks = kept(|page| &page.with_tasks);
        Self { served_tools: served_tools.to_vec(), modern, legacy, with_tasks }
    }

    fn is_unchanged(&self, served_tools: &[Arc<ServedTool>]) -> bool {
        self.served_tools.len() == served_tools.len()
            && self
                .served_tools
                .iter()
                .zip(served_tools)
                .all(|(a, b)| a.fingerprint() == b.fingerprint())
    }

    fn last(&self) -> Option<Cursor> {
        self.served_tools
            .last()
            .map(|served| Cursor(served.list_position().clone(), served.listed_name().clone()))
    }

    fn bytes(&self, form: Form) -> Bytes {
        let has_tasks = || {
            self.served_tools.iter().any(|served| served.task_support() != TaskSupport::Forbidden)
        };
        match form {
            Form::Modern => self.modern.get_or_init(|| self.render(form).0).clone(),
            Form::LegacyTasks if has_tasks() => {
                self.with_tasks.get_or_init(|| self.render(form).0).clone()
            }
            Form::Legacy | Form::LegacyTasks => {
                self.legacy.get_or_init(|| self.legacy_bytes()).clone()
            }
        }
    }

    /// Both forms are almost always equal.
    fn legacy_bytes(&self) -> Bytes {
        let (modern, differs) = self.render(Form::Modern);
        if differs {
            return self.render(Form::Legacy).0;
        }
        self.modern.get_or_init(|| modern).clone()
    }

    fn render(&self, form: Form) -> (Bytes, bool) {
        let mut text = String::from("[");
        let mut differs = false;
        for served in &self.served_tools {
            if !served.is_callable_by(form.has_tasks()) {
                tracing::info!(
                    tool.name = %served.listed_name(), clients = ?form,
                    "a tool is not listed to these clients: its server requires task augmentation \
                     (execution.taskSupport), which needs a client of 2025-11-25 and a tool without \
                     outputTransform"
                );
                continue;
            }
            let entry = render(served, form);
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&entry.json);
            differs |= entry.is_modern_only;
        }
        text.push(']');
        text.shrink_to_fit();
        (Bytes::from(text), differs)
    }
}
