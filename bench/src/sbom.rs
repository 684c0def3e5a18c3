//! Bills of materials of the whole registry over gRPC: with 100,000 entities, compared with a
//! tenth.

use std::time::{Duration, Instant};

use acceptance::Registry;
use registry_proto::v1;

use crate::{
    reads,
    report::{Report, Row},
};

const TOOLS: usize = 99_000;
const FORMATS: [(&str, v1::SbomFormat); 2] =
    [("CycloneDX 1.6", v1::SbomFormat::Cyclonedx16), ("SPDX 3.0", v1::SbomFormat::Spdx30)];

/// Measures the bills, their memory use, and the holders of the schema that all tools use.
pub(crate) async fn measure(report: &mut Report) {
    let (small, big) = (Registry::start(), Registry::start());
    reads::apply_all(&small, TOOLS / 10).await;
    reads::apply_all(&big, TOOLS).await;
    for (name, format) in FORMATS {
        let (tenth, _) = export(&small, format).await;
        let before = big.process.resident_bytes();
        let (whole, bytes) = export(&big, format).await;
        let grown = big.process.resident_bytes().saturating_sub(before) >> 20;
        report.add(Row {
            path: format!("SBOM of {TOOLS} tools and their servers, {name}"),
            value: format!("{:.2} s, {} MB, memory +{grown} MiB", whole.as_secs_f64(), bytes >> 20),
            baseline: format!("ten times a tenth: {:.2} s", tenth.as_secs_f64() * 10.0),
            ratio: Some(whole.as_secs_f64() / (tenth.as_secs_f64() * 10.0)),
            budget: "linear: ≤ 1.5",
        });
    }
    let begin = Instant::now();
    let wanted = v1::FindComponentUsersRequest {
        component: Some(v1::EntitySelector {
            kind: v1::EntityKind::Schema.into(),
            name: "Query0".to_owned(),
            ..Default::default()
        }),
        page_size: 1_000,
        ..Default::default()
    };
    let found =
        big.sbom().await.find_component_users(wanted).await.expect("an answer").into_inner();
    assert_eq!(found.users.len(), 1_000);
    report.add_alone(
        format!("first 1,000 of {TOOLS} holders of a schema"),
        format!("{:.0} ms", begin.elapsed().as_secs_f64() * 1000.0),
        "",
    );
}

async fn export(registry: &Registry, format: v1::SbomFormat) -> (Duration, usize) {
    let mut client = registry.sbom().await;
    let begin = Instant::now();
    let wanted = v1::ExportSbomRequest { format: format.into(), ..Default::default() };
    let mut parts = client.export_sbom(wanted).await.expect("a bill").into_inner();
    let mut bytes = 0;
    while let Some(part) = parts.message().await.expect("all of it") {
        bytes += part.chunk.len();
    }
    (begin.elapsed(), bytes)
}
