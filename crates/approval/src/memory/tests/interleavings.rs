//! Random interleavings of callers, gateways, people, clocks and a store, with lost, repeated and
//! reordered messages, and crashes of gateways and the store.
//!
//! The driver knows which human uses each account and what each gateway sends. It checks the sends
//! against the decisions. Each deliberate defect must make some run violate an invariant, which shows
//! that the driver would notice the same defect in the code.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use registry_core::{Digest, Timestamp, entity::policy::Approval};
use registry_fixtures::random::Random;

use crate::{
    Attempt, Binding, Choice, Claim, Current, Decider, GrantScope, MemoryApprovals, Outcome,
    Principal, Request, RequestId, Review, Settlement, SignIn, StandingWish, State,
    limits::{COOL_DOWN, OPEN_PER_CALLER, STORED_PER_CALLER, USABLE_FOR},
    request::after,
    testing::{ISSUER, account, at, binding, pending, quorum, wanted},
};

const RUNS: u64 = 1_000;
const STEPS: usize = 300;
const OWNERS: &str = "owners";

/// A defect of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    /// The store reads the row before it waits for the lock.
    StaleReads,
    /// A sealed state can be used again.
    ReusedStates,
    /// The gateway sends other arguments than it claims.
    OtherArguments,
    /// The gateway repeats calls after a crash.
    RepeatedAfterCrash,
    /// All calls of a gateway have one attempt.
    SharedAttempts,
    /// The store answers before the write to disk.
    UnwrittenRows,
    /// The store has no time limit for approvals.
    NoExpiry,
    /// The issuers' names of people are ignored.
    AccountsAsPeople,
    /// Issuers are ignored.
    OneIssuer,
    /// The owners of the agent are ignored.
    NoOwners,
    /// A denied call can be requested again at once.
    NoCoolDown,
    /// Later requests displace calls with an unknown outcome.
    DisplacedOutcomes,
}

/// An account with the human that uses it.
#[derive(Clone)]
struct Account {
    decider: Decider,
    human: &'static str,
}

/// The accounts of approvers. Ann is the human behind the caller, and Olga a member of the team that
/// owns its agent.
fn accounts() -> Vec<Account> {
    let of = |principal, human, team: Option<&str>, sign_in| Account {
        decider: Decider {
            principal,
            team: team.map(str::to_owned),
            is_approver: true,
            sign_in,
            lacks_person: false,
        },
        human,
    };
    let elsewhere = |subject: &str| Principal {
        issuer: "https://other.example".to_owned(),
        ..account(subject, Some(subject))
    };
    vec![
        of(account("caller", Some("ann")), "ann", None, SignIn::Oidc),
        of(account("ann-admin", Some("ann")), "ann", None, SignIn::Oidc),
        of(elsewhere("ann-elsewhere"), "ann", None, SignIn::Oidc),
        of(account("bob", Some("bob")), "bob", None, SignIn::Oidc),
        of(account("bob-admin", Some("bob")), "bob", None, SignIn::Certificate),
        of(account("bob-script", Some("bob")), "bob", None, SignIn::Token),
        of(elsewhere("bob-elsewhere"), "bob", None, SignIn::Oidc),
        of(account("eve", Some("eve")), "eve", None, SignIn::Oidc),
        of(account("olga", Some("olga")), "olga", Some(OWNERS), SignIn::Oidc),
    ]
}

/// A call of a gateway.
#[derive(Clone)]
struct Call {
    gateway: usize,
    process: u64,
    attempt: Attempt,
    /// The sent call.
    content: Binding,
    /// The state that the caller brought: the request and the round.
    sealed: Option<(RequestId, u32)>,
    /// The approved request.
    approved: Option<RequestId>,
    is_sent: bool,
    outcome: Option<Outcome>,
}

/// A message on the network. A message that was delivered has an answer.
#[derive(Clone)]
struct Message {
    call: usize,
    body: Body,
    answer: Option<Answer>,
}

#[derive(Clone)]
enum Body {
    Open(u128),
    Claim(Claim),
    Settle(Settlement),
}

#[derive(Clone)]
enum Answer {
    Opened(Option<Box<Request>>),
    Claimed { is_granted: bool, at: Timestamp },
    Settled,
}

/// The driver's record of a request.
#[derive(Default)]
struct Witness {
    humans: BTreeSet<&'static str>,
    last_approval: Timestamp,
    is_denied: bool,
    standing: Option<Timestamp>,
}

struct World {
    random: Random,
    defect: Defect,
    /// Whether the caller makes more requests than the store keeps.
    is_flooded: bool,
    rule: Approval,
    now: u64,
    store: MemoryApprovals,
    disk: MemoryApprovals,
    earlier: MemoryApprovals,
    /// The current process of each gateway.
    processes: Vec<u64>,
    calls: Vec<Call>,
    network: Vec<Message>,
    accounts: Vec<Account>,
    ids: u128,
    /// The states that the caller has, with the sent content.
    sealed: Vec<(RequestId, u32, Binding)>,
    witnesses: BTreeMap<RequestId, Witness>,
    /// The number of sends by request and round.
    sends: BTreeMap<(RequestId, u32), usize>,
    /// The arguments of calls that the store knows to have an unknown outcome.
    unknown: BTreeSet<Digest>,
    violation: Option<&'static str>,
}

impl World {
    fn new(seed: u64, defect: Defect) -> Self {
        let mut random = Random::new(seed);
        let hour = Duration::from_hours(1);
        let rule = Approval {
            four_eyes: random.chance(60),
            expires_after: random.chance(50).then_some(hour),
            standing_for: random.chance(40).then_some(hour),
            ..quorum(if random.chance(50) { 2 } else { 1 })
        };
        Self {
            defect,
            is_flooded: seed.is_multiple_of(10),
            rule,
            now: 0,
            store: MemoryApprovals::new(),
            disk: MemoryApprovals::new(),
            earlier: MemoryApprovals::new(),
            processes: vec![0; 1 + random.below(3)],
            calls: Vec::new(),
            network: Vec::new(),
            accounts: accounts(),
            ids: 0,
            sealed: Vec::new(),
            witnesses: BTreeMap::new(),
            sends: BTreeMap::new(),
            unknown: BTreeSet::new(),
            violation: None,
            random,
        }
    }

    fn time(&self) -> Timestamp {
        at(self.now)
    }

    fn id(&mut self) -> u128 {
        self.ids += 1;
        self.ids
    }

    fn step(&mut self) {
        let is_long = self.random.chance(2);
        self.now += self.random.range(0, if is_long { 7_199 } else { 19 });
        match self.random.range(0, 99) {
            0..12 => self.call(),
            12..16 => self.call_with_state(),
            16..18 => self.call_with_request(),
            18..32 => self.decide(),
            32..36 => self.resend(),
            36..38 => self.crash_gateway(),
            38..40 => self.crash_store(),
            40..42 => {
                let now = self.time();
                self.store.advance(now);
                if self.is_flooded {
                    self.flood();
                }
                self.write();
            }
            _ => self.deliver(),
        }
        let open = self.store.requests().filter(|request| request.state_at(self.time()).is_open());
        if open.count() > OPEN_PER_CALLER {
            self.violation = Some("too many open requests");
        }
    }

    /// The caller makes many other calls. Messages that create requests do not survive that time.
    fn flood(&mut self) {
        let template = Request {
            state: State::Succeeded,
            changed_at: self.time(),
            ..pending(self.rule.clone())
        };
        for _ in 0..STORED_PER_CALLER {
            let id = RequestId::new(self.id());
            self.store.requests.insert(id, Request { id, ..template.clone() });
        }
        self.network.retain(|message| !matches!(message.body, Body::Open(_)));
    }

    fn content(&mut self) -> Binding {
        let arguments = ["a", "b"][self.random.below(2)];
        let mut content = binding(arguments, self.rule.clone());
        if self.random.chance(5) {
            content.version = "2.0.0".to_owned();
        }
        content
    }

    /// One of the clients of the caller calls.
    fn call(&mut self) {
        let content = self.content();
        let call = self.start(content, None, None);
        let body = Body::Open(self.id());
        self.network.push(Message { call, body, answer: None });
    }

    /// The caller answers a question, maybe one that it has answered, and maybe with another call.
    fn call_with_state(&mut self) {
        let Some(last) = self.sealed.len().checked_sub(1) else { return };
        let at = if self.random.chance(50) { last } else { self.random.below(last + 1) };
        let (request, round, mut content) = self.sealed[at].clone();
        if self.random.chance(20) {
            content = self.content();
        }
        self.start(content, Some(request), Some((request, round)));
    }

    /// The caller names a request of maybe another call.
    fn call_with_request(&mut self) {
        let ids: Vec<_> = self.store.requests().map(|request| request.id).collect();
        if !ids.is_empty() {
            let (content, id) = (self.content(), ids[self.random.below(ids.len())]);
            self.start(content, Some(id), None);
        }
    }

    fn start(
        &mut self,
        content: Binding,
        approved: Option<RequestId>,
        sealed: Option<(RequestId, u32)>,
    ) -> usize {
        let gateway = self.random.below(self.processes.len());
        let process = self.processes[gateway];
        let attempt = match self.defect {
            Defect::SharedAttempts => gateway as u128,
            _ => self.id() + 1_000,
        };
        let number = self.calls.len();
        self.calls.push(Call {
            gateway,
            process,
            attempt: Attempt::new(attempt),
            content,
            sealed,
            approved,
            is_sent: false,
            outcome: None,
        });
        self.claim(number);
        number
    }

    fn claim(&mut self, number: usize) {
        let call = &self.calls[number];
        let Some(request) = call.approved else { return };
        let mut key = call.content.key();
        let mut round = call.sealed.map_or(0, |(_, round)| round);
        let stored = self.store.request(request);
        if self.defect == Defect::OtherArguments {
            key = stored.map_or(key, Request::key);
        }
        if self.defect == Defect::ReusedStates && round > 0 {
            let next = stored.and_then(|request| request.uses.last()).map(|last| last.round + 1);
            round = next.unwrap_or(round);
        }
        let within = Duration::from_mins(30);
        let claim = Claim { request, key, round, attempt: call.attempt, within };
        self.network.push(Message { call: number, body: Body::Claim(claim), answer: None });
    }

    fn decide(&mut self) {
        let ids: Vec<_> = self.store.requests().map(|request| request.id).collect();
        if ids.is_empty() {
            return;
        }
        let id = ids[self.random.below(ids.len())];
        let Account { mut decider, human } =
            self.accounts[self.random.below(self.accounts.len())].clone();
        match self.defect {
            Defect::AccountsAsPeople => decider.principal.person = None,
            Defect::OneIssuer => decider.principal.issuer = ISSUER.to_owned(),
            Defect::NoOwners => decider.team = None,
            _ => {}
        }
        let until = after(self.time(), Duration::from_mins(30));
        let is_standing = self.rule.standing_for.is_some() && self.random.chance(30);
        let standing = is_standing.then_some(StandingWish { scope: GrantScope::Tool, until });
        let choice = if self.random.chance(15) {
            Choice::Deny { reason: "no".to_owned() }
        } else {
            Choice::Approve { standing }
        };
        let current = Current { owners: BTreeSet::new(), is_current: true };
        let review = Review {
            decider: &decider,
            choice: &choice,
            current: &current,
            is_batch: false,
            grants: 0,
        };
        let now = self.time();
        let Ok(recorded) = self.store.decide(id, review, now) else { return };
        self.write();
        let witness = self.witnesses.entry(id).or_default();
        match choice {
            Choice::Approve { .. } => {
                witness.humans.insert(human);
                witness.last_approval = now;
            }
            Choice::Deny { .. } => witness.is_denied = true,
        }
        witness.standing = recorded.value.standing_grant().map(|grant| grant.ends_at);
    }

    /// A call without an answer repeats its last message.
    fn resend(&mut self) {
        if self.calls.is_empty() {
            return;
        }
        let number = self.random.below(self.calls.len());
        if self.is_alive(number) && !self.calls[number].is_sent {
            self.claim(number);
        } else if self.calls[number].outcome.is_some() {
            self.settle(number);
        }
    }

    fn is_alive(&self, number: usize) -> bool {
        let call = &self.calls[number];
        self.processes[call.gateway] == call.process
    }

    fn crash_gateway(&mut self) {
        let gateway = self.random.below(self.processes.len());
        self.processes[gateway] += 1;
        if self.defect != Defect::RepeatedAfterCrash {
            return;
        }
        let process = self.processes[gateway];
        let own = self.calls.iter_mut().filter(|call| call.gateway == gateway);
        for call in own.filter(|call| call.process + 1 == process && call.outcome.is_none()) {
            (call.process, call.is_sent) = (process, false);
        }
    }

    fn crash_store(&mut self) {
        self.store = self.disk.clone();
    }

    fn write(&mut self) {
        if self.defect == Defect::UnwrittenRows && self.random.chance(50) {
            return;
        }
        self.disk = self.store.clone();
    }

    /// Delivers a message, which may stay on the network as a duplicate, or get lost.
    fn deliver(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let at = self.random.below(self.network.len());
        let message = self.network[at].clone();
        if self.random.chance(75) {
            self.network.remove(at);
        }
        if self.random.chance(15) {
            return;
        }
        match message.answer.clone() {
            None => {
                let answer = Some(self.handle(&message));
                self.network.push(Message { answer, ..message });
            }
            Some(answer) if self.is_alive(message.call) => self.receive(&message, answer),
            Some(_) => {}
        }
    }

    fn handle(&mut self, message: &Message) -> Answer {
        let call = self.calls[message.call].clone();
        let gateway = format!("gateway-{}", call.gateway);
        let now = self.time();
        let answer = match &message.body {
            Body::Open(id) => self.open(*id, call.content, now),
            Body::Claim(claim) => {
                let at = if self.defect == Defect::NoExpiry { self.start_of(claim) } else { now };
                if self.defect == Defect::StaleReads && self.random.chance(30) {
                    let mut stale = self.earlier.clone();
                    let is_granted = stale.consume(&gateway, claim, at).is_ok();
                    return Answer::Claimed { is_granted, at: now };
                }
                self.earlier = self.store.clone();
                let is_granted = self.store.consume(&gateway, claim, at).is_ok();
                Answer::Claimed { is_granted, at: now }
            }
            Body::Settle(settlement) => {
                // Errors are those of late and repeated messages.
                let settled = self.store.settle(&gateway, settlement, now);
                if settled.is_ok() && settlement.outcome == Outcome::Unknown {
                    self.unknown.insert(call.content.arguments);
                }
                Answer::Settled
            }
        };
        self.write();
        answer
    }

    fn open(&mut self, id: u128, content: Binding, now: Timestamp) -> Answer {
        let mut call = wanted(id, content);
        if self.defect == Defect::AccountsAsPeople {
            call.binding.caller.person = None;
        }
        if self.defect == Defect::DisplacedOutcomes {
            self.store.requests.retain(|_, request| request.state != State::Unknown);
        }
        let (key, arguments) = (call.binding.key(), call.binding.arguments);
        let is_denied = self
            .store
            .requests()
            .any(|request| request.is_cooling_down(now) && request.key() == key);
        let before = now;
        let now = if self.defect == Defect::NoCoolDown { after(now, COOL_DOWN) } else { now };
        let recorded = self.store.open(call, now).ok();
        let is_new = recorded.as_ref().is_some_and(|recorded| !recorded.transitions.is_empty());
        let opened = recorded.map(|recorded| recorded.value);
        let is_granted = opened.as_ref().is_some_and(|request| request.granted_by.is_some());
        if is_new && is_granted && self.unknown.contains(&arguments) {
            self.violation = Some("a grant approved a call that may have been executed");
        }
        if is_denied && opened.as_ref().is_some_and(|request| request.state_at(before).is_open()) {
            self.violation = Some("a denied call was requested again");
        }
        Answer::Opened(opened.map(Box::new))
    }

    /// The time of the creation of a request. No limit is over at that time.
    fn start_of(&self, claim: &Claim) -> Timestamp {
        let request = self.store.request(claim.request);
        request.map_or(self.time(), |request| request.created_at)
    }

    fn receive(&mut self, message: &Message, answer: Answer) {
        match answer {
            Answer::Opened(Some(request))
                if request.state == State::Approved
                    && self.calls[message.call].approved.is_none() =>
            {
                self.calls[message.call].approved = Some(request.id);
                self.claim(message.call);
            }
            Answer::Claimed { is_granted: true, at } if !self.calls[message.call].is_sent => {
                self.send(message.call, at);
            }
            _ => {}
        }
    }

    /// The gateway sends, and may crash right before or after it.
    fn send(&mut self, number: usize, consumed_at: Timestamp) {
        if self.random.chance(5) {
            return self.crash_gateway();
        }
        self.calls[number].is_sent = true;
        let call = self.calls[number].clone();
        let Some(id) = call.approved else { return };
        let round = call.sealed.map_or(0, |(_, round)| round);
        let sends = self.sends.entry((id, round)).or_default();
        *sends += 1;
        if *sends > 1 {
            self.violation = Some("a round was sent twice");
        }
        self.check(id, &call.content, round, consumed_at);
        if self.random.chance(5) {
            return self.crash_gateway();
        }
        let outcome = match self.random.range(0, 9) {
            0..4 => Outcome::Succeeded,
            4 => Outcome::Failed,
            5 => Outcome::Unknown,
            _ => Outcome::AwaitingInput,
        };
        if outcome == Outcome::AwaitingInput {
            self.sealed.push((id, round + 1, call.content));
        }
        self.calls[number].outcome = Some(outcome);
        self.settle(number);
    }

    fn settle(&mut self, number: usize) {
        let call = &self.calls[number];
        let (Some(request), Some(outcome)) = (call.approved, call.outcome) else { return };
        let settlement = Settlement { request, attempt: call.attempt, outcome };
        self.network.push(Message { call: number, body: Body::Settle(settlement), answer: None });
    }

    /// Compares a send with the request and the decisions of people.
    fn check(&mut self, id: RequestId, content: &Binding, round: u32, consumed_at: Timestamp) {
        let Some(request) = self.store.request(id) else { return };
        if request.binding.arguments != content.arguments
            || request.binding.version != content.version
        {
            self.violation = Some("another call than the approved one was sent");
        }
        let origin = request.granted_by.unwrap_or(id);
        let Some(witness) = self.witnesses.get(&origin) else {
            self.violation = Some("a call without approval was sent");
            return;
        };
        let mut humans = witness.humans.clone();
        if self.rule.four_eyes {
            humans.remove("ann");
            humans.remove("olga");
        }
        if humans.len() < usize::try_from(self.rule.quorum.get()).unwrap() || witness.is_denied {
            self.violation = Some("a call without enough approvals was sent");
        }
        let usable_for = self.rule.expires_after.unwrap_or(USABLE_FOR);
        let end = match request.granted_by {
            None => after(witness.last_approval, usable_for),
            Some(_) => witness.standing.unwrap_or_default(),
        };
        if round == 0 && consumed_at >= end {
            self.violation = Some("an expired approval was consumed");
        }
    }
}

/// Runs one interleaving. Returns the violated invariant.
fn violation(seed: u64, defect: Defect) -> Option<&'static str> {
    let mut world = World::new(seed, defect);
    for _ in 0..STEPS {
        world.step();
        if world.violation.is_some() {
            return world.violation;
        }
    }
    None
}

fn assert_caught(defect: Defect) {
    assert!((0..RUNS).any(|seed| violation(seed, defect).is_some()), "{defect:?} is not noticed");
}

#[test]
fn interleavings_violate_no_invariant() {
    let found: Vec<_> =
        (0..RUNS).filter_map(|seed| Some((seed, violation(seed, Defect::None)?))).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn interleavings_reach_all_states() {
    let (mut states, mut rounds) = (BTreeSet::new(), 0);
    for seed in 0..200 {
        let mut world = World::new(seed, Defect::None);
        for _ in 0..STEPS {
            world.step();
            states.extend(world.store.requests().map(|request| request.state));
        }
        rounds += world.sends.keys().filter(|(_, round)| *round > 0).count();
    }
    let others = [State::Cancelled, State::Invalid];
    assert_eq!(states.len() + others.len(), 11, "{states:?}");
    assert!(rounds > 10, "{rounds}");
}

#[test]
fn stale_reads_are_noticed() {
    assert_caught(Defect::StaleReads);
}

#[test]
fn reused_states_are_noticed() {
    assert_caught(Defect::ReusedStates);
}

#[test]
fn other_arguments_are_noticed() {
    assert_caught(Defect::OtherArguments);
}

#[test]
fn repetition_after_crash_is_noticed() {
    assert_caught(Defect::RepeatedAfterCrash);
}

#[test]
fn shared_attempts_are_noticed() {
    assert_caught(Defect::SharedAttempts);
}

#[test]
fn unwritten_rows_are_noticed() {
    assert_caught(Defect::UnwrittenRows);
}

#[test]
fn missing_expiry_is_noticed() {
    assert_caught(Defect::NoExpiry);
}

#[test]
fn accounts_as_people_are_noticed() {
    assert_caught(Defect::AccountsAsPeople);
}

#[test]
fn ignored_issuers_are_noticed() {
    assert_caught(Defect::OneIssuer);
}

#[test]
fn ignored_owners_are_noticed() {
    assert_caught(Defect::NoOwners);
}

#[test]
fn missing_cool_down_is_noticed() {
    assert_caught(Defect::NoCoolDown);
}

#[test]
fn displaced_outcomes_are_noticed() {
    assert_caught(Defect::DisplacedOutcomes);
}
