//! Checks of the source tree: dependencies, layers, sizes, module docs, language, and documented names.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Maximum lines of a source file.
const SOURCE_LINES: usize = 1000;
const TEST_LINES: usize = 1000;
/// Maximum lines of a function outside of tests.
const FUNCTION_LINES: usize = 100;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the root").to_path_buf()
}

/// The files that git tracks, or would track, with these endings; paths relative to the root.
fn files(endings: &[&str]) -> Vec<String> {
    let listing = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    let text = String::from_utf8(listing.stdout).expect("paths are UTF-8");
    let wanted = |path: &&str| endings.iter().any(|end| path.ends_with(end));
    let found: Vec<_> = text.lines().filter(wanted).map(str::to_owned).collect();
    let found: Vec<_> = found.into_iter().filter(|path| root().join(path).exists()).collect();
    assert!(!found.is_empty(), "no files with {endings:?}: is this a git checkout?");
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/")
        || path.starts_with("tests/")
        || path.ends_with("tests.rs")
        || path.ends_with("/testing.rs")
}

/// The position of the inline test module of a file, which is its last item.
fn inline_tests(text: &str) -> usize {
    let inline = |(i, _): &(usize, &str)| {
        text[*i..]
            .lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let start = text.match_indices("#[cfg(test)]\nmod ").find(inline);
    start.map_or(text.len(), |(i, _)| i)
}

/// The code of a file without comment lines and without its inline test module.
fn code(path: &str) -> String {
    let text = read(path);
    let text = &text[..inline_tests(&text)];
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    text.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

fn assert_none(what: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{what}:\n  {}", findings.join("\n  "));
}

#[test]
fn source_files_have_module_docs() {
    let mute = |path: &String| !read(path).starts_with("//! ");
    let found: Vec<_> = files(&[".rs"]).into_iter().filter(mute).collect();
    assert_none("files that do not begin with `//!`", &found);
}

#[test]
fn source_files_stay_within_line_limit() {
    let mut found = Vec::new();
    for path in files(&[".rs"]) {
        let lines = read(&path).lines().count();
        let limit = if is_test(&path) { TEST_LINES } else { SOURCE_LINES };
        if lines > limit {
            found.push(format!("{path} has {lines} lines, {limit} are allowed"));
        }
    }
    assert_none("files that are too long", &found);
}

/// rustfmt puts the closing brace at the indentation of `fn`, which gives the length of a function.
#[test]
fn functions_stay_within_line_limit() {
    let mut found = Vec::new();
    for path in files(&[".rs"]).iter().filter(|path| !is_test(path)) {
        let text = read(path);
        let lines: Vec<_> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let words = line.trim_start();
            let is_function = words.split(['(', '<']).next().is_some_and(|head| {
                head.starts_with("fn ") || head.contains(" fn ") && !head.contains(['/', '"', '='])
            });
            let mut heads = lines[i..].iter().map(|line| line.trim_end());
            let head = heads.find(|line| line.ends_with(['{', '}', ';']));
            if !is_function || head.is_some_and(|line| line.ends_with([';', '}'])) {
                continue;
            }
            let end = format!("{}}}", &line[..line.len() - words.len()]);
            let length = lines[i..].iter().position(|line| **line == end).unwrap_or(usize::MAX);
            if length > FUNCTION_LINES {
                found.push(format!("{path}:{}: {length} lines: {words}", i + 1));
            }
        }
    }
    assert_none("functions that are too long", &found);
}

#[test]
fn modules_have_one_layout() {
    let found: Vec<_> = files(&[".rs"]).into_iter().filter(|p| p.ends_with("/mod.rs")).collect();
    assert_none("use `foo.rs` next to `foo/` instead of", &found);
}

/// Workspace crates that each crate may depend on, except for tests (docs/architecture.md).
const DEPENDENCIES: [(&str, &[&str]); 37] = [
    ("schema-compat", &[]),
    ("registry-core", &["schema-compat"]),
    ("registry-proto", &["approval", "ledger", "registry-core", "schema-compat"]),
    ("atomic-file", &[]),
    ("command-line", &[]),
    ("retry-backoff", &[]),
    ("registry-tls", &[]),
    (
        "registry-follow",
        &["approval", "ledger", "registry-core", "registry-proto", "registry-tls", "retry-backoff"],
    ),
    ("registry-jwt", &["registry-core"]),
    ("mcp-registry", &["registry-core", "schema-compat"]),
    ("policy", &["registry-core", "schema-compat"]),
    ("registry-wasm", &["policy", "registry-core"]),
    ("ledger", &["registry-core"]),
    ("approval", &["registry-core"]),
    ("inspection", &["registry-core"]),
    ("gateway-protocol", &[]),
    ("a2a-grpc", &[]),
    ("a2a", &["a2a-grpc", "gateway-protocol", "registry-core", "schema-compat"]),
    ("agent-rpc", &["gateway-protocol", "registry-core", "schema-compat"]),
    ("gateway-policy", &["policy", "registry-core"]),
    (
        "gateway-compose",
        &["atomic-file", "gateway-policy", "gateway-protocol", "registry-core", "retry-backoff"],
    ),
    (
        "gateway-upstream",
        &[
            "a2a",
            "agent-rpc",
            "gateway-policy",
            "gateway-protocol",
            "registry-core",
            "registry-tls",
            "retry-backoff",
        ],
    ),
    ("registry-import", &["a2a", "registry-core", "schema-compat"]),
    ("registry-sbom", &["registry-core"]),
    ("registry-search", &["registry-core"]),
    ("metric-table", &[]),
    ("reference-pages", &["metric-table"]),
    ("registry-fixtures", &["registry-core"]),
    ("gateway-testkit", &["a2a-grpc"]),
    (
        "registry-server",
        &[
            "approval",
            "command-line",
            "ledger",
            "mcp-registry",
            "metric-table",
            "policy",
            "registry-core",
            "registry-follow",
            "registry-jwt",
            "registry-proto",
            "registry-sbom",
            "registry-search",
            "registry-tls",
            "retry-backoff",
        ],
    ),
    // The importer reports whether it can repair a rejected registry file.
    (
        "gateway-agent",
        &[
            "a2a",
            "agent-rpc",
            "approval",
            "atomic-file",
            "command-line",
            "gateway-compose",
            "gateway-policy",
            "gateway-protocol",
            "gateway-upstream",
            "inspection",
            "ledger",
            "metric-table",
            "policy",
            "registry-core",
            "registry-follow",
            "registry-import",
            "registry-jwt",
            "registry-proto",
            "registry-tls",
            "retry-backoff",
            "schema-compat",
        ],
    ),
    (
        "registryctl",
        &[
            "a2a",
            "atomic-file",
            "command-line",
            "inspection",
            "policy",
            "registry-core",
            "mcp-registry",
            "registry-follow",
            "registry-import",
            "registry-proto",
            "registry-sbom",
            "registry-search",
            "registry-tls",
            "schema-compat",
        ],
    ),
    ("demo-backend", &[]),
    ("acceptance", &["registry-core", "registry-proto"]),
    ("bench", &["inspection", "ledger", "registry-core", "registry-proto", "acceptance"]),
    ("history-check", &[]),
    (
        "proof",
        &["registry-core", "registry-proto", "gateway-testkit", "acceptance", "history-check"],
    ),
];

/// The crates without I/O.
const PURE: [&str; 10] = [
    "registry-core",
    "policy",
    "ledger",
    "approval",
    "inspection",
    "gateway-protocol",
    "a2a",
    "a2a-grpc",
    "agent-rpc",
    "gateway-policy",
];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

#[test]
fn crates_depend_only_on_lower_crates() {
    let allowed = DEPENDENCIES.into_iter().collect::<BTreeMap<_, _>>();
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let names: BTreeSet<_> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, allowed.keys().copied().collect(), "a crate without a rule");
    let mut found = Vec::new();
    for package in packages {
        let name = package["name"].as_str().expect("name");
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let to = dependency["name"].as_str().expect("name");
            if names.contains(to) && dependency["kind"] != "dev" && !allowed[name].contains(&to) {
                found.push(format!("{name} -> {to}"));
            }
        }
    }
    assert_none("dependencies against the rules", &found);
}

/// The modules of a crate, the lowest first. A module imports only earlier ones.
struct Layers {
    sources: &'static str,
    order: &'static str,
}

const LAYERS: &[Layers] = &[
    Layers {
        sources: "gateway-agent/src/",
        order: "
            clock files batched_file logging metric_table origin random tls_metrics capacity
            reports fixed_window weak_map
            workers buffers trace identity seal
            findings startup catalog_verifier cache freshness feed registrations sync source contract
            governance
            inspection spending approvals usage graphs view health audit pipeline ingress
            mcp a2a agent_rpc bridge admin config check server stdio
        ",
    },
    Layers {
        sources: "registry-server/src/",
        order: "
            clock cors flags host key_file metrics peer telemetry
            store approval_key checkpoint_key access connections
            feed registrar relay
            app grpc http web connect gate config server
            recovery keys tokens
        ",
    },
];

/// The length of the use tree or path at the start of a text: `a::B`, `a::{b, c::{D, E}}`.
fn tree_length(text: &str) -> usize {
    let mut depth = 0;
    for (i, char) in text.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth == 1 => return i + 1,
            '}' if depth > 0 => depth -= 1,
            _ if depth > 0 || char.is_alphanumeric() || "_:".contains(char) => {}
            _ => return i,
        }
    }
    text.len()
}

/// The paths in a use tree: `a::{b, c::D}` contains `a::b` and `a::c::D`.
fn paths(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let inner = rest.strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start, mut items) = (0, 0, Vec::new());
    for (i, char) in inner.char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&inner[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    items.push(&inner[start..]);
    let items = items.into_iter().map(str::trim).filter(|item| !item.is_empty());
    items.flat_map(paths).map(|path| format!("{}{path}", prefix.trim())).collect()
}

/// The paths in a code after each of these words, which end with `::` or a space.
fn paths_after(code: &str, word: &str) -> Vec<String> {
    let starts = code.match_indices(word).filter(|(at, _)| {
        !code[..*at].ends_with(|char: char| char.is_alphanumeric() || "_:".contains(char))
    });
    let rest = starts.map(|(at, _)| &code[at + word.len()..]);
    rest.flat_map(|rest| paths(&rest[..tree_length(rest)])).collect()
}

/// The paths from the root of the crate in the code of a module such as `pipeline/route`.
fn paths_of_root(module: &str, code: &str) -> Vec<String> {
    let depth = module.split('/').count();
    let mut found = paths_after(code, "crate::");
    for path in paths_after(&code.replace("self::super", "super"), "super::") {
        let segments: Vec<_> = path.split("::").collect();
        let supers = segments.iter().take_while(|segment| **segment == "super").count();
        if supers + 1 == depth {
            found.push(segments[supers..].join("::"));
        }
    }
    found
}

#[test]
fn crate_paths_are_found_in_all_forms() {
    for (module, code) in [
        ("view", "use crate::pipeline::X;"),
        ("view", "use crate::{a::B, pipeline::{X, Y}};"),
        ("view", "let x = crate::pipeline::x();"),
        ("view", "use super::pipeline::X;"),
        ("view", "use self::super::pipeline::X;"),
        ("view/offer", "use super::super::pipeline::X;"),
        ("view/offer", "use super::super::{a::B, pipeline::X};"),
        ("view/offer", "use super::{super::pipeline::X, c};"),
        ("view/offer/deep", "super::super::super::pipeline::x()"),
    ] {
        let found = paths_of_root(module, code);
        assert!(found.iter().any(|path| path.starts_with("pipeline::")), "{code}: {found:?}");
    }
    assert_eq!(paths_of_root("view/offer", "use super::pipeline::X;"), [""; 0]);
}

/// `use crate::*` and `use crate as root` hide which modules are imported.
#[test]
fn crates_are_not_imported_as_a_whole() {
    let is_hidden = |path: &String| {
        let code = code(path);
        code.contains("crate::*") || code.contains("use crate as ")
    };
    let found: Vec<_> = files(&[".rs"]).into_iter().filter(|path| !is_test(path)).collect();
    let found: Vec<_> = found.into_iter().filter(is_hidden).collect();
    assert_none("whole crates are imported in", &found);
}

/// The items that the root of a crate defines.
fn root_items(code: &str) -> BTreeSet<&str> {
    const KINDS: [&str; 7] = ["fn", "struct", "enum", "trait", "type", "const", "static"];
    let declarations = code.lines().filter(|line| line.starts_with(char::is_alphabetic));
    declarations
        .filter_map(|line| {
            let mut words = line.split([' ', '(', '<', ':', ';']);
            words.find(|word| KINDS.contains(word))?;
            words.next()
        })
        .collect()
}

/// An item of the root that a module imports makes a cycle: the root imports its modules.
#[test]
fn modules_import_no_items_of_the_crate_root() {
    assert_eq!(
        root_items("use a::b;\npub async fn f(x: u8) {\n    let y;\npub(crate) struct S<T>;\n"),
        BTreeSet::from(["S", "f"])
    );
    let sources = files(&[".rs"]);
    let mut found = Vec::new();
    for root in sources.iter().filter(|path| path.ends_with("/src/lib.rs")) {
        let directory = root.trim_end_matches("lib.rs");
        let root_code = code(root);
        let items = root_items(&root_code);
        let modules = sources.iter().filter(|path| {
            path.starts_with(directory)
                && *path != root
                && !is_test(path)
                && !path.contains("/bin/")
        });
        for path in modules.filter(|path| !path.ends_with("/src/main.rs")) {
            let module = path[directory.len()..].trim_end_matches(".rs");
            for import in paths_of_root(module, &code(path)) {
                let name = import.split("::").next().unwrap_or_default();
                if items.contains(name) {
                    found.push(format!("{path}: {name}"));
                }
            }
        }
    }
    assert_none("items of the crate root are imported by its modules", &found);
}

/// The imports between the top-level modules of a crate.
fn imports(directory: &str) -> BTreeMap<String, BTreeSet<String>> {
    let sources: Vec<_> = files(&[".rs"])
        .into_iter()
        .filter(|path| path.starts_with(directory) && !is_test(path))
        .map(|path| (path[directory.len()..].trim_end_matches(".rs").to_owned(), code(&path)))
        .collect();
    let top = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
    let modules: BTreeSet<_> = sources.iter().map(|(path, _)| top(path)).collect();
    let first = |path: &str| path.split("::").next().unwrap_or_default().to_owned();
    let mut reexports = BTreeMap::new();
    for (_, code) in sources.iter().filter(|(path, _)| path == "lib") {
        for path in paths_after(code, "use ") {
            let name = path.rsplit([':', ' ']).next().unwrap_or_default();
            reexports.insert(name.to_owned(), first(&path));
        }
    }
    let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (path, code) in sources.iter().filter(|(path, _)| path != "lib" && path != "main") {
        let from = top(path);
        let paths = paths_of_root(path, code);
        let names = paths.iter().map(|path| first(path));
        let names = names.map(|name| reexports.get(&name).cloned().unwrap_or(name));
        let names = names.filter(|name| modules.contains(name) && *name != from);
        found.entry(from.clone()).or_default().extend(names);
    }
    found
}

/// The modules that a module imports, directly or through others.
fn reachable(from: &str, imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = open.pop() {
        for next in imports.get(&module).into_iter().flatten() {
            if found.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    found
}

#[test]
fn modules_import_no_cycles() {
    let metadata = metadata();
    let root = format!("{}/", root().display());
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("name");
        let targets = package["targets"].as_array().expect("targets").iter();
        let targets = targets.filter(|target| {
            let kinds = target["kind"].as_array().expect("kinds");
            kinds.iter().any(|kind| kind == "lib" || kind == "bin")
        });
        let directories: BTreeSet<_> = targets
            .filter_map(|target| target["src_path"].as_str()?.strip_prefix(&root))
            .filter_map(|path| Some(path[..=path.rfind('/')?].to_owned()))
            .collect();
        for directory in &directories {
            let imports = imports(directory);
            let reach: BTreeMap<_, _> =
                imports.keys().map(|module| (module, reachable(module, &imports))).collect();
            let cyclic = reach.iter().filter(|(module, to)| to.contains(**module));
            for (module, to) in cyclic {
                let others = to.iter().filter(|other| reach[*other].contains(*module));
                let edges = others.filter(|other| imports[*module].contains(*other));
                found.push(format!("{name}: {module} -> {:?}", edges.collect::<Vec<_>>()));
            }
        }
    }
    assert_none("imports in cycles", &found);
}

#[test]
fn modules_import_only_lower_layers() {
    let mut found = Vec::new();
    for Layers { sources, order } in LAYERS {
        let layers: Vec<_> = order.split_whitespace().collect();
        let rank = |module: &str| layers.iter().position(|layer| *layer == module);
        let imports = imports(sources);
        let stale = layers.iter().filter(|layer| !imports.contains_key(**layer));
        found.extend(stale.map(|layer| format!("{sources} has no module `{layer}`")));
        for (module, imported) in &imports {
            let Some(own) = rank(module) else {
                found.push(format!("{sources}: `{module}` has no layer"));
                continue;
            };
            let higher = imported.iter().filter(|name| rank(name) > Some(own));
            found.extend(
                higher
                    .map(|name| format!("{sources}: `{module}` imports `{name}`, a higher layer")),
            );
        }
    }
    assert_none("imports against the order of layers", &found);
}

#[test]
fn pure_crates_perform_no_io() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let banned = ["tokio", "tonic", "sqlx", "axum", "hyper", "reqwest", "tracing", "rand", "uuid"];
    let mut found = Vec::new();
    for name in PURE {
        let package = packages.iter().find(|p| p["name"] == name).expect("a pure crate");
        let dependencies = package["dependencies"].as_array().expect("dependencies").iter();
        let names = dependencies.filter(|d| d["kind"] != "dev").filter_map(|d| d["name"].as_str());
        let banned = names.filter(|dependency| banned.contains(dependency));
        found.extend(banned.map(|dependency| format!("{name} -> {dependency}")));
    }
    assert_none("dependencies of crates without I/O", &found);
}

/// A text that only the files under some paths may contain.
struct Home {
    text: &'static str,
    within: &'static str,
    homes: &'static [&'static str],
}

const HOMES: &[Home] = &[
    Home { text: "sqlx::", within: "registry-server/src/", homes: &["registry-server/src/store"] },
    Home { text: "Status::", within: "registry-server/src/", homes: &["registry-server/src/grpc"] },
    Home {
        text: "v1::",
        within: "registry-server/src/",
        homes: &["registry-server/src/grpc", "registry-server/src/relay"],
    },
    Home { text: "v1::", within: "gateway-agent/src/", homes: &["gateway-agent/src/sync"] },
    Home {
        text: "authorize(",
        within: "gateway-agent/src/",
        homes: &["gateway-agent/src/pipeline/route.rs"],
    },
    // A client without a target sends without a permit.
    Home {
        text: "Client::alone",
        within: "gateway-agent/src/",
        homes: &["gateway-agent/src/bridge/endpoint.rs", "gateway-agent/src/a2a/push/delivery.rs"],
    },
    Home { text: "HttpConnector", within: "gateway-agent/src/", homes: &[] },
    Home { text: "CommandWrap", within: "gateway-agent/src/", homes: &[] },
    Home {
        text: "tonic::",
        within: "gateway-agent/src/",
        homes: &["gateway-agent/src/sync", "gateway-agent/src/a2a/tests"],
    },
    Home {
        text: "reqwest::",
        within: "gateway-agent/src/",
        homes: &[
            "gateway-agent/src/sync",
            "gateway-agent/src/source",
            "gateway-agent/src/trace/export.rs",
        ],
    },
    Home {
        text: "env::var",
        within: "registry-server/src/",
        homes: &["registry-server/src/config"],
    },
    Home { text: "env::var", within: "gateway-agent/src/", homes: &["gateway-agent/src/config"] },
    Home {
        text: "SystemTime::now",
        within: "registry-server/src/",
        homes: &["registry-server/src/clock.rs"],
    },
    Home {
        text: "SystemTime::now",
        within: "gateway-agent/src/",
        homes: &["gateway-agent/src/clock.rs"],
    },
    Home { text: "SystemTime::now", within: "crates/registry-core/src/", homes: &[] },
    Home { text: "SystemTime::now", within: "crates/gateway-policy/src/", homes: &[] },
    Home { text: "SystemTime::now", within: "crates/ledger/src/", homes: &[] },
    Home { text: "Instant::now", within: "crates/ledger/src/", homes: &[] },
    Home { text: "SystemTime::now", within: "crates/approval/src/", homes: &[] },
    Home { text: "Instant::now", within: "crates/approval/src/", homes: &[] },
    Home {
        text: "SystemTime::now",
        within: "crates/gateway-compose/src/",
        homes: &["crates/gateway-compose/src/clock.rs"],
    },
    Home { text: "Instant::now", within: "crates/gateway-policy/src/", homes: &[] },
    Home {
        text: "jsonschema::",
        within: "crates/schema-compat/src/",
        homes: &["crates/schema-compat/src/schema_compile"],
    },
    Home { text: "jsonschema::", within: "gateway-agent/src/", homes: &[] },
];

#[test]
fn restricted_texts_stay_in_allowed_files() {
    let mut found = Vec::new();
    for Home { text, within, homes } in HOMES {
        for home in *homes {
            let is_there = files(&[".rs"]).iter().any(|path| path.starts_with(home));
            assert!(is_there, "`{text}` is at home in {home}, which is not there");
        }
        for path in files(&[".rs"]).iter().filter(|path| path.starts_with(within)) {
            let at_home = homes.iter().any(|home| path.starts_with(home));
            if !at_home && code(path).contains(text) {
                found.push(format!("{path} names `{text}`, which belongs under {homes:?}"));
            }
        }
    }
    assert_none("concerns away from home", &found);
}

#[test]
fn proto_declarations_are_documented() {
    let mut found = Vec::new();
    for path in files(&[".proto"]) {
        let text = read(&path);
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        for (i, line) in lines.iter().enumerate() {
            let declares = line.ends_with(';')
                && line.contains(" = ")
                && !line.starts_with("syntax")
                && !line.starts_with("option ")
                || ["message ", "enum ", "service ", "rpc ", "oneof "]
                    .iter()
                    .any(|word| line.starts_with(word));
            if declares && !line.starts_with("//") && !lines[i - 1].starts_with("//") {
                found.push(format!("{path}:{}: {line}", i + 1));
            }
        }
    }
    assert_none("undocumented", &found);
}

#[test]
fn lints_are_silenced_only_with_a_reason() {
    let bare = |path: &String| {
        let text = code(path);
        text.contains("#[allow(") || text.contains("#![allow(")
    };
    let found: Vec<_> =
        files(&[".rs"]).into_iter().filter(|path| path != "tests/tidy.rs").filter(bare).collect();
    assert_none("use #[expect(.., reason = \"..\")] in", &found);
}

/// Requirements of docs/requirements*.md by prefix.
const REQUIREMENTS: [(&str, usize); 5] =
    [("FND", 51), ("AIO", 13), ("POOL", 14), ("GOV", 18), ("REG", 81)];
/// Subjects of later work in docs/requirements.md.
const PLANNED: [&str; 6] =
    ["governance", "A2A", "other surfaces", "TypeScript", "console", "packaging"];

/// The problem of a reference: a path, or `path::function`.
fn missing_reference(reference: &str) -> Option<String> {
    let (path, function) = reference.split_once("::").unwrap_or((reference, ""));
    if !root().join(path).exists() {
        return Some(format!("{path} does not exist"));
    }
    let is_missing = !function.is_empty() && !read(path).contains(&format!("fn {function}("));
    is_missing.then(|| format!("{path} has no function `{function}`"))
}

#[test]
fn requirements_name_existing_code_and_tests() {
    let pages = ["docs/requirements.md", "docs/requirements-registry-v2.md"];
    let page = pages.map(read).concat();
    let rows = page.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let is_numbered = |row: &Vec<&str>| {
        row.get(1).is_some_and(|id| REQUIREMENTS.iter().any(|(prefix, _)| id.starts_with(prefix)))
    };
    let rows: Vec<_> = rows.filter(is_numbered).collect();
    let ids: Vec<_> = rows.iter().map(|row| row[1].to_owned()).collect();
    let expected = REQUIREMENTS.iter().flat_map(|(prefix, count)| {
        (1..=*count).map(move |number| format!("{prefix}-{number:02}"))
    });
    assert_eq!(ids, expected.collect::<Vec<_>>(), "each requirement has one row, in order");
    let mut found = Vec::new();
    for row in &rows {
        let [_, id, _, _, place, _] = row[..] else { panic!("not four columns: {row:?}") };
        if let Some(subject) = place.strip_prefix("planned: ") {
            found.extend((!PLANNED.contains(&subject)).then(|| format!("{id}: {subject}")));
        } else if !place.starts_with("not planned: ") {
            let references: Vec<_> = place.split('`').skip(1).step_by(2).collect();
            found.extend(references.is_empty().then(|| format!("{id} names nothing")));
            let missing = references.into_iter().filter_map(missing_reference);
            found.extend(missing.map(|problem| format!("{id}: {problem}")));
        }
    }
    assert_none("docs/requirements.md", &found);
}

/// Expressions of the project's former dialect, in lower case.
const DIALECT: &[&str] = &[
    "whoever",
    "whomever",
    "nobody",
    "somebody",
    "anew",
    "is told",
    "are told",
    "was told",
    "is asked",
    "are asked",
    "let in",
    "is spared",
    "given back",
    "gives back",
    "called off",
    "goes away",
    "go away",
    "leads to",
    "lead to",
    "stands for",
    "stand for",
    "begin so",
    "begins so",
    "of which",
    "of whom",
    "for whom",
    "to whom",
    "so many",
    "any more",
    "comes of it",
    "deliberately absent",
];

fn is_markdown(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "md")
}

/// The texts that people read in a line: comments, prose, and string literals of programs.
fn texts(path: &str, line: &str) -> Vec<String> {
    let words = line.trim_start();
    if is_markdown(path) {
        return vec![words.to_lowercase()];
    }
    if let Some((_, comment)) = words.split_once("//").filter(|(code, _)| code.is_empty()) {
        return vec![comment.to_lowercase()];
    }
    let literals = words.split('"').skip(1).step_by(2).map(str::to_lowercase);
    if is_test(path) { Vec::new() } else { literals.collect() }
}

/// Whether a text contains these words, not as parts of longer words.
fn has_words(text: &str, words: &str) -> bool {
    let is_boundary = |char: Option<char>| !char.is_some_and(char::is_alphanumeric);
    text.match_indices(words).any(|(at, _)| {
        is_boundary(text[..at].chars().next_back())
            && is_boundary(text[at + words.len()..].chars().next())
    })
}

#[test]
fn texts_avoid_former_dialect() {
    let mut found = Vec::new();
    for path in files(&[".rs", ".md", ".proto"]) {
        if path == "tests/tidy.rs" || path.starts_with("fuzz/seeds") {
            continue;
        }
        let mut is_code_block = false;
        for (i, line) in read(&path).lines().enumerate() {
            if is_markdown(&path) && line.trim_start().starts_with("```") {
                is_code_block = !is_code_block;
            }
            if is_code_block {
                continue;
            }
            let texts = texts(&path, line);
            let markers = DIALECT.iter().filter(|words| texts.iter().any(|t| has_words(t, words)));
            found.extend(markers.map(|words| format!("{path}:{}: `{words}`", i + 1)));
        }
    }
    assert_none("comments, documents and messages", &found);
}

/// Whether a text has two words in a row, as messages do. Codes, names, numbers and JSON have not.
fn is_prose(text: &str) -> bool {
    let is_word = |word: &str| {
        let word = word.trim_matches(|char: char| ".,:;!?'`()".contains(char));
        !word.is_empty() && word.chars().all(|char| char.is_ascii_alphabetic() || char == '\'')
    };
    let words: Vec<_> = text.split(' ').map(is_word).collect();
    words.windows(2).any(|pair| pair == [true, true])
}

/// The source text between the quotes of a string literal at the start of `code`.
fn literal(code: &str) -> Option<&str> {
    let raw = code.strip_prefix('r').unwrap_or(code);
    let is_raw = raw.len() < code.len();
    let quoted = raw.trim_start_matches('#');
    let close = format!("\"{}", "#".repeat(raw.len() - quoted.len()));
    let text = quoted.strip_prefix('"')?;
    let escapes = |end: usize| text[..end].bytes().rev().take_while(|byte| *byte == b'\\').count();
    let mut ends = text.match_indices(&close).map(|(end, _)| end);
    ends.find(|end| is_raw || escapes(*end) % 2 == 0).map(|end| &text[..end])
}

/// The literals with prose that test code searches for, or compares with a message, and their
/// positions. A literal of an inline snapshot follows `@`.
fn prose_assertions(code: &str) -> Vec<(usize, &str)> {
    const BEFORE: [&str; 9] = [
        ".contains(",
        ".starts_with(",
        ".ends_with(",
        ".matches(",
        ".find(",
        ".rfind(",
        ".to_string(),",
        ".message,",
        ".reason,",
    ];
    let mut found = Vec::new();
    for before in BEFORE {
        for (at, _) in code.match_indices(before) {
            let argument = code[at + before.len()..].trim_start();
            let argument = argument.strip_prefix("&format!(").unwrap_or(argument).trim_start();
            let prose = literal(argument).filter(|text| is_prose(text));
            found.extend(prose.map(|text| (at, text)));
        }
    }
    found
}

#[test]
fn prose_assertions_are_found_in_all_forms() {
    for code in [
        r#"assert!(error.contains("some words here"), "{error}");"#,
        r#"assert!(error.contains(&format!("`{name}` has some words")));"#,
        r#"assert!(error.contains("\"name\": some words"));"#,
        r##"assert!(error.contains(r#""name" is in some words"#));"##,
        r#"assert!(error.starts_with("some words here"));"#,
        "assert!(error.ends_with(\n    \"some words here\"\n));",
        r#"assert_eq!(log.matches("some words here").count(), 1);"#,
        r#"assert!(error.find("some words here").is_some());"#,
        r#"assert!(error.rfind("some words here").is_some());"#,
        r#"assert_eq!(error.to_string(), "some words here");"#,
        "assert_eq!(\n    found.message,\n    \"some words here\"\n);",
        r#"assert_eq!(found.reason, "some words here");"#,
    ] {
        assert_eq!(prose_assertions(code).len(), 1, "{code}");
    }
    for code in [
        r#"assert!(error.contains("already-registered"));"#,
        r#"assert!(body.contains("{\"name\":\"read\",\"version\":\"1.0.0\"}"));"#,
        r#"assert_eq!(key.to_string(), "tool/read@1.0.0");"#,
        r#"insta::assert_snapshot!(error, @"some words here");"#,
        r#"insta::assert_snapshot!(error.to_string(), @"some words here");"#,
        r##"insta::assert_snapshot!(found.message, @r#"some "words" here"#);"##,
    ] {
        assert_eq!(prose_assertions(code), [], "{code}");
    }
}

#[test]
fn tests_assert_prose_only_in_snapshots() {
    let mut found = Vec::new();
    for path in files(&[".rs"]).into_iter().filter(|path| path != "tests/tidy.rs") {
        let text = read(&path);
        let start = if is_test(&path) { 0 } else { inline_tests(&text) };
        for (at, literal) in prose_assertions(&text[start..]) {
            let line = text[..start + at].lines().count();
            found.push(format!("{path}:{line}: {literal:?}"));
        }
    }
    assert_none(
        "assertions on prose; assert on the code of the error (`CtlOutput::has_code`, `ErrorInfo`, \
         `data.reason`), on JSON, on the outcome of the audit, or on a field of the log; if the words \
         are the requirement, use `insta::assert_snapshot!`",
        &found,
    );
}

/// A surface calls `pipeline::invoke`. Its own tests show that policies deny each of its paths.
#[test]
fn surfaces_have_governance_cases() {
    const SOURCES: &str = "gateway-agent/src/";
    let is_surface = |path: &&String| {
        let within = path.strip_prefix(SOURCES).is_some_and(|path| !path.starts_with("pipeline"));
        within && !path.contains("/tests") && code(path).contains("pipeline::invoke(")
    };
    let all = files(&[".rs"]);
    let surfaces: BTreeSet<&str> = all
        .iter()
        .filter(is_surface)
        .filter_map(|path| path[SOURCES.len()..].split(['/', '.']).next())
        .collect();
    assert!(surfaces.contains("mcp"), "{surfaces:?}");
    let cases = |surface: &&str| format!("{SOURCES}{surface}/tests/governed_paths.rs");
    let found: Vec<_> = surfaces.iter().map(cases).filter(|path| !all.contains(path)).collect();
    assert_none("surfaces without governance cases", &found);
}
