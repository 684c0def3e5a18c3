//! Pages of `docs/reference`, generated from the code by tests.
//!
//! A test builds a page and calls [`check`]. `make reference` rewrites stale pages.

use std::{env, fmt::Write as _, fs, path::Path};

use clap::{Arg, ArgAction, Command, builder::PossibleValue};
use metric_table::Metric;

/// With this environment variable, [`check`] rewrites pages instead of comparing them.
const UPDATE: &str = "UPDATE_REFERENCE";
/// The second line of each page.
const NOTE: &str = "<!-- Generated from the code by `make reference`. Do not edit. -->";

/// Compares `docs/reference/{name}` with the generated text.
///
/// # Panics
///
/// If the page differs.
pub fn check(name: &str, title: &str, body: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    let page = format!("# {title}\n\n{NOTE}\n\n{}\n", body.trim());
    if env::var_os(UPDATE).is_some() {
        fs::write(&path, page).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        return;
    }
    let current = fs::read_to_string(&path).unwrap_or_default();
    assert!(current == page, "docs/reference/{name} is stale; run `make reference`");
}

/// Compares `docs/reference/{name}` with a table of metrics, sorted by name.
///
/// # Panics
///
/// If the page differs.
pub fn check_metrics(name: &str, title: &str, metrics: &[Metric]) {
    let mut metrics = metrics.to_vec();
    metrics.sort_by_key(|metric| metric.name);
    let rows: Vec<_> = metrics
        .into_iter()
        .map(|Metric { name, kind, labels, help }| {
            let labels: Vec<_> =
                labels.iter().map(|label| format!("`{}`: {}", label.name, label.values)).collect();
            let kind = kind.as_str().to_owned();
            [format!("`{name}`"), kind, labels.join("; "), help.to_owned()]
        })
        .collect();
    let body = format!(
        "[Monitor](../operate/monitor.md) has the addresses and the alerts. A counter appears with \
         its first event.\n\n{}",
        table(["metric", "type", "labels", "meaning"], &rows)
    );
    check(name, title, &body);
}

/// A Markdown table.
pub fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let header = line(&header.map(str::to_owned));
    let rule = format!("|{}\n", "---|".repeat(N));
    let rows: String =
        rows.iter().map(|row| line(&row.clone().map(|cell| cell_text(&cell)))).collect();
    format!("{header}{rule}{rows}")
}

/// A text on one line, without unescaped pipes.
fn cell_text(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace("\\|", "|").replace('|', "\\|")
}

/// The options of a command by help heading, without those of its subcommands.
pub fn options(command: &Command) -> String {
    let mut groups: Vec<(&str, Vec<[String; 4]>)> = Vec::new();
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let heading = arg.get_help_heading().unwrap_or_default();
        let row = [signature(arg), environment(arg), default(arg), help(arg)];
        match groups.iter_mut().find(|(name, _)| *name == heading) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((heading, vec![row])),
        }
    }
    let header = ["option", "environment variable", "default", "meaning"];
    let section = |(heading, rows): (&str, Vec<[String; 4]>)| {
        let title = if heading.is_empty() { String::new() } else { format!("**{heading}**\n\n") };
        format!("{title}{}\n", table(header, &rows))
    };
    groups.into_iter().map(section).collect()
}

/// A section for each subcommand with its description and options, at any depth. Options that all
/// commands share are left to the caller.
pub fn subcommands(command: &Command) -> String {
    let mut text = String::new();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        describe(sub, command.get_name(), &mut text);
    }
    text
}

fn describe(command: &Command, parent: &str, text: &mut String) {
    let name = format!("{parent} {}", command.get_name());
    if command.has_subcommands() {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            describe(sub, &name, text);
        }
        return;
    }
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(text, "## {name}\n\n{}.\n\n", about.trim_end_matches('.'));
    let rows: Vec<_> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && !arg.is_global_set())
        .map(|arg| {
            let default = default(arg);
            let default =
                if default.is_empty() { String::new() } else { format!(" (default {default})") };
            [signature(arg), format!("{}{default}", help(arg))]
        })
        .collect();
    if !rows.is_empty() {
        text.push_str(&table(["argument", "meaning"], &rows));
        text.push('\n');
    }
}

/// `--flag VALUE`, or `VALUE` of a positional argument.
fn signature(arg: &Arg) -> String {
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let id = arg.get_id().as_str().to_uppercase();
    let names = arg.get_value_names().map(|names| names.iter().map(ToString::to_string).collect());
    let names: Vec<String> = names.unwrap_or_else(|| vec![id]);
    let value = names.join(" ");
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let flags: Vec<_> = short.into_iter().chain(long).collect();
    let text = match (flags.is_empty(), takes_value) {
        (true, _) => value,
        (false, true) => format!("{} {value}", flags.join(", ")),
        (false, false) => flags.join(", "),
    };
    format!("`{text}`")
}

fn environment(arg: &Arg) -> String {
    let name = arg.get_env().and_then(|name| name.to_str());
    name.map(|name| format!("`{name}`")).unwrap_or_default()
}

fn default(arg: &Arg) -> String {
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let values = arg.get_default_values().iter().filter_map(|value| value.to_str());
    let values: Vec<_> = values.filter(|_| takes_value).collect();
    if values.is_empty() { String::new() } else { format!("`{}`", values.join(",")) }
}

/// The first paragraph of the help text and the possible values.
fn help(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values = arg.get_possible_values();
    let names: Vec<_> =
        values.iter().filter(|value| !value.is_hide_set()).map(PossibleValue::get_name).collect();
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    if names.is_empty() || !takes_value {
        return help;
    }
    format!("{}: `{}`", help.trim_end_matches('.'), names.join("`, `"))
}
