//! The commands of `docs/policy-tests.md` print the documented output.

use std::process::Command;

use acceptance::{binary, root};

/// The words of a command. Only one argument has quotes.
fn words(line: &str) -> Vec<&str> {
    line.split('\'')
        .enumerate()
        .flat_map(|(part, text)| match part {
            1 => vec![text],
            _ => text.split_whitespace().collect(),
        })
        .collect()
}

#[test]
fn documented_commands_print_documented_output() {
    let page = std::fs::read_to_string(root().join("docs/policy-tests.md")).expect("a page");
    let blocks = page.split("```console\n$ registryctl ").skip(1);
    let mut count = 0;
    for block in blocks.map(|rest| rest.split("\n```").next().unwrap_or_default()) {
        let (line, shown) = block.split_once('\n').expect("a command and its output");
        let mut command = Command::new(binary("registryctl"));
        let output = command.args(words(line)).current_dir(root()).output().expect("it runs");
        let printed = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!(printed.trim_end(), shown, "{line}");
        count += 1;
    }
    assert_eq!(count, 3);
}
