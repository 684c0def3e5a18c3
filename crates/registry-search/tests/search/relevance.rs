//! Relevance of the ranking: NDCG@10 over labelled queries.

use std::collections::BTreeMap;

use registry_search::{Index, Query};
use serde::Deserialize;

use crate::company;

const QUERIES: &str = include_str!("queries.jsonl");
/// Number of evaluated results.
const DEPTH: usize = 10;

#[derive(Deserialize)]
struct Labelled {
    query: String,
    sort: String,
    grades: BTreeMap<String, u32>,
}

/// The result of one query.
struct Judged {
    labelled: Labelled,
    is_held_out: bool,
    shown: Vec<String>,
    ndcg: f64,
}

fn judge_all() -> Vec<Judged> {
    let index = Index::build(&company::catalog());
    let judge = |(i, line)| {
        let labelled: Labelled = serde_json::from_str(line).unwrap();
        let query = Query { text: labelled.query.clone(), ..Query::default() };
        let shown: Vec<_> = index
            .search(&query, None, DEPTH)
            .hits
            .iter()
            .map(|hit| {
                let key = hit.record.document.key();
                format!("{}/{}", key.kind, key.name)
            })
            .collect();
        let ndcg = ndcg(&labelled.grades, &shown);
        Judged { labelled, is_held_out: i % 3 == 2, shown, ndcg }
    };
    QUERIES.lines().enumerate().map(judge).collect()
}

fn ndcg(grades: &BTreeMap<String, u32>, shown: &[String]) -> f64 {
    let gain = |grades: &mut dyn Iterator<Item = u32>| -> f64 {
        let gains = (2..).zip(grades).take(DEPTH);
        gains.map(|(place, grade)| f64::from(2_u32.pow(grade) - 1) / f64::from(place).log2()).sum()
    };
    let mut best: Vec<u32> = grades.values().copied().collect();
    best.sort_unstable_by(|a, b| b.cmp(a));
    let reached = gain(&mut shown.iter().map(|name| grades.get(name).copied().unwrap_or(0)));
    reached / gain(&mut best.into_iter())
}

fn mean(judged: &[&Judged]) -> f64 {
    judged.iter().map(|judged| judged.ndcg).sum::<f64>()
        / f64::from(u32::try_from(judged.len()).unwrap())
}

/// With `--nocapture` it prints imperfect rankings, except those of held-out queries.
#[test]
fn ranking_meets_relevance_target() {
    let judged = judge_all();
    assert!(judged.len() >= 60, "{} queries", judged.len());
    let (held, tuned): (Vec<_>, Vec<_>) = judged.iter().partition(|judged| judged.is_held_out);
    let all: Vec<_> = judged.iter().collect();
    let (all, tuned_mean, held) = (mean(&all), mean(&tuned), mean(&held));
    println!("NDCG@10: all {all:.3}, tuned {tuned_mean:.3}, held out {held:.3}");
    for Judged { labelled, shown, ndcg, .. } in tuned.iter().filter(|judged| judged.ndcg < 0.9) {
        let graded = |name: &String| format!("{}:{name}", labelled.grades.get(name).unwrap_or(&0));
        let shown: Vec<_> = shown.iter().map(graded).collect();
        println!("{ndcg:.2} [{}] {}: {}", labelled.sort, labelled.query, shown.join(" "));
    }
    assert!(all >= 0.80, "NDCG@10 over all queries is {all:.3}");
    assert!(held >= 0.80, "NDCG@10 over the held-out queries is {held:.3}");
}
