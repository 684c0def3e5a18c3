//! Charges and refunds, and the arguments and results of their tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How to pay.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct PaymentMethod {
    /// Payment method.
    #[serde(rename = "type")]
    pub kind: MethodKind,
    /// The payment token; `tok_declined` is always declined.
    pub token: String,
}

/// Kinds of payment.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum MethodKind {
    /// By card.
    CreditCard,
    /// By `PayPal`.
    Paypal,
    /// By transfer.
    BankTransfer,
}

/// A charge request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Charge {
    /// The order that is paid.
    #[schemars(length(min = 1))]
    pub order_id: String,
    /// How much, in units of the currency.
    #[schemars(range(min = 0.0))]
    pub amount: f64,
    /// ISO 4217 code.
    #[serde(default = "default_currency")]
    #[schemars(length(min = 3, max = 3))]
    pub currency: String,
    /// How to pay.
    pub payment_method: PaymentMethod,
}

/// Selects one transaction, or all transactions of an order.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refund {
    /// The transaction.
    pub transaction_id: Option<String>,
    /// The order.
    pub order_id: Option<String>,
}

/// The status of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum TransactionStatus {
    /// Active.
    Charged,
    /// It was refunded in full.
    Refunded,
}

/// A charge with its status.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Transaction {
    /// Its id, such as `txn-1`.
    pub transaction_id: String,
    /// The order it paid.
    pub order_id: String,
    /// How much, in units of the currency.
    pub amount: f64,
    /// ISO 4217 code.
    pub currency: String,
    /// The status.
    pub status: TransactionStatus,
}

/// The result of a refund.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Refunded {
    /// The selected transactions in their current state.
    pub transactions: Vec<Transaction>,
    /// How many of them this call refunded; 0 when all had been refunded before.
    pub changed: usize,
}

/// The result of an authorization check.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Authorization {
    /// The order.
    pub order_id: String,
    /// Whether the charge would succeed.
    pub authorized: bool,
    /// The reason if not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The order's transactions so far, oldest first.
    pub transactions: Vec<Transaction>,
}

fn default_currency() -> String {
    "USD".to_owned()
}
