//! The server lists of MCP clients.
//!
//! Three forms are read, with comments and trailing commas:
//!
//! * `{ "mcpServers": { NAME: SERVER } }` of Claude Desktop, Claude Code, Cursor and others;
//! * `{ "servers": { NAME: SERVER } }` of VS Code, or a list of named servers under `servers`;
//! * a list of named servers.
//!
//! A file with `mcpServers` and `servers` has the servers of both. An invalid server is left out and
//! reported. The other servers are returned.

mod expand;
mod merge;
mod server;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{self, Path, PathBuf},
    time::Duration,
};

use jsonc_parser::{CollectOptions, ParseOptions, ast, common::Ranged as _, parse_to_ast};
use registry_core::{Kind, Name, name::closest_name};

use self::server::Entry;
pub use self::{
    expand::{Expanded, WORKSPACE_FOLDER},
    merge::{Conflict, Merged, summary},
};

/// Maximum size of a file, in bytes.
pub const FILE_BYTES: u64 = 1024 * 1024;
/// Default of `timeout` of a program, which `npx` or `uvx` may download first.
const PROGRAM_TIMEOUT: Duration = Duration::from_mins(1);
/// Default of `timeout` of a URL.
const URL_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of servers in a file.
const SERVERS: usize = 1000;

/// The servers of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpServers {
    /// The valid servers, in the order of the file.
    pub servers: Vec<McpServer>,
    /// The problems of the other servers.
    pub problems: Vec<Problem>,
    /// The settings that have no effect or may not work.
    pub warnings: Vec<Problem>,
}

/// One server of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// The name of the server in the registry: the closest valid name to its name in the file.
    pub name: Name,
    /// The connection.
    pub transport: Transport,
    /// The timeout of connecting and of listing, each.
    pub timeout: Duration,
    /// Whether the server is connected at start. Otherwise it is connected at its first call.
    pub auto_start: bool,
    /// The fields with a variable that no reference can express, such as `args/0`. Only their expanded
    /// value, which may be a secret, is known.
    pub expanded_fields: Vec<String>,
}

/// The connection to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A program that speaks over its standard streams.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Additional variables of its environment.
        env: BTreeMap<String, Expanded>,
        /// Its working directory.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        /// The endpoint.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, Expanded>,
    },
}

impl Transport {
    fn default_timeout(&self) -> Duration {
        match self {
            Self::Stdio { .. } => PROGRAM_TIMEOUT,
            Self::Http { .. } => URL_TIMEOUT,
        }
    }
}

/// A problem at one place of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The JSON pointer.
    pub pointer: String,
    /// The problem and the remedy.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, pointer, message } = self;
        write!(f, "line {line}, {pointer}: {message}")
    }
}

/// A file without any list of servers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFile {
    /// Invalid JSON.
    #[error("line {line}, column {column}: not valid JSON: {reason}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The reason.
        reason: String,
    },
    /// Valid JSON without servers.
    #[error(
        "no list of servers; write `{{ \"mcpServers\": {{ \"NAME\": {{ \"command\": \"…\" }} }} }}`, \
         `{{ \"servers\": … }}` or `[ {{ \"name\": \"…\", \"command\": \"…\" }} ]`"
    )]
    Form,
    /// A file of Claude Code whose servers belong to projects.
    #[error(
        "all servers of this file are under `projects` of Claude Code, which is not read; copy the \
         servers of one project to a file with `{{ \"mcpServers\": … }}`"
    )]
    OnlyProjects,
    /// An empty list of servers.
    #[error("the list of servers is empty; add a server")]
    Empty,
    /// Too many servers.
    #[error("{0} servers exceed the limit of {SERVERS}; split the file")]
    TooMany(usize),
}

/// The value of `${workspaceFolder}` in a file: the folder with `.vscode` or `.cursor`,
/// or the folder of any other file.
///
/// # Errors
///
/// The working directory cannot be determined.
pub fn workspace_folder(file: &Path) -> io::Result<PathBuf> {
    let file = path::absolute(file)?;
    let folder = file.parent().unwrap_or(&file);
    let is_settings = folder.file_name().is_some_and(|name| name == ".vscode" || name == ".cursor");
    let workspace = if is_settings { folder.parent() } else { None };
    Ok(workspace.unwrap_or(folder).to_owned())
}

/// Parses a file. `variable` returns a variable of the environment, and the workspace folder for
/// [`WORKSPACE_FOLDER`].
///
/// # Errors
///
/// The file is no valid JSON, has none of the three forms, or has no server.
pub fn parse(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<McpServers, InvalidFile> {
    let text = text.trim_start_matches('\u{feff}');
    // VS Code accepts comments and trailing commas, and no other extension of JSON.
    let options = ParseOptions {
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
        ..ParseOptions::default()
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options);
    let parsed = parsed.map_err(|e| InvalidFile::Syntax {
        line: e.line_display(),
        column: e.column_display(),
        reason: e.kind().to_string(),
    })?;
    let mut reader = Reader {
        text,
        variable,
        problems: Vec::new(),
        warnings: Vec::new(),
        expanded_fields: Vec::new(),
    };
    let entries = reader.entries(parsed.value.as_ref().ok_or(InvalidFile::Form)?)?;
    match entries.len() {
        0 => return Err(InvalidFile::Empty),
        1..=SERVERS => {}
        many => return Err(InvalidFile::TooMany(many)),
    }
    let mut servers: Vec<McpServer> = Vec::new();
    let mut labels: BTreeMap<Name, String> = BTreeMap::new();
    for entry in entries {
        let Some(label) = reader.label(&entry) else { continue };
        let Some(name) = closest_name(Kind::Server, &label) else {
            let message =
                format!("`{label}` has no ASCII letter or digit; give the server another name");
            reader.problem(&entry.place, message);
            continue;
        };
        if let Some(other) = labels.get(&name) {
            let message = if *other == label {
                format!("`{label}` is the name of an earlier server; rename one of them")
            } else {
                format!("`{label}` and `{other}` are both named `{name}`; rename one of them")
            };
            reader.problem(&entry.place, message);
            continue;
        }
        labels.insert(name.clone(), label);
        servers.extend(reader.server(name, &entry));
    }
    Ok(McpServers { servers, problems: reader.problems, warnings: reader.warnings })
}

/// The members of an object with this name.
fn member<'v, 'a>(value: &'v ast::Value<'a>, name: &str) -> Option<&'v ast::ObjectProp<'a>> {
    let ast::Value::Object(object) = value else { return None };
    object.properties.iter().find(|property| property.name.as_str() == name)
}

/// The number of projects of Claude Code with servers of their own.
fn projects_with_servers(projects: &ast::Value<'_>) -> usize {
    let ast::Value::Object(projects) = projects else { return 0 };
    let has_servers = |project: &&ast::ObjectProp<'_>| {
        let servers = member(&project.value, "mcpServers").map(|servers| &servers.value);
        matches!(servers, Some(ast::Value::Object(servers)) if !servers.properties.is_empty())
    };
    projects.properties.iter().filter(has_servers).count()
}

/// The servers of one list.
fn list_entries<'v, 'a>(
    value: &'v ast::Value<'a>,
    pointer: &str,
) -> Result<Vec<Entry<'v, 'a>>, InvalidFile> {
    match value {
        ast::Value::Object(object) => Ok(object
            .properties
            .iter()
            .map(|property| {
                let label = property.name.as_str();
                let pointer = format!("{pointer}/{}", escaped(label));
                Entry::new(Some(label), &property.value, property.start(), pointer)
            })
            .collect()),
        ast::Value::Array(list) => Ok(list
            .elements
            .iter()
            .enumerate()
            .map(|(i, value)| Entry::new(None, value, value.start(), format!("{pointer}/{i}")))
            .collect()),
        _ => Err(InvalidFile::Form),
    }
}

/// A name as a segment of a JSON pointer (RFC 6901).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The place of a value: its first byte and its JSON pointer.
#[derive(Debug, Clone)]
struct Place {
    start: usize,
    pointer: String,
}

/// Reads servers and collects their problems.
struct Reader<'t> {
    text: &'t str,
    variable: &'t dyn Fn(&str) -> Option<String>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    /// The pointers of the current server's fields that no reference can express.
    expanded_fields: Vec<String>,
}

impl Reader<'_> {
    /// The servers of any of the forms.
    fn entries<'v, 'a>(
        &mut self,
        root: &'v ast::Value<'a>,
    ) -> Result<Vec<Entry<'v, 'a>>, InvalidFile> {
        let ast::Value::Object(object) = root else { return list_entries(root, "") };
        let (mut all, mut has_list) = (Vec::new(), false);
        for name in ["mcpServers", "servers"] {
            // A file can have several lists of one name by mistake.
            for list in object.properties.iter().filter(|list| list.name.as_str() == name) {
                all.extend(list_entries(&list.value, &format!("/{name}"))?);
                has_list = true;
            }
        }
        let projects = member(root, "projects");
        let count = projects.map_or(0, |projects| projects_with_servers(&projects.value));
        match projects {
            Some(_) if count > 0 && all.is_empty() => return Err(InvalidFile::OnlyProjects),
            Some(projects) if count > 0 => {
                let place = Place { start: projects.start(), pointer: "/projects".to_owned() };
                let message = format!(
                    "the servers of {count} projects of Claude Code are not read; copy the servers \
                     that you need to `mcpServers`"
                );
                self.warning(&place, message);
            }
            _ => {}
        }
        if has_list { Ok(all) } else { Err(InvalidFile::Form) }
    }

    fn problem(&mut self, place: &Place, message: impl Into<String>) {
        let problem = self.at(place, message.into());
        self.problems.push(problem);
    }

    fn warning(&mut self, place: &Place, message: impl Into<String>) {
        let warning = self.at(place, message.into());
        self.warnings.push(warning);
    }

    fn at(&self, place: &Place, message: String) -> Problem {
        let before = self.text.get(..place.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        Problem { line, pointer: place.pointer.clone(), message }
    }
}
