//! Settings of names, namespaces and the whole registry: archived names, owners, and compatibility
//! modes.
//!
//! Settings are changed by commits, so they have an author, a reason and a position in the chain.
//! The most specific setting applies: that of the name, of the longest namespace, or of everything.

use std::{fmt, ops::Bound, str::FromStr, sync::Arc};

use imbl::{OrdMap, ordmap::DiffItem};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{
    chain::Revision,
    compatibility::Mode,
    kind::{InvalidKind, Kind},
    name::{InvalidName, Name},
    visible::escape_invisible,
};

/// The target of a setting, ordered from the widest to the narrowest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// Every name: `*`.
    Everything,
    /// Every name with this prefix, ignoring case: `team/*`, `com.example.*`. The latter includes
    /// `com.example/…`. The prefix is stored in lower case with its final `/` or `.`.
    Namespace(Arc<str>),
    /// One name of one kind: `tool/fetch`.
    Name(Kind, Name),
}

/// A text is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSelector {
    /// It has none of the forms.
    #[error("`{0}` is not a selector; write *, team/*, com.example.* or kind/name like tool/fetch")]
    Form(String),
    /// The kind is invalid.
    #[error(transparent)]
    Kind(#[from] InvalidKind),
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] InvalidName),
}

impl Selector {
    /// Whether the selector covers this name.
    pub fn covers(&self, kind: Kind, name: &Name) -> bool {
        match self {
            Self::Everything => true,
            Self::Namespace(prefix) => is_within(name.as_str(), prefix),
            Self::Name(of_kind, exact) => *of_kind == kind && exact == name,
        }
    }

    /// Whether the selector covers everything that another one covers.
    pub fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everything, _) => true,
            (Self::Namespace(wide), Self::Namespace(prefix)) => is_within(prefix, wide),
            (wide, Self::Name(kind, name)) => wide.covers(*kind, name),
            (Self::Namespace(_) | Self::Name(..), Self::Everything)
            | (Self::Name(..), Self::Namespace(_)) => false,
        }
    }
}

impl FromStr for Selector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form =
            || InvalidSelector::Form(escape_invisible(text.chars().take(160).collect::<String>()));
        if text == "*" {
            return Ok(Self::Everything);
        }
        if let Some(prefix) = text.strip_suffix('*') {
            let namespace = prefix.strip_suffix(['/', '.']).ok_or_else(form)?;
            // The part before the star is a name of its own, without a namespace.
            Name::parse(Kind::Schema, namespace).map_err(|_| form())?;
            return Ok(Self::Namespace(prefix.to_ascii_lowercase().into()));
        }
        let (kind, name) = text.split_once('/').ok_or_else(form)?;
        let kind = kind.parse()?;
        Ok(Self::Name(kind, Name::parse(kind, name)?))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("*"),
            Self::Namespace(prefix) => write!(f, "{prefix}*"),
            Self::Name(kind, name) => write!(f, "{kind}/{name}"),
        }
    }
}

impl Serialize for Selector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A value that can be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Setting {
    /// Whether the name accepts no new versions; only for names.
    Archived(bool),
    /// The owner of the name, or of every new name in the namespace.
    Owner(String),
    /// The required compatibility of new versions; `None` inherits the next wider setting.
    Compatibility(Option<Mode>),
}

/// One setting of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// The selector whose setting changes.
    pub target: Selector,
    /// The new value.
    #[serde(flatten)]
    pub setting: Setting,
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, setting } = self;
        match setting {
            Setting::Archived(true) => write!(f, "archive {target}"),
            Setting::Archived(false) => write!(f, "unarchive {target}"),
            Setting::Owner(owner) => write!(f, "owner of {target}: {owner}"),
            Setting::Compatibility(Some(mode)) => write!(f, "compatibility of {target}: {mode}"),
            Setting::Compatibility(None) => write!(f, "compatibility of {target}: inherited"),
        }
    }
}

/// All settings of one selector.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectorSettings {
    /// Whether the name accepts no new versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// The owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The required compatibility of new versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<Mode>,
    /// The revision of the last change.
    pub revision: Revision,
}

/// The settings after a revision. A clone shares structure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings(OrdMap<Selector, SelectorSettings>);

impl Settings {
    /// Restores settings from a snapshot.
    pub fn restore(sets: impl IntoIterator<Item = (Selector, SelectorSettings)>) -> Self {
        Self(sets.into_iter().collect())
    }

    /// Applies one change of a commit.
    pub fn apply(&mut self, SettingChange { target, setting }: &SettingChange, at: Revision) {
        let mut set = self.0.get(target).cloned().unwrap_or_default();
        match setting.clone() {
            Setting::Archived(archived) => set.archived = archived,
            Setting::Owner(owner) => set.owner = Some(owner),
            Setting::Compatibility(mode) => set.compatibility = mode,
        }
        set.revision = at;
        self.0.insert(target.clone(), set);
    }

    /// Whether a change would have an effect.
    pub fn would_change(&self, SettingChange { target, setting }: &SettingChange) -> bool {
        let set = self.0.get(target);
        match setting {
            Setting::Archived(archived) => set.is_some_and(|set| set.archived) != *archived,
            Setting::Owner(owner) => set.and_then(|set| set.owner.as_ref()) != Some(owner),
            Setting::Compatibility(mode) => set.and_then(|set| set.compatibility) != *mode,
        }
    }

    /// Whether a name accepts no new versions.
    pub fn is_archived(&self, kind: Kind, name: &Name) -> bool {
        self.0.get(&Selector::Name(kind, name.clone())).is_some_and(|set| set.archived)
    }

    /// The compatibility mode of a name: its own, that of its longest namespace, or that of
    /// everything.
    pub fn compatibility(&self, kind: Kind, name: &Name) -> Mode {
        let mode = |target: Selector| self.0.get(&target)?.compatibility;
        mode(Selector::Name(kind, name.clone()))
            .or_else(|| namespaces(name.as_str()).find_map(mode))
            .or_else(|| mode(Selector::Everything))
            .unwrap_or_default()
    }

    /// The assigned owner of exactly this name; `None` if none was assigned, so that the first
    /// registrant owns it.
    pub fn owner_by_name(&self, kind: Kind, name: &Name) -> Option<&str> {
        self.0.get(&Selector::Name(kind, name.clone()))?.owner.as_deref()
    }

    /// The assigned owner of a namespace, or of the longest one that contains it.
    pub fn owner_of_namespace(&self, prefix: &str) -> Option<&str> {
        let owner = |target: Selector| self.0.get(&target)?.owner.as_deref();
        namespaces(prefix).find_map(owner)
    }

    /// The settings of exactly this selector.
    pub fn get(&self, target: &Selector) -> Option<&SelectorSettings> {
        self.0.get(target)
    }

    /// All settings by selector.
    pub fn iter(&self) -> impl Iterator<Item = (&Selector, &SelectorSettings)> {
        self.0.iter()
    }

    /// The settings after this selector; all of them for `None`.
    pub fn after(
        &self,
        after: Option<&Selector>,
    ) -> impl Iterator<Item = (&Selector, &SelectorSettings)> {
        let first = after.map_or(Bound::Unbounded, |target| Bound::Excluded(target.clone()));
        self.0.range((first, Bound::Unbounded))
    }

    /// The settings that differ from earlier ones; `None` for removed ones.
    pub(crate) fn changes_since<'a>(
        &'a self,
        earlier: &'a Self,
    ) -> impl Iterator<Item = (&'a Selector, Option<&'a SelectorSettings>)> {
        earlier.0.diff(&self.0).map(|difference| match difference {
            DiffItem::Add(on, set) | DiffItem::Update { new: (on, set), .. } => (on, Some(set)),
            DiffItem::Remove(on, _) => (on, None),
        })
    }

    /// Replaces the settings of exactly this selector, or removes them.
    pub(crate) fn put(&mut self, on: &Selector, set: Option<&SelectorSettings>) {
        match set {
            Some(set) => self.0.insert(on.clone(), set.clone()),
            None => self.0.remove(on),
        };
    }

    /// The number of selectors with settings.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was ever set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether a name or namespace is within a namespace.
fn is_within(text: &str, namespace: &str) -> bool {
    let (start, end) = namespace.split_at(namespace.len().saturating_sub(1));
    let rest = text.get(..start.len()).filter(|begin| begin.eq_ignore_ascii_case(start));
    let next = rest.and_then(|begin| text[begin.len()..].chars().next());
    next.is_some_and(|c| end.starts_with(c) || (c == '/' && end == "."))
}

/// The namespaces that contain a name, longest first; includes the text itself if it is a
/// namespace.
pub(crate) fn namespaces(text: &str) -> impl Iterator<Item = Selector> + use<> {
    let (length, text) = (text.len(), text.to_ascii_lowercase());
    let ending_at = move |end: usize| {
        let own = || Some(Selector::Namespace(text[..=end].into()));
        let domain = || Some(Selector::Namespace(format!("{}.", &text[..end]).into()));
        match text.as_bytes()[end] {
            b'/' => [own(), domain()],
            b'.' => [own(), None],
            _ => [None, None],
        }
    };
    (0..length).rev().flat_map(ending_at).flatten()
}

#[cfg(test)]
mod tests;
