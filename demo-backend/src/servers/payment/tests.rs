//! The payment server's behaviour, called without a transport.

use serde_json::{Value, json};

use super::*;

fn request(token: &str) -> Charge {
    let method = json!({ "type": "credit_card", "token": token });
    let charge = json!({ "orderId": "o-1", "amount": 12.5, "paymentMethod": method });
    serde_json::from_value(charge).unwrap()
}

fn charge(server: &Payment, token: &str) -> Result<Transaction, Refusal> {
    server.charge(request(token))
}

fn refund(server: &Payment, which: Value) -> Result<usize, &'static str> {
    let which = serde_json::from_value(which).unwrap();
    let outcome = server.payment_refund(Parameters(which));
    outcome.map(|refunded| refunded.0.changed).map_err(|refusal| refusal.code)
}

fn authorize(server: &Payment, token: &str) -> Authorization {
    server.payment_authorize(Parameters(request(token))).0
}

#[test]
fn a_charge_is_refunded_once() {
    let server = Payment::new();
    let made = charge(&server, "tok_visa").unwrap();
    assert_eq!((made.transaction_id.as_str(), made.currency.as_str()), ("txn-1", "USD"));
    assert_eq!(refund(&server, json!({ "transactionId": "txn-1" })), Ok(1));
    assert_eq!(refund(&server, json!({ "transactionId": "txn-1" })), Ok(0));
    assert_eq!(refund(&server, json!({ "orderId": "o-1" })), Ok(0));
    assert_eq!(refund(&server, json!({ "transactionId": "txn-2" })), Err("not_found"));
}

#[test]
fn a_declined_token_leaves_no_transaction() {
    let server = Payment::new();
    assert_eq!(charge(&server, "tok_declined").unwrap_err().code, "payment_declined");
    assert!(authorize(&server, "tok_visa").transactions.is_empty());
}

#[test]
fn authorizing_shows_the_state_and_changes_nothing() {
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
fn a_refund_that_fails_changes_nothing() {
    let server = Payment::new();
    charge(&server, "tok_visa").unwrap();
    charge(&server, "tok_refund_fails").unwrap();
    assert_eq!(refund(&server, json!({ "orderId": "o-1" })), Err("refund_failed"));
    let statuses = authorize(&server, "tok_visa").transactions;
    assert!(statuses.iter().all(|made| made.status == TransactionStatus::Charged));
}

#[test]
fn a_negative_amount_is_refused() {
    let mut negative = request("tok_visa");
    negative.amount = -1.0;
    assert!(Payment::new().charge(negative).is_err());
}
