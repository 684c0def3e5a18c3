//! Resolves steps that name the server of their tool, such as `{ "name": "search", "server": "docs"
//! }`, to an exact tool version of the registry, which is added if the file has none.
//!
//! A step that matches several tools is left for review, because a wrong choice would call another
//! server.

use std::collections::{BTreeMap, BTreeSet};

use registry_core::kind::Kind;
use serde_json::{Map, Value, json};

use super::{Entry, FIRST_VERSION, LenientFile, versions::listed};
use crate::{names, repair::quoted};

/// The tools that a server version provides, each with its versions.
type Provides = BTreeMap<String, Vec<String>>;

/// The tools that steps can call, by their server.
pub(super) struct Callees {
    /// The tools of the file with a source, and the added tools.
    known: Vec<Callee>,
    /// The versions of every tool name in the file and of the added tools.
    taken: BTreeMap<String, BTreeSet<String>>,
    /// The versions of each server.
    servers: BTreeMap<String, BTreeMap<String, Provides>>,
    /// The added tools, each with the place of its step.
    pub(super) added: Vec<(Value, String)>,
}

/// A tool with a source.
#[derive(Clone)]
pub(super) struct Callee {
    pub(super) name: String,
    pub(super) version: String,
    server: String,
    server_version: String,
    /// The server's own name of the tool.
    upstream: String,
    /// Whether its arguments and results are unchanged from the server's.
    is_plain: bool,
}

/// The tool that a step names.
pub(super) enum CalleeMatch {
    /// A tool of the file, or an added one.
    Known(Callee),
    /// A tool to be added.
    New(Callee),
}

/// The tool that a step names. Versions are exact.
pub(super) struct Wanted<'a> {
    pub(super) name: &'a str,
    pub(super) server: &'a str,
    pub(super) server_version: Option<&'a str>,
    pub(super) version: Option<&'a str>,
}

/// An ambiguous step: the problem and the remedy.
pub(super) struct Unclear {
    pub(super) what: String,
    pub(super) how: String,
}

impl Callee {
    fn parse(tool: &Entry) -> Option<Self> {
        let source = tool.map.get("source")?;
        let is_changed = source.get("defaults").is_some()
            || source.get("hideFields").is_some()
            || tool.map.contains_key("outputTransform");
        Some(Self {
            name: tool.name().to_owned(),
            version: tool.version().to_owned(),
            server: source["server"].as_str()?.to_owned(),
            server_version: source["serverVersion"].as_str()?.to_owned(),
            upstream: source["tool"].as_str()?.to_owned(),
            is_plain: !is_changed,
        })
    }

    fn fits(&self, wanted: &Wanted<'_>) -> bool {
        wanted.server_version.is_none_or(|said| self.server_version == said)
            && wanted.version.is_none_or(|said| self.version == said)
    }

    fn is_declared(&self, depends: &[Value]) -> bool {
        depends.iter().any(|known| {
            known["type"] == "tool"
                && known["name"] == self.name
                && known["version"] == self.version
        })
    }

    /// The tool in a list of choices.
    fn shown(&self) -> String {
        let tool = quoted(&format!("{}@{}", self.name, self.version));
        let server = quoted(&format!("{}@{}", self.server, self.server_version));
        let changed = if self.is_plain { "" } else { ", with changes" };
        format!("{tool} ({} of {server}{changed})", quoted(&self.upstream))
    }
}

impl Wanted<'_> {
    fn shown(&self) -> String {
        let of = |name: &str, version: Option<&str>| match version {
            Some(version) => quoted(&format!("{name}@{version}")),
            None => quoted(name),
        };
        let (tool, server) = (of(self.name, self.version), of(self.server, self.server_version));
        format!("a step names {tool} of the server {server}")
    }

    fn unclear(&self, why: &str, how: String) -> Unclear {
        Unclear { what: format!("{}, {why}", self.shown()), how }
    }
}

impl LenientFile<'_> {
    pub(super) fn callees(&self) -> Callees {
        let tools = self.entries(Kind::Tool);
        let known: Vec<_> = tools.iter().filter_map(Callee::parse).collect();
        let mut taken: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for tool in tools {
            taken.entry(tool.name().to_owned()).or_default().insert(tool.version().to_owned());
        }
        let mut servers: BTreeMap<_, BTreeMap<_, Provides>> = BTreeMap::new();
        for callee in &known {
            let versions = servers.entry(callee.server.clone()).or_default();
            versions.entry(callee.server_version.clone()).or_default();
        }
        for server in self.entries(Kind::Server) {
            let versions = servers.entry(server.name().to_owned()).or_default();
            let known = versions.entry(server.version().to_owned()).or_default();
            let provides = server.map.get("provides").and_then(Value::as_array);
            for provision in provides.into_iter().flatten() {
                if let (Some(tool), Some(version)) =
                    (provision["tool"].as_str(), provision["version"].as_str())
                {
                    known.entry(tool.to_owned()).or_default().push(version.to_owned());
                }
            }
        }
        Callees { known, taken, servers, added: Vec::new() }
    }
}

impl Callees {
    /// Finds the tool that a step names. If several match, the one in the composition's `depends`
    /// is used.
    pub(super) fn find(
        &self,
        wanted: &Wanted<'_>,
        depends: &[Value],
    ) -> Result<CalleeMatch, Unclear> {
        let candidates = self.candidates(wanted);
        let mut fitting: Vec<_> = candidates.iter().filter(|callee| callee.fits(wanted)).collect();
        if fitting.len() > 1 && fitting.iter().any(|callee| callee.is_declared(depends)) {
            fitting.retain(|callee| callee.is_declared(depends));
        }
        match fitting[..] {
            [only] => return Ok(CalleeMatch::Known(Callee::clone(only))),
            [] => {}
            _ => {
                let shown = listed(fitting.iter().map(|callee| callee.shown()));
                let why = format!("and {} tools fit", fitting.len());
                return Err(wanted.unclear(&why, chosen(&shown)));
            }
        }
        let is_other_server = wanted.server_version.is_some_and(|said| {
            self.versions_of(wanted.server).any(|(version, _)| version == said)
                && candidates.iter().all(|callee| callee.server_version != said)
        });
        if candidates.is_empty() || is_other_server {
            return self.absent(wanted).map(CalleeMatch::New);
        }
        let shown = listed(candidates.iter().map(|callee| callee.shown()));
        Err(wanted.unclear("which no tool of the file is", chosen(&shown)))
    }

    /// The tools of a server with this name, registered or upstream. A tool with both names matches
    /// either.
    fn candidates(&self, wanted: &Wanted<'_>) -> Vec<&Callee> {
        let of_server = self.known.iter().filter(|callee| callee.server == wanted.server);
        let is_named = |callee: &Callee| callee.name == wanted.name;
        let is_own = |callee: &Callee| callee.is_plain && callee.upstream == wanted.name;
        let found: Vec<_> = of_server.filter(|callee| is_named(callee) || is_own(callee)).collect();
        let both: Vec<_> =
            found.iter().copied().filter(|callee| is_named(callee) && is_own(callee)).collect();
        if both.is_empty() { found } else { both }
    }

    fn versions_of(&self, server: &str) -> impl Iterator<Item = (&String, &Provides)> {
        self.servers.get(server).into_iter().flatten()
    }

    /// A tool that is missing in the file.
    fn absent(&self, wanted: &Wanted<'_>) -> Result<Callee, Unclear> {
        let server_version = self.server_version(wanted)?;
        let provided = self.servers.get(wanted.server).and_then(|all| all.get(&server_version));
        let provided = provided.and_then(|provides| provides.get(wanted.name));
        let provided = provided.map_or(&[][..], Vec::as_slice);
        let version = match (wanted.version, provided) {
            (Some(said), _) => said.to_owned(),
            (None, []) => FIRST_VERSION.to_owned(),
            (None, [only]) => only.clone(),
            (None, several) => {
                let why = "which the server provides in several versions";
                let how = format!("write one as `version`: {}", listed(several.iter().cloned()));
                return Err(wanted.unclear(why, how));
            }
        };
        let name = self.free_name(wanted, &version, provided.contains(&version));
        let (server, upstream) = (wanted.server.to_owned(), wanted.name.to_owned());
        Ok(Callee { name, version, server, server_version, upstream, is_plain: true })
    }

    /// The server version of a tool that is missing in the file.
    fn server_version(&self, wanted: &Wanted<'_>) -> Result<String, Unclear> {
        let all: Vec<_> = self.versions_of(wanted.server).map(|(version, _)| version).collect();
        let shown = || listed(all.iter().map(ToString::to_string));
        if let Some(said) = wanted.server_version {
            if all.is_empty() || all.iter().any(|version| *version == said) {
                return Ok(said.to_owned());
            }
            let why = format!("but the file has that server in {}", shown());
            let how = "correct `serverVersion`, or add that version to `servers`".to_owned();
            return Err(wanted.unclear(&why, how));
        }
        let providing = self.versions_of(wanted.server);
        let providing = providing.filter(|(_, provides)| provides.contains_key(wanted.name));
        let providing: Vec<_> = providing.map(|(version, _)| version).collect();
        match (&providing[..], &all[..]) {
            ([], []) => Ok(FIRST_VERSION.to_owned()),
            ([only], _) | ([], [only]) => Ok((*only).clone()),
            _ => {
                let how = format!("write one as `serverVersion`: {}", shown());
                Err(wanted.unclear("which has several versions", how))
            }
        }
    }

    /// The name of an added tool: the requested name if it is free.
    fn free_name(&self, wanted: &Wanted<'_>, version: &str, is_provided: bool) -> String {
        let is_free = match self.taken.get(wanted.name) {
            None => true,
            // The server provides this key, so the import adds it anyway.
            Some(versions) => is_provided && !versions.contains(version),
        };
        if is_free {
            return wanted.name.to_owned();
        }
        let joined = format!("{}_{}", wanted.server, wanted.name);
        let joined =
            names::closest_name(Kind::Tool, &joined).map_or(joined, |name| name.to_string());
        let numbered = (2..).map(|number| format!("{joined}_{number}"));
        let mut names = std::iter::once(joined.clone()).chain(numbered);
        names.find(|name| !self.taken.contains_key(name)).unwrap_or(joined)
    }

    /// Adds the tool of the step at this place.
    pub(super) fn add(&mut self, new: Callee, at: &str) {
        let source = json!({ "server": new.server, "serverVersion": new.server_version,
            "tool": new.upstream });
        let tool = json!({ "name": new.name, "version": new.version, "source": source });
        self.taken.entry(new.name.clone()).or_default().insert(new.version.clone());
        let versions = self.servers.entry(new.server.clone()).or_default();
        versions.entry(new.server_version.clone()).or_default();
        self.known.push(new);
        self.added.push((tool, at.to_owned()));
    }
}

fn chosen(shown: &str) -> String {
    format!("name one of them by `name` and `version`, without its server: {shown}")
}

/// The members of a step that qualify the tool's name.
const MEMBERS: [&str; 4] = ["server", "target", "serverVersion", "version"];

/// The tool call of a step: the members in `tool`, else those next to it.
pub(super) struct Call {
    pub(super) name: String,
    /// The members with their pointers.
    said: BTreeMap<&'static str, (String, Value)>,
}

impl Call {
    /// Returns `None` if the operation names no tool.
    pub(super) fn parse(operation: &Map<String, Value>, at: &str) -> Option<Self> {
        let tool = operation.get("tool")?;
        let name = tool.as_str().or_else(|| tool.get("name")?.as_str())?.to_owned();
        let said = MEMBERS.iter().filter_map(|member| {
            let own = tool.get(*member).map(|said| (format!("{at}/tool/{member}"), said));
            let beside = || operation.get(*member).map(|said| (format!("{at}/{member}"), said));
            let (place, said) = own.or_else(beside).filter(|(_, said)| !said.is_null())?;
            Some((*member, (place, said.clone())))
        });
        Some(Self { name, said: said.collect() })
    }

    /// The server, with the pointer to it.
    pub(super) fn server(&self) -> Result<Option<(&str, &str)>, Unclear> {
        let said: Vec<_> =
            ["server", "target"].iter().filter_map(|of| self.said.get(*of)).collect();
        let unclear = |what: &str| {
            let how = "write the server's name as `server`".to_owned();
            Err(Unclear { what: what.to_owned(), how })
        };
        match said[..] {
            [] if self.said.contains_key("serverVersion") => {
                unclear("a step names the version of a server, but no server")
            }
            [] => Ok(None),
            [(_, server), (_, target)] if server != target => {
                unclear("a step names two servers, as `server` and as `target`")
            }
            [(place, server), ..] => match server.as_str() {
                Some(server) => Ok(Some((place, server))),
                None => unclear("the server of a step is not a text"),
            },
        }
    }

    /// The exact version in a member.
    pub(super) fn version(&self, member: &str) -> Result<Option<String>, Unclear> {
        let Some((_, said)) = self.said.get(member) else { return Ok(None) };
        if let Some(version) = said.as_str().and_then(names::closest_version) {
            return Ok(Some(version.to_string()));
        }
        let text = quoted(&names::version_text(said));
        let what = format!("`{member}` of a step is {text}, which is not an exact version");
        Err(Unclear { what, how: "write it as a text like \"1.0.0\"".to_owned() })
    }

    /// The pointers to the members, the server first.
    pub(super) fn places(&self) -> impl Iterator<Item = &str> {
        self.said.values().map(|(place, _)| place.as_str())
    }
}

/// Writes the call of a tool by name only.
pub(super) fn write(operation: &mut Map<String, Value>, name: &str) {
    operation.retain(|member, _| !MEMBERS.contains(&member.as_str()));
    match &mut operation["tool"] {
        Value::Object(own) => {
            own.retain(|member, _| !MEMBERS.contains(&member.as_str()));
            own.insert("name".to_owned(), name.into());
        }
        tool if *tool == name => {}
        tool => *tool = json!({ "name": name }),
    }
}

/// Whether the call at this place has more than the tool's name.
pub(super) fn is_qualified(spec: &Value, pointer: &str) -> bool {
    let has_members = |at: &str| {
        spec.pointer(at).is_some_and(|of| MEMBERS.iter().any(|member| of.get(*member).is_some()))
    };
    has_members(pointer) || pointer.strip_suffix("/tool").is_some_and(has_members)
}
