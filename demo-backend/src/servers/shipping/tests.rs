//! Tests of the shipping server without a transport.

use serde_json::json;
use time::macros::datetime;

use super::*;

fn server() -> Shipping {
    Shipping::new(Clock::Fixed(datetime!(2026-02-27 12:00 UTC)))
}

fn create(server: &Shipping, zip_code: &str) -> Result<Shipment, ToolError> {
    let request = json!({
        "orderId": "o-1",
        "address": { "street": "1 Way", "city": "Town", "zipCode": zip_code, "country": "DE" },
        "items": [{ "productId": "prod-1", "quantity": 1, "price": 1.0 }]
    });
    let request = serde_json::from_value(request).unwrap();
    server.shipping_create(Parameters(request)).map(|made| made.0)
}

fn by_number(number: &str) -> Parameters<ShipmentSelector> {
    Parameters(ShipmentSelector { tracking_number: Some(number.to_owned()), order_id: None })
}

#[test]
fn shipment_arrives_three_days_later() {
    let made = create(&server(), "10115").unwrap();
    assert_eq!(made.tracking_number, "track-1");
    assert_eq!(made.estimated_delivery, "2026-03-02");
}

#[test]
fn shipment_is_canceled_once_and_tracking_shows_it() {
    let server = server();
    create(&server, "10115").unwrap();
    let cancel = || server.shipping_cancel(by_number("track-1")).map(|done| done.0.changed);
    assert_eq!(cancel(), Ok(1));
    assert_eq!(cancel(), Ok(0));
    let tracked = server.shipping_track(by_number("track-1")).map(|found| found.0).unwrap();
    assert_eq!(tracked.shipments[0].status, ShipmentStatus::Cancelled);
}

#[test]
fn order_without_shipments_cannot_be_canceled() {
    let server = server();
    let order = ShipmentSelector { tracking_number: None, order_id: Some("o-1".to_owned()) };
    let cancelled = server.shipping_cancel(Parameters(order)).map(|done| done.0).unwrap();
    assert_eq!((cancelled.shipments.len(), cancelled.changed), (0, 0));
    assert_eq!(server.shipping_track(by_number("track-1")).err().unwrap().code, "not_found");
}

#[test]
fn undeliverable_postal_code_is_rejected() {
    assert_eq!(create(&server(), "00000").unwrap_err().code, "undeliverable");
}
