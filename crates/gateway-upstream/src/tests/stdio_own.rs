//! Child processes of single callers: assignment, limits and idle time.

use std::{fs, path::Path};

use super::{
    stdio::{modern, script_in},
    *,
};

/// A child that records its start and returns its process id. `wait` delays the response.
fn child(folder: &Path, max_caller_children: usize) -> TransportConfig {
    let call = r#"case $line in *wait*) sleep 0.5;; esac; answer "{\"pid\":$$}""#;
    let text = format!("echo x >> \"started\"; {}", modern(call));
    let TransportConfig::Stdio { command, args, env, cwd, limits, .. } =
        script_in(&text, Some(folder))
    else {
        panic!()
    };
    TransportConfig::Stdio {
        command,
        args,
        env,
        cwd,
        limits,
        max_caller_children: Some(max_caller_children),
    }
}

impl Upstreams {
    async fn call_as(&self, caller: &str, arguments: &str) -> Result<String, Error> {
        let arguments = RawValue::from_string(arguments.to_owned()).unwrap();
        let caller = (!caller.is_empty()).then(|| caller.into());
        let context = RequestContext { caller, ..RequestContext::default() };
        let request = Request::plain(Method::CallTool, &[], &context);
        let request = Request { arguments: Some(&arguments), ..request };
        let result = self.send(permit(&key(), "t"), request).await?;
        Ok(result.result.get().to_owned())
    }
}

fn is_alive(answer: &str) -> bool {
    let pid = answer.trim_start_matches(r#"{"pid":"#).trim_end_matches('}');
    Path::new("/proc").join(pid).exists()
}

#[tokio::test]
async fn each_identified_caller_has_its_own_child() {
    let folder = tempfile::tempdir().unwrap();
    let upstreams = start(child(folder.path(), 2), limits(), TIMING);
    let calls = ["a", "b", "", "a", "b", "", "a"].map(|caller| upstreams.call_as(caller, "{}"));
    let pids = futures_util::future::try_join_all(calls).await.unwrap();
    assert!(pids[0] == pids[3] && pids[3] == pids[6], "{pids:?}");
    assert!(pids[1] == pids[4] && pids[2] == pids[5], "{pids:?}");
    assert!(pids[0] != pids[1] && pids[1] != pids[2] && pids[2] != pids[0], "{pids:?}");
    let started = fs::read_to_string(folder.path().join("started")).unwrap();
    assert_eq!(started.lines().count(), 3, "requests of one caller share one child");
    upstreams.shutdown().await;
    assert!(!pids.iter().any(|pid| is_alive(pid)), "{pids:?}");
}

#[tokio::test]
async fn longest_idle_child_is_evicted() {
    let folder = tempfile::tempdir().unwrap();
    let upstreams = start(child(folder.path(), 2), limits(), TIMING);
    let first = upstreams.call_as("a", "{}").await.unwrap();
    let second = upstreams.call_as("b", "{}").await.unwrap();
    let third = upstreams.call_as("c", "{}").await.unwrap();
    assert!(!is_alive(&first), "its permit is released after its end");
    assert!(is_alive(&second) && is_alive(&third));
    let wait = r#"{"a":"wait"}"#;
    let working =
        futures_util::future::join(upstreams.call_as("b", wait), upstreams.call_as("c", wait));
    let another = async {
        eventually(|| async { upstreams.health()[0].load.running == 2 }).await;
        let error = upstreams.call_as("d", "{}").await.unwrap_err();
        assert!(
            matches!(error, Error::ChildLimitReached(ChildLimitReached { most: 2 })),
            "{error}"
        );
        upstreams.call_as("", "{}").await.unwrap()
    };
    let ((b, c), shared) = tokio::join!(working, another);
    assert_eq!((b.unwrap(), c.unwrap()), (second, third));
    assert!(is_alive(&shared));
    assert!(upstreams.call_as("d", "{}").await.is_ok(), "there is a permit again");
    upstreams.shutdown().await;
}

#[tokio::test]
async fn idle_child_ends_and_crashed_child_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let timing = Timing { idle: Duration::from_millis(300), ..TIMING };
    let upstreams = start(child(folder.path(), 2), limits(), timing);
    let (own, shared) =
        (upstreams.call_as("a", "{}").await.unwrap(), upstreams.call_as("", "{}").await.unwrap());
    assert!(is_alive(&own) && is_alive(&shared));
    // A working child is not idle.
    assert_eq!(upstreams.call_as("a", r#"{"a":"wait"}"#).await.unwrap(), own);
    eventually(|| async { !is_alive(&own) }).await;
    assert!(is_alive(&shared), "the shared child stays");
    let next = upstreams.call_as("a", "{}").await.unwrap();
    assert_ne!(next, own);
    let pid = next.trim_start_matches(r#"{"pid":"#).trim_end_matches('}');
    assert!(std::process::Command::new("kill").args(["-9", pid]).status().unwrap().success());
    eventually(|| async {
        let again = upstreams.call_as("a", "{}").await;
        again.is_ok_and(|again| again != next)
    })
    .await;
    upstreams.shutdown().await;
}
