//! Approval of calls by people.

use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::duration;

/// Maximum number of approvers that a policy demands for one call.
pub const MAX_QUORUM: u32 = 10;

/// The approval that the selected calls need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Approval {
    /// The selected calls that need it.
    #[serde(default, skip_serializing_if = "ApprovalCondition::is_always")]
    pub when: ApprovalCondition,
    /// The principals that may decide. One match suffices.
    #[serde(default = "Approver::default_list", skip_serializing_if = "Approver::is_default_list")]
    pub approvers: Vec<Approver>,
    /// The number of different people that must approve.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub quorum: NonZeroU32,
    /// Whether the caller and the owners of its agent are excluded from the decision.
    #[serde(default, skip_serializing_if = "is_false")]
    pub four_eyes: bool,
    /// The maximum wait for a decision, and for the call after the approval.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "duration::serialize_optional_iso",
        deserialize_with = "duration::deserialize_optional_iso"
    )]
    pub expires_after: Option<Duration>,
    /// The maximum duration of a standing grant. `None`: each call needs its own approval.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "duration::serialize_optional_iso",
        deserialize_with = "duration::deserialize_optional_iso"
    )]
    pub standing_for: Option<Duration>,
    /// JSON pointers (RFC 6901) to the arguments that approvers see. Empty: all, redacted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub show: Vec<Box<str>>,
}

/// The selected calls that need an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalCondition {
    /// All.
    #[default]
    Always,
    /// Calls that may change or delete data.
    Destructive,
}

/// Principals that may decide. People also need the role `approver`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Approver {
    /// The caller, which confirms its own call.
    Caller,
    /// All principals with the role `approver`.
    Role,
    /// The principals of a team.
    Team(Box<str>),
}

/// The text names no approver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an approver: use caller, role:approver or team:NAME")]
pub struct InvalidApprover(String);

impl Approval {
    /// Whether the caller confirms the call itself. A confirmation is not an approval by another person.
    pub fn is_confirmation(&self) -> bool {
        self.approvers.contains(&Approver::Caller)
    }
}

impl ApprovalCondition {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of serde")]
    fn is_always(&self) -> bool {
        *self == Self::Always
    }

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Destructive => "destructive",
        }
    }
}

impl Approver {
    fn default_list() -> Vec<Self> {
        vec![Self::Role]
    }

    fn is_default_list(list: &[Self]) -> bool {
        list == [Self::Role]
    }
}

impl fmt::Display for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caller => f.write_str("caller"),
            Self::Role => f.write_str("role:approver"),
            Self::Team(name) => write!(f, "team:{name}"),
        }
    }
}

impl FromStr for Approver {
    type Err = InvalidApprover;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "caller" => Ok(Self::Caller),
            Some(("role", "approver")) => Ok(Self::Role),
            Some(("team", name)) if !name.trim().is_empty() => Ok(Self::Team(name.into())),
            _ => Err(InvalidApprover(text.chars().take(64).collect())),
        }
    }
}

impl Serialize for Approver {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Approver {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of serde")]
fn is_one(number: &NonZeroU32) -> bool {
    *number == NonZeroU32::MIN
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of serde")]
fn is_false(value: &bool) -> bool {
    !value
}
