//! Interleavings as histories: the validators of recorded histories accept the ledger, and detect each
//! of its broken variants.

use history_check::{
    BudgetEvent, Event, History, Line, Workload,
    budget_event::{AccountFigures, Book, BookAccount, BudgetId, Figures, Payment},
    event::FORMAT,
    validators_of,
};

use super::{Defect, EPOCHS, MemoryLedger, RUNS, WindowRule, World};
use crate::memory::{Book as LedgerBook, Entry, ProcessKey};

/// Interleavings of a ledger without a defect.
const CORRECT_RUNS: u64 = 300;

impl World {
    /// The accounts of the budget in a ledger. The interleaving has one window.
    fn book_of<'a>(&self, ledger: &'a MemoryLedger) -> Option<&'a LedgerBook> {
        ledger.books.iter().find(|(key, _)| key.budget == self.budget).map(|(_, book)| book)
    }

    fn id(&self) -> BudgetId {
        let [policy, budget, subject] =
            [&self.budget.policy, &self.budget.budget, &self.budget.subject]
                .map(ToString::to_string);
        BudgetId { policy, budget, subject }
    }

    /// The history after all gateways have restarted.
    fn history(&self) -> History {
        let mut lines = Vec::new();
        let mut note = |event: Event| {
            let n = lines.len() as u64 + 1;
            lines.push(Line { n, us: n, wall: 0, who: "gateway-0".to_owned(), event });
        };
        let (workload, plan) = (Workload::Budgets, Vec::new());
        note(Event::Begin { format: FORMAT, workload, seed: 0, plan });
        (0..self.epochs / EPOCHS).for_each(|_| note(Event::Killed {}));
        let id = self.id();
        let book = Book { id: id.clone(), window: "total".to_owned() };
        let (limit, price) = (self.limit.as_micros(), self.price.as_micros());
        let mut events = vec![BudgetEvent::Rule {
            policy: id.policy.clone(),
            budget: id.budget.clone(),
            limit,
            price,
            allowance: 0,
        }];
        for ledger in &self.lost {
            let accounts = accounts(self.book_of(ledger)).into_iter();
            let accounts = accounts.map(|account| BookAccount { book: book.clone(), account });
            events.push(BudgetEvent::TransactionsLost { accounts: accounts.collect() });
        }
        if self.is_torn {
            let gateways = self.gateways.iter().map(|gateway| gateway.name.clone());
            events.extend(gateways.map(|gateway| BudgetEvent::MarksLost { gateway }));
        }
        for number in (0..self.executed.len()).filter(|number| self.executed[*number]) {
            let (call, gateway) = (format!("call-{number}"), "gateway".to_owned());
            let (pay, budgets) = (call.clone(), vec![id.clone()]);
            events.push(BudgetEvent::Pay { call: pay, gateway, price, budgets });
            events.push(BudgetEvent::Executed { call: call.clone() });
            events.push(BudgetEvent::Answered { call, answer: Payment::Paid {} });
        }
        for number in 0..self.compensations.len() {
            let (call, gateway) = (format!("compensation-{number}"), "gateway".to_owned());
            let budgets = vec![id.clone()];
            events.push(BudgetEvent::Pay { call: call.clone(), gateway, price, budgets });
            events.push(BudgetEvent::Compensates { call: call.clone() });
            events.push(BudgetEvent::Executed { call: call.clone() });
            events.push(BudgetEvent::Answered { call, answer: Payment::Paid {} });
        }
        for number in 0..self.unsent_compensations {
            let (call, gateway) = (format!("unsent-{number}"), "gateway".to_owned());
            let budgets = vec![id.clone()];
            events.push(BudgetEvent::Pay { call: call.clone(), gateway, price, budgets });
            events.push(BudgetEvent::Compensates { call });
        }
        let figures = figures(self.book_of(&self.ledger));
        events.push(BudgetEvent::Ended { book, figures });
        for budget in events {
            note(Event::Budget { budget });
        }
        note(Event::Settled {});
        History::new(lines)
    }
}

fn accounts(book: Option<&LedgerBook>) -> Vec<AccountFigures> {
    let accounts = book.into_iter().flat_map(|book| &book.accounts);
    let figures = |(key, Entry { row, .. }): (&ProcessKey, &Entry)| AccountFigures {
        gateway: key.gateway.clone(),
        epoch: key.epoch.to_string(),
        granted: row.granted.as_micros(),
        returned: row.returned.as_micros(),
        settled: row.settled.as_micros(),
        forced: row.forced.as_micros(),
        is_closed: row.is_closed,
    };
    accounts.map(figures).collect()
}

fn figures(book: Option<&LedgerBook>) -> Figures {
    let row = book.map(|book| book.row).unwrap_or_default();
    Figures {
        settled: row.settled.as_micros(),
        exposed: row.exposed.as_micros(),
        in_doubt: 0,
        overshoot: row.overshoot.as_micros(),
        unexplained: row.unexplained.as_micros(),
        reclaimed: row.reclaimed.as_micros(),
        accounts: accounts(book),
    }
}

/// The names of the validators that detect a violation in one interleaving. The charge of a crash is
/// not checked: the model has no seconds of spending.
fn violated(seed: u64, defect: Defect) -> Vec<&'static str> {
    let mut world = World::new(seed, defect);
    world.windows = WindowRule::Total;
    for _ in 0..world.random.range(60, 700) {
        world.step();
    }
    world.restart_all();
    for message in std::mem::take(&mut world.network) {
        world.handle(message.gateway, &message.wire);
    }
    let history = world.history();
    let validators =
        validators_of(&history).iter().filter(|validator| validator.name != "recovered");
    let violated = validators.filter(|validator| !(validator.check)(&history).is_empty());
    violated.map(|validator| validator.name).collect()
}

#[test]
fn validators_accept_interleavings() {
    for seed in 0..CORRECT_RUNS {
        let violated = violated(seed, Defect::None);
        assert!(violated.is_empty(), "seed {seed}: {violated:?}");
    }
}

#[test]
fn validators_detect_each_defect() {
    for defect in [
        Defect::CreditOnSilence,
        Defect::Differences,
        Defect::MergedEpochs,
        Defect::NoClaims,
        Defect::NoRecovery,
        Defect::ForgottenClose,
        Defect::NoGenerations,
        Defect::UnwrittenMarks,
        Defect::StaleSums,
        Defect::ReleasedOutcomes,
        Defect::RejectedForced,
    ] {
        assert!((0..RUNS).any(|seed| !violated(seed, defect).is_empty()), "{defect:?}");
    }
}
