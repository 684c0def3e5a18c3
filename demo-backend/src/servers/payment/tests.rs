//! Tests of the payment server without a transport.

use serde_json::{Value, json};

use super::*;

fn request(token: &str) -> Charge {
    let method = json!({ "type": "credit_card", "token": token });
    let charge = json!({ "orderId": "o-1", "amount": 12.5, "paymentMethod": method });
    serde_json::from_value(charge).unwrap()
}

fn charge(server: &Payment, token: &str) -> Result<Transaction, ToolError> {
    server.charge(request(token))
}

fn refund(server: &Payment, selector: Value) -> Result<usize, &'static str> {
    let selector = serde_json::from_value(selector).unwrap();
    let outcome = server.payment_refund(Parameters(selector));
    outcome.map(|refunded| refunded.0.changed).map_err(|error| error.code)
}

fn authorize(server: &Payment, token: &str) -> Authorization {
    server.payment_authorize(Parameters(request(token))).0
}

#[test]
fn charge_is_refunded_once() {
    let server = Payment::new();
    let made = charge(&server, "tok_visa").unwrap();
    assert_eq!((made.transaction_id.as_str(), made.currency.as_str()), ("txn-1", "USD"));
    assert_eq!(refund(&server, json!({ "transactionId": "txn-1" })), Ok(1));
    assert_eq!(refund(&server, json!({ "transactionId": "txn-1" })), Ok(0));
    assert_eq!(refund(&server, json!({ "orderId": "o-1" })), Ok(0));
    assert_eq!(refund(&server, json!({ "transactionId": "txn-2" })), Err("not_found"));
}

#[test]
fn declined_token_creates_no_transaction() {
    let server = Payment::new();
    assert_eq!(charge(&server, "tok_declined").unwrap_err().code, "payment_declined");
    assert!(authorize(&server, "tok_visa").transactions.is_empty());
}

#[test]
fn authorization_returns_state_without_change() {
    let server = Payment::new();
    charge(&server, "tok_visa").unwrap();
    let answer = authorize(&server, "tok_declined");
    assert!(!answer.authorized && answer.reason.is_some());
    let answer = authorize(&server, "tok_visa");
    assert!(answer.authorized);
    assert_eq!(answer.transactions.len(), 1);
    assert_eq!(answer.transactions[0].status, TransactionStatus::Charged);
}

#[test]
fn failed_refund_changes_nothing() {
    let server = Payment::new();
    charge(&server, "tok_visa").unwrap();
    charge(&server, "tok_refund_fails").unwrap();
    assert_eq!(refund(&server, json!({ "orderId": "o-1" })), Err("refund_failed"));
    let statuses = authorize(&server, "tok_visa").transactions;
    assert!(statuses.iter().all(|made| made.status == TransactionStatus::Charged));
}

#[test]
fn negative_amount_is_rejected() {
    let mut negative = request("tok_visa");
    negative.amount = -1.0;
    assert!(Payment::new().charge(negative).is_err());
}
