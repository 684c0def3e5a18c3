//! `inventory-service`: stock that orders reserve and release.

pub mod model;

use std::collections::BTreeMap;
use std::sync::Mutex;

use rmcp::handler::server::tool::ToolRouter;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};

use self::model::{
    Check, Line, ProductStock, Release, Released, Reservation, ReservationStatus, Reserve, Stock,
};
use crate::hosted_server::Domain;
use crate::orders::RecordSelector;
use crate::records::{Records, lock};
use crate::tool_error::ToolError;

/// The inventory server.
#[derive(Debug)]
pub struct Inventory {
    reservations: Mutex<Records<Reservation>>,
}

/// Id, name and how many are on hand.
const PRODUCTS: [(&str, &str, u64); 4] = [
    ("prod-1", "Widget", 100),
    ("prod-2", "Gadget", 50),
    ("prod-3", "Gizmo", 5),
    ("prod-4", "Doohickey (sold out)", 0),
];

impl Inventory {
    /// A server with all stock available.
    pub fn new() -> Self {
        Self { reservations: Mutex::new(Records::new("res")) }
    }
}

impl Default for Inventory {
    fn default() -> Self {
        Self::new()
    }
}

impl Domain for Inventory {
    const NAME: &'static str = "inventory-service";
    const VERSION: &'static str = "1.0.0";
    const PATH: &'static str = "/inventory/mcp";
    const INSTRUCTIONS: &'static str =
        "Reserve stock for orders. Products prod-1 to prod-3 have stock, prod-4 is sold out.";

    fn tools() -> ToolRouter<Self> {
        Self::tool_router()
    }
}

#[tool_router]
impl Inventory {
    /// Reserve stock for all items of an order, or for none.
    #[tool(annotations(
        title = "Reserve inventory",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = false,
        open_world_hint = false
    ))]
    fn inventory_reserve(
        &self,
        Parameters(Reserve { order_id, items }): Parameters<Reserve>,
    ) -> Result<Json<Reservation>, ToolError> {
        let wanted = quantities(&items)?;
        let mut ledger = lock(&self.reservations);
        for (product_id, quantity) in wanted {
            let available = stock_of(&ledger, product_id)?.available;
            if available < quantity {
                return Err(ToolError::new(
                    "out_of_stock",
                    format!("{quantity} of {product_id} wanted, {available} available"),
                ));
            }
        }
        let status = ReservationStatus::Reserved;
        let reservation =
            ledger.add(|id| Reservation { reservation_id: id, order_id, items, status });
        Ok(Json(reservation.clone()))
    }

    /// Release reserved stock by reservation or order. Repeated calls change nothing.
    #[tool(annotations(
        title = "Release inventory",
        read_only_hint = false,
        destructive_hint = true,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn inventory_release(
        &self,
        Parameters(release): Parameters<Release>,
    ) -> Result<Json<Released>, ToolError> {
        let Release { reservation_id, order_id } = release;
        let selector =
            RecordSelector { id: reservation_id.as_deref(), order_id: order_id.as_deref() };
        let mut ledger = lock(&self.reservations);
        let mut released = Released { reservations: Vec::new(), changed: 0 };
        for reservation in selector.select(&mut ledger)? {
            if reservation.status == ReservationStatus::Reserved {
                reservation.status = ReservationStatus::Released;
                released.changed += 1;
            }
            released.reservations.push(reservation.clone());
        }
        Ok(Json(released))
    }

    /// List the stock and its reservations.
    #[tool(annotations(
        title = "Check inventory",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn inventory_check(
        &self,
        Parameters(check): Parameters<Check>,
    ) -> Result<Json<Stock>, ToolError> {
        let ledger = lock(&self.reservations);
        let products = match &check.product_id {
            Some(product_id) => vec![stock_of(&ledger, product_id)?],
            None => PRODUCTS.iter().map(|product| stock(&ledger, product)).collect(),
        };
        let wanted = |reservation: &&Reservation| {
            check.order_id.as_ref().is_none_or(|order| *order == reservation.order_id)
                && check.product_id.as_ref().is_none_or(|product| reservation.has(product))
        };
        let reservations = ledger.iter().filter(wanted).cloned().collect();
        Ok(Json(Stock { products, reservations }))
    }
}

/// How many of each product the lines ask for together.
fn quantities(items: &[Line]) -> Result<BTreeMap<&str, u64>, ToolError> {
    if items.is_empty() {
        return Err(ToolError::invalid("items is empty"));
    }
    let mut quantities = BTreeMap::new();
    for line in items {
        if line.quantity == 0 {
            return Err(ToolError::invalid(format!("quantity of {} is 0", line.product_id)));
        }
        let sum: &mut u64 = quantities.entry(line.product_id.as_str()).or_default();
        *sum = sum.saturating_add(line.quantity);
    }
    Ok(quantities)
}

fn stock_of(ledger: &Records<Reservation>, product_id: &str) -> Result<ProductStock, ToolError> {
    let product = PRODUCTS.iter().find(|(id, ..)| *id == product_id);
    product
        .map(|product| stock(ledger, product))
        .ok_or_else(|| ToolError::new("unknown_product", format!("no product {product_id:?}")))
}

fn stock(ledger: &Records<Reservation>, product: &(&str, &str, u64)) -> ProductStock {
    let (id, name, on_hand) = *product;
    let reserved = ledger
        .iter()
        .filter(|reservation| reservation.status == ReservationStatus::Reserved)
        .flat_map(|reservation| &reservation.items)
        .filter(|line| line.product_id == id)
        .map(|line| line.quantity)
        .sum();
    let available = on_hand - reserved;
    ProductStock { product_id: id.to_owned(), name: name.to_owned(), on_hand, reserved, available }
}

#[cfg(test)]
mod tests;
