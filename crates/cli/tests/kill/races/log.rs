//! The log of nodes, written outside of the store, and what must not be in it.

use super::racer::Act;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Something that a node did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Begin,
    End,
    /// The effect of an answer.
    Paid,
}

impl What {
    const ALL: [(Self, &str); 3] =
        [(Self::Begin, "begin"), (Self::End, "end"), (Self::Paid, "paid")];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(what, _)| *what == self).map_or("", |(_, name)| name)
    }
}

/// A record of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) what: What,
    pub(super) node: String,
    pub(super) process: u32,
}

/// Time in a node: its end is recorded when it returns and when it is cut off.
#[derive(Debug)]
pub(super) struct Stay<'a> {
    log: &'a NodeLog,
    thread: &'a str,
    node: &'static str,
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.log.add(What::End, self.thread, self.node);
    }
}

/// The log as a process writes it.
#[derive(Debug, Clone)]
pub(super) struct NodeLog(PathBuf);

impl NodeLog {
    pub(super) fn new(file: PathBuf) -> Self {
        Self(file)
    }

    pub(super) fn stay<'a>(&'a self, thread: &'a str, node: &'static str) -> Stay<'a> {
        self.add(What::Begin, thread, node);
        Stay { log: self, thread, node }
    }

    /// Appends a line with one write, which the system does not mix with others.
    pub(super) fn add(&self, what: What, thread: &str, node: &str) {
        let line = format!("{thread} {} {node} {}\n", what.name(), std::process::id());
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0).expect("a log");
        file.write_all(line.as_bytes()).expect("the log can be written");
    }
}

/// The records of a thread, in order.
pub(super) fn read(file: &Path, thread: &str) -> Vec<Record> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let records = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("a word");
        let of = word();
        let what = word();
        let node = word();
        let process = word();
        let (what, _) = What::ALL.into_iter().find(|(_, name)| *name == what).expect("a name");
        let process = process.parse().expect("a number");
        (of == thread).then(|| Record { what, node: node.to_owned(), process })
    });
    records.collect()
}

/// Violations in these records: runs that overlap, and effects without an accepted request.
pub(super) fn faults(records: &[Record], accepted: &[Act]) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<&Record> = None;
    for record in records {
        match (record.what, open) {
            (What::Begin, None) => open = Some(record),
            (What::Begin, Some(other)) => {
                found.push(format!("runs overlap: {record:?} while {other:?}"));
            }
            (What::End, Some(other))
                if (other.process, &other.node) == (record.process, &record.node) =>
            {
                open = None;
            }
            (What::End, _) => found.push(format!("runs overlap: {record:?} ends another one's")),
            (What::Paid, _) => {}
        }
    }
    let count = |what, node| {
        records.iter().filter(|record| record.what == what && record.node == node).count()
    };
    let given = |wanted| accepted.iter().filter(|act| **act == wanted).count();
    for (what, node, act) in [(What::Begin, "work", Act::Start), (What::Paid, "pay", Act::Answer)] {
        let done = count(what, node);
        let allowed = given(act);
        if done > allowed {
            found.push(format!("`{node}` ran {done} times for {allowed} accepted requests"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Act, Record, What, faults};

    fn record(what: What, node: &str, process: u32) -> Record {
        Record { what, node: node.to_owned(), process }
    }

    #[test]
    fn what_must_not_be_is_found() {
        let begin = What::Begin;
        let end = What::End;
        let one = [record(begin, "work", 1), record(end, "work", 1)];
        assert_eq!(faults(&one, &[Act::Start]), [""; 0]);
        let twice = [&one[..], &one[..]].concat();
        assert_eq!(faults(&twice, &[Act::Start]).len(), 1);
        assert_eq!(faults(&twice, &[Act::Start, Act::Start]), [""; 0]);
        let mut overlap = vec![one[0].clone(), record(begin, "work", 2)];
        overlap.extend([one[1].clone(), record(end, "work", 2)]);
        let found = faults(&overlap, &[Act::Start, Act::Start]);
        assert!(found.iter().all(|found| found.contains("overlap")) && found.len() == 2);
        let paid = [record(What::Paid, "pay", 1), record(What::Paid, "pay", 2)];
        assert_eq!(faults(&paid, &[Act::Answer]).len(), 1);
    }
}
