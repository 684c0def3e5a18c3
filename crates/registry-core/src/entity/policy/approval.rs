//! Approval of calls by people.

use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

use schema_compat::pointer::Location;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use serde_json::Value;

use super::{argument_pointer, choice, iso_duration};
use crate::{
    decode::{Fields, Problems},
    duration,
};

/// Maximum number of approvers that a policy demands for one call.
pub const MAX_QUORUM: u32 = 10;

/// The approval that the selected calls need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Approval {
    /// The selected calls that need it.
    #[serde(skip_serializing_if = "ApprovalCondition::is_always")]
    pub when: ApprovalCondition,
    /// The principals that may decide. One match suffices.
    #[serde(skip_serializing_if = "Approver::is_default_list")]
    pub approvers: Vec<Approver>,
    /// The number of different people that must approve.
    #[serde(skip_serializing_if = "is_one")]
    pub quorum: NonZeroU32,
    /// Whether the caller and the owners of its agent are excluded from the decision.
    #[serde(skip_serializing_if = "is_false")]
    pub four_eyes: bool,
    /// The maximum wait for a decision, and for the call after the approval.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "duration::serialize_optional_iso",
        deserialize_with = "duration::deserialize_optional_iso"
    )]
    pub expires_after: Option<Duration>,
    /// The maximum duration of a standing grant. `None`: each call needs its own approval.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "duration::serialize_optional_iso",
        deserialize_with = "duration::deserialize_optional_iso"
    )]
    pub standing_for: Option<Duration>,
    /// JSON pointers (RFC 6901) to the arguments that approvers see. Empty: all, redacted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub show: Vec<Box<str>>,
}

/// The selected calls that need an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalCondition {
    /// All.
    #[default]
    Always,
    /// Calls that may perform destructive updates, or act in an open world.
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

impl Default for Approval {
    fn default() -> Self {
        Self {
            when: ApprovalCondition::default(),
            approvers: vec![Approver::Role],
            quorum: NonZeroU32::MIN,
            four_eyes: false,
            expires_after: None,
            standing_for: None,
            show: Vec::new(),
        }
    }
}

impl Approval {
    /// Whether the caller confirms the call itself. A confirmation is not an approval by another person.
    pub fn is_confirmation(&self) -> bool {
        self.approvers.contains(&Approver::Caller)
    }

    /// Whether the operator of a gateway without a registry can decide: one approver without a team and
    /// without a proven identity. A confirmation needs no operator.
    pub fn is_decidable_by_operator(&self) -> bool {
        let is_one = self.quorum == NonZeroU32::MIN && !self.four_eyes;
        self.is_confirmation() || is_one && self.approvers.contains(&Approver::Role)
    }

    pub(super) fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let conditions = [ApprovalCondition::Always, ApprovalCondition::Destructive];
        let when = choice(&fields, "when", &conditions, ApprovalCondition::as_str);
        let default = Self::default();
        let approval = Self {
            when: when.unwrap_or(default.when),
            approvers: read_approvers(&fields).unwrap_or(default.approvers),
            quorum: read_quorum(&fields).unwrap_or(default.quorum),
            four_eyes: fields.optional_bool("fourEyes").unwrap_or(default.four_eyes),
            expires_after: iso_duration(&fields, "expiresAfter"),
            standing_for: iso_duration(&fields, "standingFor"),
            show: fields.list("show", |value, at| argument_pointer(problems, value, at)),
        };
        if approval.is_confirmation() {
            approval.check_confirmation(problems, at);
        }
        fields.finish();
        Some(approval)
    }

    /// A confirmation by the caller satisfies no demand for other people.
    fn check_confirmation(&self, problems: &Problems, at: Location<'_>) {
        let help = "demand the approval of other people in a policy of its own";
        for (member, is_excluded) in [
            ("approvers", self.approvers.len() > 1),
            ("quorum", self.quorum > NonZeroU32::MIN),
            ("fourEyes", self.four_eyes),
            ("standingFor", self.standing_for.is_some()),
        ] {
            if is_excluded {
                let message = "the approver `caller` only confirms its own call";
                problems.invalid(at.member(member), message, help);
            }
        }
    }
}

/// Reads the approvers, in canonical order.
fn read_approvers(fields: &Fields<'_>) -> Option<Vec<Approver>> {
    let (problems, here) = (fields.problems(), fields.here());
    let value = fields.get("approvers")?;
    let at = here.member("approvers");
    if value.as_array().is_some_and(Vec::is_empty) {
        problems.invalid(at, "the list is empty", "remove it to allow all approvers to decide");
    }
    let mut approvers = problems.items(value, at, |value, at| {
        let parsed = problems.string(value, at)?.parse::<Approver>();
        let help = "write caller, role:approver or team:NAME";
        parsed.inspect_err(|e| problems.invalid(at, e.to_string(), help)).ok()
    });
    approvers.sort_unstable();
    approvers.dedup();
    Some(approvers)
}

fn read_quorum(fields: &Fields<'_>) -> Option<NonZeroU32> {
    let value = fields.get("quorum")?;
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    let quorum = number.and_then(NonZeroU32::new).filter(|quorum| quorum.get() <= MAX_QUORUM);
    if quorum.is_none() {
        let here = fields.here();
        let expected = format!("a whole number from 1 to {MAX_QUORUM}");
        fields.problems().wrong_type(value, here.member("quorum"), &expected);
    }
    quorum
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
    fn is_default_list(list: &[Self]) -> bool {
        list == Approval::default().approvers
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of serde")]
fn is_one(number: &NonZeroU32) -> bool {
    *number == NonZeroU32::MIN
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of serde")]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Result<Approval, Vec<String>> {
        let problems = Problems::default();
        let read = Approval::read(&problems, value, Location::ROOT);
        let found: Vec<_> = problems.into_vec().into_iter().map(|found| found.pointer).collect();
        read.filter(|_| found.is_empty()).ok_or(found)
    }

    #[test]
    fn approval_keeps_its_canonical_form() {
        let document = json!({
            "when": "destructive", "approvers": ["role:approver", "team:finance"], "quorum": 2,
            "fourEyes": true, "expiresAfter": "P1D", "standingFor": "PT8H", "show": ["/orderId"],
        });
        let approval = read(&document).unwrap();
        assert_eq!(serde_json::to_value(&approval).unwrap(), document);
        assert_eq!(serde_json::from_value::<Approval>(document).unwrap(), approval);
    }

    #[test]
    fn defaults_are_omitted_from_canonical_form() {
        let written = json!({
            "when": "always", "approvers": ["role:approver", "role:approver"], "quorum": 1,
            "fourEyes": false, "show": [], "expiresAfter": null,
        });
        let approval = read(&written).unwrap();
        assert_eq!(serde_json::to_value(&approval).unwrap(), json!({}));
        assert_eq!(read(&json!({})).unwrap(), approval);
        assert_eq!(serde_json::from_value::<Approval>(json!({})).unwrap(), approval);
    }

    #[test]
    fn invalid_members_are_reported_at_their_pointer() {
        for (written, pointer) in [
            (json!([]), ""),
            (json!({ "when": "sometimes" }), "/when"),
            (json!({ "approvers": [] }), "/approvers"),
            (json!({ "approvers": "caller" }), "/approvers"),
            (json!({ "approvers": ["role:admin"] }), "/approvers/0"),
            (json!({ "approvers": ["team: "] }), "/approvers/0"),
            (json!({ "approvers": ["bob"] }), "/approvers/0"),
            (json!({ "quorum": 0 }), "/quorum"),
            (json!({ "quorum": 11 }), "/quorum"),
            (json!({ "quorum": 1.5 }), "/quorum"),
            (json!({ "fourEyes": "yes" }), "/fourEyes"),
            (json!({ "expiresAfter": "1d" }), "/expiresAfter"),
            (json!({ "standingFor": "PT0S" }), "/standingFor"),
            (json!({ "show": ["orderId"] }), "/show/0"),
            (json!({ "note": "x" }), "/note"),
        ] {
            let found = read(&written).unwrap_err();
            assert_eq!(found.first().map(String::as_str), Some(pointer), "{written}");
        }
    }

    #[test]
    fn confirmation_excludes_demands_for_people() {
        assert!(read(&json!({ "approvers": ["caller"] })).unwrap().is_confirmation());
        for (written, pointer) in [
            (json!({ "approvers": ["caller", "team:finance"] }), "/approvers"),
            (json!({ "approvers": ["caller"], "quorum": 2 }), "/quorum"),
            (json!({ "approvers": ["caller"], "fourEyes": true }), "/fourEyes"),
            (json!({ "approvers": ["caller"], "standingFor": "P1D" }), "/standingFor"),
        ] {
            assert_eq!(read(&written), Err(vec![pointer.to_owned()]), "{written}");
        }
    }
}
