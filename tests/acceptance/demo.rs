//! The scripts of `make demo` and `make demo-agents`, with the built programs.

use std::{fs, path::Path, process::Command};

use acceptance::{PythonEnvironment, binary, root};

/// A Python with the packages of the examples of agents.
pub(crate) fn python_of_agents() -> PythonEnvironment {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("websockets");
    fs::create_dir_all(&target).expect("the target directory is writable");
    PythonEnvironment::of(&root().join("examples/agents/python/requirements.txt"), &target)
}

/// Runs a script in the root of the checkout.
fn assert_succeeds(script: &str, python: Option<&PythonEnvironment>) {
    let server = binary("registry-server");
    let mut command = Command::new("bash");
    command.arg(script).current_dir(root());
    command.env("BIN", server.parent().expect("a directory"));
    if let Some(python) = python {
        command.env("PYTHON", python.program("python"));
    }
    let output = command.output().expect("the demo starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
}

#[test]
fn demo_script_succeeds() {
    assert_succeeds("examples/demo.sh", None);
}

#[test]
fn agents_demo_script_succeeds() {
    assert_succeeds("examples/demo-agents.sh", Some(&python_of_agents()));
}
