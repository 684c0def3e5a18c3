//! Every executed call is charged: by its gateway, and in the figures of the ledger. No unknown
//! outcome is released.

use super::Violation;
use crate::{
    history::History,
    spending::{Call, Spending},
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let spending = Spending::new(&history.lines);
    let mut found = Vec::new();
    for (line, call) in &spending.unsent {
        found
            .push(Violation::new([*line], format!("the tool executed {call}, which was not sent")));
    }
    for (name, call) in &spending.calls {
        if call.charged.is_some_and(|charged| charged < call.executed()) {
            let (executed, charged) = (call.executed(), call.charged.unwrap_or_default());
            let what = format!("{name} was executed for {executed}, the gateway charged {charged}");
            found.push(Violation::new([call.line], what));
        }
    }
    for id in spending.budgets() {
        let due: i128 = spending.calls_of(id).map(Call::due).sum();
        // Rights in doubt and reclaimed rights cover the spending of processes without marks.
        let covered: i128 = spending
            .books_of(id)
            .map(|state| i128::from(state.figures.exposed) + state.reclaimed() + state.lost)
            .sum();
        let allowance = spending.rule(id).map_or(0, |rule| rule.allowance);
        let unreported = allowance * spending.marks_lost.len() as i128;
        if due > covered + unreported {
            let lines = spending.books_of(id).map(|state| state.line);
            let what = format!("{id:?}: calls cost {due}, the ledger charged {covered}");
            found.push(Violation::new(lines, what));
        }
    }
    found
}
