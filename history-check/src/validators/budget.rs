//! The contract of a budget: executed calls and the spending in the ledger stay within the limit, the
//! compensations, the allowances, the reclaimed amounts, and the grants that a database lost.

use super::Violation;
use crate::{
    budget_event::AccountFigures,
    history::History,
    spending::{Call, Spending},
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let spending = Spending::new(&history.lines);
    let mut found = Vec::new();
    for (book, state) in &spending.books {
        let (line, figures) = (state.line, state.figures);
        let mut wrong = |what: String| {
            let name = format!("{:?} in {}", book.id, book.window);
            found.push(Violation::new([line], format!("{name}: {what}")));
        };
        let bound = spending.bound(&book.id, state);
        if i128::from(figures.settled) > bound {
            wrong(format!("{} are settled, the contract allows {bound}", figures.settled));
        }
        // The metrics of the ledger explain the rights and the spending beyond the limit.
        let overshoot = i128::from(figures.overshoot);
        let explained = state.ceiling + state.reclaimed() + state.lost + overshoot;
        let unrecorded = spending.restored(figures) + state.unrecorded;
        if i128::from(figures.exposed) > explained + unrecorded {
            wrong(format!("{} are exposed, the terms allow {explained}", figures.exposed));
        }
        let exposures: i128 = figures.accounts.iter().map(AccountFigures::exposure).sum();
        if exposures != i128::from(figures.exposed) {
            wrong(format!("the accounts expose {exposures}, the budget {}", figures.exposed));
        }
    }
    for id in spending.budgets() {
        let executed: i128 = spending.calls_of(id).map(Call::executed).sum();
        let bound: i128 = spending.books_of(id).map(|state| spending.bound(id, state)).sum();
        if executed > bound {
            let lines = spending.books_of(id).map(|state| state.line);
            let what = format!("{id:?}: the tool executed {executed}, the contract allows {bound}");
            found.push(Violation::new(lines, what));
        }
    }
    found
}
