//! The initial documents.

use super::model::{Document, chunk_count};
use crate::records::Records;

type Seed = (&'static str, &'static str, &'static str, &'static [&'static str], &'static str);

/// Title, author, day, tags, content.
const SEEDS: [Seed; 5] = [
    (
        "Registry overview",
        "Ada Lind",
        "2026-01-05",
        &["registry", "architecture"],
        "The registry is the source of truth for schemas, servers, tools and agents. Every change \
         is a validated commit in an append-only log, and every reader follows that log.",
    ),
    (
        "Gateway operations handbook",
        "Bo Mensah",
        "2026-01-12",
        &["gateway", "operations"],
        "A gateway keeps a verified copy of the registry on disk. When the registry is away it \
         serves from that copy; its age is a metric and may be limited by a rule.",
    ),
    (
        "Saga pattern in practice",
        "Chen Wei",
        "2026-02-02",
        &["patterns", "saga"],
        "A saga runs steps in order. When a step fails, the completed steps are compensated in \
         reverse: a shipment is cancelled, a payment refunded, a reservation released.",
    ),
    (
        "Quantum computing primer",
        "Dana Ruiz",
        "2026-02-20",
        &["research", "quantum"],
        "Quantum computing uses superposition and entanglement. Error correction remains the main \
         obstacle; current machines are noisy and small.",
    ),
    (
        "Electric vehicle market notes",
        "Eli Novak",
        "2026-03-03",
        &["research", "market"],
        "Battery prices keep falling and charging networks keep growing. Fleet operators lead the \
         adoption of electric vehicles, households follow.",
    ),
];

/// A records with the seeded documents, `doc-1` to `doc-5`.
pub(super) fn documents() -> Records<Document> {
    let mut records = Records::new("doc");
    for (title, author, day, tags, content) in SEEDS {
        records.add(|id| Document {
            id,
            title: title.to_owned(),
            content: content.to_owned(),
            tags: tags.iter().map(ToString::to_string).collect(),
            author: Some(author.to_owned()),
            created_at: format!("{day}T09:00:00Z"),
            updated_at: format!("{day}T09:00:00Z"),
            chunk_count: chunk_count(content, 512, 50).unwrap_or(1),
        });
    }
    records
}
