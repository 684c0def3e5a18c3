//! The validators of budgets accept a correct history, and detect each broken variant of the ledger.

use history_check::{
    BudgetEvent, Event, History, Line, SpendingSummary, Workload,
    budget_event::{AccountFigures, Book, BookAccount, BudgetId, Figures, Payment},
    event::FORMAT,
    validators_of,
};
use serde_json::{Value, json};

const PRICE: i64 = 1_000;
/// The limit pays five calls.
const LIMIT: i64 = 5 * PRICE;

fn book(budget: &str) -> Book {
    let id = BudgetId {
        policy: "costs".to_owned(),
        budget: budget.to_owned(),
        subject: "fleet".to_owned(),
    };
    Book { id, window: "total".to_owned() }
}

/// The account of a gateway with rights for as many calls as it has spent.
fn account(gateway: &str, epoch: &str, calls: i64) -> AccountFigures {
    AccountFigures {
        gateway: gateway.to_owned(),
        epoch: epoch.to_owned(),
        granted: calls * PRICE,
        returned: 0,
        settled: calls * PRICE,
        forced: 0,
        is_closed: true,
    }
}

/// The figures with the sums of these accounts.
fn figures(accounts: Vec<AccountFigures>) -> Figures {
    let sum = |amount: fn(&AccountFigures) -> i64| accounts.iter().map(amount).sum();
    let exposure = |account: &AccountFigures| i64::try_from(account.exposure()).expect("an amount");
    Figures {
        settled: sum(|account| account.settled),
        exposed: sum(exposure),
        accounts,
        ..Figures::default()
    }
}

/// A history under construction.
struct Script {
    lines: Vec<Line>,
    calls: usize,
}

impl Script {
    fn new() -> Self {
        let begin =
            Event::Begin { format: FORMAT, workload: Workload::Budgets, seed: 1, plan: vec![] };
        let mut script = Self { lines: Vec::new(), calls: 0 };
        script.event("recorder", begin);
        script.rule("shared", LIMIT, PRICE);
        script
    }

    fn event(&mut self, who: &str, event: Event) {
        let n = self.lines.len() as u64 + 1;
        // Ten events per second.
        self.lines.push(Line { n, us: n * 100_000, wall: 0, who: who.to_owned(), event });
    }

    fn budget(&mut self, who: &str, budget: BudgetEvent) {
        self.event(who, Event::Budget { budget });
    }

    fn rule(&mut self, budget: &str, limit: i64, price: i64) {
        let (policy, budget) = ("costs".to_owned(), budget.to_owned());
        self.budget("recorder", BudgetEvent::Rule { policy, budget, limit, price, allowance: 0 });
    }

    /// A history of gateways with an allowance. One that starts twice has a new process on its disk.
    fn with_allowance(allowance: i64, starts: &[&str]) -> Self {
        let mut script = Self::new();
        let Book { id: BudgetId { policy, budget, .. }, .. } = book("shared");
        let (limit, price) = (LIMIT, PRICE);
        script.budget("recorder", BudgetEvent::Rule { policy, budget, limit, price, allowance });
        for gateway in starts {
            script.event(gateway, Event::Started { revision: None });
        }
        script
    }

    /// A call that the tool may execute, with its answer and the charge in the audit log.
    fn call(&mut self, budget: &str, price: i64, is_executed: bool, answer: Payment, charged: i64) {
        self.calls += 1;
        let call = format!("call-{}", self.calls);
        let budgets = vec![book(budget).id];
        let gateway = "gateway-0".to_owned();
        self.budget("payer-0", BudgetEvent::Pay { call: call.clone(), gateway, price, budgets });
        if is_executed {
            self.budget("backend", BudgetEvent::Executed { call: call.clone() });
        }
        self.budget("payer-0", BudgetEvent::Answered { call: call.clone(), answer });
        self.budget("gateway-0", BudgetEvent::Charged { call, amount: charged });
    }

    /// Calls that are executed and charged.
    fn pay(&mut self, calls: usize) {
        for _ in 0..calls {
            self.call("shared", PRICE, true, Payment::Paid {}, PRICE);
        }
    }

    /// A call that is executed once. The tool reports a price, and the gateway charges an amount.
    fn report(&mut self, price: i64, answer: Payment, charged: i64) {
        self.call("shared", PRICE, true, answer, charged);
        let call = format!("call-{}", self.calls);
        self.budget("backend", BudgetEvent::Reported { call, price });
    }

    /// A call that fails after its tool was compensated.
    fn compensate(&mut self) {
        self.calls += 1;
        let call = format!("call-{}", self.calls);
        let (gateway, budgets) = ("gateway-0".to_owned(), vec![book("shared").id]);
        let price = PRICE;
        self.budget("payer-0", BudgetEvent::Pay { call: call.clone(), gateway, price, budgets });
        self.budget("payer-0", BudgetEvent::Compensates { call: call.clone() });
        self.budget("backend", BudgetEvent::Executed { call: call.clone() });
        let answer = Payment::Failed { reason: "compensated".to_owned() };
        self.budget("payer-0", BudgetEvent::Answered { call, answer });
    }

    fn deny(&mut self, is_executed: bool, reason: &str, details: Value) {
        let denied = Payment::Denied { reason: reason.to_owned(), details };
        self.call("shared", PRICE, is_executed, denied, i64::from(is_executed) * PRICE);
    }

    fn end(&mut self, budget: &str, figures: Figures) {
        self.event("recorder", Event::Settled {});
        self.budget("recorder", BudgetEvent::Ended { book: book(budget), figures });
    }

    /// A history whose ledger has these accounts at the end.
    fn ended(mut self, accounts: Vec<AccountFigures>) -> Self {
        self.end("shared", figures(accounts));
        self
    }

    /// The names of the validators that detect a violation, after a round trip through the file.
    fn violated(&self) -> Vec<&'static str> {
        let text: Vec<_> =
            self.lines.iter().map(|line| serde_json::to_string(line).expect("JSON")).collect();
        let history = History::parse(&text.join("\n")).expect("a history");
        let validators = validators_of(&history).iter();
        let violated = validators.filter(|validator| !(validator.check)(&history).is_empty());
        violated.map(|validator| validator.name).collect()
    }

    fn summary(&self) -> SpendingSummary {
        History::new(self.lines.clone()).spending().expect("a history with budgets")
    }
}

fn denial() -> Value {
    json!({
        "policy": "costs", "budget": "shared", "limit": "0.005", "spent": "0.005",
        "reserved": "0", "requested": "0.001", "inDoubt": "0",
    })
}

fn before(account: AccountFigures) -> BudgetEvent {
    BudgetEvent::TransactionsLost { accounts: vec![BookAccount { book: book("shared"), account }] }
}

#[test]
fn spent_limit_with_denial_satisfies_all() {
    let mut script = Script::new();
    script.pay(5);
    script.deny(false, "BUDGET_EXCEEDED", denial());
    let script = script.ended(vec![account("a", "1", 3), account("b", "1", 2)]);
    assert!(script.violated().is_empty());
    let expected = i128::from(LIMIT);
    let SpendingSummary { settled, executed, excess, .. } = script.summary();
    assert_eq!((settled, executed, excess), (expected, expected, 0));
}

#[test]
fn credit_on_silence_violates_budget() {
    // The ledger took the rights of a silent gateway, which spent them later.
    let mut script = Script::new();
    script.pay(10);
    let script = script.ended(vec![account("a", "1", 5), account("b", "1", 5)]);
    assert_eq!(script.violated(), ["budget"]);
}

#[test]
fn merged_epochs_violate_budget_and_charges() {
    // The maximum of the totals of two processes is below their sum.
    let mut script = Script::new();
    script.pay(10);
    let script = script.ended(vec![account("a", "0", 5)]);
    assert_eq!(script.violated(), ["budget", "charged"]);
}

#[test]
fn grants_from_stale_aggregate_violate_budget() {
    // Two transactions read the same sum: the rights exceed the limit, spent or not.
    let mut script = Script::new();
    script.pay(2);
    let open = |gateway: &str| AccountFigures {
        settled: PRICE,
        is_closed: false,
        ..account(gateway, "1", 5)
    };
    let script = script.ended(vec![open("a"), open("b")]);
    assert!(script.violated().contains(&"budget"));
    let mut sums = Script::new();
    sums.pay(2);
    let accounts = figures(vec![account("a", "1", 1), account("b", "1", 1)]);
    sums.end("shared", Figures { exposed: PRICE, ..accounts });
    assert!(sums.violated().contains(&"budget"), "the sum lacks an account");
}

#[test]
fn missing_recovery_violates_budget() {
    // The ledger granted lost rights again before their gateway claimed them.
    let mut script = Script::new();
    script.budget("nemesis", before(AccountFigures { is_closed: false, ..account("a", "1", 5) }));
    script.pay(10);
    let script = script.ended(vec![account("a", "1", 5), account("b", "1", 5)]);
    assert_eq!(script.violated(), ["budget"]);
}

#[test]
fn grant_of_old_generation_violates_budget() {
    // A gateway reported all its totals, and then accepted a late grant that the ledger had lost.
    let mut script = Script::new();
    script.budget("nemesis", before(AccountFigures { is_closed: false, ..account("a", "1", 3) }));
    script.pay(8);
    let script = script.ended(vec![account("a", "1", 3), account("b", "1", 5)]);
    assert_eq!(script.violated(), ["budget"]);
}

#[test]
fn released_unknown_outcome_violates_charges() {
    let mut script = Script::new();
    script.pay(2);
    let timeout = Payment::Failed { reason: "timeout".to_owned() };
    script.call("shared", PRICE, true, timeout, 0);
    assert_eq!(script.ended(vec![account("a", "1", 2)]).violated(), ["charged"]);
}

#[test]
fn reported_price_satisfies_all() {
    let mut script = Script::new();
    script.report(PRICE / 4, Payment::Paid {}, PRICE / 4);
    let timeout = Payment::Failed { reason: "timeout".to_owned() };
    script.report(PRICE / 2, timeout, PRICE);
    let settled = PRICE / 4 + PRICE;
    let spent = AccountFigures { granted: 2 * PRICE, settled, ..account("a", "1", 2) };
    assert!(script.ended(vec![spent]).violated().is_empty());
}

#[test]
fn ignored_report_violates_charges() {
    // The gateway charged the maximum although it received the price.
    let mut script = Script::new();
    script.report(PRICE / 4, Payment::Paid {}, PRICE);
    assert_eq!(script.ended(vec![account("a", "1", 1)]).violated(), ["charged"]);
}

#[test]
fn report_without_effect_in_ledger_violates_recovery() {
    // The audit log has the reported price, and the account kept the maximum.
    let mut script = Script::new();
    script.report(PRICE / 4, Payment::Paid {}, PRICE / 4);
    assert_eq!(script.ended(vec![account("a", "1", 1)]).violated(), ["recovered"]);
}

#[test]
fn charge_below_report_violates_charges() {
    let mut script = Script::new();
    script.report(PRICE / 2, Payment::Paid {}, PRICE / 4);
    let spent = AccountFigures { settled: PRICE / 2, ..account("a", "1", 1) };
    assert_eq!(script.ended(vec![spent]).violated(), ["charged"]);
}

#[test]
fn compensations_beyond_limit_satisfy_all() {
    let history = |compensations: usize| {
        let mut script = Script::new();
        script.pay(5);
        for _ in 0..compensations {
            script.compensate();
        }
        let accounts = figures(vec![account("a", "1", 7)]);
        script.end("shared", Figures { overshoot: 2 * PRICE, ..accounts });
        script
    };
    assert!(history(2).violated().is_empty());
    assert_eq!(history(2).summary().excess, 0);
    assert_eq!(history(1).violated(), ["budget", "recovered"], "one was charged twice");
}

#[test]
fn free_compensation_violates_charges() {
    let history = |loses_marks: bool| {
        let mut script = Script::new();
        script.pay(5);
        script.compensate();
        if loses_marks {
            script.budget("gateway-0", BudgetEvent::MarksLost { gateway: "a".to_owned() });
        }
        script.ended(vec![account("a", "1", 5)])
    };
    assert_eq!(history(false).violated(), ["charged"]);
    assert!(history(true).violated().is_empty(), "its process left no marks");
}

#[test]
fn execution_without_call_violates_charges() {
    let mut script = Script::new();
    script.pay(1);
    script.budget("backend", BudgetEvent::Executed { call: "unknown".to_owned() });
    assert_eq!(script.ended(vec![account("a", "1", 1)]).violated(), ["charged"]);
}

#[test]
fn lost_grants_are_the_only_excess() {
    let history = |calls: usize| {
        let mut script = Script::new();
        let lost = AccountFigures { is_closed: false, ..account("a", "1", 2) };
        script.budget("nemesis", before(lost));
        script.budget("gateway-0", BudgetEvent::MarksLost { gateway: "a".to_owned() });
        script.pay(calls);
        script.ended(vec![account("b", "1", 5)])
    };
    // The disk of `a` is lost, too: nothing claims its two calls.
    let script = history(7);
    assert!(script.violated().is_empty());
    assert_eq!(script.summary().lost, i128::from(2 * PRICE));
    assert_eq!(history(8).violated(), ["budget", "charged"]);
}

#[test]
fn allowance_of_each_process_violates_budget() {
    // A new process on the same disk spent the allowance again.
    let history = |starts: &[&str], loses_marks: bool| {
        let mut script = Script::with_allowance(PRICE, starts);
        if loses_marks {
            script.budget("gateway-0", BudgetEvent::MarksLost { gateway: "a".to_owned() });
        }
        script.pay(7);
        let accounts = figures(vec![account("a", "1", 7)]);
        script.end("shared", Figures { overshoot: 2 * PRICE, ..accounts });
        script
    };
    assert!(history(&["gateway-0", "gateway-1"], false).violated().is_empty());
    assert_eq!(history(&["gateway-0", "gateway-0"], false).violated(), ["budget"]);
    assert!(history(&["gateway-0", "gateway-0"], true).violated().is_empty());
}

#[test]
fn lost_record_of_allowance_explains_exposure_before_the_loss() {
    // The gateway claims rights for its allowance. The database lost the overshoot.
    let history = |before_loss: i64, at_end: i64| {
        let mut script = Script::with_allowance(2 * PRICE, &["gateway-0", "gateway-1"]);
        let lost = AccountFigures { is_closed: false, ..account("a", "1", before_loss) };
        script.budget("nemesis", before(lost));
        script.pay(usize::try_from(at_end).expect("a number of calls"));
        script.ended(vec![account("a", "1", at_end)])
    };
    assert!(history(7, 7).violated().is_empty());
    assert_eq!(history(6, 7).violated(), ["budget"], "it was granted after the loss");
    assert_eq!(history(8, 8).violated(), ["budget"], "the allowance pays two calls");
}

#[test]
fn kept_record_of_allowance_explains_exposure_once() {
    let history = |overshoot: i64| {
        let mut script = Script::with_allowance(2 * PRICE, &["gateway-0", "gateway-1"]);
        let lost = AccountFigures { is_closed: false, ..account("a", "1", 7) };
        script.budget("nemesis", before(lost));
        let kept = BudgetEvent::OvershootKept { book: book("shared"), overshoot };
        script.budget("nemesis", kept);
        script.pay(9);
        let accounts = figures(vec![account("a", "1", 7), account("b", "1", 2)]);
        script.end("shared", Figures { overshoot: 2 * PRICE, ..accounts });
        script
    };
    assert!(history(0).violated().is_empty(), "the record is that of the second gateway");
    assert_eq!(
        history(2 * PRICE).violated(),
        ["budget"],
        "the ledger granted rights beyond the limit"
    );
}

#[test]
fn lowered_limit_keeps_earlier_exposure() {
    let history = |exposed: i64, is_lossy: bool| {
        let mut script = Script::new();
        let limit = 2 * PRICE;
        if is_lossy {
            script.budget("nemesis", before(account("a", "1", 4)));
        }
        script.budget("recorder", BudgetEvent::LimitRequested { book: book("shared"), limit });
        script
            .budget("recorder", BudgetEvent::LimitInForce { book: book("shared"), limit, exposed });
        script.pay(4);
        script.ended(vec![account("a", "1", 4)])
    };
    assert!(history(4 * PRICE, false).violated().is_empty());
    assert_eq!(history(3 * PRICE, false).violated(), ["budget"]);
    assert!(history(0, true).violated().is_empty(), "the ledger does not know all rights");
}

#[test]
fn raised_limit_allows_more_before_answer() {
    let mut script = Script::new();
    let limit = 6 * PRICE;
    script.budget("recorder", BudgetEvent::LimitRequested { book: book("shared"), limit });
    script.pay(6);
    assert!(script.ended(vec![account("a", "1", 6)]).violated().is_empty());
}

#[test]
fn rights_in_doubt_after_restart_violate_recovery() {
    let history = |loses_marks: bool| {
        let mut script = Script::new();
        script.pay(1);
        if loses_marks {
            script.budget("gateway-0", BudgetEvent::MarksLost { gateway: "a".to_owned() });
        }
        let open = AccountFigures { settled: PRICE, is_closed: false, ..account("a", "1", 2) };
        let figures = Figures { in_doubt: PRICE, ..figures(vec![open]) };
        script.end("shared", figures);
        script
    };
    assert_eq!(history(false).violated(), ["recovered"]);
    assert!(history(true).violated().is_empty(), "its process left no marks");
}

#[test]
fn crash_charges_at_most_one_second() {
    let history = |crashes: usize, settled: i64| {
        let mut script = Script::new();
        script.pay(1);
        for _ in 0..crashes {
            script.event("gateway-0", Event::Killed {});
        }
        script.ended(vec![account("a", "1", settled)])
    };
    // One call begins in a second, and one is in flight.
    assert!(history(1, 3).violated().is_empty());
    assert_eq!(history(1, 4).violated(), ["recovered"]);
    assert_eq!(history(0, 2).violated(), ["recovered"]);
}

#[test]
fn gateways_that_never_settle_violate_recovery() {
    let mut script = Script::new();
    script.pay(1);
    let figures = figures(vec![account("a", "1", 1)]);
    script.budget("recorder", BudgetEvent::Ended { book: book("shared"), figures });
    assert_eq!(script.violated(), ["recovered"]);
}

#[test]
fn budget_of_one_call_executes_exactly_one() {
    let history = |calls: i64| {
        let mut script = Script::new();
        script.rule("once", PRICE, PRICE);
        for _ in 0..calls {
            script.call("once", PRICE, true, Payment::Paid {}, PRICE);
        }
        let failed = Payment::Failed { reason: "not sent".to_owned() };
        script.call("once", PRICE, false, failed, 0);
        script.end("once", figures(vec![account("a", "1", calls)]));
        script
    };
    assert!(history(1).violated().is_empty());
    assert_eq!(history(2).violated(), ["budget", "denied"]);
    assert_eq!(history(0).violated(), ["denied"]);
}

#[test]
fn invalid_denials_are_detected() {
    let violated = |is_executed: bool, reason: &str, details: Value| {
        let mut script = Script::new();
        script.deny(is_executed, reason, details);
        let calls = i64::from(is_executed);
        script.ended(vec![account("a", "1", calls)]).violated()
    };
    let changed = |member: &str, value: Value| {
        let mut details = denial();
        details[member] = value;
        details
    };
    assert!(violated(false, "BUDGET_EXCEEDED", denial()).is_empty());
    for (is_executed, reason, details) in [
        (true, "BUDGET_EXCEEDED", denial()),
        (false, "RATE_LIMITED", denial()),
        (false, "BUDGET_EXCEEDED", changed("budget", json!("other"))),
        (false, "BUDGET_EXCEEDED", changed("requested", json!("0.0011"))),
        (false, "BUDGET_EXCEEDED", changed("requested", json!(0.001))),
        (false, "BUDGET_EXCEEDED", changed("inDoubt", json!("-0.5"))),
        (false, "BUDGET_EXCEEDED", changed("spent", Value::Null)),
    ] {
        assert_eq!(
            violated(is_executed, reason, details.clone()),
            ["denied"],
            "{reason} {details}"
        );
    }
}
