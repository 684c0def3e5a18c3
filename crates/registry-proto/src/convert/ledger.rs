//! Converts the messages between gateways and the ledger.

use std::{fmt::Display, time::Duration};

use ledger::{
    AccountAnswer, AccountKey, AccountReport, AccountState, Answer, BudgetKey, BudgetState, Epoch,
    GatewayAccount, Grant, InvalidEpoch, MAX_SUBJECT_BYTES, ProcessOwner, Refusal, Rejection,
    Report, ReportError, Totals, Want, WindowId, WindowSpan,
};
use registry_core::Amount;

use super::time::{duration, read_duration};
use crate::v1;

/// Maximum number of accounts, and of processes in each list, of a report.
pub const MAX_REPORTED: usize = 1_000;
/// Maximum length of the name of a policy, or of a budget with the version of its pre-release, in bytes.
const NAME_BYTES: usize = 512;
/// Maximum length of the id of a window, in bytes.
const WINDOW_BYTES: usize = 64;

/// The time during which a gateway reserves without an answer, if the registry does not state it.
const DEFAULT_OFFLINE_FOR: Duration = Duration::from_hours(1);

/// An invalid field of a message between a gateway and the ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct InvalidLedgerMessage {
    /// The path of the field, such as `accounts[3].epoch`.
    pub path: String,
    /// The problem.
    pub problem: LedgerProblem,
}

/// The problem of a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerProblem {
    /// A required field is absent or empty.
    #[error("the field is missing; set it")]
    Missing,
    /// The text is not an epoch.
    #[error(transparent)]
    Epoch(#[from] InvalidEpoch),
    /// The text is too long.
    #[error("the text has {bytes} bytes, at most {limit} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The maximum.
        limit: usize,
    },
    /// The text has a control character.
    #[error("the text has the control character {0:?}; remove it")]
    Control(char),
    /// The list is too long.
    #[error("the list has {count} entries, at most {limit} are allowed; send several reports")]
    TooMany {
        /// Its length.
        count: usize,
        /// The maximum.
        limit: usize,
    },
    /// The value of an enum is not defined.
    #[error("the value {0} is unknown; update the gateway")]
    UnknownValue(i32),
    /// A number is outside of its range.
    #[error("a number is outside of its range; the comments of the message state the ranges")]
    OutOfRange,
}

impl LedgerProblem {
    pub(super) fn at(self, path: impl Display) -> InvalidLedgerMessage {
        InvalidLedgerMessage { path: path.to_string(), problem: self }
    }
}

/// Writes a report. `gateway` is its principal in a report that a relay forwards, else empty.
pub fn write_report(gateway: &str, report: &Report) -> v1::ReportSpendingRequest {
    let Report { process, owner, generation, generation_proof, complete, ended, accounts } = report;
    v1::ReportSpendingRequest {
        process: process.to_string(),
        generation: *generation,
        generation_proof: generation_proof.clone().into(),
        complete_processes: complete.iter().map(Epoch::to_string).collect(),
        ended_processes: ended.iter().map(Epoch::to_string).collect(),
        accounts: accounts.iter().map(write_account_report).collect(),
        gateway: gateway.to_owned(),
        owner: owner.as_ref().map(write_owner),
    }
}

/// Reads a report without its gateway. Amounts are not checked: the ledger rejects the account with an impossible one.
pub fn read_report(report: v1::ReportSpendingRequest) -> Result<Report, InvalidLedgerMessage> {
    let v1::ReportSpendingRequest {
        process,
        generation,
        generation_proof,
        complete_processes,
        ended_processes,
        accounts,
        gateway: _,
        owner,
    } = report;
    check_count(accounts.len(), "accounts")?;
    let account = |(index, account)| read_account_report(account, &format!("accounts[{index}]"));
    Ok(Report {
        process: epoch(&process, "process")?,
        owner: owner.map(read_owner).transpose()?,
        generation,
        generation_proof: generation_proof.into(),
        complete: epochs(&complete_processes, "complete_processes")?,
        ended: epochs(&ended_processes, "ended_processes")?,
        accounts: accounts.into_iter().enumerate().map(account).collect::<Result<_, _>>()?,
    })
}

/// Writes an answer.
pub fn write_answer(answer: &Answer) -> v1::ReportSpendingResponse {
    let Answer { generation, generation_proof, owner, offline_for, accounts } = answer;
    let accounts = accounts.iter().map(write_account_answer).collect();
    let offline_for = Some(duration(*offline_for));
    let (generation, generation_proof) = (*generation, generation_proof.clone());
    v1::ReportSpendingResponse {
        generation,
        accounts,
        offline_for,
        generation_proof: generation_proof.into(),
        owner: owner.as_ref().map(write_owner),
    }
}

/// Reads an answer.
pub fn read_answer(answer: v1::ReportSpendingResponse) -> Result<Answer, InvalidLedgerMessage> {
    let v1::ReportSpendingResponse { generation, accounts, offline_for, generation_proof, owner } =
        answer;
    let account = |(index, account)| read_account_answer(account, &format!("accounts[{index}]"));
    let accounts = accounts.into_iter().enumerate().map(account).collect::<Result<_, _>>()?;
    let offline_for = offline_for.map_or(DEFAULT_OFFLINE_FOR, read_duration);
    let owner = owner.map(read_owner).transpose()?;
    let generation_proof = generation_proof.into();
    Ok(Answer { generation, generation_proof, owner, offline_for, accounts })
}

fn write_owner(ProcessOwner { gateway, proof }: &ProcessOwner) -> v1::ProcessOwner {
    v1::ProcessOwner { gateway: gateway.clone(), proof: proof.clone().into() }
}

fn read_owner(
    v1::ProcessOwner { gateway, proof }: v1::ProcessOwner,
) -> Result<ProcessOwner, InvalidLedgerMessage> {
    let gateway = line(gateway, MAX_SUBJECT_BYTES, "owner.gateway")?;
    Ok(ProcessOwner { gateway, proof: proof.into() })
}

/// Writes a recall. A keep-alive has no accounts.
pub fn write_recall(accounts: &[GatewayAccount]) -> v1::WatchRecallsResponse {
    let account = |GatewayAccount { gateway, key }: &GatewayAccount| v1::AccountKey {
        budget: Some((&key.budget).into()),
        window: key.window.to_string(),
        epoch: key.epoch.to_string(),
        gateway: gateway.clone(),
    };
    v1::WatchRecallsResponse { accounts: accounts.iter().map(account).collect() }
}

/// Reads a recall. A keep-alive has no accounts.
pub fn read_recall(
    recall: v1::WatchRecallsResponse,
) -> Result<Vec<GatewayAccount>, InvalidLedgerMessage> {
    let account = |(index, account): (usize, v1::AccountKey)| -> Result<_, InvalidLedgerMessage> {
        let at = format!("accounts[{index}]");
        let v1::AccountKey { budget, window, epoch: text, gateway } = account;
        let window = read_window(window, &at)?;
        let key = AccountKey {
            budget: budget_key(budget, &format!("{at}.budget"))?,
            window: window.ok_or_else(|| LedgerProblem::Missing.at(format!("{at}.window")))?,
            epoch: epoch(&text, &format!("{at}.epoch"))?,
        };
        Ok(GatewayAccount { gateway, key })
    };
    recall.accounts.into_iter().enumerate().map(account).collect()
}

impl From<&BudgetKey> for v1::BudgetKey {
    fn from(BudgetKey { policy, budget, subject }: &BudgetKey) -> Self {
        Self {
            policy: policy.to_string(),
            budget: budget.to_string(),
            subject: subject.to_string(),
        }
    }
}

/// Reads the identity of a budget at a path.
pub fn budget_key(
    key: Option<v1::BudgetKey>,
    path: &str,
) -> Result<BudgetKey, InvalidLedgerMessage> {
    let key = key.ok_or_else(|| LedgerProblem::Missing.at(path))?;
    let v1::BudgetKey { policy, budget, subject } = key;
    Ok(BudgetKey {
        policy: required_text(policy, NAME_BYTES, &format!("{path}.policy"))?.into(),
        budget: required_text(budget, NAME_BYTES, &format!("{path}.budget"))?.into(),
        subject: required_text(subject, MAX_SUBJECT_BYTES, &format!("{path}.subject"))?.into(),
    })
}

/// Reads an epoch at a path.
pub fn epoch(text: &str, path: &str) -> Result<Epoch, InvalidLedgerMessage> {
    let problem = |invalid| LedgerProblem::Epoch(invalid).at(path);
    if text.is_empty() {
        Err(LedgerProblem::Missing.at(path))
    } else {
        text.parse().map_err(problem)
    }
}

fn epochs(texts: &[String], path: &str) -> Result<Vec<Epoch>, InvalidLedgerMessage> {
    check_count(texts.len(), path)?;
    let read = |(index, text): (usize, &String)| epoch(text, &format!("{path}[{index}]"));
    texts.iter().enumerate().map(read).collect()
}

pub(super) fn check_count(count: usize, path: &str) -> Result<(), InvalidLedgerMessage> {
    if count > MAX_REPORTED {
        return Err(LedgerProblem::TooMany { count, limit: MAX_REPORTED }.at(path));
    }
    Ok(())
}

pub(super) fn required_text(
    text: String,
    limit: usize,
    path: &str,
) -> Result<String, InvalidLedgerMessage> {
    if text.is_empty() { Err(LedgerProblem::Missing.at(path)) } else { line(text, limit, path) }
}

/// Accepts one line. A database cannot store every control character.
fn line(text: String, limit: usize, path: &str) -> Result<String, InvalidLedgerMessage> {
    let bytes = text.len();
    if bytes > limit {
        return Err(LedgerProblem::TooLong { bytes, limit }.at(path));
    }
    match text.chars().find(|c| c.is_control()) {
        Some(unfit) => Err(LedgerProblem::Control(unfit).at(path)),
        None => Ok(text),
    }
}

/// Reads the window of an account. Empty: `None`.
fn read_window(text: String, account: &str) -> Result<Option<WindowId>, InvalidLedgerMessage> {
    let text = line(text, WINDOW_BYTES, &format!("{account}.window"))?;
    Ok(Some(text).filter(|text| !text.is_empty()).map(WindowId::new))
}

fn window_text(window: Option<&WindowId>) -> String {
    window.map(WindowId::to_string).unwrap_or_default()
}

fn write_account_report(report: &AccountReport) -> v1::AccountReport {
    let AccountReport { budget, window, epoch, totals, is_final, want } = report;
    let Totals { granted, returned, settled, forced } = totals;
    v1::AccountReport {
        budget: Some(budget.into()),
        window: window_text(window.as_ref()),
        epoch: epoch.to_string(),
        granted_micros: granted.as_micros(),
        returned_micros: returned.as_micros(),
        settled_micros: settled.as_micros(),
        forced_micros: forced.as_micros(),
        is_final: *is_final,
        want: want.map(|Want { minimum, granted }| v1::GrantRequest {
            minimum_micros: minimum.map(Amount::as_micros),
            granted_micros: granted.as_micros(),
        }),
    }
}

fn read_account_report(
    report: v1::AccountReport,
    at: &str,
) -> Result<AccountReport, InvalidLedgerMessage> {
    Ok(AccountReport {
        budget: budget_key(report.budget, &format!("{at}.budget"))?,
        window: read_window(report.window, at)?,
        epoch: epoch(&report.epoch, &format!("{at}.epoch"))?,
        totals: Totals {
            granted: Amount::from_micros(report.granted_micros),
            returned: Amount::from_micros(report.returned_micros),
            settled: Amount::from_micros(report.settled_micros),
            forced: Amount::from_micros(report.forced_micros),
        },
        is_final: report.is_final,
        want: report.want.map(|want| Want {
            minimum: want.minimum_micros.map(Amount::from_micros),
            granted: Amount::from_micros(want.granted_micros),
        }),
    })
}

fn write_account_answer(answer: &AccountAnswer) -> v1::AccountAnswer {
    use v1::account_answer::Outcome;
    let AccountAnswer { budget, window, epoch, result } = answer;
    let outcome = match result {
        Ok(state) => Outcome::State(write_state(state)),
        Err(rejection) => Outcome::Rejection(write_rejection(rejection).into()),
    };
    v1::AccountAnswer {
        budget: Some(budget.into()),
        window: window_text(window.as_ref()),
        epoch: epoch.to_string(),
        outcome: Some(outcome),
    }
}

fn read_account_answer(
    answer: v1::AccountAnswer,
    at: &str,
) -> Result<AccountAnswer, InvalidLedgerMessage> {
    use v1::account_answer::Outcome;
    let v1::AccountAnswer { budget, window, epoch: text, outcome } = answer;
    let result = match outcome.ok_or_else(|| LedgerProblem::Missing.at(format!("{at}.outcome")))? {
        Outcome::State(state) => Ok(read_state(state, &format!("{at}.state"))?),
        Outcome::Rejection(number) => Err(read_rejection(number)
            .ok_or_else(|| LedgerProblem::UnknownValue(number).at(format!("{at}.rejection")))?),
    };
    Ok(AccountAnswer {
        budget: budget_key(budget, &format!("{at}.budget"))?,
        window: read_window(window, at)?,
        epoch: epoch(&text, &format!("{at}.epoch"))?,
        result,
    })
}

fn write_state(AccountState { window, grant, budget }: &AccountState) -> v1::AccountState {
    let Grant { granted, is_closed, recall, refusal } = *grant;
    let BudgetState { limit, settled, exposed, in_doubt, active_gateways } = *budget;
    v1::AccountState {
        window: Some(v1::WindowSpan {
            id: window.id.to_string(),
            starts_in: Some(duration(window.starts_in)),
            ends_in: window.ends_in.map(duration),
            next: window_text(window.next.as_ref()),
        }),
        granted_micros: granted.as_micros(),
        is_closed,
        is_recalled: recall,
        refusal: refusal.map_or(v1::GrantRefusal::Unspecified, Into::into).into(),
        budget: Some(v1::BudgetState {
            limit_micros: limit.as_micros(),
            settled_micros: settled.as_micros(),
            exposed_micros: exposed.as_micros(),
            in_doubt_micros: in_doubt.as_micros(),
            active_gateway_count: active_gateways,
        }),
    }
}

fn read_state(state: v1::AccountState, at: &str) -> Result<AccountState, InvalidLedgerMessage> {
    let missing = |field: &str| LedgerProblem::Missing.at(format!("{at}.{field}"));
    let window = state.window.ok_or_else(|| missing("window"))?;
    let v1::WindowSpan { id, starts_in, ends_in, next } = window;
    let id = required_text(id, WINDOW_BYTES, &format!("{at}.window.id"))?;
    let next = line(next, WINDOW_BYTES, &format!("{at}.window.next"))?;
    let budget = state.budget.ok_or_else(|| missing("budget"))?;
    Ok(AccountState {
        window: WindowSpan {
            id: WindowId::new(id),
            starts_in: starts_in.map(read_duration).unwrap_or_default(),
            ends_in: ends_in.map(read_duration),
            next: Some(next).filter(|next| !next.is_empty()).map(WindowId::new),
        },
        grant: Grant {
            granted: Amount::from_micros(state.granted_micros),
            is_closed: state.is_closed,
            recall: state.is_recalled,
            refusal: read_refusal(state.refusal, at)?,
        },
        budget: BudgetState {
            limit: Amount::from_micros(budget.limit_micros),
            settled: Amount::from_micros(budget.settled_micros),
            exposed: Amount::from_micros(budget.exposed_micros),
            in_doubt: Amount::from_micros(budget.in_doubt_micros),
            active_gateways: budget.active_gateway_count,
        },
    })
}

impl From<Refusal> for v1::GrantRefusal {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Exhausted => Self::Exhausted,
            Refusal::Recalling => Self::Recalling,
            Refusal::Recovering => Self::Recovering,
            Refusal::OutsideWindow => Self::OutsideWindow,
            Refusal::Closed => Self::Closed,
        }
    }
}

fn read_refusal(number: i32, at: &str) -> Result<Option<Refusal>, InvalidLedgerMessage> {
    use v1::GrantRefusal as Wire;
    let unknown = |_| LedgerProblem::UnknownValue(number).at(format!("{at}.refusal"));
    Ok(match Wire::try_from(number).map_err(unknown)? {
        Wire::Unspecified => None,
        Wire::Exhausted => Some(Refusal::Exhausted),
        Wire::Recalling => Some(Refusal::Recalling),
        Wire::Recovering => Some(Refusal::Recovering),
        Wire::OutsideWindow => Some(Refusal::OutsideWindow),
        Wire::Closed => Some(Refusal::Closed),
    })
}

fn write_rejection(rejection: &Rejection) -> v1::AccountRejection {
    use v1::AccountRejection as Wire;
    match rejection {
        Rejection::UnknownBudget => Wire::UnknownBudget,
        Rejection::UnknownWindow => Wire::UnknownWindow,
        Rejection::Invalid(ReportError::Negative) => Wire::Negative,
        Rejection::Invalid(ReportError::ReturnedTooMuch) => Wire::ReturnedTooMuch,
        Rejection::Invalid(ReportError::Want) => Wire::MinimumAboveWanted,
        Rejection::Invalid(ReportError::OutOfRange) => Wire::AmountOutOfRange,
    }
}

/// Reads the reason of a rejection. `None`: this version does not know it.
fn read_rejection(number: i32) -> Option<Rejection> {
    use v1::AccountRejection as Wire;
    Some(match Wire::try_from(number).ok()? {
        Wire::Unspecified => return None,
        Wire::UnknownBudget => Rejection::UnknownBudget,
        Wire::UnknownWindow => Rejection::UnknownWindow,
        Wire::Negative => ReportError::Negative.into(),
        Wire::ReturnedTooMuch => ReportError::ReturnedTooMuch.into(),
        Wire::MinimumAboveWanted => ReportError::Want.into(),
        Wire::AmountOutOfRange => ReportError::OutOfRange.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> BudgetKey {
        BudgetKey { policy: "p".into(), budget: "daily".into(), subject: "(unknown)".into() }
    }

    fn owner() -> ProcessOwner {
        ProcessOwner { gateway: "gw".to_owned(), proof: vec![8; 32] }
    }

    fn report() -> Report {
        let totals = Totals {
            granted: Amount::MAX,
            returned: Amount::from_micros(-1),
            settled: Amount::ZERO,
            forced: Amount::from_micros(3),
        };
        let account = AccountReport {
            budget: key(),
            window: None,
            epoch: Epoch::new(7),
            totals,
            is_final: true,
            want: Some(Want { minimum: Some(Amount::ZERO), granted: Amount::MIN }),
        };
        let prefetch = AccountReport {
            window: Some(WindowId::new("2026-11")),
            want: Some(Want { minimum: None, granted: Amount::MAX }),
            ..account.clone()
        };
        Report {
            process: Epoch::new(u128::MAX),
            owner: Some(owner()),
            generation: u64::MAX,
            generation_proof: vec![7; 32],
            complete: vec![Epoch::new(1)],
            ended: vec![Epoch::new(2), Epoch::new(3)],
            accounts: vec![account, prefetch],
        }
    }

    #[test]
    fn report_round_trips() {
        assert_eq!(read_report(write_report("", &report())), Ok(report()));
    }

    #[test]
    fn answer_round_trips() {
        use Refusal::{Closed, Exhausted, OutsideWindow, Recalling, Recovering};
        let state = |refusal: Option<Refusal>| AccountState {
            window: WindowSpan {
                id: WindowId::new("2026-11-26"),
                starts_in: Duration::from_millis(1),
                ends_in: refusal.map(|_| Duration::from_hours(24)),
                next: refusal.map(|_| WindowId::new("2026-11-27")),
            },
            grant: Grant { granted: Amount::MAX, is_closed: true, recall: true, refusal },
            budget: BudgetState {
                limit: Amount::from_micros(1),
                settled: Amount::from_micros(2),
                exposed: Amount::from_micros(3),
                in_doubt: Amount::from_micros(4),
                active_gateways: 5,
            },
        };
        let refusals = [Exhausted, Recalling, Recovering, OutsideWindow, Closed].map(Some);
        let states = refusals.into_iter().chain([None]).map(state).map(Ok);
        let errors = [
            ReportError::Negative,
            ReportError::ReturnedTooMuch,
            ReportError::Want,
            ReportError::OutOfRange,
        ];
        let rejections = errors.into_iter().map(Rejection::Invalid);
        let rejections = rejections.chain([Rejection::UnknownBudget, Rejection::UnknownWindow]);
        let account =
            |result| AccountAnswer { budget: key(), window: None, epoch: Epoch::new(7), result };
        let accounts = states.chain(rejections.map(Err)).map(account).collect();
        let offline_for = Duration::from_hours(1);
        let generation_proof = vec![7; 32];
        let owner = Some(owner());
        let answer = Answer { generation: 9, generation_proof, owner, offline_for, accounts };
        assert_eq!(read_answer(write_answer(&answer)), Ok(answer));
    }

    #[test]
    fn recall_round_trips() {
        let window = WindowId::new("total");
        let account = AccountKey { budget: key(), window, epoch: Epoch::new(7) };
        let accounts = vec![GatewayAccount { gateway: "gw".to_owned(), key: account }];
        assert_eq!(read_recall(write_recall(&accounts)), Ok(accounts));
    }

    /// A change of a report, the path of its defect, and whether the problem is the expected one.
    type Defect = (fn(&mut v1::ReportSpendingRequest), &'static str, fn(&LedgerProblem) -> bool);

    #[test]
    fn invalid_report_names_the_field() {
        let is_missing = |problem: &LedgerProblem| *problem == LedgerProblem::Missing;
        let is_epoch = |problem: &LedgerProblem| matches!(problem, LedgerProblem::Epoch(_));
        let defects: [Defect; 8] = [
            (|report| report.process.clear(), "process", is_missing),
            (|report| report.process.push('0'), "process", is_epoch),
            (|report| report.ended_processes[1] = "g".repeat(32), "ended_processes[1]", is_epoch),
            (|report| report.accounts[1].budget = None, "accounts[1].budget", is_missing),
            (
                |report| report.accounts[0].budget.as_mut().unwrap().subject.clear(),
                "accounts[0].budget.subject",
                is_missing,
            ),
            (
                |report| report.accounts[0].budget.as_mut().unwrap().subject = "a\0".to_owned(),
                "accounts[0].budget.subject",
                |problem| *problem == LedgerProblem::Control('\0'),
            ),
            (
                |report| report.accounts[0].window = "w".repeat(65),
                "accounts[0].window",
                |problem| *problem == LedgerProblem::TooLong { bytes: 65, limit: 64 },
            ),
            (
                |report| {
                    let account = report.accounts[0].clone();
                    report.accounts = vec![account; 1_001];
                },
                "accounts",
                |problem| *problem == LedgerProblem::TooMany { count: 1_001, limit: 1_000 },
            ),
        ];
        for (spoil, path, is_expected) in defects {
            let mut message = write_report("", &report());
            spoil(&mut message);
            let error = read_report(message).unwrap_err();
            assert!(error.path == path && is_expected(&error.problem), "{error}");
        }
    }

    #[test]
    fn answer_with_unknown_value_is_rejected() {
        let outcome = Some(v1::account_answer::Outcome::Rejection(99));
        let epoch = Epoch::new(1).to_string();
        let budget = Some((&key()).into());
        let account = v1::AccountAnswer { budget, window: String::new(), epoch, outcome };
        let answer = v1::ReportSpendingResponse { accounts: vec![account], ..Default::default() };
        let error = read_answer(answer).unwrap_err();
        assert_eq!(error.path, "accounts[0].rejection");
        assert_eq!(error.problem, LedgerProblem::UnknownValue(99));
    }
}
