//! What a name promises to those who use it, as a setting.
//!
//! Deliberately absent: where settings are kept.

use std::{fmt, str::FromStr};

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

/// What new versions of a name are held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing is compared.
    None,
    /// Compared in this direction.
    Held {
        /// The direction.
        direction: Direction,
        /// With all earlier versions of the same compatibility line, not only with the newest.
        is_transitive: bool,
    },
}

impl Default for Mode {
    fn default() -> Self {
        Self::Held { direction: Direction::Backward, is_transitive: false }
    }
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::held(Direction::Backward, false),
        Self::held(Direction::Backward, true),
        Self::held(Direction::Forward, false),
        Self::held(Direction::Forward, true),
        Self::held(Direction::Full, false),
        Self::held(Direction::Full, true),
    ];

    const fn held(direction: Direction, is_transitive: bool) -> Self {
        Self::Held { direction, is_transitive }
    }

    /// The mode as it is written: `backward_transitive`.
    pub fn as_str(self) -> &'static str {
        let Self::Held { direction, is_transitive } = self else { return "none" };
        match (direction, is_transitive) {
            (Direction::Backward, false) => "backward",
            (Direction::Backward, true) => "backward_transitive",
            (Direction::Forward, false) => "forward",
            (Direction::Forward, true) => "forward_transitive",
            (Direction::Full, false) => "full",
            (Direction::Full, true) => "full_transitive",
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
    "`{0}` is not a compatibility mode; the modes are none, backward, forward and full, and each \
     of the last three with `_transitive`"
)]
pub struct InvalidMode(String);

impl FromStr for Mode {
    type Err = InvalidMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        found.ok_or_else(|| InvalidMode(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::Mode;

    #[test]
    fn modes_read_back_as_they_print() {
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert_eq!(Mode::default().to_string(), "backward");
        assert!("BACKWARD".parse::<Mode>().unwrap_err().to_string().contains("`BACKWARD`"));
    }
}
