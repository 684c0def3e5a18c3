//! The table of results, and its place in `bench/README.md`.

use std::{fmt::Write as _, fs};

/// One measured path.
#[derive(Debug)]
pub(crate) struct Row {
    /// The measured path.
    pub(crate) path: String,
    /// The result.
    pub(crate) value: String,
    /// The result of the peer or the limit in the same run.
    pub(crate) baseline: String,
    /// The ratio as defined by the budget.
    pub(crate) ratio: Option<f64>,
    /// The budget.
    pub(crate) budget: &'static str,
}

/// All results of one run.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Row>);

const BEGIN: &str = "<!-- results: written by `make bench` -->";
const END: &str = "<!-- end of results -->";

impl Report {
    /// Adds and prints a result.
    pub(crate) fn add(&mut self, row: Row) {
        println!("{}", line(&row));
        self.0.push(row);
    }

    /// Adds a result without a comparison.
    pub(crate) fn add_alone(
        &mut self,
        path: impl Into<String>,
        value: String,
        budget: &'static str,
    ) {
        let (path, baseline) = (path.into(), String::new());
        self.add(Row { path, value, baseline, ratio: None, budget });
    }

    /// The results as a Markdown table.
    pub(crate) fn table(&self) -> String {
        let mut table = String::from(
            "| path | measured | compared with, same run | ratio | budget |\n|---|---|---|---|---|\n",
        );
        for row in &self.0 {
            table += &line(row);
            table.push('\n');
        }
        table
    }

    /// Replaces the table in `bench/README.md`.
    pub(crate) fn record(&self) {
        let path = acceptance::root().join("bench/README.md");
        let readme = fs::read_to_string(&path).expect("bench/README.md");
        let (before, rest) = readme.split_once(BEGIN).expect("the mark of the results");
        let (_, after) = rest.split_once(END).expect("the mark after the results");
        let machine = machine();
        let text = format!("{before}{BEGIN}\n\n{machine}\n\n{}\n{END}{after}", self.table());
        fs::write(path, text).expect("bench/README.md is written");
    }
}

fn line(row: &Row) -> String {
    let Row { path, value, baseline, ratio, budget } = row;
    let ratio = ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
    format!("| {path} | {value} | {baseline} | {ratio} | {budget} |")
}

fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown", |line| line.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut text = String::new();
    let _ = write!(text, "Machine: {cores} cores of {model}; load generator on the same machine.");
    text
}
