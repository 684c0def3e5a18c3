//! `revert REVISION`: a new commit that undoes the changes of one revision.
//!
//! The log keeps both commits. Reverting a registration retires the version: registered versions are
//! permanent. A change that a later revision overrode is not reverted, nor is a new version of a policy
//! that was in force: the earlier version would stay out of force.

use std::collections::HashMap;

use registry_core::{Key, Kind};
use registry_proto::{
    convert,
    v1::{self, revision_difference::Difference, setting_change::Setting},
};

use super::{
    Session, commit, lifecycle::note_version_in_force, lock::at, policy::highest_release, review,
};
use crate::{
    cli::RevertArgs,
    client::{Client, PAGE_SIZE, request},
    failure::Failure,
};

/// Maximum number of characters of the reverted message in the new message.
const QUOTED_CHARS: usize = 200;

pub(super) async fn run(session: &Session, args: RevertArgs) -> Result<(), Failure> {
    let RevertArgs { revision, confirm, message, commit: author } = args;
    if revision == 0 {
        return Err(Failure::Usage(
            "revision 0 is the empty registry; the first revision is 1".to_owned(),
        ));
    }
    let client = session.connect().await?;
    let wanted = v1::GetCommitRequest { revision, ..Default::default() };
    let response = client.answer(client.history().get_commit(request(wanted))).await?;
    let reverted = response.commit.unwrap_or_default();
    let mut undo = Undo::new(&client, revision).await?;
    for difference in undo.differences().await? {
        undo.add(difference).await?;
    }
    let Undo { head, changes, settings, obstacles, .. } = undo;
    if !obstacles.is_empty() {
        let reasons = obstacles.join("\n  ");
        let message = format!("revision {revision} cannot be reverted:\n  {reasons}");
        return Err(Failure::Rejected(message));
    }
    let message = message.unwrap_or_else(|| match reverted.message.as_str() {
        "" => format!("Revert revision {revision}"),
        text => {
            let text: String = text.chars().take(QUOTED_CHARS).collect();
            format!("Revert revision {revision}: {text}")
        }
    });
    let mut wanted = commit::new_request(changes, message, author, &session.globals.access);
    wanted.settings = settings;
    wanted.base_revision = wanted.base_revision.or(Some(head));
    review::run(session, &client, &wanted, confirm).await
}

/// The batch that undoes a revision.
struct Undo<'a> {
    client: &'a Client,
    /// The reverted revision.
    revision: u64,
    /// The current revision.
    head: u64,
    /// The current settings.
    current: HashMap<String, v1::SettingState>,
    changes: Vec<v1::EntityChange>,
    settings: Vec<v1::SettingChange>,
    /// The reasons why the revision cannot be reverted.
    obstacles: Vec<String>,
}

impl<'a> Undo<'a> {
    async fn new(client: &'a Client, revision: u64) -> Result<Self, Failure> {
        let head = client.head().await?.0;
        let mut current = HashMap::new();
        let mut wanted = v1::ListSettingsRequest {
            page_size: PAGE_SIZE,
            at: Some(at(head)),
            ..Default::default()
        };
        loop {
            let call = request(wanted.clone());
            let page = client.answer(client.registry().list_settings(call)).await?;
            current.extend(page.settings.into_iter().map(|state| (state.target.clone(), state)));
            wanted.page_token = page.next_page_token;
            if wanted.page_token.is_empty() {
                break;
            }
        }
        let (changes, settings, obstacles) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { client, revision, head, current, changes, settings, obstacles })
    }

    /// The changes of the revision.
    async fn differences(&self) -> Result<Vec<Difference>, Failure> {
        let mut wanted = v1::CompareRevisionsRequest {
            old_point: Some(at(self.revision - 1)),
            new_point: Some(at(self.revision)),
            page_size: PAGE_SIZE,
            ..v1::CompareRevisionsRequest::default()
        };
        let mut all = Vec::new();
        loop {
            let client = self.client;
            let page =
                client.answer(client.history().compare_revisions(request(wanted.clone()))).await?;
            all.extend(page.differences.into_iter().filter_map(|found| found.difference));
            if page.next_page_token.is_empty() {
                return Ok(all);
            }
            wanted.page_token = page.next_page_token;
        }
    }

    async fn add(&mut self, difference: Difference) -> Result<(), Failure> {
        match difference {
            Difference::Entity(v1::EntityDifference {
                old_record: old, new_record: new, ..
            }) => {
                let new = new.ok_or_else(|| Failure::invalid_response("an entity disappeared"))?;
                let lifecycle = |record: v1::EntityRecord| record.lifecycle.unwrap_or_default();
                let old = old.map(lifecycle);
                self.entity(new.key.clone(), old, &lifecycle(new)).await
            }
            Difference::Setting(difference) => {
                self.setting(difference);
                Ok(())
            }
        }
    }

    async fn entity(
        &mut self,
        key: Option<v1::EntityKey>,
        old: Option<v1::Lifecycle>,
        new: &v1::Lifecycle,
    ) -> Result<(), Failure> {
        let wanted = v1::GetEntityRequest {
            key: key.clone(),
            at: Some(at(self.head)),
            ..Default::default()
        };
        let is_registration = old.is_none();
        let found = self.client.answer(self.client.registry().get_entity(request(wanted))).await?;
        let now = found.record.and_then(|record| record.lifecycle).unwrap_or_default();
        let (is_done, restored) = match old {
            None => {
                let message = Some(format!("revision {} was reverted", self.revision));
                let state = v1::LifecycleState::Retired.into();
                let retired = v1::Lifecycle { state, message, ..v1::Lifecycle::default() };
                (now.state == state, retired)
            }
            Some(old) => (is_same(&now, &old), old),
        };
        if is_done {
            return Ok(());
        }
        let parsed = review::key_of(key.clone())?;
        if !is_same(&now, new) {
            let revision = now.revision;
            self.obstacles.push(format!(
                "{parsed} was changed again in revision {revision}; revert that revision first"
            ));
            return Ok(());
        }
        if parsed.kind == Kind::Policy {
            if is_registration && let Some(obstacle) = self.replaced_policy(&parsed).await? {
                self.obstacles.push(obstacle);
                return Ok(());
            }
            if let Ok(state) = convert::state(restored.state) {
                note_version_in_force(self.client, &parsed, state, self.head).await?;
            }
        }
        self.changes.push(set_lifecycle(key, restored));
        Ok(())
    }

    /// The obstacle if a new version of a policy is in force and replaced another one.
    async fn replaced_policy(&self, new: &Key) -> Result<Option<String>, Failure> {
        let Key { name, version, .. } = new;
        let highest = highest_release(self.client, name, self.head).await?;
        if highest.is_none_or(|(highest, _)| highest != *version) {
            return Ok(None);
        }
        let before = highest_release(self.client, name, self.revision - 1).await?;
        Ok(before.filter(|(_, is_retired)| !is_retired).map(|(before, _)| {
            format!(
                "{new} replaced version {before}, which is never in force again, so that the revert \
                 would turn the policy off; register its content again with `registryctl policy \
                 rollback {name} {before}`"
            )
        }))
    }

    fn setting(&mut self, difference: v1::SettingDifference) {
        let v1::SettingDifference { old_settings, new_settings, old_owner, .. } = difference;
        let (old, new) = (old_settings.unwrap_or_default(), new_settings.unwrap_or_default());
        let target = if new.target.is_empty() { old.target.clone() } else { new.target.clone() };
        let now = self.current.get(&target).cloned().unwrap_or_default();
        let mut undo = |is_changed: bool,
                        is_kept: bool,
                        is_done: bool,
                        setting: Option<Setting>| {
            if !is_changed || is_done {
                return;
            }
            match setting {
                _ if !is_kept => self.obstacles.push(format!(
                    "the settings of {target} were changed again in revision {}; revert that revision \
                     first",
                    now.revision
                )),
                Some(setting) => {
                    let target = target.clone();
                    self.settings.push(v1::SettingChange { target, setting: Some(setting) });
                }
                None => self.obstacles.push(format!(
                    "{target} had no owner before, and an owner cannot be removed; set another owner \
                     with `registryctl transfer`"
                )),
            }
        };
        undo(
            old.archived != new.archived,
            now.archived == new.archived,
            now.archived == old.archived,
            Some(Setting::Archived(old.archived)),
        );
        undo(
            mode(&old) != mode(&new),
            mode(&now) == mode(&new),
            mode(&now) == mode(&old),
            Some(Setting::Compatibility(mode(&old).into())),
        );
        undo(
            old.owner != new.owner,
            now.owner == new.owner,
            now.owner == old.owner,
            old.owner.clone().or(old_owner).map(Setting::Owner),
        );
    }
}

/// The compatibility mode of a target. A target without settings inherits it.
fn mode(state: &v1::SettingState) -> v1::CompatibilityMode {
    match state.compatibility() {
        v1::CompatibilityMode::Unspecified => v1::CompatibilityMode::Inherit,
        mode => mode,
    }
}

/// Whether two lifecycles are equal, apart from the time of the change.
fn is_same(a: &v1::Lifecycle, b: &v1::Lifecycle) -> bool {
    let timeless =
        |of: &v1::Lifecycle| v1::Lifecycle { revision: 0, change_time: None, ..of.clone() };
    timeless(a) == timeless(b)
}

fn set_lifecycle(key: Option<v1::EntityKey>, to: v1::Lifecycle) -> v1::EntityChange {
    let v1::Lifecycle { state, message, replacement, sunset_date, force_reason, .. } = to;
    let set = v1::SetLifecycle { key, state, message, replacement, sunset_date, force_reason };
    v1::EntityChange { change: Some(v1::entity_change::Change::SetLifecycle(set)), if_digest: None }
}
