//! Child processes: however they or the gateway end, no process remains, and resource limits apply.

use std::{fs, path::Path};

use super::{Gateway, send_signal};

/// A server that answers until its input ends, and then ignores signals. It starts a process, one
/// in its own session, and an orphan.
const STUBBORN: &str = r#"
trap '' TERM HUP INT
stay() { while :; do sleep 1; done; }
stay &
setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' &
(setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' &)
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r line; do id=${line#*\"id\":}; id=${id%%,*}; case $line in
  *'"server/discover"'*) answer '{"supportedVersions":["2026-07-28"]}';;
  *'"tools/list"'*) answer '{"tools":[]}'; echo $$ > served;;
esac; done
stay
"#;

/// Other processes in the gateway's directory: pid and command line.
pub(super) fn others(gateway: &Gateway) -> Vec<(u32, String)> {
    let Ok(dir) = gateway.dir.path().canonicalize() else { return Vec::new() };
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != gateway.child.id())
        .filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == dir))
        .map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            (pid, String::from_utf8_lossy(&line).replace('\0', " "))
        })
        .collect()
}

/// The children of a process, as `pid state`.
fn children(parent: u32) -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let state = fields.next()?.to_owned();
        (fields.next()?.parse() == Ok(parent)).then_some((pid, state))
    })
    .collect()
}

fn start(script: &str, limits: &str) -> Gateway {
    Gateway::with_child(script, limits)
}

/// Waits until the child serves, and returns its process id.
fn served(gateway: &Gateway) -> u32 {
    let path = gateway.dir.path().join("served");
    let pid = |path: &Path| fs::read_to_string(path).ok()?.trim().parse().ok();
    gateway.until("served", |_| pid(&path).is_some());
    let pid = pid(&path).expect("it was there");
    fs::remove_file(path).expect("it can be told anew");
    pid
}

fn stubborn() -> (Gateway, u32) {
    let gateway = start(STUBBORN, "");
    let child = served(&gateway);
    // The guard, the child, its processes, and their sleeps.
    gateway.until("everybody there", |gateway| others(gateway).len() >= 8);
    (gateway, child)
}

fn nobody_is_left(gateway: &Gateway) {
    gateway.until("alone", |gateway| others(gateway).is_empty());
}

#[test]
fn killed_gateway_leaves_no_process() {
    let (mut gateway, _) = stubborn();
    gateway.signal("KILL");
    assert_eq!(gateway.ended().code(), None);
    nobody_is_left(&gateway);
}

#[test]
fn terminated_gateway_leaves_no_process() {
    let (mut gateway, _) = stubborn();
    gateway.signal("TERM");
    assert_eq!(gateway.ended().code(), Some(0), "{}", gateway.log());
    assert_eq!(others(&gateway), [], "all are gone before it ends");
}

#[test]
fn second_signal_leaves_no_process() {
    let (mut gateway, _) = stubborn();
    gateway.signal("TERM");
    gateway.signal("INT");
    gateway.ended();
    nobody_is_left(&gateway);
}

/// Ends a child, and checks that it is restarted and leaves no process.
fn is_replaced(end: impl Fn(&Gateway, u32)) {
    let (gateway, child) = stubborn();
    let before = others(&gateway);
    end(&gateway, child);
    let next = served(&gateway);
    assert_ne!(next, child);
    gateway.until("rid of the first ones", |gateway| {
        others(gateway).iter().all(|now| !before.contains(now))
    });
    gateway.until("without zombies", |gateway| {
        let (own, mut of_guards) = (children(gateway.child.id()), Vec::new());
        for (guard, _) in &own {
            of_guards.extend(children(*guard));
        }
        own.iter().chain(&of_guards).all(|(_, state)| state != "Z")
    });
}

#[test]
fn killed_child_leaves_no_process() {
    is_replaced(|_, child| send_signal(child, "KILL"));
}

#[test]
fn killed_guard_leaves_no_process_in_group() {
    let (gateway, child) = stubborn();
    let guard = children(gateway.child.id()).first().expect("a guard").0;
    assert_ne!(guard, child);
    let group = |gateway: &Gateway| {
        let stat = |pid: u32| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_in = |pid: u32| {
            let stat = stat(pid);
            let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
            rest.split(' ').nth(2) == Some(guard.to_string().as_str())
        };
        others(gateway).into_iter().filter(|(pid, _)| is_in(*pid)).count()
    };
    assert!(group(&gateway) >= 4);
    send_signal(guard, "KILL");
    gateway.until("rid of the group", |gateway| group(gateway) == 0);
    assert_ne!(served(&gateway), child);
    // Processes in their own sessions without a guard end with the test.
}

#[test]
fn crashed_child_leaves_no_process() {
    for end in ["kill -SEGV $$", "exit 3"] {
        let script =
            STUBBORN.replace("echo $$ > served;;", &format!("echo $$ > served; sleep 1; {end};;"));
        let mut gateway = start(&script, "");
        let first = served(&gateway);
        assert_ne!(served(&gateway), first);
        let how = if end == "exit 3" { "exit status: 3" } else { "signal: 11 (SIGSEGV)" };
        assert!(gateway.log().contains(how), "{}", gateway.log());
        gateway.signal("TERM");
        gateway.ended();
        assert_eq!(others(&gateway), []);
    }
}

#[test]
fn missing_program_is_reported() {
    let gateway = start("exec /nowhere/server", "");
    gateway.until("told", |gateway| {
        let log = gateway.log();
        log.contains("status: 127") && log.contains("remedy=\"install")
    });
}

#[test]
fn resource_limits_apply_to_descendants() {
    let script = format!("cat /proc/self/limits > limits\n{STUBBORN}");
    let limits =
        "limits: { memoryBytes: 300000000, cpuSeconds: 7, openFiles: 50, processes: 9000 }";
    let gateway = start(&script, limits);
    served(&gateway);
    let told = fs::read_to_string(gateway.dir.path().join("limits")).expect("limits");
    for (name, most) in [
        ("Max data size", "300000000"),
        ("Max cpu time", "7"),
        ("Max open files", "50"),
        ("Max processes", "9000"),
    ] {
        let line = told.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        let mut words = line.split_whitespace();
        assert_eq!((words.next(), words.next()), (Some(most), Some(most)), "{name}: {told}");
    }
    let guard = children(gateway.child.id()).first().expect("a guard").0;
    let own = fs::read_to_string(format!("/proc/{guard}/limits")).expect("limits");
    assert!(!own.contains("300000000"), "the guard goes on when the child may not: {own}");
}

#[test]
fn child_beyond_limit_is_restarted() {
    let busy = STUBBORN.replace("echo $$ > served;;", "echo $$ > served; while :; do :; done;;");
    let gateway = start(&busy, "limits: { cpuSeconds: 1 }");
    let first = served(&gateway);
    assert_ne!(served(&gateway), first);
    assert!(gateway.log().contains("signal: 9 (SIGKILL)"), "{}", gateway.log());

    // `tail` keeps an endless line in memory: the limit applies to a descendant.
    let greedy =
        "head -c 200000000 /dev/zero | tail -c 200000000 > /dev/null; echo \"tail: $?\" >&2\n";
    let script = format!("{greedy}{STUBBORN}");
    let gateway = start(&script, "limits: { memoryBytes: 20000000 }");
    served(&gateway);
    assert!(gateway.log().contains("tail: 1"), "{}", gateway.log());
}

#[test]
fn guard_uses_little_memory() {
    let (gateway, _) = stubborn();
    let guard = children(gateway.child.id()).first().expect("a guard").0;
    let rollup = fs::read_to_string(format!("/proc/{guard}/smaps_rollup")).expect("its memory");
    let kib = |name: &str| -> u64 {
        let lines = rollup.lines().filter_map(|line| line.strip_prefix(name));
        lines.filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok()).sum()
    };
    let own = kib("Private_Dirty:") + kib("Private_Clean:");
    println!("a guard has {own} KiB of its own, {} KiB resident", kib("Rss:"));
    // The relocated tables of a debug build are larger than those of a release build.
    assert!(own < 6 * 1024, "{rollup}");
}

#[test]
fn guard_arguments_are_internal() {
    let program = env!("CARGO_BIN_EXE_gateway-agent");
    let output = std::process::Command::new(program).arg("guard-child").output().expect("it runs");
    assert_eq!(output.status.code(), Some(125));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("`guard-child`"), "{text}");
}
