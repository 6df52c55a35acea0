//! Generated histories of a record, compared with a simple model.

use super::records::{deliverable, edit, markdown, new, principal, store};
use proptest::prelude::*;
use std::collections::BTreeSet;
use weftwork_platform::records::{
    Merge, Record, RecordCache, RecordError, Records, merge_contents,
};
use weftwork_types::Timestamp;

/// An action. Versions are chosen among all that were ever added.
#[derive(Debug, Clone)]
enum Step {
    Edit { base: Option<usize>, line: usize, word: char },
    SetCurrent(usize),
    Copy(usize),
    Delete(usize),
    Merge { a: usize, b: usize, resolved: bool },
}

/// A version of the model.
#[derive(Debug, Clone)]
struct Made {
    text: String,
    from: Vec<usize>,
    is_deleted: bool,
}

#[derive(Debug, Default)]
struct Model {
    versions: Vec<Made>,
    current: usize,
}

/// The result of a step.
#[derive(Debug, PartialEq)]
enum Outcome {
    Done,
    Missing,
    Changed,
    Last,
    Conflicts,
    NotMergeable,
}

impl Model {
    fn add(&mut self, text: String, from: Vec<usize>) -> Outcome {
        self.versions.push(Made { text, from, is_deleted: false });
        self.current = self.versions.len();
        Outcome::Done
    }

    fn left(&self) -> Vec<usize> {
        let numbers = 1..=self.versions.len();
        numbers.filter(|number| !self.versions[number - 1].is_deleted).collect()
    }

    /// Returns a version and all that it comes from.
    fn history(&self, number: usize) -> BTreeSet<usize> {
        let from = &self.versions[number - 1].from;
        let mut found: BTreeSet<_> = from.iter().flat_map(|from| self.history(*from)).collect();
        found.insert(number);
        found
    }

    fn apply(&mut self, step: &Step) -> Outcome {
        let left = self.left();
        let has = |number: usize| left.contains(&number);
        match *step {
            Step::Edit { base, line, word } => {
                let base = base.map_or(self.current, |base| self.pick(base));
                if base != self.current {
                    return Outcome::Changed;
                }
                let text = edited(&self.versions[base - 1].text, line, word);
                self.add(text, vec![base])
            }
            Step::SetCurrent(number) => {
                let number = self.pick(number);
                if !has(number) {
                    return Outcome::Missing;
                }
                self.current = number;
                Outcome::Done
            }
            Step::Copy(number) => {
                let number = self.pick(number);
                if !has(number) {
                    return Outcome::Missing;
                }
                let text = self.versions[number - 1].text.clone();
                self.add(text, vec![number])
            }
            Step::Delete(number) => {
                let number = self.pick(number);
                if !has(number) {
                    return Outcome::Missing;
                }
                if left.len() == 1 {
                    return Outcome::Last;
                }
                self.versions[number - 1].is_deleted = true;
                if self.current == number {
                    self.current = self.left().pop().expect("one is left");
                }
                Outcome::Done
            }
            Step::Merge { a, b, resolved } => {
                let a = self.pick(a);
                let b = self.pick(b);
                if !has(a) || !has(b) {
                    return Outcome::Missing;
                }
                if a == b {
                    return Outcome::NotMergeable;
                }
                let common = &self.history(a) & &self.history(b);
                let base = common.into_iter().rev().find(|number| has(*number));
                let text = |number: usize| self.versions[number - 1].text.as_str();
                let format = markdown().format();
                let text = match resolved {
                    true => RESOLVED.to_owned(),
                    false => match merge_contents(format, base.map(text), text(a), text(b)) {
                        Ok(text) => text,
                        Err(_) => return Outcome::Conflicts,
                    },
                };
                self.add(text, vec![a, b])
            }
        }
    }

    fn pick(&self, number: usize) -> usize {
        number % self.versions.len() + 1
    }
}

const RESOLVED: &str = "resolved\n";

fn edited(text: &str, line: usize, word: char) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let place = line % (lines.len() + 1);
    match lines.get_mut(place) {
        Some(line) => *line = word.to_string(),
        None => lines.push(word.to_string()),
    }
    lines.join("\n") + "\n"
}

fn step() -> impl Strategy<Value = Step> {
    let version = 0..40_usize;
    prop_oneof![
        4 => (proptest::option::weighted(0.5, version.clone()), 0..8_usize, prop::char::range('a', 'e'))
            .prop_map(|(base, line, word)| Step::Edit { base, line, word }),
        2 => version.clone().prop_map(Step::SetCurrent),
        1 => version.clone().prop_map(Step::Copy),
        2 => version.clone().prop_map(Step::Delete),
        2 => (version.clone(), version, any::<bool>())
            .prop_map(|(a, b, resolved)| Step::Merge { a, b, resolved }),
    ]
}

async fn act(records: &Records<'_>, model: &Model, step: &Step) -> Result<Record, RecordError> {
    let at = deliverable("d");
    let number = |number: usize| model.pick(number) as u64;
    match *step {
        Step::Edit { base, line, word } => {
            let text = edited(&model.versions[model.current - 1].text, line, word);
            records.edit(&at, &edit(base.map(number), &text), &markdown()).await
        }
        Step::SetCurrent(version) => records.set_current(&at, number(version)).await,
        Step::Copy(version) => records.copy_version(&at, number(version)).await,
        Step::Delete(version) => records.delete_version(&at, number(version)).await,
        Step::Merge { a, b, resolved } => {
            let resolution = resolved.then(|| RESOLVED.to_owned());
            let merge = Merge { a: number(a), b: number(b), resolution };
            records.merge_versions(&at, &merge, &markdown()).await
        }
    }
}

fn outcome(found: &Result<Record, RecordError>) -> Outcome {
    match found {
        Ok(_) => Outcome::Done,
        Err(RecordError::Store(_)) => Outcome::Missing,
        Err(RecordError::Changed(_)) => Outcome::Changed,
        Err(RecordError::LastVersion { .. }) => Outcome::Last,
        Err(RecordError::Conflicts(_)) => Outcome::Conflicts,
        Err(RecordError::NotMergeable { .. }) => Outcome::NotMergeable,
        Err(error) => panic!("{error}"),
    }
}

async fn play(steps: Vec<Step>) {
    let store = store().await;
    let ada = principal("ada");
    // Another process changes the record, too, and this one remembers what it read.
    let cache = RecordCache::default();
    let others = Records::new(&*store, &ada, Timestamp(5));
    let records = others.cached(&cache);
    let at = deliverable("d");
    let text = "1\n2\n3\n4\n5\n";
    records.create(&at, &new(text), &markdown()).await.expect("creates");
    let mut model = Model::default();
    model.add(text.to_owned(), Vec::new());
    for (place, step) in steps.iter().enumerate() {
        let actor = if place % 3 == 0 { &others } else { &records };
        let found = act(actor, &model, step).await;
        assert_eq!(outcome(&found), model.apply(step), "{step:?} of {steps:?}");
        let record = records.read(&at).await.expect("reads");
        if let Ok(found) = found {
            assert_eq!(found, record);
        }
        assert_eq!(others.read(&at).await.expect("reads"), record, "{steps:?}");
        let numbers: Vec<_> =
            record.versions.iter().map(|version| version.number as usize).collect();
        assert_eq!((numbers, record.current as usize), (model.left(), model.current), "{steps:?}");
        for version in &record.versions {
            let made = &model.versions[version.number as usize - 1];
            let content = records.content(&record, Some(version.number)).await.expect("reads");
            assert_eq!(content.content, made.text, "{steps:?}");
            let from = version.parent.iter().chain(&version.merge_of).map(|from| *from as usize);
            assert_eq!(from.collect::<Vec<_>>(), made.from, "{steps:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn histories_are_as_the_model_has_them(steps in proptest::collection::vec(step(), 1..25)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(play(steps));
    }
}
