//! What a principal may do, in five words.

use std::{fmt, str::FromStr};

/// A role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[repr(u8)]
pub enum Role {
    /// Reads what is registered, and its history.
    Reader = 1,
    /// Also registers and changes what its team owns.
    Publisher = 2,
    /// Reads, and sees who follows and who did what.
    Auditor = 4,
    /// Follows the registry to serve agents.
    Gateway = 8,
    /// Everything, also tokens.
    Admin = 16,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 5] =
        [Self::Reader, Self::Publisher, Self::Auditor, Self::Gateway, Self::Admin];

    /// The role as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Publisher => "publisher",
            Self::Auditor => "auditor",
            Self::Gateway => "gateway",
            Self::Admin => "admin",
        }
    }
}

/// A text that is no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no role; there are reader, publisher, auditor, gateway and admin")]
pub struct InvalidRole(String);

impl FromStr for Role {
    type Err = InvalidRole;

    fn from_str(text: &str) -> Result<Self, InvalidRole> {
        let role = Self::ALL.into_iter().find(|role| role.as_str() == text);
        role.ok_or_else(|| InvalidRole(text.chars().take(64).collect()))
    }
}

/// A set of roles. As text: their names with spaces between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Roles(u8);

impl Roles {
    /// None.
    pub const NONE: Self = Self(0);
    /// Every role there is.
    pub const ALL: Self = Self::of(&Role::ALL);

    /// The set of these.
    pub const fn of(roles: &[Role]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < roles.len() {
            bits |= roles[i] as u8;
            i += 1;
        }
        Self(bits)
    }

    /// Whether this role is in it.
    pub fn has(self, role: Role) -> bool {
        self.meets(Self(role as u8))
    }

    /// Whether one of these is in it.
    pub fn meets(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The roles, in one order.
    pub fn iter(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |role| self.has(*role))
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        Self(roles.into_iter().fold(0, |bits, role| bits | role as u8))
    }
}

impl FromStr for Roles {
    type Err = InvalidRole;

    fn from_str(text: &str) -> Result<Self, InvalidRole> {
        text.split_whitespace().map(Role::from_str).collect()
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Role::as_str).collect();
        f.write_str(&names.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_its_names() {
        let some = Roles::of(&[Role::Admin, Role::Reader]);
        assert_eq!(some.to_string(), "reader admin");
        assert_eq!("admin  reader".parse(), Ok(some));
        assert!(some.has(Role::Admin) && !some.has(Role::Gateway) && !Roles::NONE.meets(some));
        assert!("reader root".parse::<Roles>().unwrap_err().to_string().contains("`root`"));
        assert_eq!(Roles::ALL.iter().count(), 5);
    }
}
