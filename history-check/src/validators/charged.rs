//! Every executed call and compensation is charged: by its gateway, and in the figures of the ledger.
//! No unknown outcome is released. A received report lowers the charge to its price.

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
    for (name, call) in &spending.calls {
        let (reported, charged) = (call.executed(), call.charged.unwrap_or_default());
        if call.is_report_received() && charged > reported {
            let what = format!("{name} reported {reported}, the gateway charged {charged}");
            found.push(Violation::new([call.line], what));
        }
    }
    for id in spending.budgets() {
        let due: i128 = spending.calls_of(id).map(Call::due).sum();
        // Rights in doubt and reclaimed rights cover the spending of processes without marks.
        let covered: i128 = spending
            .books_of(id)
            .map(|state| {
                let recorded = [state.figures.exposed, state.figures.unexplained].map(i128::from);
                recorded.iter().sum::<i128>() + state.reclaimed() + state.lost
            })
            .sum();
        if due > covered + spending.unmarked(id) {
            let lines = spending.books_of(id).map(|state| state.line);
            let what = format!("{id:?}: calls cost {due}, the ledger charged {covered}");
            found.push(Violation::new(lines, what));
        }
    }
    found
}
