//! Search over 100,000 entities over gRPC with typical queries.
//!
//! `crates/registry-search/tests/search` measures the ranking.

use std::time::{Duration, Instant};

use acceptance::Registry;
use registry_proto::v1::{
    self, discovery_service_client::DiscoveryServiceClient, entity::Kind::Tool,
};
use tonic::transport::Channel;

use crate::{
    load,
    report::{Report, Row},
    sample,
};

const ENTITIES: usize = 100_000;
const TOOLS: usize = 99_000;
const CLIENTS: usize = 8;

const VERBS: [&str; 20] = [
    "create", "list", "find", "update", "delete", "export", "import", "approve", "cancel",
    "schedule", "send", "archive", "assign", "compare", "convert", "estimate", "merge", "publish",
    "restore", "validate",
];
const NOUNS: [&str; 40] = [
    "invoice",
    "ticket",
    "customer",
    "order",
    "shipment",
    "payment",
    "contract",
    "employee",
    "meeting",
    "document",
    "report",
    "dashboard",
    "alert",
    "incident",
    "deployment",
    "database",
    "table",
    "query",
    "message",
    "channel",
    "calendar",
    "event",
    "address",
    "supplier",
    "article",
    "warehouse",
    "forecast",
    "budget",
    "account",
    "ledger",
    "candidate",
    "interview",
    "policy",
    "certificate",
    "secret",
    "cluster",
    "pipeline",
    "release",
    "translation",
    "survey",
];
const PLACES: [&str; 16] = [
    "berlin",
    "sales",
    "finance",
    "legacy",
    "europe",
    "retail",
    "internal",
    "partner",
    "mobile",
    "research",
    "logistics",
    "support",
    "cloud",
    "asia",
    "wholesale",
    "travel",
];

/// Typical queries: names, parts of names, questions, prefixes, typos, single letters, filters.
const QUERIES: [(&str, &str); 16] = [
    ("create_invoice_001040", ""),
    ("create invoice", ""),
    ("how do I cancel a shipment in berlin", ""),
    ("approve contract", "finance"),
    ("translat", ""),
    ("calender event", ""),
    ("depoyment pipelne", ""),
    ("s", ""),
    ("invoiceNumber", ""),
    ("send message to a channel of a partner for every customer order", ""),
    ("warehouse", "logistics"),
    ("", "travel"),
    ("tool", ""),
    ("restore database cloud legacy", ""),
    ("nothing_like_it_anywhere", ""),
    ("validate certificate 12345", ""),
];

/// Measures all queries with one client and with several.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    let registry = Registry::start();
    fill(&registry).await;
    let mut client = registry.discovery().await;
    let began = Instant::now();
    let answer = client.search_entities(request(1)).await.expect("an answer").into_inner();
    assert!(answer.total_count > 0, "there are invoices");
    let ready = began.elapsed();
    let one = searches(vec![client.clone()], seconds).await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(registry.discovery().await);
    }
    let several = searches(clients, seconds).await;
    report.add(Row {
        path: format!("search over gRPC, mixed queries, {ENTITIES} entities, 1 client"),
        value: one.text(),
        baseline: format!("{CLIENTS} clients: {}", several.text()),
        ratio: Some(one.quantile_ms(0.99) / 50.0),
        budget: "p99 < 50 ms",
    });
    report.add_alone(
        "search after the last batch: time until indexed",
        format!("{:.1} ms", ready.as_secs_f64() * 1000.0),
        "",
    );
    each(report, client).await;
}

async fn searches(clients: Vec<DiscoveryServiceClient<Channel>>, seconds: u64) -> load::Load {
    load::run(clients, seconds, move |mut client, id| async move {
        let number = usize::try_from(id & 0xffff_ffff).unwrap_or(0);
        client.search_entities(request(number)).await.expect("an answer");
    })
    .await
}

/// The slowest query, which a mean would hide.
async fn each(report: &mut Report, mut client: DiscoveryServiceClient<Channel>) {
    let mut slowest = (Duration::ZERO, "");
    for (i, (query, _)) in QUERIES.iter().enumerate() {
        let mut times = Vec::new();
        for _ in 0..21 {
            let began = Instant::now();
            client.search_entities(request(i)).await.expect("an answer");
            times.push(began.elapsed());
        }
        times.sort_unstable();
        slowest = slowest.max((times[times.len() / 2], *query));
    }
    let (time, query) = slowest;
    let value = format!("{:.1} ms: `{query}`", time.as_secs_f64() * 1000.0);
    report.add_alone("the slowest of these queries, median", value, "");
}

fn request(number: usize) -> v1::SearchEntitiesRequest {
    let (query, tag) = QUERIES[number % QUERIES.len()];
    let tags = Some(tag.to_owned()).filter(|tag| !tag.is_empty()).into_iter().collect();
    v1::SearchEntitiesRequest { query: query.to_owned(), tags, ..Default::default() }
}

async fn fill(registry: &Registry) {
    let mut client = registry.client().await;
    for mut batch in sample::registry(TOOLS) {
        for change in &mut batch {
            if let Some(v1::entity_change::Change::RegisterEntity(entity)) = &mut change.change
                && let Some(Tool(tool)) = &mut entity.kind
            {
                tell(tool);
            }
        }
        client.apply_changes(sample::request(batch)).await.expect("the sample is accepted");
    }
}

/// Gives a sample tool distinct words.
fn tell(tool: &mut v1::Tool) {
    let digits = tool.name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let number: usize = digits.parse().unwrap_or(0);
    let (verb, noun) = (VERBS[number % 20], NOUNS[number / 20 % 40]);
    let (place, other) = (PLACES[number / 7 % 16], NOUNS[number / 11 % 40]);
    tool.title = Some(format!("{verb} {noun} {digits}"));
    tool.description = Some(format!(
        "{verb}s the {noun} {verb}_{noun}_{digits} of {place}, with its {other} and who may see it"
    ));
    tool.input_schema = Some(format!(
        r#"{{"type":"object","properties":{{"{noun}Number":{{"type":"string"}},"{other}Id":{{"type":"string","description":"the {other} it belongs to"}},"limit":{{"type":"integer"}}}}}}"#
    ));
    tool.metadata = Some(format!(r#"{{"tags":["{place}","{noun}"]}}"#));
}
