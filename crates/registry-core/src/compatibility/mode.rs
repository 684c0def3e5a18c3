//! How compatible new versions have to be with earlier ones.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// In which direction a change must be safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// What worked with the old version works with the new one.
    Backward,
    /// What works with the new version worked with the old one.
    Forward,
    /// Both.
    Full,
}

impl Direction {
    /// Says that the versions are not compatible in this direction.
    pub fn broken(self, old: &impl fmt::Display, new: &impl fmt::Display) -> String {
        match self {
            Self::Backward => format!("{new} breaks what {old} promises"),
            Self::Forward => format!("{old} breaks what {new} promises"),
            Self::Full => format!("{old} and {new} cannot each take the other's place"),
        }
    }
}

/// What a new version must be compatible with, in which direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Nothing.
    None,
    /// Whoever used the version before may use the new one.
    #[default]
    Backward,
    /// Whoever uses the new version may use the one before.
    Forward,
    /// Both.
    Full,
    /// As `backward`, with every earlier version.
    BackwardTransitive,
    /// As `forward`, with every earlier version.
    ForwardTransitive,
    /// As `full`, with every earlier version.
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

    /// The direction in which versions are compared, if they are.
    pub fn direction(self) -> Option<Direction> {
        match self {
            Self::None => None,
            Self::Backward | Self::BackwardTransitive => Some(Direction::Backward),
            Self::Forward | Self::ForwardTransitive => Some(Direction::Forward),
            Self::Full | Self::FullTransitive => Some(Direction::Full),
        }
    }

    /// Whether all earlier versions of the line are compared, not only the newest.
    pub fn is_transitive(self) -> bool {
        matches!(self, Self::BackwardTransitive | Self::ForwardTransitive | Self::FullTransitive)
    }

    /// The mode as it is written: `backward_transitive`.
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

/// A text that is not a mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a mode of compatibility; the modes are none, backward, forward, full, \
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
    fn modes_read_back_as_they_print() {
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
            assert_eq!(mode.is_transitive(), mode.as_str().ends_with("_transitive"));
        }
        assert_eq!(Mode::default().to_string(), "backward");
        assert!("BACKWARD".parse::<Mode>().unwrap_err().to_string().contains("`BACKWARD`"));
    }
}
