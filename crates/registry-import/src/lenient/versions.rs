//! Adds missing versions: the version that other entries reference, or 1.0.0.

use std::collections::{BTreeMap, BTreeSet};

use registry_core::{kind::Kind, version::Version};
use serde_json::Value;

use super::{FIRST_VERSION, LenientFile};

/// Maximum number of tools or versions listed as choices.
const SHOWN: usize = 10;

/// The versions of each name of a kind, oldest first.
#[derive(Default)]
pub(super) struct KnownVersions(BTreeMap<(Kind, String), BTreeSet<Version>>);

impl KnownVersions {
    pub(super) fn versions(&self, kind: Kind, name: &str) -> impl Iterator<Item = &Version> {
        self.0.get(&(kind, name.to_owned())).into_iter().flatten()
    }

    /// The first versions as text, and the number of others.
    pub(super) fn shown(&self, kind: Kind, name: &str) -> String {
        listed(self.versions(kind, name).map(ToString::to_string))
    }

    /// The newest version, and whether it is the only one.
    pub(super) fn newest(&self, kind: Kind, name: &str) -> Option<(&Version, bool)> {
        let versions = self.0.get(&(kind, name.to_owned()))?;
        Some((versions.last()?, versions.len() == 1))
    }

    fn add(&mut self, kind: Kind, name: &str, version: &str) {
        if let Ok(version) = Version::parse(version) {
            self.0.entry((kind, name.to_owned())).or_default().insert(version);
        }
    }
}

/// The first of these texts, and the number of others.
pub(super) fn listed(mut texts: impl Iterator<Item = String>) -> String {
    let shown: Vec<_> = texts.by_ref().take(SHOWN).collect();
    match texts.count() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

impl LenientFile<'_> {
    pub(super) fn known(&self) -> KnownVersions {
        let mut known = KnownVersions::default();
        for kind in Kind::ALL {
            for entry in self.entries(kind) {
                known.add(kind, entry.name(), entry.version());
            }
        }
        known
    }

    pub(super) fn give_versions(&mut self) {
        let wanted = self.wanted();
        for kind in Kind::ALL {
            let mut given = Vec::new();
            for entry in self.entries.entry(kind).or_default() {
                if entry.map.contains_key("version") {
                    continue;
                }
                let wanted = wanted.newest(kind, entry.name());
                let (version, why) = match wanted {
                    Some((version, _)) => (version.to_string(), ", as others refer to it"),
                    None => (FIRST_VERSION.to_owned(), ""),
                };
                let what = format!("the {kind} has no version");
                given.push((entry.pointer.clone(), what, format!("{version} is written{why}")));
                entry.map.insert("version".to_owned(), version.into());
            }
            for (pointer, what, how) in given {
                self.repairs.made(pointer, what, how);
            }
        }
    }

    /// The versions in references between entries.
    fn wanted(&self) -> KnownVersions {
        let mut wanted = KnownVersions::default();
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        for server in self.entries(Kind::Server) {
            for provision in
                server.map.get("provides").and_then(Value::as_array).into_iter().flatten()
            {
                wanted.add(Kind::Tool, &text(provision, "tool"), &text(provision, "version"));
            }
        }
        for tool in self.entries(Kind::Tool) {
            if let Some(source) = tool.map.get("source") {
                wanted.add(Kind::Server, &text(source, "server"), &text(source, "serverVersion"));
            }
        }
        wanted
    }
}
