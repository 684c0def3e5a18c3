//! Commits, their changes and the history of entities in the output of commands.

use registry_proto::{
    convert::authentication_text,
    v1::{self, entity_event::Event},
};
use serde::Serialize;

use super::{KeyView, SettingView, key_text, parts, time_text};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommitView {
    pub(crate) revision: u64,
    pub(crate) author: String,
    pub(crate) committed_at: Option<String>,
    pub(crate) message: String,
    pub(crate) request_id: Option<String>,
    pub(crate) chain: String,
    pub(crate) changes: Vec<ChangeView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) settings: Vec<SettingView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<OriginView>,
    /// The canonical JSON that the chain covers, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) canonical: Option<String>,
}

/// The authentication and address of an author.
#[derive(Debug, Serialize)]
pub(crate) struct OriginView {
    pub(crate) method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) team: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangeView {
    pub(crate) action: String,
    #[serde(flatten)]
    pub(crate) key: KeyView,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replacement: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sunset_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) force_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// The policies in force that the document does not fit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) broken_policies: Vec<String>,
}

impl From<v1::RegistryCommit> for CommitView {
    fn from(commit: v1::RegistryCommit) -> Self {
        let v1::RegistryCommit {
            revision,
            author,
            commit_time,
            message,
            request_id,
            changes,
            settings,
            chain,
            canonical,
            origin,
        } = commit;
        let origin = origin.map(|origin| {
            let v1::CommitOrigin { authentication, team, address } = origin;
            let method = authentication_text(&authentication.unwrap_or_default());
            OriginView { method, team, address }
        });
        Self {
            revision,
            author,
            committed_at: time_text(commit_time),
            message,
            request_id: Some(request_id).filter(|id| !id.is_empty()),
            chain,
            changes: changes.into_iter().map(ChangeView::from).collect(),
            settings: settings.into_iter().map(SettingView::from).collect(),
            origin,
            canonical: canonical.and_then(|bytes| String::from_utf8(bytes.into()).ok()),
        }
    }
}

impl From<v1::CommittedChange> for ChangeView {
    fn from(change: v1::CommittedChange) -> Self {
        let v1::CommittedChange {
            key,
            action,
            digest,
            message,
            replacement,
            sunset_date,
            force_reason,
            owner,
            broken_policies,
        } = change;
        let action = action_text(action).to_owned();
        let key = key.unwrap_or_default().into();
        let replacement = replacement.map(key_text);
        let broken_policies = broken_policies.into_iter().map(key_text).collect();
        Self {
            action,
            key,
            digest,
            reason: message,
            replacement,
            sunset_date,
            force_reason,
            owner,
            broken_policies,
        }
    }
}

fn action_text(number: i32) -> &'static str {
    match v1::ChangeAction::try_from(number) {
        Ok(v1::ChangeAction::Unchanged) => "unchanged",
        Ok(v1::ChangeAction::Register) => "register",
        Ok(v1::ChangeAction::Deprecate) => "deprecate",
        Ok(v1::ChangeAction::Retire) => "retire",
        Ok(v1::ChangeAction::Restore) => "restore",
        Ok(v1::ChangeAction::Unspecified) | Err(_) => "unknown",
    }
}

impl OriginView {
    /// `token ci, team docs, from 10.0.0.1`.
    pub(crate) fn text(&self) -> String {
        let team = self.team.as_ref().map(|team| format!(", team {team}")).unwrap_or_default();
        let from = self.address.as_ref().map(|from| format!(", from {from}")).unwrap_or_default();
        format!("{}{team}{from}", self.method)
    }
}

impl ChangeView {
    /// The reasons of a lifecycle change, on one line.
    pub(crate) fn reasons(&self) -> String {
        self.parts().collect::<Vec<_>>().join("; ")
    }

    fn parts(&self) -> impl Iterator<Item = String> {
        let broken = self.broken_policies.iter().map(|policy| format!("breaks {policy}"));
        parts([&self.reason, &self.replacement, &self.sunset_date, &self.force_reason])
            .chain(broken)
    }
}

impl CommitView {
    /// `3 register, 1 retire`.
    pub(crate) fn summary(&self) -> String {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for change in &self.changes {
            match counts.iter_mut().find(|(action, _)| *action == change.action) {
                Some((_, count)) => *count += 1,
                None => counts.push((&change.action, 1)),
            }
        }
        let mut counts: Vec<_> =
            counts.into_iter().map(|(action, count)| format!("{count} {action}")).collect();
        counts.extend(self.settings.iter().map(ToString::to_string));
        counts.join(", ")
    }

    /// The message and the first distinct reasons of the changes.
    pub(crate) fn reasons(&self) -> String {
        const MOST: usize = 4;
        let reasons = self.changes.iter().flat_map(ChangeView::parts);
        let mut parts: Vec<String> = Vec::new();
        for part in std::iter::once(self.message.clone()).chain(reasons) {
            if part.is_empty() || parts.contains(&part) {
                continue;
            }
            if parts.len() > MOST {
                parts.push("…".to_owned());
                break;
            }
            parts.push(part);
        }
        parts.join("; ")
    }
}

/// A change of an entity or of a setting of its name, with its commit.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventView {
    pub(crate) revision: u64,
    pub(crate) committed_at: Option<String>,
    pub(crate) author: String,
    pub(crate) message: String,
    #[serde(flatten)]
    pub(crate) change: Option<ChangeView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) setting: Option<SettingView>,
}

impl From<v1::EntityEvent> for EventView {
    fn from(event: v1::EntityEvent) -> Self {
        let v1::EntityEvent { event, revision, author, commit_time, message } = event;
        let (change, setting) = match event {
            Some(Event::Change(change)) => (Some(change.into()), None),
            Some(Event::Setting(setting)) => (None, Some(setting.into())),
            None => (None, None),
        };
        Self { revision, committed_at: time_text(commit_time), author, message, change, setting }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_reasons_are_distinct_and_limited() {
        let change = |reason: &str, sunset: Option<&str>| v1::CommittedChange {
            action: v1::ChangeAction::Deprecate.into(),
            message: Some(reason.to_owned()),
            sunset_date: sunset.map(str::to_owned),
            ..Default::default()
        };
        let reasons = |message: &str, changes: Vec<_>| {
            CommitView::from(v1::RegistryCommit {
                message: message.to_owned(),
                changes,
                ..Default::default()
            })
            .reasons()
        };
        assert_eq!(reasons("", vec![change("slow", None), change("slow", None)]), "slow");
        assert_eq!(
            reasons("m", vec![change("slow", Some("2027-01-31"))]),
            "m; slow; sunset: 2027-01-31"
        );
        assert_eq!(reasons("slow", vec![change("slow", None)]), "slow");
        assert_eq!(
            reasons("slow", vec![change("slow", Some("2027-01-31"))]),
            "slow; sunset: 2027-01-31"
        );
        let many = ["a", "b", "c", "d", "e"].map(|reason| change(reason, None));
        assert_eq!(reasons("m", many.to_vec()), "m; a; b; c; d; …");
        assert_eq!(reasons("", Vec::new()), "");
    }
}
