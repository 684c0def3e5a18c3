//! Prices of calls.

use schema_compat::pointer::{Location, pointer_join};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{amount, choice};
use crate::{
    amount::Amount,
    decode::{Fields, Problems},
};

/// The price of the selected calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Price {
    /// The price of one call.
    #[serde(flatten)]
    pub call: CallPrice,
    /// The charge for a call whose received result is an error.
    #[serde(skip_serializing_if = "FailureCharge::is_charged")]
    pub failures: FailureCharge,
    /// The charge for a round that asks the caller for input. `None`: zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_round: Option<Amount>,
}

/// The price of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum CallPrice {
    /// All calls have the same price.
    #[serde(rename_all = "camelCase")]
    Fixed {
        /// The price.
        per_call: Amount,
    },
    /// The result of a call reports its price.
    #[serde(rename_all = "camelCase")]
    Reported {
        /// The place of the price in the result.
        reported_by: ResultPath,
        /// The amount that a call reserves, and the charge for a call with an unknown outcome.
        maximum: Amount,
        /// The charge for a result without a usable price. `None`: the maximum.
        #[serde(skip_serializing_if = "Option::is_none")]
        per_call: Option<Amount>,
    },
}

/// The charge for a call whose received result is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureCharge {
    /// The price.
    #[default]
    Charged,
    /// Zero.
    Free,
}

/// The place of a value in the result of a call: member names separated by dots, such as
/// `_meta.cost`, or a JSON pointer (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultPath {
    text: Box<str>,
    pointer: Box<str>,
}

impl Price {
    /// The amount that a call reserves before it is sent.
    pub fn reserved(&self) -> Amount {
        match self.call {
            CallPrice::Fixed { per_call } => per_call,
            CallPrice::Reported { maximum, .. } => maximum,
        }
    }

    pub(super) fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let call = CallPrice::read(&fields);
        let choices = [FailureCharge::Charged, FailureCharge::Free];
        let failures = choice(&fields, "failures", &choices, FailureCharge::as_str);
        let per_round = amount(&fields, "perRound");
        fields.finish();
        let price = Self { call: call?, failures: failures.unwrap_or_default(), per_round };
        let per_call = match price.call {
            CallPrice::Fixed { .. } => None,
            CallPrice::Reported { per_call, .. } => per_call,
        };
        // A larger charge would exceed the reservation.
        let reserved = price.reserved();
        for (name, amount) in [("perCall", per_call), ("perRound", per_round)] {
            if let Some(amount) = amount.filter(|amount| *amount > reserved) {
                let message = format!("{amount} is above {reserved}, the maximum of a call");
                problems.invalid(at.member(name), message, format!("write at most \"{reserved}\""));
            }
        }
        Some(price)
    }
}

impl CallPrice {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let (problems, here) = (fields.problems(), fields.here());
        let (per_call, maximum) = (amount(fields, "perCall"), amount(fields, "maximum"));
        if let Some(value) = fields.get("reportedBy") {
            fields.require("maximum");
            let reported_by = ResultPath::read(problems, value, here.member("reportedBy"));
            return Some(Self::Reported { reported_by: reported_by?, maximum: maximum?, per_call });
        }
        if fields.get("maximum").is_some() {
            let help = "remove `maximum`, or add `reportedBy`";
            problems.invalid(here.member("maximum"), "a fixed price has no maximum", help);
        }
        fields.require("perCall");
        Some(Self::Fixed { per_call: per_call? })
    }
}

impl FailureCharge {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of serde")]
    fn is_charged(&self) -> bool {
        *self == Self::Charged
    }

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Charged => "charged",
            Self::Free => "free",
        }
    }
}

impl ResultPath {
    /// Parses a path. `None`: a name is empty, or the pointer has an invalid escape.
    pub fn parse(text: &str) -> Option<Self> {
        let pointer = if text.starts_with('/') {
            let is_escape = |rest: &str| rest.starts_with(['0', '1']);
            text.split('~').skip(1).all(is_escape).then(|| text.to_owned())?
        } else {
            let mut names = text.split('.');
            names.try_fold(String::new(), |pointer, name| {
                (!name.is_empty()).then(|| pointer_join(&pointer, name))
            })?
        };
        Some(Self { text: text.into(), pointer: pointer.into() })
    }

    /// The path as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The value at the path.
    pub fn find<'v>(&self, result: &'v Value) -> Option<&'v Value> {
        result.pointer(&self.pointer)
    }

    fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let path = Self::parse(problems.string(value, at)?);
        if path.is_none() {
            let expected =
                "a path such as \"_meta.cost\", or a JSON pointer such as \"/_meta/cost\"";
            problems.wrong_type(value, at, expected);
        }
        path
    }
}

impl Serialize for ResultPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn result_path_finds_members_of_results() {
        let result = json!({ "_meta": { "cost": "0.5", "a.b/c": 1 }, "x~y": [7] });
        for (path, found) in [
            ("_meta.cost", Some(json!("0.5"))),
            ("/_meta/cost", Some(json!("0.5"))),
            ("/_meta/a.b~1c", Some(json!(1))),
            ("x~y.0", Some(json!(7))),
            ("_meta.missing", None),
            ("_meta.cost.more", None),
        ] {
            let parsed = ResultPath::parse(path).unwrap();
            assert_eq!((parsed.as_str(), parsed.find(&result)), (path, found.as_ref()));
        }
    }

    #[test]
    fn result_path_rejects_empty_names_and_escapes() {
        for bad in ["", ".", "_meta.", ".cost", "a..b", "/a~2", "/a~"] {
            assert_eq!(ResultPath::parse(bad), None, "{bad}");
        }
    }
}
