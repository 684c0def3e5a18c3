//! Calls with 100 progress notifications: events per second direct, through nginx without
//! buffering, and through the gateway.

use serde_json::json;

use super::{Hop, LEGACY, drive};
use crate::report::{Report, Row};

const EVENTS: u32 = 100;
const CONNECTIONS: usize = 8;

pub(super) async fn measure(report: &mut Report, hops: &[Hop<'_>; 3], seconds: u64) {
    let params = json!({ "name": "count", "arguments": { "events": EVENTS },
        "_meta": { "progressToken": "p" } });
    let mut results = Vec::new();
    for hop in hops {
        let request = ("bench-agent", (LEGACY, "tools/call", params.clone()));
        results.push(drive(hop, CONNECTIONS, seconds, request).await);
    }
    let [direct, nginx, gateway] = results.try_into().ok().expect("three hops");
    report.add(Row {
        path: format!("calls that report progress {EVENTS} times, {CONNECTIONS} connections"),
        value: format!(
            "gateway {}, {:.1} µs CPU per event",
            gateway.load.text(),
            gateway.cpu_us() / f64::from(EVENTS)
        ),
        baseline: format!(
            "nginx {}, {:.1} µs; direct {}",
            nginx.load.text(),
            nginx.cpu_us() / f64::from(EVENTS),
            direct.load.text()
        ),
        ratio: Some(gateway.load.per_second / nginx.load.per_second),
        budget: "",
    });
}
