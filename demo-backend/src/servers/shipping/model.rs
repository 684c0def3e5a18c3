//! Shipments, and the arguments and results of their tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::orders::{OrderRecord, Which};
use crate::servers::inventory::model::Line;

/// Where to.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Address {
    /// Street and number.
    pub street: String,
    /// City.
    pub city: String,
    /// State or province.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Postal code; nothing ships to 00000.
    pub zip_code: String,
    /// Country.
    pub country: String,
}

/// What to ship.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Create {
    /// The order it belongs to.
    #[schemars(length(min = 1))]
    pub order_id: String,
    /// Where to.
    pub address: Address,
    /// What is in it.
    pub items: Vec<Line>,
}

/// Which shipments: one, or all of an order.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhichShipment {
    /// The shipment.
    pub tracking_number: Option<String>,
    /// The order.
    pub order_id: Option<String>,
}

/// Whether a shipment goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ShipmentStatus {
    /// It does.
    Created,
    /// It does not.
    Cancelled,
}

/// A shipment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Shipment {
    /// Its id, such as `track-1`.
    pub tracking_number: String,
    /// The order it belongs to.
    pub order_id: String,
    /// Where it goes.
    pub address: Address,
    /// What is in it.
    pub items: Vec<Line>,
    /// Whether it goes out.
    pub status: ShipmentStatus,
    /// The day it should arrive.
    #[schemars(extend("format" = "date"))]
    pub estimated_delivery: String,
}

/// What was cancelled.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Cancelled {
    /// The shipments that were meant, as they are now.
    pub shipments: Vec<Shipment>,
    /// How many of them this call cancelled; 0 when all had been cancelled before.
    pub changed: usize,
}

/// What is known of some shipments.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Tracked {
    /// The shipments, oldest first.
    pub shipments: Vec<Shipment>,
}

impl OrderRecord for Shipment {
    const KIND: &'static str = "shipment";

    fn order_id(&self) -> &str {
        &self.order_id
    }
}

impl WhichShipment {
    /// The same, for the shared selection.
    pub fn which(&self) -> Which<'_> {
        Which { id: self.tracking_number.as_deref(), order_id: self.order_id.as_deref() }
    }
}
