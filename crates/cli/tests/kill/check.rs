//! Invariants of a story that was killed again and again, as a function of the observed facts.

use std::collections::{BTreeMap, BTreeSet};

/// The whole story: a question and a refund, each with a tool call, its result and an answer.
const CONVERSATION: [&str; 8] =
    ["user", "assistant", "tool", "assistant", "user", "assistant", "tool", "assistant"];

/// Observations of a story from outside: in the store, at the provider, in the desk's database.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The thread's runs, oldest first.
    pub(crate) runs: Vec<Run>,
    /// Number of refunds of the order.
    pub(crate) refunds: u64,
    /// Number of decisions about calls on record.
    pub(crate) decisions: usize,
    /// The roles of the messages in the thread's state, in order.
    pub(crate) roles: Vec<String>,
    /// The journal.
    pub(crate) calls: Vec<Call>,
    /// Requests that reached the provider, in order of arrival.
    pub(crate) requests: Vec<Request>,
    /// The ledger: one fact per attempt that ended, in its order.
    pub(crate) bills: Vec<Bill>,
    /// The kills, in order.
    pub(crate) kills: Vec<Kill>,
}

/// A run and its events.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) ended: bool,
    /// Sequence numbers in the log's order.
    pub(crate) seqs: Vec<u64>,
    /// The places in the log, from 0, of its `done` events.
    pub(crate) done_at: Vec<usize>,
}

/// A call on record.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) key: String,
    pub(crate) kind: Kind,
    /// `true` if it has no effect: then it is recorded together with its result.
    pub(crate) reads: bool,
    pub(crate) settled: bool,
    pub(crate) made: u32,
    pub(crate) possibly_paid: u32,
    /// The request whose answer is on record, by the number the provider gave it.
    pub(crate) answer_of: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Model,
    Tool,
}

/// A request at the provider.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The provider's count.
    pub(crate) number: u64,
    /// Hash of its messages without ids.
    pub(crate) prompt: String,
}

/// An attempt in the ledger.
#[derive(Debug, Clone)]
pub(crate) struct Bill {
    /// Our own hash of the prompt.
    pub(crate) prompt: String,
    /// `true` if a whole answer arrived.
    pub(crate) answered: bool,
}

/// A kill, and what the journal held after it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kill {
    /// `true` if the process still ran.
    pub(crate) landed: bool,
    /// The calls without a result, by key, and how often each was possibly paid before.
    pub(crate) open: BTreeMap<String, u32>,
    /// The calls with a result, by key, and how often each had been made.
    pub(crate) settled: BTreeMap<String, u32>,
}

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Violation {
    /// A run has no end.
    RunOpen { run: String },
    /// The events of a run do not count from 1 without gaps.
    EventsNotGapless { run: String, seqs: Vec<u64> },
    /// A run that ended has not exactly one `done`, or not as its last event.
    NotOneDone { run: String, done_at: Vec<usize> },
    /// The refund was not applied exactly once.
    Refunds { found: u64 },
    /// The approval is not on record exactly once.
    Decisions { found: usize },
    /// The conversation is not the one that was had.
    Conversation { roles: Vec<String> },
    /// A call was made again although its answer was on record.
    Repeated(Repeat),
    /// The provider was asked more often than the journal says, with what was possibly paid.
    AskedMoreThanTold { prompt: String, asked: u64, reported: u64 },
    /// The provider was asked something that the journal does not know.
    Unrecorded { request: u64 },
    /// A call has no result although every run ended.
    NeverSettled { key: String },
    /// A call was begun more often than kills within it explain.
    MadeWithoutKill { key: String, made: u32, possibly_paid: u32, kills_within: usize },
}

/// A call that was made again although its answer was on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// The provider got the prompt again after the request whose answer is in the journal.
    AfterAnswer { recorded: u64, again: u64 },
    /// The ledger has more than one whole answer to one prompt.
    BilledAgain { prompt: String, times: usize },
    /// The journal had its result at a kill, and counted one more beginning later.
    AfterSettled { key: String, then: u32, later: u32 },
}

/// Findings of a check.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    /// Number of calls made once more because a process died inside them.
    pub(crate) possibly_paid: u32,
}

impl Findings {
    /// Returns the number of calls that were made again although their answers were on record.
    pub(crate) fn repeats(&self) -> usize {
        self.violations.iter().filter(|one| matches!(one, Violation::Repeated(_))).count()
    }
}

/// Checks a story that has come to its end.
pub(crate) fn check(facts: &Facts) -> Findings {
    let mut violations = Vec::new();
    for run in &facts.runs {
        check_run(run, &mut violations);
    }
    if facts.refunds != 1 {
        violations.push(Violation::Refunds { found: facts.refunds });
    }
    if facts.decisions != 1 {
        violations.push(Violation::Decisions { found: facts.decisions });
    }
    if facts.roles != CONVERSATION {
        violations.push(Violation::Conversation { roles: facts.roles.clone() });
    }
    check_requests(facts, &mut violations);
    check_bills(&facts.bills, &mut violations);
    for call in &facts.calls {
        check_call(call, &facts.kills, &mut violations);
    }
    let possibly_paid = facts.calls.iter().map(|call| call.possibly_paid).sum();
    Findings { violations, possibly_paid }
}

fn check_run(run: &Run, violations: &mut Vec<Violation>) {
    let id = || run.id.clone();
    if !run.ended {
        violations.push(Violation::RunOpen { run: id() });
    }
    if !run.seqs.iter().copied().eq(1..=run.seqs.len() as u64) {
        violations.push(Violation::EventsNotGapless { run: id(), seqs: run.seqs.clone() });
    }
    let last = run.seqs.len().checked_sub(1);
    if run.ended && (run.done_at.len() != 1 || run.done_at.last().copied() != last) {
        violations.push(Violation::NotOneDone { run: id(), done_at: run.done_at.clone() });
    }
}

/// Each prompt belongs to one call of the journal, through the request whose answer is recorded.
fn check_requests(facts: &Facts, violations: &mut Vec<Violation>) {
    let prompt_of: BTreeMap<u64, &str> =
        facts.requests.iter().map(|one| (one.number, one.prompt.as_str())).collect();
    let mut told: BTreeMap<&str, u64> = BTreeMap::new();
    let mut answered: BTreeMap<&str, u64> = BTreeMap::new();
    for call in facts.calls.iter().filter(|call| call.kind == Kind::Model) {
        let Some((number, prompt)) =
            call.answer_of.and_then(|number| Some((number, *prompt_of.get(&number)?)))
        else {
            continue;
        };
        *told.entry(prompt).or_default() += u64::from(call.made) + u64::from(call.possibly_paid);
        answered.insert(prompt, number);
    }
    let mut asked: BTreeMap<&str, u64> = BTreeMap::new();
    for request in &facts.requests {
        *asked.entry(&request.prompt).or_default() += 1;
        match answered.get(request.prompt.as_str()) {
            None => violations.push(Violation::Unrecorded { request: request.number }),
            Some(&recorded) if request.number > recorded => {
                let again = request.number;
                violations.push(Violation::Repeated(Repeat::AfterAnswer { recorded, again }));
            }
            Some(_) => {}
        }
    }
    for (prompt, told) in told {
        let asked = asked.get(prompt).copied().unwrap_or_default();
        if asked > told {
            let prompt = prompt.to_owned();
            violations.push(Violation::AskedMoreThanTold { prompt, asked, reported: told });
        }
    }
}

/// An answer is in the journal before it is in the ledger, so the ledger tells of repeated calls
/// even where there is no journal.
fn check_bills(bills: &[Bill], violations: &mut Vec<Violation>) {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for bill in bills.iter().filter(|bill| bill.answered) {
        *times.entry(&bill.prompt).or_default() += 1;
    }
    for (prompt, times) in times.into_iter().filter(|(_, times)| *times > 1) {
        let prompt = prompt.to_owned();
        violations.push(Violation::Repeated(Repeat::BilledAgain { prompt, times }));
    }
}

fn check_call(call: &Call, kills: &[Kill], violations: &mut Vec<Violation>) {
    let key = || call.key.clone();
    if !call.settled {
        violations.push(Violation::NeverSettled { key: key() });
    }
    let made = call.made;
    let possibly_paid = call.possibly_paid;
    let landed = || kills.iter().filter(|kill| kill.landed);
    let kills_within = if call.reads {
        // Nothing says of a call without a result whether the process had come to it.
        landed().filter(|kill| !kill.settled.contains_key(&call.key)).count()
    } else {
        // A process that died before it came to the call left the count as it found it: kills count
        // once for each time the call was begun.
        let within: BTreeSet<_> = landed().filter_map(|kill| kill.open.get(&call.key)).collect();
        within.len()
    };
    if made == 0 || made - 1 > possibly_paid || possibly_paid as usize > kills_within {
        let one = Violation::MadeWithoutKill { key: key(), made, possibly_paid, kills_within };
        violations.push(one);
    }
    let first = kills.iter().find_map(|kill| kill.settled.get(&call.key));
    if let Some(&then) = first.filter(|then| **then != made) {
        let repeat = Repeat::AfterSettled { key: key(), then, later: made };
        violations.push(Violation::Repeated(repeat));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sound story: the process died once within the first call, once right after its answer
    /// was recorded, and once in the tool.
    fn sound() -> Facts {
        let model = |key: &str, possibly_paid: u32, number| Call {
            key: key.to_owned(),
            kind: Kind::Model,
            reads: true,
            settled: true,
            made: 1,
            possibly_paid,
            answer_of: Some(number),
        };
        let tool = Call { kind: Kind::Tool, reads: false, answer_of: None, ..model("t", 1, 0) };
        let request = |number, prompt: &str| Request { number, prompt: prompt.to_owned() };
        let bill = |prompt: &str| Bill { prompt: prompt.to_owned(), answered: true };
        let kill = |open: &[(&str, u32)], settled: &[(&str, u32)]| {
            let map = |pairs: &[(&str, u32)]| {
                pairs.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect()
            };
            Kill { landed: true, open: map(open), settled: map(settled) }
        };
        let run = |id: &str| Run {
            id: id.to_owned(),
            ended: true,
            seqs: vec![1, 2, 3],
            done_at: vec![2],
        };
        Facts {
            runs: vec![run("r1"), run("r2")],
            refunds: 1,
            decisions: 1,
            roles: CONVERSATION.map(str::to_owned).to_vec(),
            calls: vec![model("a", 1, 4), tool, model("b", 0, 5)],
            requests: vec![request(3, "A"), request(4, "A"), request(5, "B")],
            bills: vec![bill("pa"), bill("pb")],
            kills: vec![
                kill(&[], &[]),
                kill(&[], &[("a", 1)]),
                kill(&[("t", 0)], &[("a", 1), ("b", 1)]),
            ],
        }
    }

    fn found(change: impl FnOnce(&mut Facts)) -> Vec<Violation> {
        let mut facts = sound();
        change(&mut facts);
        check(&facts).violations
    }

    #[test]
    fn a_sound_story_passes() {
        let findings = check(&sound());
        assert_eq!(findings.violations, []);
        assert_eq!((findings.repeats(), findings.possibly_paid), (0, 2));
    }

    #[test]
    fn runs_must_end_once_with_gapless_events() {
        let run = || "r2".to_owned();
        assert_eq!(
            found(|facts| {
                facts.runs[1].ended = false;
                facts.runs[1].done_at.clear();
            }),
            [Violation::RunOpen { run: run() }]
        );
        for seqs in [vec![1, 3, 4], vec![2, 3, 4], vec![1, 2, 2]] {
            assert_eq!(
                found(|facts| facts.runs[1].seqs = seqs.clone()),
                [Violation::EventsNotGapless { run: run(), seqs }]
            );
        }
        for done_at in [vec![], vec![1], vec![1, 2]] {
            assert_eq!(
                found(|facts| facts.runs[1].done_at = done_at.clone()),
                [Violation::NotOneDone { run: run(), done_at }]
            );
        }
    }

    #[test]
    fn the_refund_is_applied_exactly_once() {
        for times in [0, 2] {
            assert_eq!(found(|facts| facts.refunds = times), [Violation::Refunds { found: times }]);
        }
    }

    #[test]
    fn the_approval_is_on_record_exactly_once() {
        for times in [0, 2] {
            let expected = [Violation::Decisions { found: times }];
            assert_eq!(found(|facts| facts.decisions = times), expected);
        }
    }

    #[test]
    fn nothing_is_missing_from_the_conversation_or_twice_in_it() {
        let roles: Vec<String> = sound().roles.into_iter().skip(1).collect();
        assert_eq!(found(|facts| facts.roles = roles.clone()), [Violation::Conversation { roles }]);
    }

    #[test]
    fn a_prompt_that_was_answered_on_record_is_not_asked_again() {
        let again = Request { number: 6, prompt: "A".to_owned() };
        let violations = found(|facts| facts.requests.push(again));
        let repeat = Violation::Repeated(Repeat::AfterAnswer { recorded: 4, again: 6 });
        let more = Violation::AskedMoreThanTold { prompt: "A".to_owned(), asked: 3, reported: 2 };
        assert_eq!(violations, [repeat, more]);
    }

    #[test]
    fn a_result_that_was_recorded_at_a_kill_is_not_made_again() {
        let violations = found(|facts| facts.calls[0].made = 2);
        let repeat = Repeat::AfterSettled { key: "a".to_owned(), then: 1, later: 2 };
        assert_eq!(violations, [Violation::Repeated(repeat)]);
    }

    #[test]
    fn an_answer_that_was_billed_is_not_bought_again() {
        let bill = Bill { prompt: "pb".to_owned(), answered: true };
        let violations = found(|facts| facts.bills.push(bill.clone()));
        let repeat = Repeat::BilledAgain { prompt: "pb".to_owned(), times: 2 };
        assert_eq!(violations, [Violation::Repeated(repeat)]);
        let failed = Bill { answered: false, ..bill };
        assert_eq!(found(|facts| facts.bills.push(failed)), []);
    }

    #[test]
    fn the_journal_knows_every_request_and_every_call_has_its_result() {
        let stray = Request { number: 7, prompt: "C".to_owned() };
        assert_eq!(
            found(|facts| facts.requests.push(stray)),
            [Violation::Unrecorded { request: 7 }]
        );
        assert_eq!(
            found(|facts| facts.calls[1].settled = false),
            [Violation::NeverSettled { key: "t".to_owned() }]
        );
    }

    #[test]
    fn only_kills_within_a_call_explain_that_it_was_made_again() {
        let without = |key: &str, made, possibly_paid, kills_within| {
            let key = key.to_owned();
            [Violation::MadeWithoutKill { key, made, possibly_paid, kills_within }]
        };
        assert_eq!(found(|facts| facts.kills[2].open.clear()), without("t", 1, 1, 0));
        assert_eq!(found(|facts| facts.kills[0].landed = false), without("a", 1, 1, 0));
        assert_eq!(found(|facts| facts.calls[0].possibly_paid = 2), without("a", 1, 2, 1));
        assert_eq!(found(|facts| facts.calls[1].made = 3), without("t", 3, 1, 1));
        assert_eq!(found(|facts| facts.calls[1].made = 0), without("t", 0, 1, 1));
        // A process that died before it came to the call does not explain a second beginning.
        assert_eq!(
            found(|facts| {
                facts.calls[1].possibly_paid = 2;
                let kill = facts.kills[2].clone();
                facts.kills.push(kill);
            }),
            without("t", 1, 2, 1)
        );
    }

    #[test]
    fn without_a_journal_the_check_says_so() {
        let findings = check(&Facts { calls: Vec::new(), ..sound() });
        assert_eq!(findings.violations.len(), 3);
        assert_eq!(findings.repeats(), 0);
    }
}
