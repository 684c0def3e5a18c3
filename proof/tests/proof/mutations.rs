//! Mutations: each changes one thing in a recorded history.

mod relays;

use std::collections::HashMap;

use history_check::{
    Event, Line, Log,
    event::{Answer, Message, Request},
    log::{digest, digits},
};
use serde_json::{Value, json};

/// The file of a journal.
const JOURNAL: &str = "registry-v2.json.log";

type Lines = Vec<Line>;
/// Changes a history. Returns `None` if the mutation does not apply.
type Mutate = fn(&mut Lines, &Log) -> Option<()>;

/// The validator that must detect the mutation, its description, and the change.
pub(crate) type Mutation = (&'static str, &'static str, Mutate);

pub(crate) const MUTATIONS: &[Mutation] = &[
    ("chain", "change the author of a commit", other_author),
    ("chain", "swap two commits", swapped_commits),
    ("chain", "remove the last commit of a relay's log", relays::short_copy),
    ("chain", "remove a commit of a relay's log", relays::headless_copy),
    ("chain", "change a commit of a relay's log", relays::forged_copy),
    ("chain", "change a chain hash of a relay's log", relays::forged_seal),
    ("chain", "give a relay the log of another registry", relays::copy_of_another),
    ("chain", "lose a relay's log", relays::no_copy),
    ("ordered", "move a follower back", led_back),
    ("ordered", "move a gateway back", served_less),
    ("ordered", "use an unknown chain hash", chain_of_nowhere),
    ("ordered", "backdate a commit", dated_back),
    ("unique", "repeat a delta", delta_twice),
    ("unique", "commit a request twice", request_twice),
    ("atomic", "split a commit", split_delta),
    ("atomic", "remove an entity of a list", short_list),
    ("reliable", "drop a delta", dropped_delta),
    ("reliable", "lose a follower's last message", never_caught_up),
    ("reliable", "never settle", never_settled),
    ("reliable", "leave a relay behind", relays::left_behind),
    ("resumable", "send a snapshot to an up-to-date follower", begun_anew),
    ("resumable", "reject a valid past", refused_past),
    ("resumable", "report available commits as compacted", never_compacted),
    ("bookmarkable", "report progress past a commit", progress_past),
    ("bookmarkable", "report progress to an unknown revision", progress_to_nowhere),
    ("filtered", "send an entity outside of the scope", beyond_scope),
    ("filtered", "remove a part of a step", short_step),
    ("linearizable", "read a stale state", stale_read),
    ("linearizable", "read a later state", early_read),
    ("linearizable", "return an older state", relays::hidden_by_server),
    ("linearizable", "return an older state at a relay", relays::hidden_by_relay),
    ("linearizable", "return an invalid state at a relay", relays::invented_by_relay),
    ("references", "add a dangling reference", dangling),
    ("references", "add a cyclic dependency", circle),
    ("acknowledged", "lose an acknowledged commit", lost_commit),
    ("acknowledged", "reject an applied request", refused_yet_done),
    ("acknowledged", "apply a batch without a request", unasked),
    ("caches", "forge an owner in a cache", forged_cache),
    ("caches", "forge the revision of a cache", forged_revision),
    ("caches", "forge a journal", forged_journal),
    ("caches", "load a corrupted cache", spoiled_start),
];

/// The first matching line.
fn place(lines: &Lines, fits: impl Fn(&Line) -> bool) -> Option<usize> {
    lines.iter().position(fits)
}

fn commit_with(lines: &Lines, fits: impl Fn(&Value) -> bool) -> Option<usize> {
    place(lines, |line| match &line.event {
        Event::Commit { canonical, .. } => {
            fits(&serde_json::from_str(canonical).expect("a history has JSON"))
        }
        _ => false,
    })
}

fn edit_commit(line: &mut Line, edit: impl FnOnce(&mut Value)) {
    if let Event::Commit { canonical, .. } = &mut line.event {
        let mut value = serde_json::from_str(canonical).expect("a history has JSON");
        edit(&mut value);
        *canonical = value.to_string();
    }
}

fn other_author(lines: &mut Lines, _: &Log) -> Option<()> {
    let at = commit_with(lines, |_| true)?;
    edit_commit(&mut lines[at], |commit| commit["author"] = json!("somebody"));
    Some(())
}

fn swapped_commits(lines: &mut Lines, _: &Log) -> Option<()> {
    let at = commit_with(lines, |commit| commit["revision"] == 2)?;
    lines.swap(at, at + 1);
    Some(())
}

/// Two consecutive messages of one stream that match.
fn successive(lines: &Lines, fits: impl Fn(&Message, &Message) -> bool) -> Option<(usize, usize)> {
    let mut last: HashMap<&str, usize> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        let Event::Took { message } = &line.event else {
            let is_of_stream = matches!(line.event, Event::Hello { .. } | Event::Ended { .. });
            if is_of_stream {
                last.remove(line.who.as_str());
            }
            continue;
        };
        if let Some(before) = last.insert(&line.who, at)
            && let Event::Took { message: first } = &lines[before].event
            && fits(first, message)
        {
            return Some((before, at));
        }
    }
    None
}

fn is_delta(message: &Message) -> bool {
    matches!(message, Message::Delta { .. })
}

fn led_back(lines: &mut Lines, _: &Log) -> Option<()> {
    let (first, second) = successive(lines, |a, b| is_delta(a) && is_delta(b))?;
    let (former, latter) = (lines[first].event.clone(), lines[second].event.clone());
    (lines[first].event, lines[second].event) = (latter, former);
    Some(())
}

fn served_less(lines: &mut Lines, _: &Log) -> Option<()> {
    let served = |line: &Line| matches!(line.event, Event::Serves { revision } if revision > 1);
    let at = place(lines, served)?;
    let mut line = lines[at].clone();
    line.n += 1;
    line.event = Event::Serves { revision: 1 };
    lines.insert(at + 1, line);
    Some(())
}

fn chain_of_nowhere(lines: &mut Lines, _: &Log) -> Option<()> {
    lines.iter_mut().find_map(|line| match &mut line.event {
        Event::Took { message: Message::Step { chain, .. } } => {
            *chain = digest(&[b"nowhere"]);
            Some(())
        }
        _ => None,
    })
}

fn dated_back(lines: &mut Lines, log: &Log) -> Option<()> {
    let last = commit_with(lines, |commit| commit["revision"] == log.last())?;
    edit_commit(&mut lines[last], |commit| {
        commit["committedAt"] = json!("2020-01-01T00:00:00.000Z");
    });
    Some(())
}

fn delta_twice(lines: &mut Lines, _: &Log) -> Option<()> {
    let is_told = |line: &Line| matches!(&line.event, Event::Took { message } if is_delta(message));
    let at = place(lines, is_told)?;
    let mut again = lines[at].clone();
    again.n += 1;
    lines.insert(at + 1, again);
    Some(())
}

fn request_twice(lines: &mut Lines, _: &Log) -> Option<()> {
    let has_id = |commit: &Value| commit["requestId"].is_string();
    let first = commit_with(lines, has_id)?;
    let Event::Commit { canonical, .. } = &lines[first].event else { return None };
    let id = serde_json::from_str::<Value>(canonical).ok()?["requestId"].clone();
    let second = commit_with(lines, |commit| has_id(commit) && commit["requestId"] != id)?;
    edit_commit(&mut lines[second], |commit| commit["requestId"] = id);
    Some(())
}

fn split_delta(lines: &mut Lines, _: &Log) -> Option<()> {
    lines.iter_mut().find_map(|line| match &mut line.event {
        Event::Took { message: Message::Delta { canonical, .. } } => {
            let mut commit: Value = serde_json::from_str(canonical).ok()?;
            let changes = commit["changes"].as_array_mut()?;
            (changes.len() > 1).then(|| changes.pop())?;
            *canonical = commit.to_string();
            Some(())
        }
        _ => None,
    })
}

fn short_list(lines: &mut Lines, _: &Log) -> Option<()> {
    lines.iter_mut().find_map(|line| match &mut line.event {
        Event::Answer { answer: Answer::Listed { entities, .. }, .. } => entities.pop().map(drop),
        _ => None,
    })
}

fn dropped_delta(lines: &mut Lines, _: &Log) -> Option<()> {
    let (first, _) = successive(lines, |a, b| is_delta(a) && is_delta(b))?;
    lines.remove(first);
    Some(())
}

fn settled(lines: &Lines) -> Option<usize> {
    place(lines, |line| line.event == Event::Settled {})
}

fn never_caught_up(lines: &mut Lines, log: &Log) -> Option<()> {
    let who = lines.iter().find(|line| line.who.starts_with("follower-"))?.who.clone();
    let revision_of = |event: &Event| match event {
        Event::Took {
            message:
                Message::Delta { revision, .. }
                | Message::Snapshot { revision, .. }
                | Message::Step { revision, .. }
                | Message::Progress { revision, .. },
        } => Some(*revision),
        _ => None,
    };
    lines.retain(|line| line.who != who || revision_of(&line.event) != Some(log.last()));
    settled(lines).map(drop)
}

fn never_settled(lines: &mut Lines, _: &Log) -> Option<()> {
    let at = settled(lines)?;
    lines.remove(at);
    Some(())
}

fn begun_anew(lines: &mut Lines, log: &Log) -> Option<()> {
    let hello = place(
        lines,
        |line| matches!(&line.event, Event::Hello { scope, position: Some(1..), .. } if scope.is_empty()),
    )?;
    let Event::Hello { position: Some(revision), .. } = lines[hello].event else { return None };
    let state = log.state(revision)?;
    let message = Message::Snapshot {
        oldest: None,
        revision,
        chain: log.chain(revision)?,
        scope: Vec::new(),
        entities: state.entities.values().map(|entity| (**entity).clone()).collect(),
        settings: state.settings.values().cloned().collect(),
    };
    let mut line = lines[hello].clone();
    line.n += 1;
    line.event = Event::Took { message };
    lines.insert(hello + 1, line);
    Some(())
}

fn never_compacted(lines: &mut Lines, log: &Log) -> Option<()> {
    begun_anew(lines, log)?;
    lines.iter_mut().find_map(|line| match &mut line.event {
        Event::Took { message: Message::Snapshot { oldest, revision, .. } } if line.n % 10 == 1 => {
            (*oldest, *revision) = (Some(*revision), *revision + 1);
            Some(())
        }
        _ => None,
    })
}

fn refused_past(lines: &mut Lines, _: &Log) -> Option<()> {
    let at = place(lines, |line| matches!(line.event, Event::Ended { .. }))?;
    lines[at].event = Event::Ended { reason: "CHAIN_MISMATCH".to_owned() };
    Some(())
}

fn progress_past(lines: &mut Lines, log: &Log) -> Option<()> {
    let (_, second) = successive(lines, |a, b| is_delta(a) && is_delta(b))?;
    let Event::Took { message: Message::Delta { revision, .. } } = lines[second].event else {
        return None;
    };
    let message = Message::Progress { revision, chain: log.chain(revision)? };
    lines[second].event = Event::Took { message };
    Some(())
}

fn progress_to_nowhere(lines: &mut Lines, _: &Log) -> Option<()> {
    lines.iter_mut().find_map(|line| match &mut line.event {
        Event::Took { message: Message::Progress { chain, .. } } => {
            *chain = digest(&[b"nowhere"]);
            Some(())
        }
        _ => None,
    })
}

fn beyond_scope(lines: &mut Lines, log: &Log) -> Option<()> {
    lines.iter_mut().find_map(|line| match &mut line.event {
        Event::Took { message: Message::Step { revision, scope, put, .. } } => {
            let part = log.part(*revision, scope)?;
            let state = log.state(*revision)?;
            let beyond = state.entities.iter().find(|(key, _)| !part.contains_key(*key))?;
            put.push((**beyond.1).clone());
            Some(())
        }
        _ => None,
    })
}

fn short_step(lines: &mut Lines, _: &Log) -> Option<()> {
    lines.iter_mut().find_map(|line| match &mut line.event {
        Event::Took { message: Message::Step { put, removed, .. } } => {
            removed.pop().map(drop).or_else(|| put.pop().map(drop))
        }
        _ => None,
    })
}

fn stale_read(lines: &mut Lines, log: &Log) -> Option<()> {
    lines.iter_mut().find_map(|line| match &mut line.event {
        Event::Answer { answer: Answer::Found { revision, entity }, .. } => {
            let state = log.state(*revision)?;
            let newer = state.entities[&entity.key].lifecycle.as_ref()?;
            **entity = (**log.state(newer.revision - 1)?.entities.get(&entity.key)?).clone();
            Some(())
        }
        _ => None,
    })
}

fn early_read(lines: &mut Lines, log: &Log) -> Option<()> {
    lines.iter_mut().find_map(|line| match &mut line.event {
        Event::Answer { answer: Answer::Found { revision, .. }, .. } if *revision < 3 => {
            *revision = log.last();
            Some(())
        }
        _ => None,
    })
}

/// Changes a document of the log, and its digest everywhere.
fn edit_document(
    lines: &mut Lines,
    fits: impl Fn(&Value) -> bool,
    edit: impl Fn(&mut Value),
) -> Option<()> {
    let mut changed = None;
    for line in lines.iter_mut() {
        let Event::Commit { documents, canonical, .. } = &mut line.event else { continue };
        for document in documents.iter_mut() {
            let mut value: Value = serde_json::from_str(document).expect("a history has JSON");
            if changed.is_none() && fits(&value) {
                let before = digest(&[document.as_bytes()]);
                edit(&mut value);
                *document = value.to_string();
                changed = Some((before, digest(&[document.as_bytes()])));
            }
        }
        if let Some((before, after)) = &changed {
            *canonical = canonical.replace(before, after);
        }
    }
    changed.map(drop)
}

fn dangling(lines: &mut Lines, _: &Log) -> Option<()> {
    let is_tool = |document: &Value| document.get("source").is_some();
    edit_document(lines, is_tool, |tool| tool["source"]["serverVersion"] = json!("9.9.9"))
}

fn circle(lines: &mut Lines, _: &Log) -> Option<()> {
    let is_agent = |document: &Value| document.get("skills").is_some();
    edit_document(lines, is_agent, |agent| {
        let own = json!({
            "type": "agent", "name": agent["name"], "version": agent["version"], "skill": "work",
        });
        agent["capabilities"]["extensions"][0]["params"]["depends"] = json!([own]);
    })
}

fn lost_commit(lines: &mut Lines, log: &Log) -> Option<()> {
    let last = commit_with(lines, |commit| commit["revision"] == log.last())?;
    lines.remove(last);
    Some(())
}

fn refused_yet_done(lines: &mut Lines, log: &Log) -> Option<()> {
    let id = log.commits.iter().find_map(|commit| commit.value["requestId"].as_str())?;
    let calls = lines.iter().filter_map(|line| match &line.event {
        Event::Call { op, request: Request::Apply { id: Some(of), .. }, .. } if of == id => {
            Some(*op)
        }
        _ => None,
    });
    let calls: Vec<u64> = calls.collect();
    for line in lines.iter_mut() {
        if let Event::Answer { op, answer } = &mut line.event
            && calls.contains(op)
        {
            *answer = Answer::Refused { reason: "VALIDATION_FAILED".to_owned() };
        }
    }
    Some(())
}

fn unasked(lines: &mut Lines, log: &Log) -> Option<()> {
    let id = log.commits.iter().find_map(|commit| commit.value["requestId"].as_str())?.to_owned();
    lines.retain(|line| {
        !matches!(&line.event, Event::Call { request: Request::Apply { id: Some(of), .. }, .. } if *of == id)
    });
    Some(())
}

fn edit_cache(lines: &mut Lines, edit: impl Fn(&mut Value) -> Option<()>) -> Option<()> {
    lines.iter_mut().find_map(|line| match &mut line.event {
        Event::Cache { content, spoiled: false, .. } => {
            let mut copy: Value = serde_json::from_str(content).ok()?;
            edit(&mut copy)?;
            *content = copy.to_string();
            Some(())
        }
        _ => None,
    })
}

fn forged_cache(lines: &mut Lines, _: &Log) -> Option<()> {
    edit_cache(lines, |copy| {
        *copy["records"].get_mut(0)?.get_mut("owner")? = json!("somebody");
        Some(())
    })
}

fn forged_revision(lines: &mut Lines, _: &Log) -> Option<()> {
    edit_cache(lines, |copy| {
        copy["revision"] = json!(copy["revision"].as_u64()? + 1);
        Some(())
    })
}

/// A journal with a forged commit and a valid checksum.
fn forged_journal(lines: &mut Lines, _: &Log) -> Option<()> {
    lines.iter_mut().find_map(|line| match &mut line.event {
        Event::Cache { file, content, spoiled: false } => {
            JOURNAL.clone_into(file);
            let commit = br#"{"revision":1}"#;
            let mut body = vec![7; 32];
            body.extend([14, 0, 0, 0].iter().chain(commit));
            let hash = digest(&[&body]).split_off("sha256:".len());
            *content = format!("{:02x}000000{hash}{}", body.len(), digits(&body));
            Some(())
        }
        _ => None,
    })
}

fn spoiled_start(lines: &mut Lines, _: &Log) -> Option<()> {
    let mut killed = false;
    lines.iter_mut().find_map(|line| match &mut line.event {
        Event::Killed {} if line.who.starts_with("gateway-") => {
            killed = true;
            None
        }
        Event::Cache { spoiled, content, .. } if killed => {
            (*spoiled, *content) = (true, String::new());
            None
        }
        Event::Started { revision: Some(_) } if killed => Some(()),
        _ => None,
    })
}
