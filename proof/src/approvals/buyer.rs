//! A caller of tools that need approvals, at any gateway. It repeats calls, continues questions, and
//! replays states. Several callers have the same agent, and with it the same approvals.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use history_check::{ApprovalEvent, Event, approval_event::Reply};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::catalog::{ASK_TOOL, PAY_TOOL, TOOLS, order};
use crate::{
    fleet::{AGENTS, DECLINED, FleetGateway},
    history_writer::HistoryWriter,
    rng::Rng,
};

/// The member of `tracestate` with the id of the call.
pub(super) const CALL: &str = "call=";
const MODERN: &str = "2026-07-28";
/// Time limit of an answer. A claim may try two servers for two seconds each.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The time after which an impatient caller disconnects.
const IMPATIENCE: Duration = Duration::from_millis(20);
/// The longest pause between two calls, in milliseconds.
const PAUSE: u64 = 60;
/// The time after which an agent has a new order for each tool. It calls the last ones.
const ORDER: Duration = Duration::from_millis(600);
const ORDERS: u64 = 2;
/// The number of questions that callers remember.
const QUESTIONS: usize = 6;
/// Maximum number of calls until a gateway is warm, and the delay between them.
const WARM_UP: usize = 200;
const WARM_UP_DELAY: Duration = Duration::from_millis(50);
/// The numbers of the orders before the first fault.
const FIRST: u64 = 1_000_000;

/// A call.
#[derive(Debug, Clone)]
struct Order {
    agent: &'static str,
    tool: &'static str,
    arguments: Value,
    /// The state of the question that it continues.
    state: Option<Value>,
}

/// The questions that the callers have received, also those that are answered.
#[derive(Debug, Clone, Default)]
pub(super) struct Questions(Arc<Mutex<VecDeque<Order>>>);

impl Questions {
    fn add(&self, question: Order) {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        questions.push_back(question);
        if questions.len() > QUESTIONS {
            questions.pop_front();
        }
    }

    fn pick(&self, rng: &mut Rng) -> Option<Order> {
        let questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        questions.get(rng.below(questions.len())).cloned()
    }
}

/// The answer to a call, and the state of a question.
struct Answered {
    reply: Reply,
    state: Option<Value>,
}

impl Answered {
    fn failed(reason: impl Into<String>) -> Self {
        Self { reply: Reply::Failed { reason: reason.into() }, state: None }
    }
}

pub(super) struct Buyer {
    who: String,
    gateways: Vec<FleetGateway>,
    history: Arc<HistoryWriter>,
    questions: Questions,
    client: reqwest::Client,
    rng: Rng,
    calls: usize,
}

impl Buyer {
    pub(super) fn new(
        index: usize,
        seed: u64,
        gateways: &[FleetGateway],
        history: &Arc<HistoryWriter>,
        questions: &Questions,
    ) -> Self {
        let who = format!("buyer-{index}");
        let client = reqwest::Client::builder().timeout(TIMEOUT).build().expect("a client");
        let rng = Rng::new(seed, &who);
        let (gateways, history) = (gateways.to_vec(), history.clone());
        Self { who, gateways, history, questions: questions.clone(), client, rng, calls: 0 }
    }

    /// Calls tools until a time.
    pub(super) async fn run(mut self, began: Instant, until: Instant) {
        while Instant::now() < until {
            let old = if self.rng.chance(25) { self.questions.pick(&mut self.rng) } else { None };
            let call = match old {
                Some(question) => self.changed(question),
                None => self.order(began),
            };
            self.buy(call).await;
            let pause = self.rng.between(0, PAUSE);
            sleep(Duration::from_millis(pause)).await;
        }
    }

    /// An order of an agent. Some are called by the other one.
    fn order(&mut self, began: Instant) -> Order {
        let newest = began.elapsed().as_millis() / ORDER.as_millis();
        let newest = u64::try_from(newest).unwrap_or(u64::MAX);
        let number = newest + self.rng.between(0, ORDERS - 1);
        let (owner, tool) = (*self.rng.pick(&AGENTS), *self.rng.pick(&TOOLS));
        let agent = if self.rng.chance(10) { *self.rng.pick(&AGENTS) } else { owner };
        Order { agent, tool, arguments: order(owner, tool, number), state: None }
    }

    /// A question that is continued again. Some callers are others, or have other arguments.
    fn changed(&mut self, mut question: Order) -> Order {
        if self.rng.chance(15) {
            question.agent = *self.rng.pick(&AGENTS);
        }
        if self.rng.chance(15) {
            question.arguments["amount"] = json!(self.rng.between(0, 9));
        }
        question
    }

    /// Calls a tool, and continues its questions.
    async fn buy(&mut self, mut call: Order) {
        loop {
            let gateway = self.rng.below(self.gateways.len());
            let patience = if self.rng.chance(3) { IMPATIENCE } else { TIMEOUT };
            let Answered { reply, state } = self.call(gateway, &call, patience).await;
            if reply != (Reply::Asked {}) {
                return;
            }
            call.state = state;
            self.questions.add(call.clone());
            if self.rng.chance(10) {
                return;
            }
        }
    }

    /// Calls at each gateway until a call succeeds. Then two callers compete at two gateways for the
    /// approvals of one order and of one question.
    pub(super) async fn warm_up(first: &mut Self, second: &mut Self) {
        for (gateway, number) in (0..first.gateways.len()).zip(FIRST..) {
            let order = Self::first(PAY_TOOL, number);
            assert!(first.repeat(gateway, &order).await, "no call of gateway {gateway} succeeds");
        }
        for (number, tool) in [(FIRST + 100, PAY_TOOL), (FIRST + 200, ASK_TOOL)] {
            let order = Self::first(tool, number);
            tokio::join!(first.repeat(0, &order), second.repeat(1, &order));
        }
        let Some(question) = first.questions.pick(&mut first.rng) else { return };
        tokio::join!(first.call(0, &question, TIMEOUT), second.call(1, &question, TIMEOUT));
    }

    fn first(tool: &'static str, number: u64) -> Order {
        let agent = AGENTS[0];
        Order { agent, tool, arguments: order(agent, tool, number), state: None }
    }

    /// Repeats a call until it is executed. Returns whether it is.
    async fn repeat(&mut self, gateway: usize, order: &Order) -> bool {
        for _ in 0..WARM_UP {
            let Answered { reply, state } = self.call(gateway, order, TIMEOUT).await;
            match reply {
                Reply::Done {} => return true,
                Reply::Asked {} => {
                    self.questions.add(Order { state, ..order.clone() });
                    return true;
                }
                Reply::Rejected { .. } | Reply::Failed { .. } => sleep(WARM_UP_DELAY).await,
            }
        }
        false
    }

    async fn call(&mut self, gateway: usize, order: &Order, patience: Duration) -> Answered {
        let gateway = &self.gateways[gateway];
        let Some(url) = gateway.url() else {
            return Answered::failed("the gateway does not run");
        };
        self.calls += 1;
        let call = format!("{}-{}", self.who, self.calls);
        let Order { agent, tool, arguments, state } = order;
        self.note(ApprovalEvent::Called {
            call: call.clone(),
            gateway: gateway.name.clone(),
            agent: (*agent).to_owned(),
            arguments: arguments.clone(),
        });
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "traceparent": format!("00-{:032x}-{:016x}-00", self.calls, self.calls),
            "tracestate": format!("{CALL}{call}"),
        });
        let mut params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        if let Some(state) = state {
            params["requestState"] = state.clone();
            params["inputResponses"] = json!({});
        }
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let request = self
            .client
            .post(url)
            .header("content-type", "application/json")
            .header("mcp-protocol-version", MODERN)
            .header("mcp-method", "tools/call")
            .header("mcp-name", *tool)
            .header("x-agent-name", *agent)
            .header("x-request-id", &call)
            .body(message.to_string());
        let answered = match timeout(patience, answer(request)).await {
            Ok(answered) => answered.unwrap_or_else(Answered::failed),
            Err(_) => Answered::failed("the caller disconnected"),
        };
        self.note(ApprovalEvent::Answered { call, reply: answered.reply.clone() });
        answered
    }

    fn note(&self, approval: ApprovalEvent) {
        self.history.note(&self.who, Event::Approval { approval });
    }
}

async fn answer(request: reqwest::RequestBuilder) -> Result<Answered, String> {
    let response = request.send().await.map_err(|e| e.to_string())?;
    let text = response.text().await.map_err(|e| e.to_string())?;
    let message: Value = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
    let result = &message["result"];
    let answered = |reply| Ok(Answered { reply, state: None });
    let denial = &result["_meta"]["registry/governance"];
    if let Some(reason) = denial["reason"].as_str() {
        let request = denial["error"]["details"]["approvalId"].as_str().map(str::to_owned);
        return answered(Reply::Rejected { reason: reason.to_owned(), request });
    }
    if result["resultType"] == "input_required" {
        let state = Some(result["requestState"].clone());
        return Ok(Answered { reply: Reply::Asked {}, state });
    }
    if result["structuredContent"].is_object() || message["error"]["message"] == DECLINED {
        return answered(Reply::Done {});
    }
    Err(text)
}
