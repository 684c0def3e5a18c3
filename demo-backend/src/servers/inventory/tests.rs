//! Tests of the inventory server without a transport.

use serde_json::{Value, json};

use super::*;

fn reserve(server: &Inventory, items: &Value) -> Result<Reservation, ToolError> {
    let request = serde_json::from_value(json!({ "orderId": "o-1", "items": items })).unwrap();
    server.inventory_reserve(Parameters(request)).map(|made| made.0)
}

fn release(server: &Inventory, selector: Value) -> Result<usize, ToolError> {
    let request = serde_json::from_value(selector).unwrap();
    server.inventory_release(Parameters(request)).map(|released| released.0.changed)
}

fn available(server: &Inventory, product_id: &str) -> u64 {
    let check = Check { product_id: Some(product_id.to_owned()), order_id: None };
    let stock = server.inventory_check(Parameters(check)).map(|stock| stock.0).unwrap();
    stock.products[0].available
}

#[test]
fn reservation_and_release_change_available_stock() {
    let server = Inventory::new();
    let line = json!([{ "productId": "prod-1", "quantity": 3, "price": 9.5 }]);
    assert_eq!(reserve(&server, &line).unwrap().reservation_id, "res-1");
    assert_eq!(available(&server, "prod-1"), 97);
    assert_eq!(release(&server, json!({ "reservationId": "res-1" })), Ok(1));
    assert_eq!(available(&server, "prod-1"), 100);
}

#[test]
fn repeated_release_changes_nothing() {
    let server = Inventory::new();
    reserve(&server, &json!([{ "productId": "prod-3", "quantity": 5 }])).unwrap();
    assert_eq!(release(&server, json!({ "orderId": "o-1" })), Ok(1));
    assert_eq!(release(&server, json!({ "reservationId": "res-1" })), Ok(0));
    assert_eq!(available(&server, "prod-3"), 5);
    assert!(release(&server, json!({ "reservationId": "res-2" })).is_err());
}

#[test]
fn order_is_reserved_completely_or_not() {
    let server = Inventory::new();
    let too_much = json!([
        { "productId": "prod-1", "quantity": 1 },
        { "productId": "prod-3", "quantity": 3 },
        { "productId": "prod-3", "quantity": 3 }
    ]);
    assert_eq!(reserve(&server, &too_much).unwrap_err().code, "out_of_stock");
    assert_eq!(available(&server, "prod-1"), 100);
}

#[test]
fn nonsense_is_refused() {
    let server = Inventory::new();
    let code = |items| reserve(&server, &items).unwrap_err().code;
    assert_eq!(code(json!([])), "invalid_argument");
    assert_eq!(code(json!([{ "productId": "prod-1", "quantity": 0 }])), "invalid_argument");
    assert_eq!(code(json!([{ "productId": "prod-9", "quantity": 1 }])), "unknown_product");
    let huge = json!([
        { "productId": "prod-1", "quantity": u64::MAX },
        { "productId": "prod-1", "quantity": u64::MAX }
    ]);
    assert_eq!(code(huge), "out_of_stock");
}

#[test]
fn check_lists_reservations_of_order() {
    let server = Inventory::new();
    reserve(&server, &json!([{ "productId": "prod-2", "quantity": 1 }])).unwrap();
    let shown = |order: &str| {
        let check = Check { product_id: None, order_id: Some(order.to_owned()) };
        let stock = server.inventory_check(Parameters(check)).map(|stock| stock.0).unwrap();
        (stock.products.len(), stock.reservations.len())
    };
    assert_eq!(shown("o-1"), (4, 1));
    assert_eq!(shown("o-2"), (4, 0));
}
