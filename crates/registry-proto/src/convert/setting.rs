//! Settings: what is wanted, what was committed, and what holds.

use registry_core::{
    Revision, Selector, Setting, SettingChange,
    compatibility::InvalidMode,
    setting::{InvalidSelector, SelectorSettings},
};

use crate::v1;

/// Why a message is not a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSetting {
    /// What it is about.
    #[error(transparent)]
    On(#[from] InvalidSelector),
    /// Nothing is set.
    #[error("the setting of {0} is empty: neither archived, owner nor compatibility is set")]
    Unset(Selector),
    /// A mode of compatibility that does not exist.
    #[error(transparent)]
    Mode(#[from] InvalidMode),
}

impl TryFrom<v1::SettingChange> for SettingChange {
    type Error = InvalidSetting;

    fn try_from(
        v1::SettingChange { on, setting }: v1::SettingChange,
    ) -> Result<Self, InvalidSetting> {
        use v1::setting_change::Setting as Wire;
        let on: Selector = on.parse()?;
        let setting = match setting {
            None => return Err(InvalidSetting::Unset(on)),
            Some(Wire::Archived(archived)) => Setting::Archived(archived),
            Some(Wire::Owner(owner)) => Setting::Owner(owner),
            Some(Wire::Compatibility(mode)) if mode.is_empty() => Setting::Compatibility(None),
            Some(Wire::Compatibility(mode)) => Setting::Compatibility(Some(mode.parse()?)),
        };
        Ok(Self { on, setting })
    }
}

impl From<&SettingChange> for v1::SettingChange {
    fn from(SettingChange { on, setting }: &SettingChange) -> Self {
        use v1::setting_change::Setting as Wire;
        let setting = match setting {
            Setting::Archived(archived) => Wire::Archived(*archived),
            Setting::Owner(owner) => Wire::Owner(owner.clone()),
            Setting::Compatibility(mode) => {
                Wire::Compatibility(mode.map_or_else(String::new, |mode| mode.to_string()))
            }
        };
        Self { on: on.to_string(), setting: Some(setting) }
    }
}

/// Writes what is set about one selector.
pub fn setting_state(on: &Selector, set: &SelectorSettings) -> v1::SettingState {
    let SelectorSettings { archived, owner, compatibility, revision } = set;
    v1::SettingState {
        on: on.to_string(),
        archived: *archived,
        owner: owner.clone(),
        compatibility: compatibility.map(|mode| mode.to_string()),
        revision: revision.0,
    }
}

/// Reads a part of the settings of a snapshot.
pub fn settings(
    states: Vec<v1::SettingState>,
) -> Result<Vec<(Selector, SelectorSettings)>, InvalidSetting> {
    let read = |state: v1::SettingState| {
        let v1::SettingState { on, archived, owner, compatibility, revision } = state;
        let compatibility = compatibility.map(|mode| mode.parse()).transpose()?;
        let revision = Revision(revision);
        Ok((on.parse()?, SelectorSettings { archived, owner, compatibility, revision }))
    };
    states.into_iter().map(read).collect()
}
