//! The plan of a batch.

use std::collections::BTreeSet;

use registry_proto::v1;
use serde::Serialize;

use crate::{
    screen::TextTable,
    style::Paint,
    view::{KeyView, short_digest},
};

/// A change and its effect.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PlannedChange {
    #[serde(flatten)]
    key: KeyView,
    effect: Effect,
    #[serde(skip_serializing_if = "String::is_empty")]
    digest: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Effect {
    Register,
    Deprecate,
    Retire,
    Restore,
    Unchanged,
    /// An effect of a newer registry.
    Unknown,
}

impl Effect {
    const ALL: [Self; 6] = [
        Self::Register,
        Self::Deprecate,
        Self::Retire,
        Self::Restore,
        Self::Unchanged,
        Self::Unknown,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Deprecate => "deprecate",
            Self::Retire => "retire",
            Self::Restore => "restore",
            Self::Unchanged => "unchanged",
            Self::Unknown => "unknown",
        }
    }

    fn mark(self) -> (&'static str, Paint) {
        match self {
            Self::Register => ("+", Paint::Good),
            Self::Deprecate | Self::Retire | Self::Restore | Self::Unknown => ("~", Paint::Careful),
            Self::Unchanged => ("=", Paint::Dim),
        }
    }
}

impl From<v1::PlannedChange> for PlannedChange {
    fn from(change: v1::PlannedChange) -> Self {
        let v1::PlannedChange { key, action, digest } = change;
        let effect = match v1::ChangeAction::try_from(action) {
            Ok(v1::ChangeAction::Unchanged) => Effect::Unchanged,
            Ok(v1::ChangeAction::Register) => Effect::Register,
            Ok(v1::ChangeAction::Deprecate) => Effect::Deprecate,
            Ok(v1::ChangeAction::Retire) => Effect::Retire,
            Ok(v1::ChangeAction::Restore) => Effect::Restore,
            Ok(v1::ChangeAction::Unspecified) | Err(_) => Effect::Unknown,
        };
        Self { key: key.unwrap_or_default().into(), effect, digest }
    }
}

#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub(crate) struct Plan(Vec<PlannedChange>);

impl Plan {
    /// An entry of a file with its lifecycle is two changes. If neither has an effect, one line says so.
    pub(crate) fn new(changes: Vec<v1::PlannedChange>) -> Self {
        let mut unchanged = BTreeSet::new();
        let changes = changes.into_iter().map(PlannedChange::from);
        let is_first = |change: &PlannedChange| {
            change.effect != Effect::Unchanged || unchanged.insert(change.key.to_string())
        };
        Self(changes.filter(is_first).collect())
    }

    /// The number of changes with an effect.
    pub(crate) fn effective(&self) -> usize {
        self.0.iter().filter(|change| change.effect != Effect::Unchanged).count()
    }

    /// The keys of entities without a change that has an effect.
    pub(crate) fn unchanged(&self) -> BTreeSet<String> {
        let is_unchanged = |change: &&PlannedChange| change.effect == Effect::Unchanged;
        let (unchanged, changed): (Vec<_>, Vec<_>) = self.0.iter().partition(is_unchanged);
        let changed: BTreeSet<_> = changed.into_iter().map(|one| one.key.to_string()).collect();
        let unchanged = unchanged.into_iter().map(|one| one.key.to_string());
        unchanged.filter(|key| !changed.contains(key)).collect()
    }

    /// `34 register, 2 unchanged`.
    pub(crate) fn counts(&self) -> String {
        let count = |effect: Effect| {
            let count = self.0.iter().filter(|change| change.effect == effect).count();
            (count > 0).then(|| format!("{count} {}", effect.word()))
        };
        let counts: Vec<_> = Effect::ALL.into_iter().filter_map(count).collect();
        if counts.is_empty() { "nothing".to_owned() } else { counts.join(", ") }
    }

    pub(crate) fn table(&self) -> TextTable {
        let mut table = TextTable::new(&["", "EFFECT", "KIND", "NAME", "VERSION", "DIGEST"]);
        for PlannedChange { key, effect, digest } in &self.0 {
            let (mark, paint) = effect.mark();
            let KeyView { kind, name, version } = key;
            let digest = short_digest(digest);
            table.painted(paint, [mark, effect.word(), kind, name, version, digest]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::Style;

    fn change(key: &str, action: v1::ChangeAction, digest: &str) -> v1::PlannedChange {
        let key: registry_core::Key = key.parse().unwrap();
        v1::PlannedChange {
            key: Some((&key).into()),
            action: action.into(),
            digest: digest.to_owned(),
        }
    }

    #[test]
    fn plans_are_printed_as_tables_with_counts() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        let plan = Plan::new(vec![
            change("tool/find@1.0.0", v1::ChangeAction::Register, &digest),
            change("tool/find@0.9.0", v1::ChangeAction::Deprecate, ""),
            change("schema/A@1.0.0", v1::ChangeAction::Unchanged, &digest),
        ]);
        assert_eq!(
            plan.table().render(Style::Plain),
            "   EFFECT     KIND    NAME  VERSION  DIGEST\n\
             +  register   tool    find  1.0.0    abababababab\n\
             ~  deprecate  tool    find  0.9.0\n\
             =  unchanged  schema  A     1.0.0    abababababab\n"
        );
        assert_eq!(plan.counts(), "1 register, 1 deprecate, 1 unchanged");
        assert_eq!(plan.effective(), 2);
        let change = |action| change("tool/find@0.9.0", action, "");
        let (same, deprecate) = (v1::ChangeAction::Unchanged, v1::ChangeAction::Deprecate);
        assert_eq!(Plan::new(vec![change(same), change(same)]).counts(), "1 unchanged");
        let changed = Plan::new(vec![change(same), change(deprecate)]);
        assert_eq!(changed.counts(), "1 deprecate, 1 unchanged");
        assert_eq!(Plan::new(Vec::new()).counts(), "nothing");
    }
}
