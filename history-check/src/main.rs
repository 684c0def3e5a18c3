//! `history-check FILE...` checks recorded histories and reports each violated invariant.
//!
//! Exit codes: 0, all invariants hold; 1, an invariant is violated; 2, a file is not a history.

use std::{fs, process::ExitCode};

use history_check::{Event, History, validators_of};

/// The maximum number of printed violations per invariant.
const SHOWN: usize = 5;

const USAGE: &str = "usage: history-check FILE...\n\nChecks recorded histories. Exit codes: 0, all \
                     invariants hold; 1, one is violated; 2, a file is invalid.";

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() || files.iter().any(|file| file.starts_with('-')) {
        eprintln!("{USAGE}");
        let is_help = files.iter().any(|file| file == "--help" || file == "-h");
        return if is_help { ExitCode::SUCCESS } else { ExitCode::from(2) };
    }
    let mut worst = 0;
    for file in &files {
        let read = fs::read_to_string(file).map_err(|e| e.to_string());
        worst = worst.max(match read.and_then(|text| History::parse(&text).map_err(|e| e.0)) {
            Ok(history) => report(file, &history),
            Err(reason) => {
                eprintln!("error: {file}: {reason}");
                2
            }
        });
    }
    ExitCode::from(worst)
}

fn report(file: &str, history: &History) -> u8 {
    let seed = history.lines.iter().find_map(|line| match line.event {
        Event::Begin { seed, .. } => Some(seed),
        _ => None,
    });
    let (commits, lines) = (history.log.commits.len(), history.lines.len());
    println!("{file}: seed {}, {commits} commits, {lines} events", seed.unwrap_or_default());
    if let Some(summary) = history.summary() {
        println!("  {summary}");
    }
    let mut worst = 0;
    for validator in validators_of(history) {
        let found = (validator.check)(history);
        let verdict = if found.is_empty() { "ok" } else { "VIOLATED" };
        println!("  {:<13} {verdict:<9} {}", validator.name, validator.invariant);
        for violation in found.iter().take(SHOWN) {
            let lines: Vec<String> = violation.lines.iter().map(u64::to_string).collect();
            println!("    line {}: {}", lines.join(", "), violation.what);
        }
        if found.len() > SHOWN {
            println!("    and {} more", found.len() - SHOWN);
        }
        worst = worst.max(u8::from(!found.is_empty()));
    }
    worst
}
