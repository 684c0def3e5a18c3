//! Shipments, and the arguments and results of their tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::orders::{OrderRecord, RecordSelector};
use crate::servers::inventory::model::Line;

/// The destination.
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

/// A shipment request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Create {
    /// The order it belongs to.
    #[schemars(length(min = 1))]
    pub order_id: String,
    /// The destination.
    pub address: Address,
    /// The items.
    pub items: Vec<Line>,
}

/// Selects one shipment, or all shipments of an order.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShipmentSelector {
    /// The shipment.
    pub tracking_number: Option<String>,
    /// The order.
    pub order_id: Option<String>,
}

/// The status of a shipment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ShipmentStatus {
    /// Active.
    Created,
    /// Canceled.
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
    /// The destination.
    pub address: Address,
    /// The items.
    pub items: Vec<Line>,
    /// The status.
    pub status: ShipmentStatus,
    /// The day it should arrive.
    #[schemars(extend("format" = "date"))]
    pub estimated_delivery: String,
}

/// The result of a cancellation.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Cancelled {
    /// The selected shipments in their current state.
    pub shipments: Vec<Shipment>,
    /// How many of them this call cancelled; 0 when all had been cancelled before.
    pub changed: usize,
}

/// The tracked shipments.
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

impl ShipmentSelector {
    /// The shared form of the selection.
    pub fn selector(&self) -> RecordSelector<'_> {
        RecordSelector { id: self.tracking_number.as_deref(), order_id: self.order_id.as_deref() }
    }
}
