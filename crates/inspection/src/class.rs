//! Sets of classes of values.

use registry_core::entity::policy::DataClass;

/// A set of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Classes(u8);

impl Classes {
    /// Whether the set has the class.
    pub fn contains(self, class: DataClass) -> bool {
        self.0 & Self::bit(class) != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The classes of the set.
    pub fn iter(self) -> impl Iterator<Item = DataClass> {
        DataClass::ALL.into_iter().filter(move |class| self.contains(*class))
    }

    fn bit(class: DataClass) -> u8 {
        1 << class as u8
    }
}

impl FromIterator<DataClass> for Classes {
    fn from_iter<I: IntoIterator<Item = DataClass>>(classes: I) -> Self {
        Self(classes.into_iter().fold(0, |bits, class| bits | Self::bit(class)))
    }
}
