//! `tools/list` with 10 and 1,000 declared tools and 10,000 public tools, compared with nginx and
//! an upstream with 1,000 tools.

use serde_json::json;

use super::{AGENTS, ANONYMOUS, Hop, MODERN, MOST_TOOLS, drive};
use crate::report::{Report, Row};

pub(super) async fn measure(report: &mut Report, [_, nginx, gateway]: &[Hop<'_>; 3], seconds: u64) {
    let url = nginx.url.replace("/bench/mcp", "/bench-many/mcp");
    let behind = Hop { name: nginx.name, url, cpu: Box::new(|| (nginx.cpu)()) };
    let request = || (MODERN, "tools/list", json!({}));
    let nginx = drive(&behind, 16, seconds, ("bench-agent", request())).await;
    for (agent, tools) in AGENTS.into_iter().chain([(ANONYMOUS, MOST_TOOLS)]) {
        let measured = drive(gateway, 16, seconds, (agent, request())).await;
        let is_same = tools == 1_000;
        report.add(Row {
            path: format!("tools/list of {tools} tools, scoped, 16 connections"),
            value: format!(
                "gateway {}, {:.0} µs CPU per list",
                measured.load.text(),
                measured.cpu_us()
            ),
            baseline: format!("nginx before an upstream with 1,000: {}", nginx.load.text()),
            ratio: is_same.then(|| measured.load.per_second / nginx.load.per_second),
            budget: if is_same { "≥ 3 × nginx before the upstream" } else { "" },
        });
    }
}
