//! Pages with commands: each command prints the documented output in both eras of MCP.

use std::process::Command;

use acceptance::{Gateway, binary, root};

/// Runs every command of a page against a gateway and compares the output.
pub(crate) fn assert_output(page: &str, gateway: &Gateway) {
    let text = std::fs::read_to_string(root().join(page)).expect("a page");
    let commands = commands(&text);
    assert!(!commands.is_empty(), "{page}");
    for (line, shown) in commands {
        let rest = line.strip_prefix("demo-client ").expect("all are of this program");
        let (words, arguments) = rest.split_once(" '").unwrap_or((rest, ""));
        for era in [&[][..], &["--legacy"]] {
            let mut client = Command::new(binary("demo-client"));
            client.args(["--url", &gateway.mcp_url()]).args(era).args(words.split(' '));
            client.args(Some(arguments.trim_end_matches('\'')).filter(|text| !text.is_empty()));
            let output = client.output().expect("it runs");
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8(said).expect("UTF-8");
            assert_eq!(said.trim_end(), shown, "{era:?} {line}");
        }
    }
}

/// The commands of a page with their outputs.
fn commands(page: &str) -> Vec<(String, String)> {
    let blocks = page.split("```console\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("\n```").next().unwrap_or_default());
    let commands = blocks.flat_map(|block| block.split("$ ").skip(1));
    let parted = commands.map(|command| command.split_once('\n').unwrap_or((command, "")));
    parted.map(|(line, shown)| (line.to_owned(), shown.trim_end().to_owned())).collect()
}
