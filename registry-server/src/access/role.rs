//! Roles of principals.

use std::{fmt, str::FromStr};

/// A set of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[repr(u8)]
pub enum Role {
    /// Reads entities and history.
    Reader = 1,
    /// Reads, and writes entities of its team.
    Publisher = 2,
    /// Reads, and lists gateways and access events.
    Auditor = 4,
    /// Follows the log to serve agents.
    Gateway = 8,
    /// Has all permissions, including token management.
    Admin = 16,
    /// Reads, and writes policies about names of any team.
    Governor = 32,
    /// Reads, and decides about approvals of calls.
    Approver = 64,
    /// Follows the log, and forwards the reports of gateways in their names.
    Relay = 128,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 8] = [
        Self::Reader,
        Self::Publisher,
        Self::Auditor,
        Self::Gateway,
        Self::Relay,
        Self::Governor,
        Self::Approver,
        Self::Admin,
    ];

    /// Name of the role in tokens, settings and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Publisher => "publisher",
            Self::Auditor => "auditor",
            Self::Gateway => "gateway",
            Self::Admin => "admin",
            Self::Governor => "governor",
            Self::Approver => "approver",
            Self::Relay => "relay",
        }
    }
}

/// An unknown role name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown role `{0}`; use reader, publisher, auditor, gateway, relay, governor, approver or admin"
)]
pub struct InvalidRole(String);

impl FromStr for Role {
    type Err = InvalidRole;

    fn from_str(text: &str) -> Result<Self, InvalidRole> {
        let role = Self::ALL.into_iter().find(|role| role.as_str() == text);
        role.ok_or_else(|| InvalidRole(text.chars().take(64).collect()))
    }
}

/// A set of roles, written as names separated by spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Roles(u8);

impl Roles {
    /// No role.
    pub const NONE: Self = Self(0);
    /// Every role there is.
    pub const ALL: Self = Self::new(&Role::ALL);

    /// Creates a set.
    pub const fn new(roles: &[Role]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < roles.len() {
            bits |= roles[i] as u8;
            i += 1;
        }
        Self(bits)
    }

    /// Whether the set contains the role.
    pub fn has(self, role: Role) -> bool {
        self.intersects(Self(role as u8))
    }

    /// Whether the sets have a common role.
    pub fn intersects(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates in the order of [`Role::ALL`].
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
    fn roles_parse_from_their_display_form() {
        let some = Roles::new(&[Role::Admin, Role::Reader]);
        insta::assert_snapshot!(some, @"reader admin");
        assert_eq!("admin  reader".parse(), Ok(some));
        assert!(some.has(Role::Admin) && !some.has(Role::Gateway) && !Roles::NONE.intersects(some));
        assert!("reader root".parse::<Roles>().unwrap_err().to_string().contains("`root`"));
        assert_eq!(Roles::ALL.iter().count(), 8);
    }
}
