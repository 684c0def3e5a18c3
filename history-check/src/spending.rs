//! The spending in a history with budgets: calls, executions and charges, and the figures of the
//! ledger. Sums are wider than amounts, so that they cannot overflow.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
};

use crate::{
    budget_event::{AccountFigures, Book, BookAccount, BudgetEvent, BudgetId, Figures, Payment},
    event::{Event, Line},
};

/// Microseconds of a second.
const SECOND: u64 = 1_000_000;
/// Micro-units of a unit of the currency.
const UNIT: i128 = 1_000_000;

/// The number of short windows with accounts in one file of crash marks.
const OPEN_WINDOWS: i128 = 3;

/// The rule of a budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) limit: i128,
    pub(crate) price: i128,
    pub(crate) allowance: i128,
}

/// A call and its results.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) line: u64,
    gateway: &'a str,
    pub(crate) price: i128,
    pub(crate) budgets: &'a [BudgetId],
    pub(crate) answer: Option<&'a Payment>,
    pub(crate) executions: i128,
    /// The parts of the price that reports do not charge. `None`: there is no report.
    pub(crate) reduction: Option<i128>,
    /// Whether the executions are those of its compensation.
    pub(crate) is_compensation: bool,
    /// The charge in the audit log of the gateway. A compensation has none, because the recovery
    /// after a crash does not know the call.
    pub(crate) charged: Option<i128>,
}

impl Call<'_> {
    /// The least price of all executions.
    pub(crate) fn executed(&self) -> i128 {
        self.price * self.executions - self.reduction.unwrap_or_default()
    }

    /// Whether the gateway has received the only report about the call.
    pub(crate) fn is_report_received(&self) -> bool {
        let is_answered = self.answer == Some(&Payment::Paid {});
        is_answered && self.executions == 1 && self.reduction.is_some()
    }

    /// The justified charge. The charge of an unknown outcome is justified without an execution.
    pub(crate) fn due(&self) -> i128 {
        self.executed().max(self.charged.unwrap_or_default())
    }

    pub(crate) fn charges(&self, id: &BudgetId) -> bool {
        self.budgets.contains(id)
    }
}

/// A budget in one window at the end.
#[derive(Debug)]
pub(crate) struct BookState<'a> {
    pub(crate) line: u64,
    pub(crate) figures: &'a Figures,
    /// The highest limit that could be in force, or the exposure when it was lowered.
    pub(crate) ceiling: i128,
    /// Rights that the database lost and that no gateway can claim, because its crash marks are lost.
    pub(crate) lost: i128,
    /// The spending without rights whose record as overshoot the database may have lost.
    pub(crate) unrecorded: i128,
}

impl BookState<'_> {
    pub(crate) fn reclaimed(&self) -> i128 {
        i128::from(self.figures.reclaimed)
    }
}

/// The spending in a history.
#[derive(Debug, Default)]
pub(crate) struct Spending<'a> {
    /// By policy and budget.
    rules: BTreeMap<[&'a str; 2], Rule>,
    pub(crate) calls: BTreeMap<&'a str, Call<'a>>,
    pub(crate) books: BTreeMap<&'a Book, BookState<'a>>,
    /// Executions of calls that no caller sent.
    pub(crate) unsent: Vec<(u64, &'a str)>,
    /// The gateways with a disk of their own.
    gateways: BTreeSet<&'a str>,
    /// The kills of gateway processes.
    crashes: i128,
    /// The number of calls whose price a crash overcharges at most in one account.
    calls_per_crash: i128,
    /// The principals of gateways whose crash marks were lost, once for each loss.
    pub(crate) marks_lost: Vec<&'a str>,
    /// Whether the database lost transactions.
    loses_transactions: bool,
}

impl<'a> Spending<'a> {
    pub(crate) fn new(lines: &'a [Line]) -> Self {
        let mut spending = Self::default();
        for line in lines {
            match &line.event {
                Event::Started { .. } if is_gateway(line) => {
                    spending.gateways.insert(&line.who);
                }
                Event::Killed {} if is_gateway(line) => spending.crashes += 1,
                Event::Budget { budget } => spending.add(line, budget),
                _ => {}
            }
        }
        spending.calls_per_crash = calls_per_second(lines, &spending.calls);
        for (book, figures, line) in lines.iter().filter_map(ended) {
            let rule = spending.rule(&book.id);
            let ceiling = ceiling(lines, book, rule.map_or(0, |rule| rule.limit));
            let lost = lost(lines, book, figures, &spending.marks_lost);
            let allowance = rule.map_or(0, |rule| rule.allowance);
            let unrecorded = unrecorded(lines, book, ceiling, allowance);
            let state = BookState { line, figures, ceiling, lost, unrecorded };
            spending.books.insert(book, state);
        }
        spending
    }

    fn add(&mut self, line: &Line, event: &'a BudgetEvent) {
        match event {
            BudgetEvent::Rule { policy, budget, limit, price, allowance } => {
                let [limit, price, allowance] = [*limit, *price, *allowance].map(i128::from);
                self.rules.insert([policy, budget], Rule { limit, price, allowance });
            }
            BudgetEvent::Pay { call, gateway, price, budgets } => {
                let new = Call {
                    line: line.n,
                    gateway,
                    price: (*price).into(),
                    budgets,
                    answer: None,
                    executions: 0,
                    reduction: None,
                    is_compensation: false,
                    charged: None,
                };
                self.calls.insert(call, new);
            }
            BudgetEvent::Answered { call, answer } => {
                if let Some(known) = self.calls.get_mut(call.as_str()) {
                    known.answer = Some(answer);
                }
            }
            BudgetEvent::Executed { call } => match self.calls.get_mut(call.as_str()) {
                Some(known) => known.executions += 1,
                None => self.unsent.push((line.n, call)),
            },
            BudgetEvent::Compensates { call } => {
                if let Some(known) = self.calls.get_mut(call.as_str()) {
                    known.is_compensation = true;
                }
            }
            BudgetEvent::Reported { call, price } => {
                if let Some(known) = self.calls.get_mut(call.as_str()) {
                    let reduction = known.price - i128::from(*price);
                    *known.reduction.get_or_insert(0) += reduction.max(0);
                }
            }
            BudgetEvent::Charged { call, amount } => {
                let call = self.calls.get_mut(call.as_str());
                if let Some(known) = call.filter(|call| !call.is_compensation) {
                    *known.charged.get_or_insert(0) += i128::from(*amount);
                }
            }
            BudgetEvent::MarksLost { gateway } => self.marks_lost.push(gateway),
            BudgetEvent::TransactionsLost { .. } => self.loses_transactions = true,
            BudgetEvent::LimitRequested { .. }
            | BudgetEvent::LimitInForce { .. }
            | BudgetEvent::OvershootKept { .. }
            | BudgetEvent::Ended { .. } => {}
        }
    }

    pub(crate) fn rule(&self, id: &BudgetId) -> Option<Rule> {
        self.rules.get(&[id.policy.as_str(), id.budget.as_str()]).copied()
    }

    /// The budgets that calls charge.
    pub(crate) fn budgets(&self) -> Vec<&'a BudgetId> {
        let mut found: Vec<_> = self.calls.values().flat_map(|call| call.budgets).collect();
        found.sort();
        found.dedup();
        found
    }

    /// The calls that charge a budget.
    pub(crate) fn calls_of(&self, id: &BudgetId) -> impl Iterator<Item = &Call<'a>> {
        self.calls.values().filter(move |call| call.charges(id))
    }

    /// The windows of a budget.
    pub(crate) fn books_of(&self, id: &BudgetId) -> impl Iterator<Item = &BookState<'a>> {
        self.books.iter().filter(move |(book, _)| book.id == *id).map(|(_, state)| state)
    }

    /// The allowances of all gateways. A gateway without its crash marks spends another one.
    fn allowances(&self, id: &BudgetId) -> i128 {
        let allowances = self.gateways.len() + self.marks_lost.len();
        self.rule(id).map_or(0, |rule| rule.allowance) * allowances as i128
    }

    /// The most that compensations may spend. A crash charges those that are about to be sent, and
    /// the next process sends them again.
    pub(crate) fn compensations(&self, id: &BudgetId) -> i128 {
        let mut compensations =
            self.calls_of(id).filter(|call| call.is_compensation).map(Call::executed).peekable();
        let crashes = compensations.peek().map_or(0, |_| self.overcharges(id));
        compensations.sum::<i128>() + crashes
    }

    /// The spending without rights that the ledger may not know, because its crash marks are lost.
    pub(crate) fn unmarked(&self, id: &BudgetId) -> i128 {
        if self.marks_lost.is_empty() {
            return 0;
        }
        let allowance = self.rule(id).map_or(0, |rule| rule.allowance);
        allowance * self.marks_lost.len() as i128 + self.compensations(id)
    }

    /// The most that may be spent from a book of a database that loses nothing: the contract.
    fn contract(&self, id: &BudgetId, state: &BookState<'_>) -> i128 {
        state.ceiling + state.reclaimed() + self.allowances(id) + self.compensations(id)
    }

    /// The most that may be spent from a book: the contract with its exceptions.
    pub(crate) fn bound(&self, id: &BudgetId, state: &BookState<'_>) -> i128 {
        self.contract(id, state) + state.lost
    }

    /// The most that crashes overcharge in all windows of a budget.
    pub(crate) fn overcharges(&self, id: &BudgetId) -> i128 {
        // A process has accounts of windows that have just ended, too.
        let accounts = if self.books_of(id).count() > 1 { OPEN_WINDOWS } else { 1 };
        let price = self.rule(id).map_or(0, |rule| rule.price);
        price * self.calls_per_crash * self.crashes * accounts
    }

    /// Rights that were returned before the database lost this, and that no gateway can return again.
    pub(crate) fn restored(&self, figures: &Figures) -> i128 {
        let accounts = figures.accounts.iter().filter(|account| {
            self.loses_transactions && self.marks_lost.contains(&account.gateway.as_str())
        });
        accounts.map(AccountFigures::unspent).sum()
    }

    pub(crate) fn summary(&self) -> SpendingSummary {
        let mut summary = SpendingSummary::default();
        for (book, state) in &self.books {
            let bound = self.contract(&book.id, state);
            summary.lost += state.lost;
            summary.excess += (i128::from(state.figures.settled) - bound).max(0);
            summary.settled += i128::from(state.figures.settled);
            summary.overshoot += i128::from(state.figures.overshoot);
            summary.reclaimed += state.reclaimed();
        }
        for id in self.budgets() {
            summary.executed += self.calls_of(id).map(Call::executed).sum::<i128>();
        }
        summary
    }
}

/// The amounts of a history, over all budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpendingSummary {
    /// The spending in the ledger.
    pub settled: i128,
    /// The prices of the executed calls.
    pub executed: i128,
    /// The spending without rights.
    pub overshoot: i128,
    /// The rights that operators reclaimed.
    pub reclaimed: i128,
    /// Grants that the database lost and no gateway claimed.
    pub lost: i128,
    /// The spending beyond the contract of a database that loses nothing.
    pub excess: i128,
}

impl fmt::Display for SpendingSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settled, executed, overshoot, reclaimed, lost, excess } = *self;
        let amount = |micros: i128| format!("{}.{:06}", micros / UNIT, micros % UNIT);
        write!(f, "settled {}, executed {}", amount(settled), amount(executed))?;
        write!(f, ", overshoot {}, reclaimed {}", amount(overshoot), amount(reclaimed))?;
        write!(f, ", lost grants {}, excess {}", amount(lost), amount(excess))
    }
}

fn is_gateway(line: &Line) -> bool {
    line.who.starts_with("gateway-")
}

fn event(line: &Line) -> Option<&BudgetEvent> {
    match &line.event {
        Event::Budget { budget } => Some(budget),
        _ => None,
    }
}

fn ended(line: &Line) -> Option<(&Book, &Figures, u64)> {
    match event(line)? {
        BudgetEvent::Ended { book, figures } => Some((book, figures, line.n)),
        _ => None,
    }
}

/// The highest limit of a book that could be in force, or the exposure when it was lowered. Lost
/// transactions can restore any earlier limit, and later exposures lack unclaimed rights.
fn ceiling(lines: &[Line], book: &Book, limit: i128) -> i128 {
    let (mut ceiling, mut peak, mut is_complete) = (limit, limit, true);
    for event in lines.iter().filter_map(event) {
        match event {
            BudgetEvent::LimitRequested { book: changed, limit } if changed == book => {
                ceiling = ceiling.max((*limit).into());
                peak = peak.max((*limit).into());
            }
            BudgetEvent::LimitInForce { book: changed, limit, exposed } if changed == book => {
                let lowered = i128::from(*limit).max((*exposed).into());
                ceiling = if is_complete { lowered } else { ceiling.max(lowered) };
            }
            BudgetEvent::TransactionsLost { .. } => {
                (ceiling, is_complete) = (ceiling.max(peak), false);
            }
            _ => {}
        }
    }
    ceiling
}

/// The rights of gateways without crash marks that the database lost and that are not known at the
/// end. All others claim theirs.
fn lost(lines: &[Line], book: &Book, figures: &Figures, marks_lost: &[&str]) -> i128 {
    let mut lost: BTreeMap<[&str; 2], i128> = BTreeMap::new();
    for event in lines.iter().filter_map(event) {
        let BudgetEvent::TransactionsLost { accounts } = event else { continue };
        for BookAccount { account, .. } in accounts.iter().filter(|known| known.book == *book) {
            let AccountFigures { gateway, epoch, .. } = account;
            if !marks_lost.contains(&gateway.as_str()) {
                continue;
            }
            let is_same = |of: &&AccountFigures| (&of.gateway, &of.epoch) == (gateway, epoch);
            let missing = missing(account, figures.accounts.iter().find(is_same));
            let known = lost.entry([gateway, epoch]).or_default();
            *known = missing.max(*known);
        }
    }
    lost.values().sum()
}

/// The exposure above the ceiling that the database lost, as far as allowances and forced spending
/// explain it. The record of this overshoot can be lost while gateways claim the rights for it. The
/// overshoot at the end contains a record that survives.
fn unrecorded(lines: &[Line], book: &Book, ceiling: i128, allowance: i128) -> i128 {
    let mut known: BTreeMap<[&str; 2], [i128; 2]> = BTreeMap::new();
    let mut kept = 0;
    for event in lines.iter().filter_map(event) {
        if let BudgetEvent::OvershootKept { book: known, overshoot } = event
            && known == book
        {
            kept = i128::from(*overshoot);
        }
        let BudgetEvent::TransactionsLost { accounts } = event else { continue };
        kept = 0;
        for BookAccount { account, .. } in accounts.iter().filter(|known| known.book == *book) {
            let AccountFigures { gateway, epoch, forced, .. } = account;
            let [most_exposed, most_forced] = known.entry([gateway, epoch]).or_default();
            *most_exposed = account.exposure().max(*most_exposed);
            *most_forced = i128::from(*forced).max(*most_forced);
        }
    }
    let exposed: i128 = known.values().map(|[exposed, _]| exposed).sum();
    let explained: i128 = known.values().map(|[_, forced]| forced + allowance).sum();
    (explained.min(exposed - ceiling) - kept).max(0)
}

/// The rights of an account that are not known at the end. A closed account has reported all its
/// spending.
fn missing(before: &AccountFigures, after: Option<&AccountFigures>) -> i128 {
    let missing = match after {
        None => before.exposure(),
        Some(after) if after.is_closed => 0,
        Some(after) if before.is_closed => i128::from(before.settled) - i128::from(after.settled),
        Some(after) => i128::from(before.granted) - i128::from(after.granted),
    };
    missing.max(0)
}

/// The most calls at one gateway that began in one second, plus the most that were in flight. A
/// crash overcharges at most the price of this number of calls.
fn calls_per_second(lines: &[Line], calls: &BTreeMap<&str, Call<'_>>) -> i128 {
    let mut gateways: BTreeMap<&str, Load> = BTreeMap::new();
    for line in lines {
        match event(line) {
            Some(BudgetEvent::Pay { gateway, .. }) => {
                gateways.entry(gateway).or_default().begin(line.us);
            }
            Some(BudgetEvent::Answered { call, .. }) => {
                if let Some(call) = calls.get(call.as_str()) {
                    gateways.entry(call.gateway).or_default().in_flight -= 1;
                }
            }
            _ => {}
        }
    }
    gateways.values().map(|load| load.most_begun + load.most_in_flight).max().unwrap_or_default()
}

#[derive(Debug, Default)]
struct Load {
    begun: VecDeque<u64>,
    most_begun: i128,
    in_flight: i128,
    most_in_flight: i128,
}

impl Load {
    fn begin(&mut self, us: u64) {
        self.begun.push_back(us);
        while self.begun.front().is_some_and(|first| first.saturating_add(SECOND) < us) {
            self.begun.pop_front();
        }
        self.most_begun = self.most_begun.max(self.begun.len() as i128);
        self.in_flight += 1;
        self.most_in_flight = self.most_in_flight.max(self.in_flight);
    }
}
