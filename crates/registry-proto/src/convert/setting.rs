//! Converts settings and their changes.

use registry_core::{
    Revision, Selector, Setting, SettingChange,
    compatibility::Mode,
    setting::{InvalidSelector, SelectorSettings},
};

use crate::v1;

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSetting {
    /// An invalid target.
    #[error(transparent)]
    Target(#[from] InvalidSelector),
    /// The message is empty.
    #[error("the setting of {0} is empty: neither archived, owner nor compatibility is set")]
    Unset(Selector),
    /// A compatibility mode that is missing or unknown.
    #[error("missing or unknown compatibility mode {0}")]
    Mode(i32),
}

impl TryFrom<v1::SettingChange> for SettingChange {
    type Error = InvalidSetting;

    fn try_from(
        v1::SettingChange { target, setting }: v1::SettingChange,
    ) -> Result<Self, InvalidSetting> {
        use v1::setting_change::Setting as Wire;
        let target: Selector = target.parse()?;
        let setting = match setting {
            None => return Err(InvalidSetting::Unset(target)),
            Some(Wire::Archived(archived)) => Setting::Archived(archived),
            Some(Wire::Owner(owner)) => Setting::Owner(owner),
            Some(Wire::Compatibility(mode)) => Setting::Compatibility(compatibility_mode(mode)?),
        };
        Ok(Self { target, setting })
    }
}

impl From<&SettingChange> for v1::SettingChange {
    fn from(SettingChange { target, setting }: &SettingChange) -> Self {
        use v1::setting_change::Setting as Wire;
        let setting = match setting {
            Setting::Archived(archived) => Wire::Archived(*archived),
            Setting::Owner(owner) => Wire::Owner(owner.clone()),
            Setting::Compatibility(mode) => {
                Wire::Compatibility(compatibility_mode_number(*mode).into())
            }
        };
        Self { target: target.to_string(), setting: Some(setting) }
    }
}

/// Reads a compatibility mode. `None` inherits it.
pub fn compatibility_mode(number: i32) -> Result<Option<Mode>, InvalidSetting> {
    use v1::CompatibilityMode as Wire;
    Ok(Some(match Wire::try_from(number) {
        Ok(Wire::Unspecified) | Err(_) => return Err(InvalidSetting::Mode(number)),
        Ok(Wire::Inherit) => return Ok(None),
        Ok(Wire::None) => Mode::None,
        Ok(Wire::Backward) => Mode::Backward,
        Ok(Wire::Forward) => Mode::Forward,
        Ok(Wire::Full) => Mode::Full,
        Ok(Wire::BackwardTransitive) => Mode::BackwardTransitive,
        Ok(Wire::ForwardTransitive) => Mode::ForwardTransitive,
        Ok(Wire::FullTransitive) => Mode::FullTransitive,
    }))
}

fn compatibility_mode_number(mode: Option<Mode>) -> v1::CompatibilityMode {
    use v1::CompatibilityMode as Wire;
    match mode {
        None => Wire::Inherit,
        Some(Mode::None) => Wire::None,
        Some(Mode::Backward) => Wire::Backward,
        Some(Mode::Forward) => Wire::Forward,
        Some(Mode::Full) => Wire::Full,
        Some(Mode::BackwardTransitive) => Wire::BackwardTransitive,
        Some(Mode::ForwardTransitive) => Wire::ForwardTransitive,
        Some(Mode::FullTransitive) => Wire::FullTransitive,
    }
}

/// Writes the settings of a target.
pub fn setting_state(target: &Selector, set: &SelectorSettings) -> v1::SettingState {
    let SelectorSettings { archived, owner, compatibility, revision } = set;
    v1::SettingState {
        target: target.to_string(),
        archived: *archived,
        owner: owner.clone(),
        compatibility: compatibility_mode_number(*compatibility).into(),
        revision: revision.0,
    }
}

/// Reads the settings of a snapshot.
pub fn settings(
    states: Vec<v1::SettingState>,
) -> Result<Vec<(Selector, SelectorSettings)>, InvalidSetting> {
    let read = |state: v1::SettingState| {
        let v1::SettingState { target, archived, owner, compatibility, revision } = state;
        let compatibility = compatibility_mode(compatibility)?;
        let revision = Revision(revision);
        Ok((target.parse()?, SelectorSettings { archived, owner, compatibility, revision }))
    };
    states.into_iter().map(read).collect()
}
