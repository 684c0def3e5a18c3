//! Misbehaving child processes: they crash, print garbage, flood, do not read, or do not exit.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use super::{
    stdio::{modern, script, script_in},
    *,
};

/// The processes of a group as `pid state parent`, without zombies that only init can reap.
fn group(leader: u32) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
        .filter_map(|stat| {
            let (head, tail) = stat.rsplit_once(") ")?;
            let fields: Vec<&str> = tail.split(' ').collect();
            let is_inits_zombie = fields[0] == "Z" && fields[1] != std::process::id().to_string();
            let is_member = fields[2] == leader.to_string() && !is_inits_zombie;
            is_member.then(|| format!("{head}) {} {}", fields[0], fields[1]))
        })
        .collect()
}

async fn pid(upstreams: &Upstreams) -> u32 {
    let result = upstreams.must_call("{}").await;
    result.trim_start_matches(r#"{"pid":"#).trim_end_matches('}').parse().unwrap()
}

const ANSWER_PID: &str = r#"answer "{\"pid\":$$}""#;

#[tokio::test]
async fn crashed_child_fails_calls_and_is_restarted() {
    let call = format!("case $line in *die*) exit 3;; *wait*) :;; *) {ANSWER_PID};; esac");
    let upstreams = start(script(&modern(&call)), limits(), TIMING);
    let first = pid(&upstreams).await;
    let (waiting, dying) =
        tokio::join!(upstreams.try_call(r#"{"a":"wait"}"#), upstreams.try_call(r#"{"a":"die"}"#));
    for error in [waiting.unwrap_err(), dying.unwrap_err()] {
        assert!(matches!(&error, Error::Ended { how } if how.contains("status: 3")), "{error}");
    }
    eventually(|| async { group(first).is_empty() }).await;
    eventually(|| async { upstreams.try_call("{}").await.is_ok() }).await;
    assert_ne!(pid(&upstreams).await, first);
    upstreams.until_up().await;
    upstreams.shutdown().await;
}

/// A child that runs while this file exists, and answers calls with its process id.
fn child_with(file: &Path) -> TransportConfig {
    script(&format!("test -e {} || exit 7\n{}", file.display(), modern(ANSWER_PID)))
}

fn kill(process: u32) {
    let killed = Command::new("kill").args(["-9", &process.to_string()]).status();
    assert!(killed.unwrap().success());
}

#[tokio::test]
async fn killed_child_that_cannot_restart_is_unavailable() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let timing = Timing { check: Duration::from_millis(50), ..TIMING };
    let upstreams = start(child_with(file.path()), limits(), timing);
    let child = pid(&upstreams).await;
    upstreams.until_up().await;
    let is_available = || upstreams.definitions().borrow().is_available(&key());
    assert!(is_available());
    let path = file.path().to_owned();
    file.close().unwrap();
    kill(child);
    upstreams.until_down().await;
    eventually(|| async { !is_available() }).await;
    assert_eq!(upstreams.state().lifecycle(), "running");
    assert_eq!(upstreams.listed(), ["t"], "its tools stay");
    let probed = upstreams.probe(&key().into(), Duration::from_secs(1)).await;
    assert!(probed.is_some_and(|health| matches!(health.state, TargetState::Down { .. })));

    fs::write(path, "").unwrap();
    upstreams.until_up().await;
    eventually(|| async { is_available() }).await;
    upstreams.shutdown().await;
}

#[tokio::test]
async fn unsent_call_is_retried_after_its_own_delay() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let timing = Timing { check: Duration::from_millis(50), ..TIMING };
    let upstreams = start(child_with(file.path()), limits(), timing);
    let child = pid(&upstreams).await;
    upstreams.until_up().await;
    let path = file.path().to_owned();
    file.close().unwrap();
    kill(child);
    upstreams.until_down().await;
    let context =
        RequestContext { retry_delay: Some(Duration::from_secs(1)), ..RequestContext::default() };
    let request = Request::plain(Method::CallTool, &[], &context);
    let call = upstreams.send(permit(&key(), "t"), request);
    let (answer, ()) = tokio::join!(call, async { fs::write(path, "").unwrap() });
    assert!(answer.is_ok(), "{answer:?}");
    upstreams.shutdown().await;
}

#[tokio::test]
async fn stopped_target_is_published() {
    let upstreams = start(script(&modern(ANSWER_PID)), limits(), TIMING);
    upstreams.until_up().await;
    let is_stopped = || upstreams.definitions().borrow().is_stopped(&key());
    assert!(upstreams.stop(&key().into()));
    assert!(is_stopped());
    assert_eq!(upstreams.state().lifecycle(), "stopped");
    assert_eq!(upstreams.listed(), ["t"], "a later start needs no new list");
    assert!(matches!(upstreams.try_call("{}").await, Err(Error::Stopped { .. })));
    assert!(upstreams.resume(&key().into()));
    assert!(!is_stopped());
    upstreams.until_up().await;
    upstreams.shutdown().await;
}

#[tokio::test]
async fn child_that_cannot_start_is_unavailable() {
    let missing = TransportConfig::Stdio {
        command: "/nowhere/server".into(),
        args: Vec::new(),
        env: BTreeMap::new(),
        cwd: None,
        limits: ChildLimits::default(),
        max_caller_children: None,
    };
    for (child, reason) in
        [(missing, "cannot start the process"), (script("exit 7"), "exit status: 7")]
    {
        let upstreams = start(child, limits(), TIMING);
        eventually(|| async { matches!(upstreams.state(), TargetState::Down { .. }) }).await;
        eventually(|| async {
            matches!(upstreams.try_call("{}").await, Err(error @ Error::Unavailable { .. })
                if error.to_string().contains(reason))
        })
        .await;
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn missing_program_and_directory_are_reported_with_a_remedy() {
    let child = |command: &str, cwd: Option<&str>| TransportConfig::Stdio {
        command: command.into(),
        args: Vec::new(),
        env: BTreeMap::from([("PATH".to_owned(), SecretSource::text("/nowhere/bin".to_owned()))]),
        cwd: cwd.map(Into::into),
        limits: ChildLimits::default(),
        max_caller_children: None,
    };
    for (child, reason) in [
        (child("server", None), "`server` is in no directory of PATH (/nowhere/bin); install it"),
        (child("/nowhere/server", None), "/nowhere/server does not exist; install it"),
        (child("/bin/sh", Some("/nowhere")), "`cwd` /nowhere is not a directory; create it"),
    ] {
        let upstreams = start(child, limits(), TIMING);
        let error = upstreams.until_down().await;
        assert!(error.contains(reason), "{error}");
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn deeply_nested_response_is_an_error_at_once() {
    let nested = "[".repeat(200) + &"]".repeat(200);
    let call = format!("answer '{{\"deep\":{nested}}}'");
    let upstreams = start(script(&modern(&call)), limits(), TIMING);
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(error.to_string().contains(" 100 "), "{error}");
    upstreams.shutdown().await;
}

#[tokio::test]
async fn garbage_between_messages_is_ignored() {
    let call = r#"echo "Starting up..."; echo; echo '{"not":"rpc"}'; echo '[1]'
        printf '\377\376\n'
        printf '{"jsonrpc":"2.0","id":999,"result":{}}\n'
        answer '{"ok":1}'"#;
    let upstreams = start(script(&modern(call)), limits(), TIMING);
    assert_eq!(upstreams.must_call("{}").await, r#"{"ok":1}"#);
    assert_eq!(upstreams.must_call("{}").await, r#"{"ok":1}"#);
}

#[tokio::test]
async fn oversized_output_does_not_end_the_child() {
    let call = format!(
        r#"case $line in
            *answer*) printf '{{"jsonrpc":"2.0","id":%s,"result":{{"x":"' $id
                head -c 100000000 /dev/zero | tr '\0' x; printf '"}}}}\n';;
            *error*) head -c 1000000 /dev/zero | tr '\0' '\n' >&2
                head -c 20000000 /dev/zero | tr '\0' x >&2; answer '{{"pid":0}}';;
            *) {ANSWER_PID};;
        esac"#
    );
    let limits = UpstreamLimits { call_timeout_ms: 60_000, ..limits() };
    let upstreams = start(script(&modern(&call)), limits, TIMING);
    let before = pid(&upstreams).await;
    let error = upstreams.try_call(r#"{"flood":"answer"}"#).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit_bytes: 65_536 }), "{error}");
    assert_eq!(upstreams.must_call(r#"{"flood":"error"}"#).await, r#"{"pid":0}"#);
    assert_eq!(pid(&upstreams).await, before);
}

#[tokio::test]
async fn unresponsive_child_times_out() {
    let limits = UpstreamLimits { call_timeout_ms: 200, ..limits() };
    let upstreams = start(script(&modern("sleep 3")), limits, TIMING);
    upstreams.until_up().await;
    let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(1_000_000));
    for arguments in ["{}", &large, "{}"] {
        let error = upstreams.try_call(arguments).await.unwrap_err();
        assert!(matches!(error, Error::Timeout { phase: Phase::Call, after_ms: 200 }), "{error}");
    }
    upstreams.shutdown().await;
}

#[tokio::test]
async fn hanging_child_is_restarted() {
    let call = format!("case $line in *stop*) kill -STOP $$;; *) {ANSWER_PID};; esac");
    let limits = UpstreamLimits { list_timeout_ms: 100, call_timeout_ms: 300, ..limits() };
    let timing = Timing { relist: Duration::from_millis(50), ..TIMING };
    let upstreams = start(script(&modern(&call)), limits, timing);
    upstreams.until_up().await;
    let first = pid(&upstreams).await;
    let error = upstreams.try_call(r#"{"a":"stop"}"#).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { phase: Phase::Call, .. }), "{error}");
    eventually(|| async { upstreams.try_call("{}").await.is_ok() }).await;
    assert_ne!(pid(&upstreams).await, first);
    eventually(|| async { group(first).is_empty() }).await;
    upstreams.shutdown().await;
}

#[tokio::test]
async fn failed_handshakes_are_retried_with_growing_delays() {
    let folder = tempfile::tempdir().unwrap();
    let child = script_in("echo start >> starts; sleep 60", Some(folder.path()));
    let limits = UpstreamLimits { connect_timeout_ms: 1, list_timeout_ms: 1, ..limits() };
    let timing = Timing {
        stable: Duration::ZERO,
        retry_first: Duration::from_millis(20),
        retry_longest: Duration::from_mins(1),
        grace: Duration::ZERO,
        ..TIMING
    };
    let begin = Instant::now();
    let upstreams = start(child, limits, timing);
    let starts = || fs::read_to_string(folder.path().join("starts")).unwrap_or_default();
    eventually(|| async { starts().lines().count() == 7 }).await;
    // The sum of 20 ms, 40 ms, … 640 ms, each at least 80 %.
    assert!(begin.elapsed() > Duration::from_millis(1008), "{:?}", begin.elapsed());
    upstreams.shutdown().await;
}

#[tokio::test]
async fn shutdown_kills_all_descendants() {
    // The child ignores the end of its input and SIGTERM, and so does its own child.
    let stubborn = format!(
        "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & {} while :; do sleep 1; done",
        modern(ANSWER_PID).trim_end().to_owned() + "\n"
    );
    for text in [modern(ANSWER_PID), stubborn] {
        let upstreams = start(script(&text), limits(), TIMING);
        let leader = pid(&upstreams).await;
        assert!(!group(leader).is_empty());
        let began = Instant::now();
        upstreams.shutdown().await;
        assert!(began.elapsed() < Duration::from_secs(3));
        eventually(|| async { group(leader).is_empty() }).await;
        let error = upstreams.try_call("{}").await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    }
}

#[tokio::test]
async fn drop_kills_all_descendants() {
    let upstreams = start(script(&modern(ANSWER_PID)), limits(), TIMING);
    let leader = pid(&upstreams).await;
    drop(upstreams);
    eventually(|| async { group(leader).is_empty() }).await;
}

#[test]
fn runtime_end_kills_the_process_group() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("echo $$ > pid; trap '' TERM; sleep 1000 & {}", modern(ANSWER_PID));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let leader = runtime.block_on(async {
        let upstreams = start(script_in(&text, Some(folder.path())), limits(), TIMING);
        let leader = pid(&upstreams).await;
        std::mem::forget(upstreams);
        leader
    });
    assert_eq!(group(leader).len(), 2);
    drop(runtime);
    // The leader may remain a zombie of this process, because no one waits for it.
    let alive = || group(leader).into_iter().filter(|line| !line.contains(") Z ")).count();
    let start = Instant::now();
    while alive() > 0 {
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", group(leader));
        std::thread::sleep(Duration::from_millis(10));
    }
}
