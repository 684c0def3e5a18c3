//! The help of the program itself, with commands by group. `-h` lists names, `--help` describes them.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::Arguments;

/// Every command in one group.
const GROUPS: [(&str, &[&str]); 10] = [
    ("Basic", &["apply", "validate", "get", "list", "search", "import", "export"]),
    ("History", &["log", "show", "history", "blame", "diff", "watch", "revert"]),
    ("Dependencies", &["tree", "why", "impact", "resolve", "lock", "outdated", "sbom"]),
    ("Lifecycle", &["deprecate", "retire", "restore"]),
    (
        "Governance",
        &["policy", "who-can-call", "budget", "usage", "trace", "inspect", "approvals", "approve"],
    ),
    ("Settings", &["compatibility", "archive", "unarchive", "transfer", "settings"]),
    ("Fleet", &["fleet", "rollout", "gateway", "drift"]),
    ("Composition", &["compose"]),
    ("Access", &["token", "whoami", "audit"]),
    ("Other", &["schema", "completions", "help"]),
];

const TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

const SUMMARY: &str = "\
Every command accepts --registry URL (or REGISTRY_URL), --token-file FILE (or REGISTRY_TOKEN),
--output table|json and --no-color. `registryctl COMMAND -h` shows the options of a command,
`registryctl --help` everything else: all commands, global options and exit codes.";

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  rejected by validation, a negative result, differences (diff --exit-code, sbom diff), or
     findings (inspect)
  2  usage error: invalid arguments, or a file that cannot be read or written
  3  the registry or a live server cannot be reached
  4  the registry or a live server failed, or sent an invalid response
  5  changes are pending (--dry-run --exit-code), or versions are outdated (outdated --exit-code)
  6  too few gateways have applied the revision (--wait, policy stop)

Commands that change something show a plan and ask for confirmation. --yes skips the question, and
--dry-run ends after the plan. Without a terminal, one of the two is required.";

/// The parser with grouped commands.
pub(super) fn command() -> Command {
    let command = Arguments::command();
    let (names, descriptions) = (names(), descriptions(&command));
    command
        // clap cannot group subcommands, so its own list is hidden.
        .mut_subcommands(|subcommand| subcommand.hide(true))
        .override_usage("registryctl [OPTIONS] <COMMAND>")
        .help_template(TEMPLATE)
        .before_help(names)
        .before_long_help(descriptions)
        .after_help(SUMMARY)
        .after_long_help(EXIT_CODES)
}

/// One line per group.
fn names() -> String {
    let mut text = "Commands:\n".to_owned();
    for (group, names) in GROUPS {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  {group:<13} {}", names.join(" "));
    }
    text.trim_end().to_owned()
}

/// One line per command, under the headings of the groups.
fn descriptions(command: &Command) -> String {
    let mut text = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(text, "{group}:");
        for name in names {
            let about = match *name {
                "help" => "Print the help of a command".to_owned(),
                name => {
                    let about = command.find_subcommand(name).and_then(Command::get_about);
                    about.map(ToString::to_string).unwrap_or_default()
                }
            };
            let _ = writeln!(text, "  {name:<14} {about}");
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The height and width of a screen that fits the short help of every command.
    const SCREEN: (usize, usize) = (45, 102);

    #[test]
    fn parser_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn groups_contain_every_command_once() {
        let grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let unique: BTreeSet<_> = grouped.iter().copied().collect();
        assert_eq!(grouped.len(), unique.len());
        let command = Arguments::command();
        let known = command.get_subcommands().map(Command::get_name).chain(["help"]);
        assert_eq!(unique, known.collect());
    }

    /// Adds the commands whose short help does not fit.
    fn check(command: &mut Command, path: &str, found: &mut Vec<String>) {
        let help = command.render_help().to_string();
        if help.lines().count() > SCREEN.0 {
            found.push(format!("{path} has {} lines", help.lines().count()));
        }
        let wide = help.lines().filter(|line| line.chars().count() > SCREEN.1);
        found.extend(wide.map(|line| format!("{path}: {line}")));
        for subcommand in command.get_subcommands_mut() {
            let path = format!("{path} {}", subcommand.get_name());
            check(subcommand, &path, found);
        }
    }

    #[test]
    fn short_help_fits_one_screen() {
        let mut command = command();
        command.build();
        let mut found = Vec::new();
        check(&mut command, "registryctl", &mut found);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}
