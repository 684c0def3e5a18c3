//! Reservations, and the arguments and results of their tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::orders::OrderRecord;

/// A quantity of one product. Other fields of an order line, such as its price, are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// The product's id, such as `prod-1`.
    pub product_id: String,
    /// How many.
    #[schemars(range(min = 1))]
    pub quantity: u64,
}

/// Whether a reservation holds stock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ReservationStatus {
    /// Active.
    Reserved,
    /// No longer active.
    Released,
}

/// Stock set aside for an order.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// Its id, such as `res-1`.
    pub reservation_id: String,
    /// The order it is for.
    pub order_id: String,
    /// The reserved items.
    pub items: Vec<Line>,
    /// Whether the reservation holds stock.
    pub status: ReservationStatus,
}

/// A reservation request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reserve {
    /// The order it is for.
    #[schemars(length(min = 1))]
    pub order_id: String,
    /// The items to reserve, completely or not at all.
    #[schemars(length(min = 1))]
    pub items: Vec<Line>,
}

/// Selects one reservation, or all reservations of an order.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Release {
    /// The reservation.
    pub reservation_id: Option<String>,
    /// The order.
    pub order_id: Option<String>,
}

/// The result of a release.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Released {
    /// The selected reservations in their current state.
    pub reservations: Vec<Reservation>,
    /// How many of them this call released; 0 when all had been released before.
    pub changed: usize,
}

/// Filters for the stock.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Only this product.
    pub product_id: Option<String>,
    /// Only reservations of this order.
    pub order_id: Option<String>,
}

/// The state of the stock.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Stock {
    /// The products.
    pub products: Vec<ProductStock>,
    /// The reservations, oldest first.
    pub reservations: Vec<Reservation>,
}

/// The stock of one product.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProductStock {
    /// The product's id.
    pub product_id: String,
    /// Its name.
    pub name: String,
    /// How many are there.
    pub on_hand: u64,
    /// How many of them are set aside.
    pub reserved: u64,
    /// How many can still be reserved.
    pub available: u64,
}

impl OrderRecord for Reservation {
    const KIND: &'static str = "reservation";

    fn order_id(&self) -> &str {
        &self.order_id
    }
}

impl Reservation {
    /// Whether it sets some of this product aside.
    pub fn has(&self, product_id: &str) -> bool {
        self.items.iter().any(|line| line.product_id == product_id)
    }
}
