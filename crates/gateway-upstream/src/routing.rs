//! The target of each registered version of a server or an agent.
//!
//! A version uses its own target, else the target of all versions (`*`), else the target of the
//! highest lower version, so that a new version works before the gateway's configuration names it.

use std::{collections::BTreeSet, fmt, str::FromStr};

use registry_core::{Key, Kind, Name, Version};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// The text of a target for all versions.
const ANY: &str = "*";

/// The registered server or agent that a target serves, in one version or in all.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId {
    /// Server or agent.
    pub kind: Kind,
    /// The registered name.
    pub name: Name,
    /// The exact version. `None`: every version without its own target, written `*`.
    pub version: Option<Version>,
}

impl TargetId {
    /// The configured version.
    pub fn version_text(&self) -> String {
        self.version.as_ref().map_or_else(|| ANY.to_owned(), Version::to_string)
    }
}

impl From<&Key> for TargetId {
    fn from(key: &Key) -> Self {
        let Key { kind, name, version } = key.clone();
        Self { kind, name, version: Some(version) }
    }
}

impl From<Key> for TargetId {
    fn from(Key { kind, name, version }: Key) -> Self {
        Self { kind, name, version: Some(version) }
    }
}

impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, version } = self;
        match version {
            Some(version) => write!(f, "{kind}/{name}@{version}"),
            None => write!(f, "{kind}/{name}@{ANY}"),
        }
    }
}

impl fmt::Debug for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TargetId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(unversioned) = text.strip_suffix("@*") else {
            return text.parse::<Key>().map(Self::from).map_err(|e| e.to_string());
        };
        let (kind, name) = unversioned.split_once('/').ok_or("expected KIND/NAME@VERSION")?;
        let kind = kind.parse::<Kind>().map_err(|e| e.to_string())?;
        let name = Name::parse(kind, name).map_err(|e| e.to_string())?;
        Ok(Self { kind, name, version: None })
    }
}

impl Serialize for TargetId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TargetId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The target of one registered version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The target.
    pub target: TargetId,
    /// Whether the target belongs to a lower version, because the version has none itself.
    pub is_fallback: bool,
}

/// All configured targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routing(BTreeSet<TargetId>);

impl Routing {
    /// The target of a registered version.
    pub fn resolve(&self, server: &Key) -> Option<Route> {
        let own = TargetId::from(server);
        if self.0.contains(&own) {
            return Some(Route { target: own, is_fallback: false });
        }
        // The lowest identity of a name; lower versions are all between it and the version.
        let any = TargetId { version: None, ..own.clone() };
        if self.0.contains(&any) {
            return Some(Route { target: any, is_fallback: false });
        }
        let target = self.0.range(&any..&own).next_back()?.clone();
        Some(Route { target, is_fallback: true })
    }

    /// The versions that have their own target.
    pub fn exact(&self) -> impl Iterator<Item = Key> {
        let key = |TargetId { kind, name, version }: &TargetId| {
            Some(Key::new(*kind, name.clone(), version.clone()?))
        };
        self.0.iter().filter_map(key)
    }

    /// All targets.
    pub fn targets(&self) -> impl Iterator<Item = &TargetId> {
        self.0.iter()
    }

    /// Whether this target is configured.
    pub(super) fn has(&self, target: &TargetId) -> bool {
        self.0.contains(target)
    }
}

impl FromIterator<TargetId> for Routing {
    fn from_iter<I: IntoIterator<Item = TargetId>>(targets: I) -> Self {
        Self(targets.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routing(targets: &[&str]) -> Routing {
        targets.iter().map(|target| target.parse().unwrap()).collect()
    }

    fn resolved(routing: &Routing, server: &str) -> Option<(String, bool)> {
        let Route { target, is_fallback } = routing.resolve(&server.parse().unwrap())?;
        Some((target.to_string(), is_fallback))
    }

    fn route(target: &str, is_fallback: bool) -> (String, bool) {
        (target.to_owned(), is_fallback)
    }

    #[test]
    fn exact_version_wins_over_any_over_previous() {
        let both = routing(&["server/a@1.0.0", "server/a@*", "server/a@1.10.0"]);
        assert_eq!(resolved(&both, "server/a@1.10.0"), Some(route("server/a@1.10.0", false)));
        assert_eq!(resolved(&both, "server/a@1.11.0"), Some(route("server/a@*", false)));
        assert_eq!(resolved(&both, "server/a@0.1.0"), Some(route("server/a@*", false)));
    }

    #[test]
    fn new_version_uses_highest_lower_target() {
        let exact =
            routing(&["server/a@1.9.0", "server/a@1.10.0", "server/a@3.0.0", "server/b@9.0.0"]);
        assert_eq!(resolved(&exact, "server/a@2.0.0"), Some(route("server/a@1.10.0", true)));
        assert_eq!(resolved(&exact, "server/a@3.0.0-rc.1"), Some(route("server/a@1.10.0", true)));
        assert_eq!(resolved(&exact, "server/a@4.0.0"), Some(route("server/a@3.0.0", true)));
        assert_eq!(resolved(&exact, "server/a@1.0.0"), None, "a lower version has no target");
        assert_eq!(resolved(&exact, "server/c@1.0.0"), None);
        assert_eq!(resolved(&exact, "agent/a@2.0.0"), None, "kinds have separate names");
    }

    #[test]
    fn target_id_round_trips() {
        for text in ["server/team/a@1.0.0", "agent/a@*", "server/a@1.0.0-rc.1"] {
            assert_eq!(text.parse::<TargetId>().unwrap().to_string(), text);
        }
        for bad in ["server/a", "a@*", "server/a@latest", "thing/a@*", "server/a b@*"] {
            assert!(bad.parse::<TargetId>().is_err(), "{bad}");
        }
    }
}
