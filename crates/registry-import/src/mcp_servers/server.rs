//! One server of a file.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use jsonc_parser::{ast, common::Ranged as _};
use registry_core::{Name, suggest::closest};

use super::{Expanded, McpServer, Place, Reader, Transport, escaped, expand};

/// Values below are seconds by mistake: no server starts in less time.
const SHORTEST_TIMEOUT_MS: u64 = 100;
/// The longest timeout, in milliseconds: ten minutes.
const LONGEST_TIMEOUT_MS: u64 = 600_000;

/// The fields of a server that have an effect or a message of their own.
const FIELDS: [&str; 14] = [
    "args",
    "autoStart",
    "command",
    "cwd",
    "disabled",
    "env",
    "envFile",
    "headers",
    "httpUrl",
    "name",
    "serverUrl",
    "timeout",
    "type",
    "url",
];

/// One item of a list of servers.
pub(super) struct Entry<'v, 'a> {
    /// The name before the value, in forms that have it there.
    label: Option<&'v str>,
    value: &'v ast::Value<'a>,
    pub(super) place: Place,
}

impl<'v, 'a> Entry<'v, 'a> {
    pub(super) fn new(
        label: Option<&'v str>,
        value: &'v ast::Value<'a>,
        start: usize,
        pointer: String,
    ) -> Self {
        Self { label, value, place: Place { start, pointer } }
    }
}

/// A field of a server.
struct Field<'v, 'a> {
    value: &'v ast::Value<'a>,
    place: Place,
}

impl<'v, 'a> Field<'v, 'a> {
    fn at(value: &'v ast::Value<'a>, pointer: String) -> Self {
        Self { value, place: Place { start: value.start(), pointer } }
    }

    fn is_null(&self) -> bool {
        matches!(self.value, ast::Value::NullKeyword(_))
    }

    /// The fields of an object or the items of a list.
    fn members(&self) -> Option<Vec<(&'v str, Self)>> {
        let pointer = &self.place.pointer;
        let members = match self.value {
            ast::Value::Object(object) => object.properties.iter().map(|property| {
                let name = property.name.as_str();
                (name, Self::at(&property.value, format!("{pointer}/{}", escaped(name))))
            }),
            _ => return None,
        };
        Some(members.collect())
    }

    fn items(&self) -> Option<Vec<Self>> {
        let ast::Value::Array(list) = self.value else { return None };
        let items = list.elements.iter().enumerate();
        Some(items.map(|(i, v)| Self::at(v, format!("{}/{i}", self.place.pointer))).collect())
    }
}

/// The fields of a server by their names.
type Fields<'v, 'a> = BTreeMap<&'v str, Field<'v, 'a>>;

impl Reader<'_> {
    /// The name of a server in the file.
    pub(super) fn label(&mut self, entry: &Entry<'_, '_>) -> Option<String> {
        if let Some(label) = entry.label {
            return Some(label.to_owned());
        }
        let mut fields = self.fields(entry)?;
        let Some(name) = fields.remove("name") else {
            self.problem(&entry.place, "the server has no `name`; add one");
            return None;
        };
        self.string(&name).map(str::to_owned)
    }

    /// Reads a server. `None`: it is disabled, or it has problems.
    pub(super) fn server(&mut self, name: Name, entry: &Entry<'_, '_>) -> Option<McpServer> {
        let before = self.problems.len();
        self.expanded_fields.clear();
        let mut fields = self.fields(entry)?;
        if fields.remove("disabled").is_some_and(|field| self.boolean(&field) == Some(true)) {
            return None;
        }
        let transport = self.transport(entry, &mut fields);
        let timeout = fields.remove("timeout").and_then(|field| self.timeout(&field));
        let auto_start = fields.remove("autoStart").and_then(|field| self.boolean(&field));
        let is_valid = self.problems.len() == before;
        if is_valid {
            self.warn_of_misspelled(&fields);
        }
        let parent = format!("{}/", entry.place.pointer);
        let expanded = self.expanded_fields.drain(..);
        let expanded_fields = expanded.map(|pointer| pointer.replacen(&parent, "", 1)).collect();
        let transport = transport?;
        is_valid.then_some(McpServer {
            name,
            timeout: timeout.unwrap_or_else(|| transport.default_timeout()),
            transport,
            auto_start: auto_start.unwrap_or(true),
            expanded_fields,
        })
    }

    /// Warns of fields that are likely typos. All others may belong to one client.
    fn warn_of_misspelled(&mut self, fields: &Fields<'_, '_>) {
        for (name, field) in fields.iter().filter(|(name, _)| !FIELDS.contains(name)) {
            if let Some(similar) = closest(name, FIELDS) {
                let message = format!("`{name}` has no effect; did you mean `{similar}`?");
                self.warning(&field.place, message);
            }
        }
    }

    /// The fields of a server. Fields without a value count as absent, and so do those that only one
    /// client knows.
    fn fields<'v, 'a>(&mut self, entry: &Entry<'v, 'a>) -> Option<Fields<'v, 'a>> {
        let field = Field { value: entry.value, place: entry.place.clone() };
        let Some(members) = field.members() else {
            self.problem(&entry.place, "the server is not an object; write `{ \"command\": … }`");
            return None;
        };
        let mut fields = Fields::new();
        for (name, field) in members.into_iter().filter(|(_, field)| !field.is_null()) {
            if fields.contains_key(name) {
                self.problem(&field.place, format!("duplicate field `{name}`; remove one"));
            }
            fields.insert(name, field);
        }
        Some(fields)
    }

    fn transport<'v, 'a>(
        &mut self,
        entry: &Entry<'v, 'a>,
        fields: &mut Fields<'v, 'a>,
    ) -> Option<Transport> {
        let url = ["url", "serverUrl", "httpUrl"].into_iter().find_map(|name| fields.remove(name));
        if let Some(field) = fields.remove("type") {
            let kind = self.string(&field)?;
            let is_known = match kind {
                "stdio" | "local" => url.is_none(),
                "http" | "streamable-http" | "streamableHttp" | "sse" | "remote" => url.is_some(),
                _ => {
                    let message = format!("`{kind}` is not a type; write `stdio` or `http`");
                    self.problem(&field.place, message);
                    return None;
                }
            };
            if kind == "sse" && is_known {
                let message = "the type `sse` (HTTP+SSE of 2024-11-05) is not supported, and the \
                     URL is called with Streamable HTTP; write `http` and the server's URL for \
                     Streamable HTTP, which often ends with `/mcp`";
                self.warning(&field.place, message);
            }
            if !is_known {
                let remedy = if url.is_some() { "`http`" } else { "`stdio`, or add `url`" };
                let message =
                    format!("the type is `{kind}`, but the fields are not; write {remedy}");
                self.problem(&field.place, message);
                return None;
            }
        }
        match (fields.remove("command"), url) {
            (Some(command), None) => self.stdio(&command, fields),
            (None, Some(url)) => self.http(&url, fields),
            (Some(_), Some(url)) => {
                self.problem(&url.place, "the server has both `command` and `url`; remove one");
                None
            }
            (None, None) => {
                let message = "the server has neither `command` nor `url`; add one";
                self.problem(&entry.place, message);
                None
            }
        }
    }

    fn stdio<'v, 'a>(
        &mut self,
        command: &Field<'v, 'a>,
        fields: &mut Fields<'v, 'a>,
    ) -> Option<Transport> {
        if let Some(field) = fields.get("envFile") {
            let place = field.place.clone();
            self.problem(&place, "`envFile` is not read; write the variables under `env`");
        }
        let args = fields.remove("args").map(|field| self.args(&field)).unwrap_or_default();
        let env = fields.remove("env").map(|field| self.env(&field)).unwrap_or_default();
        let cwd = fields.remove("cwd").and_then(|field| self.text(&field));
        let command = self.text(command)?;
        Some(Transport::Stdio { command, args, env, cwd: cwd.map(PathBuf::from) })
    }

    fn http<'v, 'a>(
        &mut self,
        url: &Field<'v, 'a>,
        fields: &mut Fields<'v, 'a>,
    ) -> Option<Transport> {
        let headers = fields.remove("headers").map(|field| self.pairs(&field)).unwrap_or_default();
        let text = self.text(url)?;
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        if !matches!(scheme, Some("http" | "https")) || text.contains(char::is_control) {
            self.problem(&url.place, "not a URL; write http://HOST:PORT/PATH or https://HOST/PATH");
            return None;
        }
        Some(Transport::Http { url: text, headers })
    }

    fn args(&mut self, field: &Field<'_, '_>) -> Vec<String> {
        let Some(items) = field.items() else {
            self.problem(&field.place, "not a list; write `[\"ARGUMENT\", …]`");
            return Vec::new();
        };
        items.iter().filter_map(|item| self.plain(item)).collect()
    }

    fn env(&mut self, field: &Field<'_, '_>) -> BTreeMap<String, Expanded> {
        for (name, member) in field.members().into_iter().flatten() {
            if name.is_empty() || name.contains(['=', '\0']) {
                let message = format!("`{name}` is not the name of an environment variable");
                self.problem(&member.place, message);
            }
        }
        self.pairs(field)
    }

    fn pairs(&mut self, field: &Field<'_, '_>) -> BTreeMap<String, Expanded> {
        let Some(members) = field.members() else {
            self.problem(&field.place, "not an object; write `{ \"NAME\": \"VALUE\" }`");
            return BTreeMap::new();
        };
        let pair = |(name, field): (&str, Field<'_, '_>)| {
            let text = self.expanded(&field)?;
            if text.has_variable() && text.variable().is_none() {
                self.expanded_fields.push(field.place.pointer);
            }
            Some((name.to_owned(), text))
        };
        members.into_iter().filter_map(pair).collect()
    }

    fn timeout(&mut self, field: &Field<'_, '_>) -> Option<Duration> {
        let milliseconds = match field.value {
            ast::Value::NumberLit(number) => number.value.parse::<u64>().ok(),
            _ => None,
        };
        match milliseconds {
            Some(ms @ SHORTEST_TIMEOUT_MS..=LONGEST_TIMEOUT_MS) => Some(Duration::from_millis(ms)),
            Some(seconds @ 1..SHORTEST_TIMEOUT_MS) => {
                let message =
                    format!("{seconds} is in milliseconds; write {seconds}000 for {seconds} s");
                self.problem(&field.place, message);
                None
            }
            _ => {
                let message = format!(
                    "not a time in milliseconds from {SHORTEST_TIMEOUT_MS} to {LONGEST_TIMEOUT_MS}"
                );
                self.problem(&field.place, message);
                None
            }
        }
    }

    fn boolean(&mut self, field: &Field<'_, '_>) -> Option<bool> {
        if let ast::Value::BooleanLit(boolean) = field.value {
            return Some(boolean.value);
        }
        self.problem(&field.place, "neither `true` nor `false`");
        None
    }

    /// A text that is not empty, with its variables replaced.
    fn text(&mut self, field: &Field<'_, '_>) -> Option<String> {
        let text = self.plain(field)?;
        if text.trim().is_empty() {
            self.problem(&field.place, "empty; write a value");
            return None;
        }
        Some(text)
    }

    /// The expanded value of a field that cannot have a reference.
    fn plain(&mut self, field: &Field<'_, '_>) -> Option<String> {
        let text = self.expanded(field)?;
        if text.has_variable() {
            self.expanded_fields.push(field.place.pointer.clone());
        }
        Some(text.value)
    }

    /// A text, a number or a boolean, with variables replaced.
    fn expanded(&mut self, field: &Field<'_, '_>) -> Option<Expanded> {
        let written = match field.value {
            ast::Value::NumberLit(number) => number.value,
            ast::Value::BooleanLit(boolean) => {
                if boolean.value {
                    "true"
                } else {
                    "false"
                }
            }
            _ => self.string(field)?,
        };
        let expanded = expand::expand(written, self.variable);
        let expanded = expanded.map_err(|message| self.problem(&field.place, message)).ok()?;
        if expanded.value.contains('\0') {
            self.problem(&field.place, "contains a NUL character; remove it");
            return None;
        }
        Some(expanded)
    }

    fn string<'v>(&mut self, field: &Field<'v, '_>) -> Option<&'v str> {
        if let ast::Value::StringLit(text) = field.value {
            return Some(&text.value);
        }
        self.problem(&field.place, "not a string; write it in double quotes");
        None
    }
}
