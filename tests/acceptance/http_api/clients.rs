//! The clients of Connect for browsers and for Node. They read the descriptors of the API, so that no code is
//! generated.

use acceptance::{Registry, root};
use registry_proto::FILE_DESCRIPTOR_SET;
use serde_json::{Value, json};

use crate::conformance::{official, run};

#[test]
fn connect_clients_call_and_stream() {
    let registry = Registry::start();
    let folder = root().join("tests/acceptance/http_api");
    let modules = official().install(&folder.join("npm"), "connect").join("node_modules");
    let dir = tempfile::tempdir().expect("a directory");
    let descriptors = dir.path().join("descriptors.binpb");
    std::fs::write(&descriptors, FILE_DESCRIPTOR_SET).expect("a file");
    let mut client = official().node(&folder.join("client.mjs"));
    client.arg(modules).arg(registry.url()).arg(descriptors);
    let printed = run(client);
    let lines: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 8, "{printed}");
    for line in lines {
        assert_eq!((&line["revision"], &line["entity"]), (&json!(1), &json!("A")), "{line}");
        let missing = json!(["NotFound", ["google.rpc.ErrorInfo"]]);
        assert_eq!(line["missing"], missing, "{line}");
        assert_eq!(line["late"][0], "DeadlineExceeded", "{line}");
        let is_connect = line["name"].as_str().is_some_and(|name| name.contains(" Connect"));
        let stream = if is_connect {
            json!(["Unimplemented", ["google.rpc.ErrorInfo"]])
        } else {
            json!([true, 1])
        };
        assert_eq!(line["stream"], stream, "{line}");
    }
}
