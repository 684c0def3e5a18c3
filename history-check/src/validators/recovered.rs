//! After each gateway has restarted on its disk, no rights are in doubt, except those of processes
//! without their crash marks. A crash overcharges at most one second of spending.

use super::Violation;
use crate::{
    history::History,
    spending::{Call, Spending},
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    if history.settled().is_none() {
        return vec![Violation::new([], "the gateways did not restart and report in time")];
    }
    let spending = Spending::new(&history.lines);
    let mut found = Vec::new();
    for (book, state) in &spending.books {
        let mut wrong = |what: String| {
            let name = format!("{:?} in {}", book.id, book.window);
            found.push(Violation::new([state.line], format!("{name}: {what}")));
        };
        let figures = state.figures;
        let mut excused = 0;
        for account in figures.accounts.iter().filter(|account| account.unspent() > 0) {
            if spending.marks_lost.contains(&account.gateway.as_str()) {
                excused += account.unspent();
            } else {
                let (gateway, unspent) = (&account.gateway, account.unspent());
                wrong(format!("{unspent} of {gateway} are unspent"));
            }
        }
        if i128::from(figures.in_doubt) > excused {
            wrong(format!("{} are in doubt", figures.in_doubt));
        }
    }
    for id in spending.budgets() {
        let settled: i128 =
            spending.books_of(id).map(|state| i128::from(state.figures.settled)).sum();
        let due: i128 = spending.calls_of(id).map(Call::due).sum();
        let allowed = spending.overcharges(id);
        if settled - due > allowed {
            let lines = spending.books_of(id).map(|state| state.line);
            let what =
                format!("{id:?}: calls cost {due}, {settled} are settled, crashes allow {allowed}");
            found.push(Violation::new(lines, what));
        }
    }
    found
}
