//! Generated orchestrations with effects: the list before a rollback is compared with the lines that tools
//! then have written outside of the runs.

use crate::orchestration_rollback::{Scene, listed};
use std::collections::BTreeMap;

/// Number of generated orchestrations.
fn cases() -> u64 {
    if std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full") { 200 } else { 24 }
}

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Keys of steps and items that write a line each.
#[derive(Default)]
struct Generated {
    steps: Vec<String>,
    ids: Vec<String>,
}

impl Generated {
    fn new(numbers: &mut Numbers) -> Self {
        let mut made = Self::default();
        for _ in 0..1 + numbers.below(4) {
            let group: Vec<String> =
                (0..1 + numbers.below(3)).map(|_| made.step(numbers)).collect();
            made.steps.push(match group.as_slice() {
                [one] => one.clone(),
                several => format!("{{parallel: [{}]}}", several.join(", ")),
            });
        }
        made
    }

    fn step(&mut self, numbers: &mut Numbers) -> String {
        let id = format!("s{}", self.ids.len());
        self.ids.push(id.clone());
        let call = |tool: &str, line: &str| {
            format!(r#"payload: {{tool: stock/{tool}, arguments: {{book: BOOK, line: "{line}"}}}}"#)
        };
        let undo = call("write", &format!("undo {{{{steps.{id}.content}}}}"));
        let undo = match numbers.below(2) {
            0 => format!(", undo: {{agent: writes, {undo}}}"),
            _ => String::new(),
        };
        match numbers.below(5) {
            0 => format!(
                "{{id: {id}, agent: reads, payload: {{tool: math/add, arguments: {{a: 1, b: 2}}}}}}"
            ),
            1 => format!("{{id: {id}, agent: fails, on_error: skip}}"),
            2 => {
                let mode = ["sequential", "parallel"][usize::from(numbers.below(2) == 1)];
                let list = format!("for_each: {{list: [{id}.0, {id}.1], mode: {mode}}}");
                format!("{{id: {id}, agent: writes, {list}, {}{undo}}}", call("write", "{{item}}"))
            }
            3 => {
                let retry = "retry: {attempts: 2}";
                format!("{{id: {id}, agent: falters, {retry}, {}{undo}}}", call("falter", &id))
            }
            _ => format!("{{id: {id}, agent: writes, {}{undo}}}", call("write", &id)),
        }
    }
}

fn count(lines: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry(line.as_str()).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn the_list_before_a_rollback_is_what_the_tools_then_have_done() {
    let mut statuses: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..cases() {
        let numbers = &mut Numbers(seed);
        let Generated { steps, ids } = Generated::new(numbers);
        let text = format!("  steps: [{}]\n", steps.join(", "));
        let scene = Scene::new(&text).await;
        let first = scene.execute().await;
        assert!(first.success, "{seed}: {text}: {first:?}");
        let step = &ids[usize::try_from(numbers.below(ids.len() as u64)).expect("few")];
        let list = scene.list(Some(step)).await;
        let effects = listed(&list);
        let before = scene.outside();
        let ended = scene.confirm(&list).await;
        assert!(ended.success, "{seed}: {text}: {ended:?}");
        let after = scene.outside();
        let name = format!("{seed}: {text}: to {step}: {effects:?}: {before:?}: {after:?}");
        let former = count(&before);
        let added = count(&after[before.len()..]);
        let mut undone = Vec::new();
        for effect in &effects {
            let words: Vec<&str> = effect.split(' ').collect();
            let [key, status, ..] = words.as_slice() else { continue };
            if *key == "own" {
                continue;
            }
            *statuses.entry((*status).to_owned()).or_default() += 1;
            let undo = format!("undo {key}");
            let wrote = former.contains_key(key);
            let again = added.get(key).copied().unwrap_or_default();
            let undos = added.get(undo.as_str()).copied().unwrap_or_default();
            let expected = match *status {
                "reused" => (wrote, 0, 0),
                "undone" => (true, 1, 1),
                "irreversible" => (true, 1, 0),
                "reversible" => (false, 0, 0),
                other => panic!("{other}: {name}"),
            };
            assert_eq!((wrote, again, undos), expected, "{key}: {name}");
            if undos == 1 {
                undone.push(undo);
            }
        }
        undone.reverse();
        let in_order: Vec<&String> =
            after[before.len()..].iter().filter(|line| line.starts_with("undo")).collect();
        assert_eq!(in_order, undone.iter().collect::<Vec<_>>(), "{name}");
        let keys = effects.iter().filter_map(|effect| effect.split(' ').next());
        let known = keys.filter(|key| former.contains_key(key)).count();
        let lines = former.keys().filter(|line| !line.starts_with("failed")).count();
        assert_eq!(known, lines, "each line is of a step in the list: {name}");
    }
    println!("{statuses:?}");
    assert!(statuses.len() == 4 && statuses.values().all(|of| *of > 5), "{statuses:?}");
}
