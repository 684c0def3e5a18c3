//! The blocks of `README.md`, in order, with their output.
//!
//! All blocks run in one shell in a temporary directory that has the examples. Programs listen on
//! free ports instead of the documented ones. In the documented output, `…` at the end of a line
//! matches the rest of the line, and `…` alone matches any lines.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Stdio},
};

use acceptance::{binary, root};

/// The documented addresses: registry, backend, gateway.
const ADDRESSES: [&str; 3] = ["127.0.0.1:7070", "127.0.0.1:7090", "127.0.0.1:7080"];
/// Starts the output of a command, and its exit code.
const OUTPUT: &str = "@@ output";
const STATUS: &str = "@@ status";

/// A fenced block.
struct Block {
    language: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let parts: Vec<_> = page.split("```").collect();
    assert!(parts.len() % 2 == 1, "a fence has no end");
    let inside = parts.into_iter().skip(1).step_by(2);
    inside
        .map(|part| {
            let (language, text) = part.split_once('\n').expect("a line with the language");
            Block { language: language.to_owned(), text: text.to_owned() }
        })
        .collect()
}

/// A command with the documented output, if it is documented.
#[derive(Debug)]
struct Step {
    command: String,
    expected: Option<String>,
}

/// The commands of a console block with their output.
fn console(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), expected: Some(String::new()) });
        } else if let Some(Step { expected: Some(expected), .. }) = steps.last_mut() {
            expected.push_str(line);
            expected.push('\n');
        }
    }
    steps
}

/// The commands of a shell block. Builds are replaced by a look for what they build.
fn shell(text: &str) -> Vec<Step> {
    let commands = text.lines().filter(|line| !line.trim().is_empty());
    commands
        .map(|line| {
            let command = match line.split(' ').next() {
                Some("cargo") => {
                    assert!(line.contains("--profile demo --bins"), "{line}");
                    "for program in registry-server gateway-agent registryctl demo-client; do \
                     command -v $program >/dev/null || exit 1; done"
                        .to_owned()
                }
                Some("export") => "true".to_owned(),
                _ => line.to_owned(),
            };
            Step { command, expected: None }
        })
        .collect()
}

/// A shell command that prints the markers around the output. A command in the background is awaited
/// until it listens.
fn script(number: usize, command: &str) -> String {
    let (open, close) = (format!("echo '{OUTPUT}'\n"), format!("echo \"{STATUS} $?\"\n"));
    match command.strip_suffix('&') {
        Some(command) => format!(
            "{open}{command} >out.{number} &\n\
             for _ in $(seq 600); do grep -q 'listening on' out.{number} && break; sleep 0.1; done\n\
             cat out.{number}\n{close}"
        ),
        None => format!("{open}{{ {command}\n}} 2>&1\n{close}"),
    }
}

/// Free ports instead of the documented ones.
fn free_addresses() -> [String; 3] {
    let listeners = ADDRESSES.map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("an address").to_string())
}

/// A program in `bin` that runs the built one with these arguments first.
fn wrap(bin: &Path, program: &str, arguments: &str) {
    let path = bin.join(program);
    let text = format!("#!/bin/sh\nexec '{}' {arguments} \"$@\"\n", binary(program).display());
    fs::write(&path, text).expect("a script is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode is set");
}

/// The directory of the shell: the examples with the free addresses, the programs, the test data.
fn prepare(dir: &Path, addresses: &[String; 3]) {
    let replace = |text: String| {
        ADDRESSES.iter().zip(addresses).fold(text, |text, (from, to)| text.replace(from, to))
    };
    fs::create_dir_all(dir.join("examples")).expect("a directory");
    for entry in fs::read_dir(root().join("examples")).expect("the examples") {
        let entry = entry.expect("an example");
        if entry.path().is_dir() {
            continue;
        }
        let text = fs::read_to_string(entry.path()).expect("an example is text");
        fs::write(dir.join("examples").join(entry.file_name()), replace(text)).expect("written");
    }
    for name in ["crates", "Makefile"] {
        symlink(root().join(name), dir.join(name)).expect("a link");
    }
    let bin = dir.join("bin");
    fs::create_dir(&bin).expect("a directory");
    let [registry, backend, gateway] = addresses;
    wrap(&bin, "registry-server", &format!("--listen {registry} --admin-listen none"));
    wrap(&bin, "registryctl", &format!("--registry http://{registry}"));
    wrap(&bin, "gateway-agent", &format!("--listen {gateway}"));
    wrap(&bin, "demo-client", &format!("--url http://{gateway}/mcp"));
    let stdio = format!("[ \"$1\" = --stdio ] || set -- --listen {backend} \"$@\"");
    let path = bin.join("demo-backend");
    let text = format!("#!/bin/sh\n{stdio}\nexec '{}' \"$@\"\n", binary("demo-backend").display());
    fs::write(&path, text).expect("a script is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode is set");
}

/// The words of a line, without values that differ between runs: times, durations, ports, ids.
fn words(line: &str) -> Vec<String> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    line.split_whitespace()
        .map(|word| {
            let is_time = word.len() > 20 && word.contains('T') && word.ends_with('Z');
            let is_duration =
                word.strip_suffix('s').is_some_and(|number| number.split('.').all(is_digits));
            let is_process = word.split_once('/').is_some_and(|(_, id)| {
                id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
            });
            match word {
                _ if is_time => "TIME".to_owned(),
                _ if is_duration => "DURATION".to_owned(),
                _ if word.starts_with("127.0.0.1:") => "ADDRESS".to_owned(),
                _ if is_process => "PROCESS".to_owned(),
                _ => word.to_owned(),
            }
        })
        .collect()
}

/// Whether a line is as documented.
fn line_fits(expected: &str, line: &str) -> bool {
    match expected.strip_suffix('…') {
        Some(start) => {
            let (start, line) = (words(start).join(" "), words(line).join(" "));
            line.starts_with(&start)
        }
        None => words(expected) == words(line),
    }
}

/// Whether lines are as documented; a line `…` fits any lines.
fn fits(expected: &[&str], lines: &[&str]) -> bool {
    match (expected.split_first(), lines.split_first()) {
        (None, None) => true,
        (Some((&"…", rest)), _) => (0..=lines.len()).any(|skipped| fits(rest, &lines[skipped..])),
        (Some((first, rest)), Some((line, others))) => line_fits(first, line) && fits(rest, others),
        _ => false,
    }
}

/// Runs the steps, and returns the output and the exit code of each.
fn run(steps: &[Step], dir: &Path, addresses: &[String; 3]) -> Vec<(String, String)> {
    let replace = |text: &str| {
        let pairs = ADDRESSES.iter().zip(addresses);
        pairs.fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    };
    let commands = steps.iter().enumerate();
    let body: String =
        commands.map(|(number, step)| script(number, &replace(&step.command))).collect();
    let path = std::env::var_os("PATH").expect("a path").into_string().expect("UTF-8");
    let path = format!("{}:{path}", dir.join("bin").display());
    let file = dir.join("readme.sh");
    fs::write(&file, format!("set -m\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n{body}"))
        .expect("a script is written");
    let output = Command::new("timeout")
        .args(["300", "bash"])
        .arg(&file)
        .current_dir(dir)
        .env("PATH", path)
        .env("USER", "ann")
        .env("NO_PROXY", "127.0.0.1")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .expect("bash runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let text =
        ADDRESSES.iter().zip(addresses).fold(text, |text, (to, from)| text.replace(from, to));
    let opening = format!("{OUTPUT}\n");
    let parts = text.split(&opening).skip(1);
    parts
        .map(|part| {
            let (output, status) = part.rsplit_once(STATUS).unwrap_or((part, "no status"));
            (output.to_owned(), status.trim().to_owned())
        })
        .collect()
}

#[test]
fn blocks_of_the_readme_run_in_order() {
    let page = fs::read_to_string(root().join("README.md")).expect("README.md");
    let mut steps = Vec::new();
    for Block { language, text } in blocks(&page) {
        match language.as_str() {
            "console" => steps.extend(console(&text)),
            "sh" => steps.extend(shell(&text)),
            "json" => {
                let example = fs::read_to_string(root().join("examples/servers.json"));
                assert_eq!(text, example.expect("examples/servers.json"));
            }
            "mermaid" => assert!(text.starts_with("flowchart"), "{text}"),
            other => panic!("a block of `{other}` does not run"),
        }
    }
    let dir = tempfile::tempdir().expect("a directory");
    let addresses = free_addresses();
    prepare(dir.path(), &addresses);
    let results = run(&steps, dir.path(), &addresses);
    assert_eq!(results.len(), steps.len(), "the shell ended early: {results:?}");
    let mut found = Vec::new();
    for (Step { command, expected }, (output, status)) in steps.iter().zip(&results) {
        let is_as_documented = match expected {
            None => status == "0",
            Some(expected) => {
                let expected: Vec<_> = expected.lines().collect();
                fits(&expected, &output.lines().collect::<Vec<_>>())
            }
        };
        if !is_as_documented {
            found.push(format!("$ {command}\n{output}[exit code {status}]\n"));
        }
    }
    assert!(found.is_empty(), "README.md shows other output:\n{}", found.join("\n"));
}
