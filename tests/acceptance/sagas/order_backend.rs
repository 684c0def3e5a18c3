//! A backend that counts effects and kills its caller at a chosen call.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    thread,
    time::Duration,
};

use acceptance::signal_process;
use serde_json::{Value, json};

use crate::scripted_server::{Script, json_answer, status};

/// Whether the caller is killed before or after a call takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Before,
    After,
}

#[derive(Debug, Default)]
struct State {
    /// The number of effective executions of each operation.
    effects: BTreeMap<String, usize>,
    reserved: BTreeMap<String, bool>,
    is_committed: bool,
    calls: usize,
    kill: Option<(u32, String, When)>,
    pause: Duration,
    is_broken: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct OrderBackend(Arc<Mutex<State>>);

impl OrderBackend {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("not poisoned")
    }

    /// Kills a process at this call, such as `reserve apples`.
    pub(super) fn kill(&self, process: u32, (call, when): (&str, When)) {
        self.state().kill = Some((process, call.to_owned(), when));
    }

    /// Delays every call.
    pub(super) fn be_slow(&self, pause: Duration) {
        self.state().pause = pause;
    }

    /// Makes all releases fail, or succeed again.
    pub(super) fn break_releases(&self, is_broken: bool) {
        self.state().is_broken = is_broken;
    }

    pub(super) fn calls(&self) -> usize {
        self.state().calls
    }

    /// Asserts that nothing is reserved or committed, and that each effect was undone exactly once.
    pub(super) fn check_undone(&self, told: &str) {
        let state = self.state();
        assert!(state.reserved.values().all(|is_reserved| !is_reserved), "{told}: {state:?}");
        assert!(!state.is_committed, "{told}: {state:?}");
        let count = |what: &str| state.effects.get(what).copied().unwrap_or_default();
        for item in ["apples", "pears"] {
            let (reserved, released) =
                (count(&format!("reserve {item}")), count(&format!("release {item}")));
            assert!(reserved <= 1 && released == reserved, "{told}: {state:?}");
        }
        assert_eq!(count("commit all"), count("revert all"), "{told}: {state:?}");
    }

    /// Asserts that everything is reserved and committed, after an earlier saga was compensated.
    pub(super) fn check_committed(&self, told: &str) {
        let state = self.state();
        assert!(state.reserved.len() == 2 && state.reserved.values().all(|is| *is), "{told}");
        assert!(state.is_committed, "{told}: {state:?}");
    }

    pub(super) fn script(&self) -> Script {
        let backend = self.clone();
        Arc::new(move |_, body| {
            let message: Value = serde_json::from_str(body).unwrap_or_default();
            if message["method"] != "tools/call" {
                return Some(status("405 Method Not Allowed"));
            }
            let mut result = backend.called(&message["params"])?;
            result["resultType"] = json!("complete");
            Some(json_answer(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })))
        })
    }

    /// Handles one call; repeated operations have no effect. Returns `None` after the caller was
    /// killed.
    fn called(&self, params: &Value) -> Option<Value> {
        let (tool, arguments) = (params["name"].as_str()?, &params["arguments"]);
        let call = format!("{tool} {}", arguments["item"].as_str()?);
        let pause = self.state().pause;
        thread::sleep(pause);
        self.state().calls += 1;
        let kill = self.state().kill.clone().filter(|(_, at, _)| *at == call);
        let strike = |when: When| {
            let (process, ..) = kill.as_ref().filter(|(.., at)| *at == when)?;
            self.state().kill = None;
            signal_process(*process, "KILL");
            Some(())
        };
        if strike(When::Before).is_some() {
            return None;
        }
        let failed = self.take_effect(tool, arguments, &call);
        if strike(When::After).is_some() {
            return None;
        }
        let content = json!([{ "type": "text", "text": failed.unwrap_or("done") }]);
        Some(
            json!({ "content": content, "isError": failed.is_some(), "structuredContent": { "call": call } }),
        )
    }

    fn take_effect(&self, tool: &str, arguments: &Value, call: &str) -> Option<&'static str> {
        let mut state = self.state();
        if tool == "commit" && arguments["fails"] == true {
            return Some("the order is not accepted");
        }
        if tool == "release" && state.is_broken {
            return Some("the store is closed");
        }
        let item = arguments["item"].as_str().unwrap_or_default().to_owned();
        let is_new = match tool {
            "reserve" => state.reserved.insert(item, true) != Some(true),
            "release" => state.reserved.insert(item, false) == Some(true),
            "commit" => !std::mem::replace(&mut state.is_committed, true),
            _ => std::mem::replace(&mut state.is_committed, false),
        };
        if is_new {
            *state.effects.entry(call.to_owned()).or_default() += 1;
        }
        None
    }
}
