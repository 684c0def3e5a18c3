//! The shipping server's behaviour, called without a transport.

use serde_json::json;
use time::macros::datetime;

use super::*;

fn server() -> Shipping {
    Shipping::new(Clock::Fixed(datetime!(2026-02-27 12:00 UTC)))
}

fn create(server: &Shipping, zip_code: &str) -> Result<Shipment, Refusal> {
    let request = json!({
        "orderId": "o-1",
        "address": { "street": "1 Way", "city": "Town", "zipCode": zip_code, "country": "DE" },
        "items": [{ "productId": "prod-1", "quantity": 1, "price": 1.0 }]
    });
    let request = serde_json::from_value(request).unwrap();
    server.shipping_create(Parameters(request)).map(|made| made.0)
}

fn by_number(number: &str) -> Parameters<WhichShipment> {
    Parameters(WhichShipment { tracking_number: Some(number.to_owned()), order_id: None })
}

#[test]
fn a_shipment_arrives_three_days_later() {
    let made = create(&server(), "10115").unwrap();
    assert_eq!(made.tracking_number, "track-1");
    assert_eq!(made.estimated_delivery, "2026-03-02");
}

#[test]
fn cancelling_is_seen_by_tracking_and_done_once() {
    let server = server();
    create(&server, "10115").unwrap();
    let cancel = || server.shipping_cancel(by_number("track-1")).map(|done| done.0.changed);
    assert_eq!(cancel(), Ok(1));
    assert_eq!(cancel(), Ok(0));
    let tracked = server.shipping_track(by_number("track-1")).map(|found| found.0).unwrap();
    assert_eq!(tracked.shipments[0].status, ShipmentStatus::Cancelled);
}

#[test]
fn an_order_without_shipments_has_nothing_to_cancel() {
    let server = server();
    let order = WhichShipment { tracking_number: None, order_id: Some("o-1".to_owned()) };
    let cancelled = server.shipping_cancel(Parameters(order)).map(|done| done.0).unwrap();
    assert_eq!((cancelled.shipments.len(), cancelled.changed), (0, 0));
    assert_eq!(server.shipping_track(by_number("track-1")).err().unwrap().code, "not_found");
}

#[test]
fn nobody_delivers_to_00000() {
    assert_eq!(create(&server(), "00000").unwrap_err().code, "undeliverable");
}
