//! Alerts of budgets, with a webhook.

use std::{
    collections::BTreeSet,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use acceptance::{Registry, access::Guarded, eventually, postgres};
use gateway_testkit::{Received, Server, empty};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    budgets::{DOLLAR, FakeGateway, shown, spent},
    limit, roles,
};

const THRESHOLDS: [f64; 3] = [0.5, 0.8, 1.0];

/// A webhook, and the flags of servers that use it.
pub(super) struct Webhook {
    pub(super) server: Server,
    flags: [String; 4],
    _dir: TempDir,
}

impl Webhook {
    /// Answers with this status.
    pub(super) async fn start(status: impl Fn() -> u16 + Send + Sync + 'static) -> Self {
        let server = Server::start(move |_| empty(status())).await;
        let dir = tempfile::tempdir().expect("a directory");
        let secret = dir.path().join("secret");
        fs::write(&secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").expect("written");
        let flags = [
            "--budget-webhook-url".to_owned(),
            format!("http://{}/alerts", server.address()),
            "--budget-webhook-secret-file".to_owned(),
            secret.to_str().expect("UTF-8").to_owned(),
        ];
        Self { server, flags, _dir: dir }
    }

    pub(super) fn flags(&self) -> Vec<&str> {
        self.flags.iter().map(String::as_str).collect()
    }

    /// The thresholds and ids of the requests, in ascending order.
    fn received(&self) -> Vec<(Value, String)> {
        let received = |request: &Received| {
            let id = request.header("webhook-id").expect("an id").to_owned();
            (request.body["data"]["threshold"].clone(), id)
        };
        let mut all: Vec<_> = self.server.all_seen().iter().map(received).collect();
        all.sort_by(|a, b| a.0.as_f64().partial_cmp(&b.0.as_f64()).expect("numbers"));
        all
    }

    async fn until_received(&self, count: usize) {
        let is_received = || async { self.received().len() >= count };
        eventually("the webhook receives the alerts", is_received).await;
    }
}

/// A limit of the budget `b` of the fleet, with alerts.
fn set_limit(guarded: &Guarded, version: &str, amount: &str) {
    let budget = json!({ "name": "b", "per": "fleet", "limit": amount, "window": "total",
        "alertAt": THRESHOLDS });
    let policy = limit(version, &json!({ "price": { "perCall": "1" }, "budgets": [budget] }));
    let applied = roles::apply(guarded, &guarded.admin, &policy);
    assert!(applied.success(), "{applied:?}");
}

/// The thresholds and the states of delivery that `budget show` lists.
fn listed(guarded: &Guarded) -> Vec<(f64, String)> {
    let alerts = shown(guarded)["alerts"].clone();
    let alerts = alerts.as_array().expect("a list").iter();
    let alert = |alert: &Value| {
        let delivery = alert["delivery"].as_str().expect("a text").to_owned();
        (alert["threshold"].as_f64().expect("a number"), delivery)
    };
    alerts.map(alert).collect()
}

fn delivered(thresholds: &[f64]) -> Vec<(f64, String)> {
    thresholds.iter().map(|threshold| (*threshold, "delivered".to_owned())).collect()
}

#[tokio::test]
async fn each_threshold_is_delivered_once() {
    let webhook = Webhook::start(|| 204).await;
    let guarded = Guarded::start(&webhook.flags());
    set_limit(&guarded, "1.0.0", "10");
    let gateway = FakeGateway::start(&guarded, "a").await;
    gateway.report(spent(4 * DOLLAR)).await;
    for amount in [6, 6, 7, 10, 10] {
        gateway.report(spent(amount * DOLLAR)).await;
    }
    eventually("the alerts are delivered", || async { listed(&guarded) == delivered(&THRESHOLDS) })
        .await;
    let received = webhook.received();
    let thresholds: Vec<_> = received.iter().map(|(threshold, _)| threshold.clone()).collect();
    assert_eq!(thresholds, [json!(0.5), json!(0.8), json!(1)]);
    let ids: BTreeSet<_> = received.iter().map(|(_, id)| id).collect();
    assert_eq!(ids.len(), 3);
    let metrics = guarded.registry.metrics().await;
    for event in ["crossed", "delivered"] {
        let line = format!("registry_budget_alerts_total{{event=\"{event}\"}} 3");
        assert!(metrics.lines().any(|found| found == line), "{metrics}");
    }
}

#[tokio::test]
async fn message_names_budget_and_is_signed() {
    let webhook = Webhook::start(|| 200).await;
    let guarded = Guarded::start(&webhook.flags());
    set_limit(&guarded, "1.0.0", "10");
    FakeGateway::start(&guarded, "a").await.report(spent(5_250_000)).await;
    webhook.until_received(1).await;
    let request = webhook.server.all_seen().remove(0);
    assert_eq!((&*request.http_method, &*request.path), ("POST", "/alerts"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert!(request.header("webhook-signature").is_some_and(|text| text.starts_with("v1,")));
    let seconds = request.header("webhook-timestamp").expect("a time");
    assert!(seconds.parse::<i64>().is_ok(), "{seconds}");
    assert_eq!(request.body["type"], "budget.alert");
    assert!(request.body["timestamp"].is_string());
    let mut data = request.body["data"].clone();
    assert!(data["registry"].take().is_string());
    let expected = json!({
        "registry": null, "policy": "limit", "budget": "b", "subject": "fleet", "window": "total",
        "windowEndsAt": null, "threshold": 0.5, "settled": "5.25", "limit": "10",
        "currency": "USD",
    });
    assert_eq!(data, expected);
}

#[tokio::test]
async fn rejected_alert_is_repeated_with_its_id() {
    let requests = AtomicUsize::new(0);
    let first_fails = move || if requests.fetch_add(1, Ordering::SeqCst) == 0 { 503 } else { 200 };
    let webhook = Webhook::start(first_fails).await;
    let guarded = Guarded::start(&webhook.flags());
    set_limit(&guarded, "1.0.0", "10");
    FakeGateway::start(&guarded, "a").await.report(spent(6 * DOLLAR)).await;
    webhook.until_received(2).await;
    let received = webhook.received();
    let [first, second] = &received[..] else { panic!("more than two requests") };
    assert_eq!(first, second);
    eventually("the delivery is recorded", || async { listed(&guarded) == delivered(&[0.5]) })
        .await;
}

#[tokio::test]
async fn redirect_of_webhook_is_not_followed() {
    let other = Server::start(|_| empty(200)).await;
    let location = format!("http://{}/", other.address());
    let server = Server::start(move |_| empty(307).with_header("location", &location)).await;
    let webhook = Webhook::start(|| 200).await;
    let url = format!("http://{}/", server.address());
    let mut flags = webhook.flags();
    flags[1] = &url;
    let guarded = Guarded::start(&flags);
    set_limit(&guarded, "1.0.0", "10");
    FakeGateway::start(&guarded, "a").await.report(spent(6 * DOLLAR)).await;
    let is_repeated = || async { server.all_seen().len() >= 2 };
    eventually("the redirect is a failure", is_repeated).await;
    assert!(other.all_seen().is_empty());
}

#[tokio::test]
async fn undelivered_alert_survives_killed_server() {
    let is_up = Arc::new(AtomicBool::new(false));
    let status = Arc::clone(&is_up);
    let webhook =
        Webhook::start(move || if status.load(Ordering::SeqCst) { 200 } else { 500 }).await;
    let mut guarded = Guarded::start(&webhook.flags());
    set_limit(&guarded, "1.0.0", "10");
    FakeGateway::start(&guarded, "a").await.report(spent(6 * DOLLAR)).await;
    webhook.until_received(1).await;
    guarded.registry.process.kill_9();
    is_up.store(true, Ordering::SeqCst);
    guarded.registry.restart();
    eventually("the alert is delivered", || async { listed(&guarded) == delivered(&[0.5]) }).await;
}

#[tokio::test]
async fn changed_limit_repeats_no_alert() {
    let webhook = Webhook::start(|| 200).await;
    let guarded = Guarded::start(&webhook.flags());
    set_limit(&guarded, "1.0.0", "10");
    let gateway = FakeGateway::start(&guarded, "a").await;
    gateway.report(spent(6 * DOLLAR)).await;
    set_limit(&guarded, "1.1.0", "20");
    gateway.report(spent(11 * DOLLAR)).await;
    gateway.report(spent(16 * DOLLAR)).await;
    eventually("the alerts are delivered", || async { listed(&guarded) == delivered(&[0.5, 0.8]) })
        .await;
    assert_eq!(webhook.received().len(), 2);
    let alerts = shown(&guarded)["alerts"].clone();
    let amounts = |alert: &Value| [alert["settled"].clone(), alert["limit"].clone()];
    assert_eq!(amounts(&alerts[0]), ["6", "10"]);
    assert_eq!(amounts(&alerts[1]), ["16", "20"]);
}

#[tokio::test]
async fn alert_without_webhook_is_listed() {
    let guarded = Guarded::start(&[]);
    set_limit(&guarded, "1.0.0", "10");
    FakeGateway::start(&guarded, "a").await.report(spent(10 * DOLLAR)).await;
    let expected = THRESHOLDS.map(|threshold| (threshold, "no-webhook".to_owned()));
    assert_eq!(listed(&guarded), expected);
}

#[tokio::test]
async fn two_servers_deliver_each_alert_once() {
    const SUBJECTS: usize = 20;
    let webhook = Webhook::start(|| 200).await;
    let database = postgres::database().await;
    let guarded = Guarded::start_on(database.url(), &webhook.flags());
    let second = Registry::start_with(database.url(), &webhook.flags());
    set_limit(&guarded, "1.0.0", "10");
    let a = FakeGateway::start(&guarded, "a").await;
    let b = FakeGateway::with_token(&second, guarded.token("b", "fleet", "gateway")).await;
    let is_known = || async { b.is_known("known").await };
    eventually("the second server knows the budget", is_known).await;
    for number in 0..SUBJECTS {
        let gateway = if number % 2 == 0 { &a } else { &b };
        gateway.report_about(&format!("s{number}"), spent(10 * DOLLAR)).await;
    }
    webhook.until_received(SUBJECTS * THRESHOLDS.len()).await;
    let received = webhook.received();
    let ids: BTreeSet<_> = received.iter().map(|(_, id)| id).collect();
    assert_eq!((ids.len(), received.len()), (SUBJECTS * THRESHOLDS.len(), ids.len()));
}
