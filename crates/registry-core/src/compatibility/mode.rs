//! Compatibility modes: the required compatibility of new versions with earlier ones.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The required direction of compatibility.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompatibilityDirection {
    /// Users of the old version can switch to the new one.
    Backward,
    /// Users of the new version can switch to the old one.
    Forward,
    /// Both directions.
    Full,
}

impl CompatibilityDirection {
    /// Describes a violation in this direction.
    pub fn broken(self, old: &impl fmt::Display, new: &impl fmt::Display) -> String {
        match self {
            Self::Backward => format!("{new} is not backward compatible with {old}"),
            Self::Forward => format!("{new} is not forward compatible with {old}"),
            Self::Full => format!("{new} is not fully compatible with {old}"),
        }
    }
}

/// The compatibility that a registry requires of new versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// No requirement.
    None,
    /// Users of the previous version can switch to the new one.
    #[default]
    Backward,
    /// Users of the new version can switch to the previous one.
    Forward,
    /// Both directions.
    Full,
    /// Like `backward`, but with every earlier version.
    BackwardTransitive,
    /// Like `forward`, but with every earlier version.
    ForwardTransitive,
    /// Like `full`, but with every earlier version.
    FullTransitive,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Backward,
        Self::Forward,
        Self::Full,
        Self::BackwardTransitive,
        Self::ForwardTransitive,
        Self::FullTransitive,
    ];

    /// The direction of the comparison; `None` if versions are not compared.
    pub fn direction(self) -> Option<CompatibilityDirection> {
        match self {
            Self::None => None,
            Self::Backward | Self::BackwardTransitive => Some(CompatibilityDirection::Backward),
            Self::Forward | Self::ForwardTransitive => Some(CompatibilityDirection::Forward),
            Self::Full | Self::FullTransitive => Some(CompatibilityDirection::Full),
        }
    }

    /// Whether every earlier version of the line is compared instead of only the newest.
    pub fn is_transitive(self) -> bool {
        matches!(self, Self::BackwardTransitive | Self::ForwardTransitive | Self::FullTransitive)
    }

    /// The serialized name: `backward_transitive`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Backward => "backward",
            Self::Forward => "forward",
            Self::Full => "full",
            Self::BackwardTransitive => "backward_transitive",
            Self::ForwardTransitive => "forward_transitive",
            Self::FullTransitive => "full_transitive",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not a compatibility mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a compatibility mode; the modes are none, backward, forward, full, \
     backward_transitive, forward_transitive and full_transitive"
)]
pub struct InvalidMode(String);

impl FromStr for Mode {
    type Err = InvalidMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| InvalidMode(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::Mode;

    #[test]
    fn mode_round_trips_through_text() {
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
            assert_eq!(mode.is_transitive(), mode.as_str().ends_with("_transitive"));
        }
        assert_eq!(Mode::default().to_string(), "backward");
        assert!("BACKWARD".parse::<Mode>().unwrap_err().to_string().contains("`BACKWARD`"));
    }
}
