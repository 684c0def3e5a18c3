//! Classes of sensitive values.

use std::{fmt, str::FromStr};

/// A class of values. Policies state an action for each class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Keys, tokens and passwords.
    Credential,
    /// Card and account numbers.
    Financial,
    /// Numbers that a state issued to a person.
    GovernmentId,
    /// E-mail addresses and phone numbers.
    Contact,
    /// IP and MAC addresses.
    Network,
}

/// The name of no class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown class `{0}`: use credential, financial, governmentId, contact or network")]
pub struct UnknownClass(String);

impl Class {
    /// All classes.
    pub const ALL: [Self; 5] =
        [Self::Credential, Self::Financial, Self::GovernmentId, Self::Contact, Self::Network];

    /// The name in policies and placeholders.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Credential => "credential",
            Self::Financial => "financial",
            Self::GovernmentId => "governmentId",
            Self::Contact => "contact",
            Self::Network => "network",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Class {
    type Err = UnknownClass;

    fn from_str(text: &str) -> Result<Self, UnknownClass> {
        let found = Self::ALL.into_iter().find(|class| class.as_str() == text);
        found.ok_or_else(|| UnknownClass(text.to_owned()))
    }
}

/// A set of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Classes(u8);

impl Classes {
    /// Whether the set has the class.
    pub fn contains(self, class: Class) -> bool {
        self.0 & Self::bit(class) != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn bit(class: Class) -> u8 {
        1 << class as u8
    }
}

impl FromIterator<Class> for Classes {
    fn from_iter<I: IntoIterator<Item = Class>>(classes: I) -> Self {
        Self(classes.into_iter().fold(0, |bits, class| bits | Self::bit(class)))
    }
}
