//! The validators of approvals accept a correct history, and detect each broken variant of the protocol.

use history_check::{
    ApprovalEvent, ApprovalSummary, Event, History, Line, Workload, approval_event::Reply,
    event::FORMAT, validators_of,
};
use serde_json::{Value, json};

const REQUIRED: &str = "APPROVAL_REQUIRED";

/// A history under construction. The agent `clerk` calls.
struct Script {
    lines: Vec<Line>,
    calls: usize,
}

/// A received call.
#[derive(Default)]
struct Execution {
    state: Option<&'static str>,
    asks: Option<&'static str>,
}

impl Script {
    fn new() -> Self {
        let begin =
            Event::Begin { format: FORMAT, workload: Workload::Approvals, seed: 1, plan: vec![] };
        let mut script = Self { lines: Vec::new(), calls: 0 };
        script.event("recorder", begin);
        script
    }

    fn event(&mut self, who: &str, event: Event) {
        let n = self.lines.len() as u64 + 1;
        self.lines.push(Line { n, us: n * 1_000, wall: 0, who: who.to_owned(), event });
    }

    fn approval(&mut self, who: &str, approval: ApprovalEvent) {
        self.event(who, Event::Approval { approval });
    }

    /// A call is sent. Returns its id.
    fn call(&mut self, agent: &str, arguments: &Value) -> String {
        self.calls += 1;
        let call = format!("call-{}", self.calls);
        let (gateway, agent) = ("gateway-0".to_owned(), agent.to_owned());
        let arguments = arguments.clone();
        self.approval(
            "buyer-0",
            ApprovalEvent::Called { call: call.clone(), gateway, agent, arguments },
        );
        call
    }

    fn answer(&mut self, call: &str, reply: Reply) {
        self.approval("buyer-0", ApprovalEvent::Answered { call: call.to_owned(), reply });
    }

    /// A call that is rejected with a request.
    fn reject(&mut self, request: &str) -> String {
        let call = self.call("clerk", &order());
        let request = Some(request.to_owned());
        self.answer(&call, Reply::Rejected { reason: REQUIRED.to_owned(), request });
        call
    }

    fn decide(&mut self, request: &str, agent: &str, approves: bool) {
        let (request, agent, arguments) = (request.to_owned(), agent.to_owned(), order());
        self.approval("approver", ApprovalEvent::Decided { request, agent, arguments, approves });
    }

    /// A rejected call whose request is approved.
    fn approve(&mut self, request: &str) {
        self.reject(request);
        self.decide(request, "clerk", true);
    }

    fn execute(&mut self, call: &str, arguments: &Value, execution: &Execution) {
        let text = |text: &str| text.to_owned();
        let event = ApprovalEvent::Executed {
            call: call.to_owned(),
            arguments: arguments.clone(),
            state: execution.state.map(text),
            asks: execution.asks.map(text),
        };
        self.approval("backend", event);
    }

    /// A call of an agent that the tool executes. Returns its id.
    fn run(&mut self, agent: &str, arguments: &Value, execution: &Execution) -> String {
        let call = self.call(agent, arguments);
        self.execute(&call, arguments, execution);
        let reply = if execution.asks.is_some() { Reply::Asked {} } else { Reply::Done {} };
        self.answer(&call, reply);
        call
    }

    /// A call that the tool executes, and whose gateway logs the request.
    fn consume(&mut self, request: &str) {
        let call = self.run("clerk", &order(), &Execution::default());
        self.log(call, request);
    }

    fn log(&mut self, call: String, request: &str) {
        self.approval("gateway-0", ApprovalEvent::Used { call, request: request.to_owned() });
    }

    fn ended(mut self, requests: &[(&str, &str)]) -> Self {
        self.event("recorder", Event::Settled {});
        for (request, state) in requests {
            let (request, state) = ((*request).to_owned(), (*state).to_owned());
            self.approval("recorder", ApprovalEvent::Ended { request, state });
        }
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
}

fn order() -> Value {
    json!({ "id": "order-1", "amount": 7 })
}

#[test]
fn approved_rounds_satisfy_all() {
    let mut script = Script::new();
    script.approve("r1");
    script.reject("r1");
    let first = script.run("clerk", &order(), &Execution { asks: Some("q1"), state: None });
    script.log(first, "r1");
    script.run("clerk", &order(), &Execution { asks: Some("q2"), state: Some("q1") });
    script.run("clerk", &order(), &Execution { asks: None, state: Some("q2") });
    script.approve("r2");
    script.consume("r2");
    let script = script.ended(&[("r1", "consumed"), ("r2", "succeeded")]);
    assert!(script.violated().is_empty());
    let summary = History::new(script.lines).approvals().expect("a history with approvals");
    let expected = ApprovalSummary { calls: 7, rejected: 3, approved: 2, started: 2, continued: 2 };
    assert_eq!(summary, expected);
}

#[test]
fn consumption_that_is_not_atomic_is_detected() {
    // Two gateways read `approved` before one of them writes `consumed`.
    let mut script = Script::new();
    script.approve("r1");
    script.consume("r1");
    script.consume("r1");
    assert_eq!(script.ended(&[("r1", "succeeded")]).violated(), ["approved", "single"]);
}

#[test]
fn double_use_by_crashed_gateways_is_detected() {
    // The audit logs of both gateways lack the call.
    let mut script = Script::new();
    script.approve("r1");
    for _ in 0..2 {
        script.run("clerk", &order(), &Execution::default());
    }
    assert_eq!(script.ended(&[("r1", "consumed")]).violated(), ["approved"]);
}

#[test]
fn double_use_beside_unused_approval_is_detected() {
    // The number of executions is that of the approvals.
    let mut script = Script::new();
    script.approve("r1");
    script.approve("r2");
    script.consume("r1");
    script.consume("r1");
    assert_eq!(script.ended(&[]).violated(), ["single"]);
}

#[test]
fn replayed_round_is_detected() {
    let mut script = Script::new();
    script.approve("r1");
    script.run("clerk", &order(), &Execution { asks: Some("q1"), state: None });
    for _ in 0..2 {
        script.run("clerk", &order(), &Execution { asks: None, state: Some("q1") });
    }
    assert_eq!(script.ended(&[]).violated(), ["single"]);
}

#[test]
fn state_of_another_call_is_detected() {
    let history = |agent: &str, arguments: &Value| {
        let mut script = Script::new();
        script.approve("r1");
        script.run("clerk", &order(), &Execution { asks: Some("q1"), state: None });
        script.run(agent, arguments, &Execution { asks: None, state: Some("q1") });
        script.ended(&[]).violated()
    };
    assert!(history("clerk", &order()).is_empty());
    assert_eq!(history("buyer", &order()), ["approved"]);
    assert_eq!(history("clerk", &json!({ "id": "order-1", "amount": 8 })), ["approved"]);
}

#[test]
fn unknown_state_does_not_replace_an_approval() {
    let mut script = Script::new();
    script.approve("r1");
    script.consume("r1");
    script.run("clerk", &order(), &Execution { asks: None, state: Some("forged") });
    assert_eq!(script.ended(&[]).violated(), ["approved"]);
}

#[test]
fn repetition_after_crash_is_detected() {
    // The next process of a gateway sends the calls of the previous one again.
    let mut script = Script::new();
    script.approve("r1");
    let call = script.call("clerk", &order());
    script.execute(&call, &order(), &Execution::default());
    script.event("gateway-0", Event::Killed {});
    script.execute(&call, &order(), &Execution::default());
    assert_eq!(script.ended(&[]).violated(), ["approved", "single"]);
}

#[test]
fn other_arguments_are_detected() {
    // The caller sends other arguments than the approved ones, or its gateway changes them.
    let other = json!({ "id": "order-1", "amount": 70 });
    let mut calling = Script::new();
    calling.approve("r1");
    calling.run("clerk", &other, &Execution::default());
    assert_eq!(calling.ended(&[]).violated(), ["approved"]);
    let mut sending = Script::new();
    sending.approve("r1");
    let call = sending.call("clerk", &order());
    sending.execute(&call, &other, &Execution::default());
    assert_eq!(sending.ended(&[]).violated(), ["approved"]);
}

#[test]
fn call_of_another_caller_is_detected() {
    let mut script = Script::new();
    script.approve("r1");
    script.run("buyer", &order(), &Execution::default());
    assert_eq!(script.ended(&[]).violated(), ["approved"]);
}

#[test]
fn call_without_approval_is_detected() {
    let history = |decides: fn(&mut Script)| {
        let mut script = Script::new();
        script.reject("r1");
        decides(&mut script);
        script.consume("r1");
        script.ended(&[]).violated()
    };
    assert!(history(|script| script.decide("r1", "clerk", true)).is_empty());
    assert_eq!(history(|_| {}), ["approved"]);
    assert_eq!(history(|script| script.decide("r1", "clerk", false)), ["approved"]);
    assert_eq!(history(|script| script.decide("r2", "clerk", true)), ["approved"]);
}

#[test]
fn approval_after_execution_is_detected() {
    let mut script = Script::new();
    script.reject("r1");
    script.run("clerk", &order(), &Execution::default());
    script.decide("r1", "clerk", true);
    assert_eq!(script.ended(&[]).violated(), ["approved"]);
}

#[test]
fn execution_without_call_is_detected() {
    let mut script = Script::new();
    script.execute("call-0", &order(), &Execution::default());
    assert_eq!(script.ended(&[]).violated(), ["approved"]);
}

#[test]
fn rejected_call_must_not_be_sent() {
    let mut script = Script::new();
    script.decide("r1", "clerk", true);
    let call = script.reject("r1");
    script.execute(&call, &order(), &Execution::default());
    assert_eq!(script.ended(&[]).violated(), ["rejected"]);
}

#[test]
fn rejection_states_reason_and_request() {
    let violated = |reason: &str, request: Option<&str>| {
        let mut script = Script::new();
        let call = script.call("clerk", &order());
        let request = request.map(str::to_owned);
        script.answer(&call, Reply::Rejected { reason: reason.to_owned(), request });
        script.ended(&[]).violated()
    };
    assert!(violated(REQUIRED, Some("r1")).is_empty());
    assert!(violated("APPROVAL_UNAVAILABLE", None).is_empty());
    assert_eq!(violated(REQUIRED, None), ["rejected"]);
    assert_eq!(violated("BUDGET_EXCEEDED", Some("r1")), ["rejected"]);
}

#[test]
fn lost_consumption_is_detected() {
    // A restored database has the approval again.
    let history = |state: &str| {
        let mut script = Script::new();
        script.approve("r1");
        script.consume("r1");
        script.ended(&[("r1", state)]).violated()
    };
    assert!(history("invalid").is_empty());
    assert_eq!(history("approved"), ["stored"]);
}

#[test]
fn unlisted_requests_violate_storage() {
    assert_eq!(Script::new().violated(), ["stored"]);
}
