//! The clients in `examples/clients` against a registry server.

use std::{env, fs, path::Path, process::Command};

use acceptance::{PythonEnvironment, Registry, root};

use crate::{
    conformance::{official, run},
    guides::blocks,
};

/// The lines that each client of gRPC prints.
const PRINTED: &str = "following from revision 0\n\
                       registered in revision 1\n\
                       received revision 1\n\
                       found ENTITY_KIND_TOOL get_forecast 1.0.0\n";

/// The output of a client, with the results that are the tool.
fn printed(client: Command) -> String {
    let output = run(client);
    let lines = output.lines().filter(|line| !line.contains("ENTITY_KIND_SERVER"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn python_client_registers_follows_and_searches() {
    let registry = Registry::start();
    let example = root().join("examples/clients/python");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grpc");
    fs::create_dir_all(&target).expect("the target directory is writable");
    let python = PythonEnvironment::of(&example.join("requirements.txt"), &target);
    let stubs = tempfile::tempdir().expect("a temporary directory");
    let mut generate = python.python();
    generate.current_dir(root()).args(["-m", "grpc_tools.protoc", "-I", "proto"]);
    for kind in ["--python_out", "--grpc_python_out"] {
        generate.arg(format!("{kind}={}", stubs.path().display()));
    }
    generate.args(protos());
    run(generate);
    let mut client = python.python();
    client.env("PYTHONPATH", stubs.path()).arg(example.join("client.py")).arg(&registry.address);
    assert_eq!(printed(client), PRINTED);
}

/// `.ci/go` installs Go and the packages of Debian, which are used without modules. The files are those of
/// the module in the README.
#[test]
fn go_client_registers_follows_and_searches() {
    let registry = Registry::start();
    let path = tempfile::tempdir().expect("a temporary directory");
    let client = path.path().join("src/agentgateway");
    fs::create_dir_all(&client).expect("a directory");
    fs::copy(root().join("examples/clients/go/main.go"), client.join("main.go")).expect("a copy");
    let mut generate = Command::new("protoc");
    generate.current_dir(root()).args(["-I", "proto"]);
    for kind in ["--go", "--go-grpc"] {
        generate.arg(format!("{kind}_out={}", client.display()));
        generate.arg(format!("{kind}_opt=module=agentgateway"));
    }
    generate.args(protos());
    run(generate);
    let mut go = Command::new("go");
    go.args(["run", "agentgateway", &registry.address]).env("GO111MODULE", "off");
    go.env("GOPATH", format!("{}:/usr/share/gocode", path.path().display()));
    go.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go"));
    assert_eq!(printed(go), PRINTED);
}

/// The proto files as they import each other.
fn protos() -> Vec<String> {
    let files = fs::read_dir(root().join("proto/registry/v1")).expect("the protos");
    let names = files.map(|file| file.expect("a file").file_name());
    names.map(|name| format!("registry/v1/{}", name.to_string_lossy())).collect()
}

#[test]
fn node_client_registers_follows_and_searches() {
    let registry = Registry::start();
    let modules = official().install(&root().join("examples/clients/node"), "grpc");
    // Node resolves modules next to the script.
    let script = modules.join("client.mjs");
    fs::copy(root().join("examples/clients/node/client.mjs"), &script).expect("a copy");
    let mut client = official().node(&script);
    client.arg(&registry.address).arg(root().join("proto"));
    assert_eq!(printed(client), PRINTED);
}

#[test]
fn connect_client_registers_and_searches() {
    let registry = Registry::start();
    let example = root().join("examples/clients/connect");
    let modules = official().install(&example, "connect");
    for file in ["buf.gen.yaml", "client.mjs"] {
        fs::copy(example.join(file), modules.join(file)).expect("a copy");
    }
    let programs = modules.join("node_modules/.bin");
    let node = official().node_path();
    let path = [programs.as_path(), node.parent().expect("a directory")];
    let mut generate = official().node(&programs.join("buf"));
    generate.env("PATH", env::join_paths(path).expect("paths without colons"));
    generate.current_dir(&modules).arg("generate").arg(root().join("proto"));
    run(generate);
    let mut client = official().node(&modules.join("client.mjs"));
    client.arg(registry.url());
    assert_eq!(run(client), "registered in revision 1\nfound City 1.0.0\n");
}

#[test]
fn page_shows_connect_client() {
    let source = root().join("examples/clients/connect/client.mjs");
    let source = fs::read_to_string(source).expect("a client");
    let (_, shown) = source.split_once('\n').expect("a comment about the arguments");
    assert_eq!(blocks("docs/http-api.md", "js").remove(0), shown.trim_end());
}
