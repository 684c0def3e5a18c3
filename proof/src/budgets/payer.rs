//! A caller of priced tools at any gateway. It records each call before it is sent, and its answer.

use std::{sync::Arc, time::Duration};

use history_check::{BudgetEvent, Event, budget_event::Payment};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::catalog::{METER_TOOL, ONCE_TOOL, SAGA, budgets, price};
use crate::{
    fleet::{AGENTS, DECLINED, FleetGateway},
    history_writer::HistoryWriter,
    rng::Rng,
};

/// Time limit of an answer.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The time after which an impatient caller disconnects.
const IMPATIENCE: Duration = Duration::from_millis(20);
/// The longest pause between two calls, in milliseconds.
const PAUSE: u64 = 60;
/// Maximum number of duels until a call succeeds.
const DUELS: usize = 10;
/// Maximum number of calls until a gateway is warm, and the delay between them.
const WARM_UP: usize = 100;
const WARM_UP_DELAY: Duration = Duration::from_millis(100);

pub(super) struct Payer {
    who: String,
    gateways: Vec<FleetGateway>,
    history: Arc<HistoryWriter>,
    client: reqwest::Client,
    rng: Rng,
    calls: usize,
}

impl Payer {
    pub(super) fn new(
        index: usize,
        seed: u64,
        gateways: &[FleetGateway],
        history: &Arc<HistoryWriter>,
    ) -> Self {
        let who = format!("payer-{index}");
        let client = reqwest::Client::builder().timeout(TIMEOUT).build().expect("a client");
        let rng = Rng::new(seed, &who);
        let (gateways, history) = (gateways.to_vec(), history.clone());
        Self { who, gateways, history, client, rng, calls: 0 }
    }

    /// Calls tools until a time.
    pub(super) async fn run(mut self, until: Instant) {
        while Instant::now() < until {
            let gateway = self.rng.below(self.gateways.len());
            let tools =
                ["pay", "pay", "pay", "rent", "rent", "both", "lend", METER_TOOL, METER_TOOL, SAGA];
            let tool = *self.rng.pick(&tools);
            if self.rng.chance(3) {
                self.pay(gateway, tool, IMPATIENCE).await;
            } else {
                self.pay(gateway, tool, TIMEOUT).await;
            }
            let pause = self.rng.between(0, PAUSE);
            sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Two concurrent calls at two gateways, whose budget pays one.
    pub(super) async fn duel(first: &mut Self, second: &mut Self) {
        for _ in 0..DUELS {
            let (one, other) =
                tokio::join!(first.pay(0, ONCE_TOOL, TIMEOUT), second.pay(1, ONCE_TOOL, TIMEOUT));
            // The first call of a slow process may be denied before its crash mark is on disk.
            if [one, other].contains(&Payment::Paid {}) {
                return;
            }
        }
    }

    /// Pays at a gateway until a call succeeds, so that the gateway is warm.
    pub(super) async fn warm_up(&mut self, gateway: usize) {
        for _ in 0..WARM_UP {
            if self.pay(gateway, "lend", TIMEOUT).await == (Payment::Paid {}) {
                return;
            }
            sleep(WARM_UP_DELAY).await;
        }
    }

    async fn pay(&mut self, gateway: usize, tool: &str, patience: Duration) -> Payment {
        let gateway = &self.gateways[gateway];
        let Some(url) = gateway.url() else {
            return Payment::Failed { reason: "the gateway does not run".to_owned() };
        };
        self.calls += 1;
        let call = format!("{}-{}", self.who, self.calls);
        let agent = *self.rng.pick(&AGENTS);
        self.note(BudgetEvent::Pay {
            call: call.clone(),
            gateway: gateway.name.clone(),
            price: price(tool),
            budgets: budgets(tool, agent),
        });
        if tool == SAGA {
            self.note(BudgetEvent::Compensates { call: call.clone() });
        }
        let message = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": tool, "arguments": { "id": call } },
        });
        let request = self
            .client
            .post(url)
            .header("content-type", "application/json")
            .header("x-agent-name", agent)
            .header("x-request-id", &call)
            .body(message.to_string());
        let answer = match timeout(patience, answer(request)).await {
            Ok(answer) => answer.unwrap_or_else(|reason| Payment::Failed { reason }),
            Err(_) => Payment::Failed { reason: "the caller disconnected".to_owned() },
        };
        self.note(BudgetEvent::Answered { call, answer: answer.clone() });
        answer
    }

    fn note(&self, budget: BudgetEvent) {
        self.history.note(&self.who, Event::Budget { budget });
    }
}

async fn answer(request: reqwest::RequestBuilder) -> Result<Payment, String> {
    let response = request.send().await.map_err(|e| e.to_string())?;
    let text = response.text().await.map_err(|e| e.to_string())?;
    let message: Value = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
    let result = &message["result"];
    let denial = &result["_meta"]["registry/governance"];
    if let Some(reason) = denial["reason"].as_str() {
        let details = denial["error"]["details"].clone();
        return Ok(Payment::Denied { reason: reason.to_owned(), details });
    }
    if result["structuredContent"].is_object() || message["error"]["message"] == DECLINED {
        return Ok(Payment::Paid {});
    }
    Err(text)
}
