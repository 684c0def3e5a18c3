//! The result of comparing two versions.

use registry_core::graph::ReplacementComparison;
use registry_proto::v1;
use schema_compat::compatibility::{Difference, Side, UndecidedCheck};
use serde::Serialize;
use serde_json::Value;

use crate::{
    failure::Failure,
    screen::{Screen, TextTable},
    style::Paint,
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ComparisonView {
    /// `identical`, `compatible`, `undecided` or `breaking`.
    pub(crate) outcome: &'static str,
    differences: Vec<DifferenceView>,
    undecided_checks: Vec<UndecidedView>,
}

/// A breaking difference.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DifferenceView {
    keyword: Option<String>,
    pointer: String,
    /// The location of the keyword, if it differs from the pointer.
    referenced_location: Option<String>,
    /// A value that one version accepts and the other rejects.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<Value>,
    rejected_by: &'static str,
    message: String,
}

/// A comparison that could not be decided.
#[derive(Debug, Serialize)]
struct UndecidedView {
    pointer: String,
    reason: String,
}

impl ComparisonView {
    /// Prints the breaking and undecided differences as a table.
    pub(crate) fn show(&self, screen: Screen) -> Result<(), Failure> {
        if self.differences.is_empty() && self.undecided_checks.is_empty() {
            return Ok(());
        }
        let mut table = TextTable::new(&["", "POINTER", "WHY"]);
        for DifferenceView { pointer, message, .. } in &self.differences {
            table.painted(Paint::Bad, ["-", pointer, message]);
        }
        for UndecidedView { pointer, reason } in &self.undecided_checks {
            table.painted(Paint::Careful, ["?", pointer, reason]);
        }
        screen.table(&table)
    }
}

impl From<&ReplacementComparison> for ComparisonView {
    fn from(ReplacementComparison { old, new, found }: &ReplacementComparison) -> Self {
        let difference = |difference: &Difference| DifferenceView {
            keyword: difference.assertion.keyword().map(str::to_owned),
            pointer: difference.pointer.clone(),
            referenced_location: difference.referenced_location.clone(),
            instance: difference.instance.clone(),
            rejected_by: rejected_by(difference.rejected_by == Side::Old),
            message: difference.explain(old, new),
        };
        let undecided = |UndecidedCheck { pointer, reason }: &UndecidedCheck| UndecidedView {
            pointer: pointer.clone(),
            reason: reason.clone(),
        };
        Self {
            outcome: found.outcome().as_str(),
            differences: found.differences.iter().map(difference).collect(),
            undecided_checks: found.undecided_checks.iter().map(undecided).collect(),
        }
    }
}

impl From<v1::VersionComparison> for ComparisonView {
    fn from(comparison: v1::VersionComparison) -> Self {
        let v1::VersionComparison { compatibility, differences, undecided_checks } = comparison;
        let outcome = match v1::Compatibility::try_from(compatibility) {
            Ok(v1::Compatibility::Identical) => "identical",
            Ok(v1::Compatibility::Compatible) => "compatible",
            Ok(v1::Compatibility::Undecided) => "undecided",
            Ok(v1::Compatibility::Breaking) => "breaking",
            Ok(v1::Compatibility::Unspecified) | Err(_) => "unknown",
        };
        let difference = |difference: v1::SchemaDifference| {
            let v1::SchemaDifference {
                keyword,
                pointer,
                instance,
                rejected_by_old,
                message,
                referenced_location,
            } = difference;
            let instance = instance.and_then(|text| serde_json::from_str(&text).ok());
            let rejected_by = rejected_by(rejected_by_old);
            DifferenceView { keyword, pointer, referenced_location, instance, rejected_by, message }
        };
        let undecided = |v1::UndecidedCheck { pointer, reason }| UndecidedView { pointer, reason };
        Self {
            outcome,
            differences: differences.into_iter().map(difference).collect(),
            undecided_checks: undecided_checks.into_iter().map(undecided).collect(),
        }
    }
}

fn rejected_by(old: bool) -> &'static str {
    if old { "old" } else { "new" }
}
