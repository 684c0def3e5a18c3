//! The reference pages of the commands of `registryctl`.

use clap::CommandFactory as _;

use crate::cli::Arguments;

#[test]
fn reference_of_options_is_current() {
    let command = Arguments::command();
    let rows: Vec<_> = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .map(|sub| {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            [format!("`{}`", sub.get_name()), about]
        })
        .collect();
    let body = format!(
        "`registryctl COMMAND --help` shows the options of a command, and [Commands of \
         registryctl](registryctl-commands.md) lists all of them.\n\n{}\n## Options of all \
         commands\n\nOptions override environment variables; an empty variable counts as \
         unset.\n\n{}",
        reference_pages::table(["command", "purpose"], &rows),
        reference_pages::options(&command),
    );
    reference_pages::check("registryctl.md", "registryctl", &body);
    let body = format!(
        "[registryctl](registryctl.md) has the options of all commands.\n\n{}",
        reference_pages::subcommands(&command),
    );
    reference_pages::check("registryctl-commands.md", "Commands of registryctl", &body);
}
