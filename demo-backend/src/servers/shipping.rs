//! `shipping-service`: shipments that are created, tracked and cancelled.

pub mod model;

use std::sync::Mutex;

use rmcp::handler::server::tool::ToolRouter;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};
use time::Duration;

use self::model::{Cancelled, Create, Shipment, ShipmentSelector, ShipmentStatus, Tracked};
use crate::clock::Clock;
use crate::hosted_server::Domain;
use crate::records::{Records, lock};
use crate::tool_error::ToolError;

const TRANSIT: Duration = Duration::days(3);
/// A postal code without delivery.
const UNDELIVERABLE: &str = "00000";

/// The shipping server. Nothing ships to the postal code 00000.
#[derive(Debug)]
pub struct Shipping {
    clock: Clock,
    shipments: Mutex<Records<Shipment>>,
}

impl Shipping {
    /// A server without shipments.
    pub fn new(clock: Clock) -> Self {
        Self { clock, shipments: Mutex::new(Records::new("track")) }
    }
}

impl Domain for Shipping {
    const NAME: &'static str = "shipping-service";
    const VERSION: &'static str = "1.0.0";
    const PATH: &'static str = "/shipping/mcp";
    const INSTRUCTIONS: &'static str =
        "Create, track and cancel shipments. Nothing ships to the postal code 00000.";

    fn tools() -> ToolRouter<Self> {
        Self::tool_router()
    }
}

#[tool_router]
impl Shipping {
    /// Create a shipping label and schedule the pickup.
    #[tool(annotations(
        title = "Create shipment",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = false,
        open_world_hint = false
    ))]
    fn shipping_create(
        &self,
        Parameters(Create { order_id, address, items }): Parameters<Create>,
    ) -> Result<Json<Shipment>, ToolError> {
        if address.zip_code == UNDELIVERABLE {
            let message = format!("no delivery to the postal code {UNDELIVERABLE}");
            return Err(ToolError::new("undeliverable", message));
        }
        let arrival = (self.clock.now() + TRANSIT).date().to_string();
        let mut ledger = lock(&self.shipments);
        let shipment = ledger.add(|id| Shipment {
            tracking_number: id,
            order_id,
            address,
            items,
            status: ShipmentStatus::Created,
            estimated_delivery: arrival,
        });
        Ok(Json(shipment.clone()))
    }

    /// Cancel shipments by tracking number or order. Repeated calls change nothing.
    #[tool(annotations(
        title = "Cancel shipment",
        read_only_hint = false,
        destructive_hint = true,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn shipping_cancel(
        &self,
        Parameters(selector): Parameters<ShipmentSelector>,
    ) -> Result<Json<Cancelled>, ToolError> {
        let mut ledger = lock(&self.shipments);
        let mut cancelled = Cancelled { shipments: Vec::new(), changed: 0 };
        for shipment in selector.selector().select(&mut ledger)? {
            if shipment.status == ShipmentStatus::Created {
                shipment.status = ShipmentStatus::Cancelled;
                cancelled.changed += 1;
            }
            cancelled.shipments.push(shipment.clone());
        }
        Ok(Json(cancelled))
    }

    /// Track shipments by tracking number or order.
    #[tool(annotations(
        title = "Track shipment",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn shipping_track(
        &self,
        Parameters(selector): Parameters<ShipmentSelector>,
    ) -> Result<Json<Tracked>, ToolError> {
        let mut ledger = lock(&self.shipments);
        let found = selector.selector().select(&mut ledger)?;
        Ok(Json(Tracked {
            shipments: found.into_iter().map(|shipment| shipment.clone()).collect(),
        }))
    }
}

#[cfg(test)]
mod tests;
