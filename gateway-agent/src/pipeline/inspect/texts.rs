//! Adjacent text parts of one message or artifact of an agent. Receivers join them, so a value can span
//! them.

use serde_json::Value;

use crate::inspection::{Inspected, Inspection, InspectionLog};

/// The members of answers, events and tasks with a message or artifact in them.
const MEMBERS: [&str; 6] =
    ["task", "message", "statusUpdate", "artifactUpdate", "status", "artifact"];
/// Those with a list.
const LISTS: [&str; 2] = ["history", "artifacts"];

/// A function that receives adjacent texts, with the pointer of the last one.
type Found<'f> = dyn FnMut(&mut [Value], &str) + 'f;

/// The size of all adjacent texts in an answer or event, in bytes.
pub(super) fn adjacent_bytes(answer: &mut Value) -> usize {
    let mut bytes = 0;
    each_run(answer, "", &mut |parts, _| {
        bytes += parts.iter().filter_map(text).map(str::len).sum::<usize>();
    });
    bytes
}

/// Inspects the adjacent texts in an answer or event. The last one receives a changed text, because
/// the next event of an artifact continues it. Returns the violations.
pub(super) fn inspect(
    inspection: &Inspection,
    answer: &mut Value,
    log: &InspectionLog,
) -> Inspected {
    let mut outcome = Inspected::default();
    each_run(answer, "", &mut |parts, place| {
        if outcome.violation.is_some() {
            return;
        }
        let texts: Vec<_> = parts.iter().filter_map(text).collect();
        let mut found = inspection.adjacent(&texts, place);
        // Recorded at once: an answer can have many texts.
        log.add(&std::mem::take(&mut found.actions));
        if let Some(changed) = found.changed.take() {
            for part in parts.iter_mut() {
                part["text"] = "".into();
            }
            if let Some(last) = parts.last_mut() {
                last["text"] = changed.text.into();
            }
        }
        outcome.merge(found);
    });
    outcome
}

/// Calls `found` with the parts of each run of at least two texts.
fn each_run(of: &mut Value, at: &str, found: &mut Found<'_>) {
    if let Some(parts) = of.get_mut("parts").and_then(Value::as_array_mut) {
        let mut end = 0;
        for run in parts.chunk_by_mut(|one, next| text(one).is_some() && text(next).is_some()) {
            end += run.len();
            if run.len() > 1 {
                found(run, &format!("{at}/parts/{}/text", end - 1));
            }
        }
    }
    for name in MEMBERS {
        if let Some(member) = of.get_mut(name) {
            each_run(member, &format!("{at}/{name}"), found);
        }
    }
    for name in LISTS {
        let items = of.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten();
        for (index, item) in items.enumerate() {
            each_run(item, &format!("{at}/{name}/{index}"), found);
        }
    }
}

fn text(part: &Value) -> Option<&str> {
    part.get("text")?.as_str()
}
