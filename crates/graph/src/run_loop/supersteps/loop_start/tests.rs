//! The start of a loop for each combination of facts.

use super::*;

/// A row has alternatives for each fact, divided by spaces; `*` stands for all of them. The first
/// rows are for the outermost loop, those after for nested ones.
///
/// Request, checkpoint, stored start, unanswered questions, start.
const TABLE: &[[&str; 5]] = &[
    // New input.
    ["input", "empty newest", "*", "*", "fresh results newest"],
    ["input", "addressed superseded", "*", "*", "fresh calls replayed"],
    // Nothing, or a command, on a thread on which nothing ran.
    ["nothing command", "empty newest", "nothing", "*", "fresh results newest"],
    ["nothing command", "addressed superseded", "nothing", "*", "fresh calls replayed"],
    // The same on a thread with a state.
    ["nothing command", "empty newest", "superstep branch asked", "*", "continue results"],
    ["nothing command", "addressed", "superstep", "*", "fork"],
    ["nothing command", "addressed", "branch", "*", "replay"],
    ["nothing command", "addressed", "asked", "wait", "fork"],
    ["nothing command", "addressed", "asked", "rerun", "replay"],
    ["nothing command", "superseded", "superstep branch asked", "*", "fork"],
    // Answers.
    ["answers", "empty newest addressed", "nothing", "*", "fresh results newest"],
    ["answers", "superseded", "nothing", "wait", "fresh calls replayed"],
    ["answers", "superseded", "nothing", "rerun", "fresh answers newest"],
    ["answers", "empty newest addressed", "superstep branch asked", "*", "resume results"],
    ["answers", "superseded", "superstep branch asked", "wait", "fork"],
    ["answers", "superseded", "superstep branch asked", "rerun", "resume answers"],
    // Nested loops that take their input: the run starts, or the superstep is not its first one.
    ["n:starts:* n:passed:input", "empty newest", "*", "*", "fresh results newest"],
    ["n:starts:* n:passed:input", "addressed superseded replay", "*", "*", "fresh calls replayed"],
    // Nested loops without input, in such a superstep.
    ["n:passed:none", "empty newest", "nothing", "*", "fresh results newest"],
    ["n:passed:none", "addressed superseded replay", "nothing", "*", "fresh calls replayed"],
    ["n:passed:none", "empty newest", "superstep branch asked", "*", "continue results"],
    ["n:passed:none", "addressed replay", "superstep", "*", "fork"],
    ["n:passed:none", "addressed replay", "branch", "*", "replay"],
    ["n:passed:none", "addressed replay", "asked", "wait", "fork"],
    ["n:passed:none", "addressed replay", "asked", "rerun", "replay"],
    ["n:passed:none", "superseded", "superstep branch asked", "*", "fork"],
    // Nested loops of a task that resumes.
    ["n:resumes:*", "empty newest replay", "nothing", "*", "fresh results newest"],
    ["n:resumes:*", "empty newest replay", "superstep branch asked", "*", "continue results"],
    ["n:resumes:*:named", "addressed superseded", "nothing", "*", "fresh calls replayed"],
    ["n:resumes:*:named", "addressed", "superstep", "*", "fork"],
    ["n:resumes:*:named", "addressed", "branch", "*", "replay"],
    ["n:resumes:*:named", "addressed", "asked", "wait", "fork"],
    ["n:resumes:*:named", "addressed", "asked", "rerun", "replay"],
    ["n:resumes:*:named", "superseded", "superstep branch asked", "*", "fork"],
    // A run that answers at the newest checkpoints continues as if it named none.
    ["n:resumes:*:answers", "addressed", "nothing", "*", "fresh results newest"],
    ["n:resumes:*:answers", "superseded", "nothing", "wait", "fresh calls newest"],
    ["n:resumes:*:answers", "superseded", "nothing", "rerun", "fresh answers newest"],
    ["n:resumes:*:answers", "addressed", "superstep branch asked", "*", "continue results"],
    ["n:resumes:*:answers", "superseded", "superstep branch asked", "wait", "continue calls"],
    ["n:resumes:*:answers", "superseded", "superstep branch asked", "rerun", "continue answers"],
];

/// Returns `true` if a cell has an alternative for a fact. The parts of both are divided by colons;
/// an alternative with fewer parts leaves the others open.
fn holds(cell: &str, fact: &str) -> bool {
    cell.split(' ').any(|alternative| {
        let mut parts = alternative.split(':').zip(fact.split(':'));
        parts.all(|(expected, part)| expected == "*" || expected == part)
    })
}

fn requests() -> Vec<(String, LoopRequest)> {
    let outermost = [
        ("input", Request::Input),
        ("nothing", Request::Nothing),
        ("command", Request::Command),
        ("answers", Request::Answers),
    ];
    let mut requests: Vec<_> =
        outermost.map(|(name, request)| (name.to_owned(), LoopRequest::Outermost(request))).into();
    let entries = [
        ("passed", RunEntry::Passed),
        ("starts", RunEntry::Starts),
        ("resumes", RunEntry::Resumes),
    ];
    for (entry_name, entry) in entries {
        for (input, has_input) in [("input", true), ("none", false)] {
            for (address, answers_newest) in [("named", false), ("answers", true)] {
                let request = LoopRequest::Nested { has_input, entry, answers_newest };
                requests.push((format!("n:{entry_name}:{input}:{address}"), request));
            }
        }
    }
    requests
}

fn show(start: LoopStart) -> String {
    let show = |records: RecordUse| format!("{records:?}").to_lowercase();
    match start {
        LoopStart::Fresh { records, subgraphs } => {
            format!("fresh {} {}", show(records), format!("{subgraphs:?}").to_lowercase())
        }
        LoopStart::Resume { records } => format!("resume {}", show(records)),
        LoopStart::Continue { records } => format!("continue {}", show(records)),
        LoopStart::Replay => "replay".to_owned(),
        LoopStart::Fork => "fork".to_owned(),
    }
}

#[test]
fn each_combination_of_facts_has_one_row_and_its_start() {
    let points = [
        ("empty", StartPoint::Empty),
        ("newest", StartPoint::Newest),
        ("addressed", StartPoint::Addressed),
        ("superseded", StartPoint::Superseded),
        ("replay", StartPoint::Replay),
    ];
    let stores = [
        ("nothing", StoredStart::Nothing),
        ("superstep", StoredStart::Superstep),
        ("branch", StoredStart::Branch { is_repeatable: true }),
        ("asked", StoredStart::Branch { is_repeatable: false }),
    ];
    let unanswered = [("wait", true), ("rerun", false)];
    let mut used = vec![0; TABLE.len()];
    for (request_name, request) in requests() {
        for (point_name, point) in points {
            // Only loops within a replayed one start from the checkpoint they had at that time.
            if point == StartPoint::Replay && matches!(request, LoopRequest::Outermost(_)) {
                continue;
            }
            for (stored_name, stored) in stores {
                for (unanswered_name, waits) in unanswered {
                    let facts = StartFacts { request, point, stored, waits };
                    let names = [&*request_name, point_name, stored_name, unanswered_name];
                    let is_of = |row: &[&str; 5]| {
                        names.iter().zip(row).all(|(fact, cell)| holds(cell, fact))
                    };
                    let rows: Vec<usize> =
                        (0..TABLE.len()).filter(|row| is_of(&TABLE[*row])).collect();
                    let [row] = rows[..] else { panic!("{names:?} is in rows {rows:?}") };
                    used[row] += 1;
                    assert_eq!(show(LoopStart::decide(&facts)), TABLE[row][4], "{names:?}");
                }
            }
        }
    }
    let unused: Vec<_> = (0..TABLE.len()).filter(|row| used[*row] == 0).collect();
    assert!(unused.is_empty(), "no combination is in rows {unused:?}");
    // The outermost loop has 4 requests and 4 checkpoints, nested loops 12 and 5.
    assert_eq!(used.iter().sum::<usize>(), (4 * 4 + 12 * 5) * 4 * 2);
}
