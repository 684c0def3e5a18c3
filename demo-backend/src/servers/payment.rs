//! `payment-service`: charges and refunds that move no money. Partial refunds are not supported. A
//! few tokens decide the outcome (see [`Payment`]).

pub mod model;

use std::sync::Mutex;
use std::time::Duration;

use rmcp::handler::server::tool::ToolRouter;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};

use self::model::{Authorization, Charge, Refund, Refunded, Transaction, TransactionStatus};
use crate::hosted_server::Domain;
use crate::orders::{OrderRecord, RecordSelector};
use crate::records::{Records, lock};
use crate::tool_error::ToolError;

/// A token that is never charged.
const DECLINED: &str = "tok_declined";
/// A token that is charged, but whose refund fails.
const REFUND_FAILS: &str = "tok_refund_fails";

/// A token that is charged at once, and answered only after [`DELAY`].
const SLOW: &str = "tok_slow";
/// The delay of a slow payment.
const DELAY: Duration = Duration::from_secs(3);

/// The payment server. `tok_declined` is never charged, `tok_refund_fails` is never refunded,
/// `tok_slow` is answered after three seconds, and every other token works at once.
#[derive(Debug)]
pub struct Payment {
    transactions: Mutex<Records<Record>>,
}

/// A transaction and its token, which is never returned.
#[derive(Debug)]
struct Record {
    transaction: Transaction,
    token: String,
}

impl OrderRecord for Record {
    const KIND: &'static str = "transaction";

    fn order_id(&self) -> &str {
        &self.transaction.order_id
    }
}

impl Payment {
    /// A server without transactions.
    pub fn new() -> Self {
        Self { transactions: Mutex::new(Records::new("txn")) }
    }

    fn charge(&self, charge: Charge) -> Result<Transaction, ToolError> {
        charge.check()?;
        let mut ledger = lock(&self.transactions);
        let record = ledger.add(|id| Record {
            transaction: Transaction {
                transaction_id: id,
                order_id: charge.order_id,
                amount: charge.amount,
                currency: charge.currency,
                status: TransactionStatus::Charged,
            },
            token: charge.payment_method.token,
        });
        Ok(record.transaction.clone())
    }
}

impl Default for Payment {
    fn default() -> Self {
        Self::new()
    }
}

impl Domain for Payment {
    const NAME: &'static str = "payment-service";
    const VERSION: &'static str = "1.0.0";
    const PATH: &'static str = "/payment/mcp";
    const INSTRUCTIONS: &'static str = "Charge and refund orders. tok_declined is declined, tok_refund_fails is not refunded, \
         tok_slow is answered after three seconds.";

    fn tools() -> ToolRouter<Self> {
        Self::tool_router()
    }
}

#[tool_router]
impl Payment {
    /// Charge an order. Every call makes a new charge.
    #[tool(annotations(
        title = "Charge payment",
        read_only_hint = false,
        destructive_hint = true,
        idempotent_hint = false,
        open_world_hint = false
    ))]
    async fn payment_charge(
        &self,
        Parameters(charge): Parameters<Charge>,
    ) -> Result<Json<Transaction>, ToolError> {
        let is_slow = charge.payment_method.token == SLOW;
        let charged = self.charge(charge)?;
        if is_slow {
            tokio::time::sleep(DELAY).await;
        }
        Ok(Json(charged))
    }

    /// Refund in full by transaction or order. Repeated calls change nothing.
    #[tool(annotations(
        title = "Refund payment",
        read_only_hint = false,
        destructive_hint = true,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn payment_refund(
        &self,
        Parameters(Refund { transaction_id, order_id }): Parameters<Refund>,
    ) -> Result<Json<Refunded>, ToolError> {
        let selector =
            RecordSelector { id: transaction_id.as_deref(), order_id: order_id.as_deref() };
        let mut ledger = lock(&self.transactions);
        let mut records = selector.select(&mut ledger)?;
        if let Some(record) = records.iter().find(|record| record.token == REFUND_FAILS) {
            let id = &record.transaction.transaction_id;
            return Err(ToolError::new("refund_failed", format!("cannot refund {id}")));
        }
        let mut changed = 0;
        for record in &mut records {
            if record.transaction.status == TransactionStatus::Charged {
                record.transaction.status = TransactionStatus::Refunded;
                changed += 1;
            }
        }
        let transactions = records.iter().map(|record| record.transaction.clone()).collect();
        Ok(Json(Refunded { transactions, changed }))
    }

    /// Check whether a charge would succeed, without charging. Returns earlier transactions too.
    #[tool(annotations(
        title = "Authorize payment",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn payment_authorize(&self, Parameters(charge): Parameters<Charge>) -> Json<Authorization> {
        let reason = charge.check().err().map(|error| error.message);
        let ledger = lock(&self.transactions);
        let transactions = ledger
            .iter()
            .map(|record| &record.transaction)
            .filter(|transaction| transaction.order_id == charge.order_id)
            .cloned()
            .collect();
        let authorized = reason.is_none();
        Json(Authorization { order_id: charge.order_id, authorized, reason, transactions })
    }
}

impl Charge {
    fn check(&self) -> Result<(), ToolError> {
        if !self.amount.is_finite() || self.amount < 0.0 {
            return Err(ToolError::invalid(format!("amount is {}", self.amount)));
        }
        if self.payment_method.token == DECLINED {
            let order = &self.order_id;
            let message = format!("the payment for order {order:?} was declined");
            return Err(ToolError::new("payment_declined", message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
