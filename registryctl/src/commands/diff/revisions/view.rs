//! One difference between two revisions, as JSON and as a line.

use std::fmt;

use registry_proto::v1::{self, revision_difference::Difference as Wire};
use serde::Serialize;

use super::mark;
use crate::{
    commands::get,
    diff::{Difference, diff},
    failure::Failure,
    style::Paint,
    view::{RecordView, mode_text},
};

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum DifferenceView {
    Entity(Box<EntityView>),
    Setting(Box<SettingView>),
}

/// A registered entity, or one with another lifecycle.
#[derive(Serialize)]
pub(super) struct EntityView {
    change: Change,
    entity: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<RecordView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<RecordView>,
    /// The version that the document is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) against: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) differences: Vec<Difference>,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Change {
    Registered,
    /// Registered later; the differences are reversed.
    Unregistered,
    Lifecycle,
    Settings,
}

/// Changed settings of a name, a namespace or the registry.
#[derive(Serialize)]
pub(super) struct SettingView {
    change: Change,
    target: String,
    old: StateView,
    new: StateView,
}

#[derive(Serialize)]
struct StateView {
    archived: bool,
    owner: Option<String>,
    compatibility: Option<String>,
    revision: u64,
}

impl TryFrom<Wire> for DifferenceView {
    type Error = Failure;

    fn try_from(difference: Wire) -> Result<Self, Failure> {
        match difference {
            Wire::Entity(entity) => Ok(Self::Entity(Box::new(EntityView::try_from(entity)?))),
            Wire::Setting(setting) => Ok(Self::Setting(Box::new(setting.into()))),
        }
    }
}

impl TryFrom<v1::EntityDifference> for EntityView {
    type Error = Failure;

    fn try_from(difference: v1::EntityDifference) -> Result<Self, Failure> {
        let v1::EntityDifference { old_record: old, new_record: new, earlier_record: earlier } =
            difference;
        let content = |record: Option<&v1::EntityRecord>| record.map(get::content).transpose();
        let differences = match (content(earlier.as_ref())?, &old, &new) {
            (Some(earlier), None, Some(new)) => diff(&earlier, &get::content(new)?),
            (Some(earlier), Some(old), None) => diff(&get::content(old)?, &earlier),
            _ => Vec::new(),
        };
        let change = match (&old, &new) {
            (None, Some(_)) => Change::Registered,
            (Some(_), None) => Change::Unregistered,
            (Some(_), Some(_)) => Change::Lifecycle,
            (None, None) => return Err(Failure::invalid_response("an entity has no record")),
        };
        let view = |record: v1::EntityRecord| RecordView { document: None, ..record.into() };
        let (old, new) = (old.map(view), new.map(view));
        let entity = old.as_ref().or(new.as_ref()).map(|record| record.key.to_string());
        let against = earlier.map(|earlier| view(earlier).key.to_string());
        Ok(Self { change, entity: entity.unwrap_or_default(), old, new, against, differences })
    }
}

impl From<v1::SettingDifference> for SettingView {
    fn from(difference: v1::SettingDifference) -> Self {
        let v1::SettingDifference { old_settings, new_settings, old_owner, new_owner } = difference;
        let target =
            new_settings.as_ref().or(old_settings.as_ref()).map(|state| state.target.clone());
        let state = |state: Option<v1::SettingState>, owner: Option<String>| {
            let v1::SettingState { target: _, archived, owner: set, compatibility, revision } =
                state.unwrap_or_default();
            let compatibility = mode_text(compatibility);
            // The owner of a name, also without an explicit setting.
            StateView { archived, owner: owner.or(set), compatibility, revision }
        };
        let (old, new) = (state(old_settings, old_owner), state(new_settings, new_owner));
        Self { change: Change::Settings, target: target.unwrap_or_default(), old, new }
    }
}

impl DifferenceView {
    /// The mark, its color and the line.
    pub(super) fn headline(&self) -> (&'static str, Paint, String) {
        match self {
            Self::Entity(entity) => {
                let (mark, paint) = mark(entity.old.as_ref(), entity.new.as_ref());
                (mark, paint, format!("{}  {}", entity.entity, entity.summary()))
            }
            Self::Setting(setting) => {
                ("~", Paint::Careful, format!("{}  {}", setting.target, setting.summary()))
            }
        }
    }
}

impl EntityView {
    fn summary(&self) -> String {
        let registered = |record: &RecordView| {
            let at = record.registered_at.as_deref().unwrap_or("an unknown time");
            format!("registered in revision {}, {at}", record.registered_revision)
        };
        let state = |record: &RecordView| match record.lifecycle.state {
            "active" => String::new(),
            state => format!("; {state}{}", reason(record)),
        };
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => {
                let (before, after) = (old.lifecycle.state, new.lifecycle.state);
                let revision = new.lifecycle.revision;
                format!("{before} -> {after} in revision {revision}{}", reason(new))
            }
            (None, Some(new)) => format!("{}{}", registered(new), state(new)),
            (Some(old), None) => format!("not yet registered; {}", registered(old)),
            (None, None) => String::new(),
        }
    }
}

fn reason(record: &RecordView) -> String {
    let reasons = record.lifecycle.reasons();
    if reasons.is_empty() { reasons } else { format!(": {reasons}") }
}

impl SettingView {
    fn summary(&self) -> String {
        let Self { old, new, .. } = self;
        let mut parts = Vec::new();
        let mut part = |name: &str, old: &Option<String>, new: &Option<String>, none: &str| {
            if old != new {
                let text =
                    |value: &Option<String>| value.clone().unwrap_or_else(|| none.to_owned());
                parts.push(format!("{name}: {} -> {}", text(old), text(new)));
            }
        };
        part("owner", &old.owner, &new.owner, "none");
        part("compatibility", &old.compatibility, &new.compatibility, "inherited");
        if old.archived != new.archived {
            parts.push((if new.archived { "archived" } else { "not archived" }).to_owned());
        }
        if parts.is_empty() {
            // The explicit owner equals the implicit one.
            parts.push("owner set".to_owned());
        }
        parts.join(", ")
    }
}

/// The number of differences by kind of change.
#[derive(Default)]
pub(super) struct Counts {
    registered: usize,
    unregistered: usize,
    lifecycle: usize,
    settings: usize,
}

impl Counts {
    pub(super) fn add(&mut self, difference: &DifferenceView) {
        let change = match difference {
            DifferenceView::Entity(entity) => entity.change,
            DifferenceView::Setting(setting) => setting.change,
        };
        *match change {
            Change::Registered => &mut self.registered,
            Change::Unregistered => &mut self.unregistered,
            Change::Lifecycle => &mut self.lifecycle,
            Change::Settings => &mut self.settings,
        } += 1;
    }

    pub(super) fn total(&self) -> usize {
        self.registered + self.unregistered + self.lifecycle + self.settings
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.registered, "registered"),
            (self.unregistered, "not yet registered"),
            (self.lifecycle, "with changed lifecycle"),
            (self.settings, "with changed settings"),
        ];
        let some = counts.iter().filter(|(count, _)| *count > 0);
        let texts: Vec<_> = some.map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(&texts.join(", "))
    }
}
