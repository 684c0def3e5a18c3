//! `make demo`'s script, with the built programs.

use std::process::Command;

use acceptance::{binary, root};

#[test]
fn demo_script_succeeds() {
    let bin = binary("registry-server");
    let bin = bin.parent().expect("a directory");
    let output = Command::new("bash")
        .arg("examples/demo.sh")
        .current_dir(root())
        .env("BIN", bin)
        .output()
        .expect("the demo starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
}
