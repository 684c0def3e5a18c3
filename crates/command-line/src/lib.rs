//! Parsing of command lines whose options have environment variables.
//!
//! Compose files and CI jobs pass a variable without a value as an empty one, so an empty variable
//! counts as unset.

use std::{
    collections::BTreeSet,
    env,
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    process,
};

use clap::{Arg, Command, Error, FromArgMatches, error::ErrorKind};

/// Parses the arguments of the process. Help, `--version` and invalid arguments end the process. An
/// error that an environment variable causes names the variable.
pub fn parse<P: FromArgMatches>(command: Command) -> P {
    let is_empty = |name: &OsStr| env::var_os(name).is_some_and(|value| value.is_empty());
    let command = without_variables(command, &is_empty);
    let matches = command.clone().try_get_matches().unwrap_or_else(|e| reject(&command, &e));
    P::from_arg_matches(&matches).unwrap_or_else(|e| e.exit())
}

/// Removes the variables that `is_ignored` selects from all options.
fn without_variables(command: Command, is_ignored: &dyn Fn(&OsStr) -> bool) -> Command {
    command
        .mut_args(|arg| {
            let is_without = arg.get_env().is_some_and(is_ignored);
            if is_without { arg.env(None::<&'static str>) } else { arg }
        })
        .mut_subcommands(|subcommand| without_variables(subcommand, is_ignored))
}

fn reject(command: &Command, error: &Error) -> ! {
    print(error);
    for name in variables(command).into_iter().filter(|name| causes(command, name, error)) {
        let _ = writeln!(
            io::stderr(),
            "note: the environment variable {} causes this error; correct or unset it",
            name.display()
        );
    }
    process::exit(error.exit_code())
}

/// Prints the error. The parser of integers does not name the expected form.
fn print(error: &Error) {
    const INVALID_INTEGER: &str = "invalid digit found in string";
    let text = error.render().to_string();
    // A closed standard error is not a failure.
    let _ = if text.contains(INVALID_INTEGER) {
        io::stderr().write_all(text.replace(INVALID_INTEGER, "expected an integer").as_bytes())
    } else {
        error.print()
    };
}

/// The variables of all options that are set.
fn variables(command: &Command) -> BTreeSet<OsString> {
    let own = command.get_arguments().filter_map(Arg::get_env);
    let own = own.filter(|name| env::var_os(name).is_some()).map(OsStr::to_owned);
    own.chain(command.get_subcommands().flat_map(variables)).collect()
}

/// Whether the error disappears without the variable. The parser reports one error at a time and
/// does not say whether a value is that of an option or of a variable.
fn causes(command: &Command, variable: &OsStr, error: &Error) -> bool {
    let rest = without_variables(command.clone(), &|name: &OsStr| name == variable);
    match rest.try_get_matches() {
        Ok(_) => true,
        // Another invalid value can follow. Other errors can list further options that are missing.
        Err(other) => is_about_value(error) && other.to_string() != error.to_string(),
    }
}

fn is_about_value(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::InvalidUtf8
    )
}
