//! Specs that somebody, or something, got wrong.

use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::path::Path;
use weftwork_conformance::kit::Scenario;
use weftwork_conformance::{Spec, SpecError};

/// Number of specs tried; `WEFT_FUZZ_ROUNDS` overrides it.
const ROUNDS: u64 = 5_000;
/// The seed; another one by `WEFT_FUZZ_SEED`.
const SEED: u64 = 1;

/// Random numbers that a seed repeats: the generator SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap();
        usize::try_from(self.next() % bound).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Number of values in a value, itself included.
fn size(json: &Json) -> usize {
    1 + match json {
        Json::Array(items) => items.iter().map(size).sum(),
        Json::Object(members) => members.values().map(size).sum(),
        _ => 0,
    }
}

/// The value at a place, counted in the order of the text.
fn at(json: &mut Json, place: usize) -> &mut Json {
    if place == 0 {
        return json;
    }
    let mut left = place - 1;
    let children: Vec<&mut Json> = match json {
        Json::Array(items) => items.iter_mut().collect(),
        Json::Object(members) => members.values_mut().collect(),
        _ => unreachable!("a place within the value"),
    };
    for child in children {
        let held = size(child);
        if left < held {
            return at(child, left);
        }
        left -= held;
    }
    unreachable!("a place within the value")
}

/// Changes one value of a spec.
fn mutate(spec: &mut Json, donor: &Json, random: &mut Random) {
    let strange = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("END"),
        json!([]),
        json!({}),
        json!({"?": [1, 2]}),
        json!([["START"]]),
        json!("delta:0"),
        json!({"msg": {}}),
    ];
    let place = random.below(size(spec));
    let target = at(spec, place);
    match (random.below(5), &mut *target) {
        (0, Json::Array(items)) if !items.is_empty() => {
            let index = random.below(items.len());
            items.remove(index);
        }
        (1, Json::Array(items)) if !items.is_empty() => {
            let index = random.below(items.len());
            items.push(items[index].clone());
        }
        (0, Json::Object(members)) if !members.is_empty() => {
            let name = members.keys().nth(random.below(members.len())).cloned().unwrap();
            members.shift_remove(&name);
        }
        (1, Json::Object(members)) if !members.is_empty() => {
            *members = renamed(members, random);
        }
        (2, _) => {
            let mut other = donor.clone();
            let from = random.below(size(&other));
            *target = at(&mut other, from).clone();
        }
        _ => *target = random.pick(&strange).clone(),
    }
}

fn renamed(members: &Map<String, Json>, random: &mut Random) -> Map<String, Json> {
    let chosen = random.below(members.len());
    let names = ["$", "+", "do", "sub", "obj", "\u{0}", "state"];
    let members = members.iter().enumerate().map(|(index, (name, value))| {
        let name = if index == chosen { (*random.pick(&names)).to_owned() } else { name.clone() };
        (name, value.clone())
    });
    members.collect()
}

/// Changes one place of a text.
fn garble(text: &str, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let place = random.below(bytes.len());
    match random.below(4) {
        0 => bytes.truncate(place),
        1 => bytes[place] ^= 1 << random.below(8),
        2 => bytes.insert(place, *random.pick(b"[]{}\",:0e-\\")),
        _ => {
            let nested = b"[".repeat(random.below(400));
            bytes.splice(place..place, nested);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A refusal must say what it wants and where; the place must be there.
fn check_error(error: &SpecError, spec: &Json) {
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() < 400, "{text}");
    if let SpecError::Unexpected { pointer, expected, .. } = error {
        assert!(!expected.is_empty(), "{text}");
        let found = if pointer == "/" { Some(spec) } else { spec.pointer(pointer) };
        assert!(found.is_some(), "{text} names a place that is not in {spec}");
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

#[test]
fn mutated_specs_are_read_or_refused_with_a_place() {
    let seed = variable("WEFT_FUZZ_SEED").unwrap_or(SEED);
    let rounds = variable("WEFT_FUZZ_ROUNDS").unwrap_or(ROUNDS);
    println!("WEFT_FUZZ_SEED={seed} WEFT_FUZZ_ROUNDS={rounds}");
    let kit = Path::new(env!("CARGO_MANIFEST_DIR")).join("kit");
    let parts = ["scenarios", "fuzz"].map(|part| Scenario::read_folder(&kit.join(part)).unwrap());
    let specs: Vec<Json> = parts.into_iter().flatten().map(|scenario| scenario.spec).collect();
    let mut random = Random(seed);
    let mut read = 0_u64;
    let mut reached = BTreeMap::<String, u64>::new();
    for _ in 0..rounds {
        let mut spec = random.pick(&specs).clone();
        let donor = random.pick(&specs);
        for _ in 0..=random.below(3) {
            mutate(&mut spec, donor, &mut random);
        }
        let result = if random.below(4) == 0 {
            Spec::parse(&garble(&spec.to_string(), &mut random))
        } else {
            let result = Spec::from_json(&spec);
            if let Err(error) = &result {
                check_error(error, &spec);
            }
            result
        };
        match result {
            Ok(_) => read += 1,
            Err(SpecError::Unexpected { expected, .. }) => {
                *reached.entry(expected).or_default() += 1;
            }
            Err(other) => {
                assert!(other.to_string().starts_with("the spec is not JSON: "), "{other}");
                *reached.entry("JSON".to_owned()).or_default() += 1;
            }
        }
    }
    println!("{read} read; refused for {} reasons: {reached:#?}", reached.len());
    assert!(read > rounds / 20 && reached.len() > 20, "the mutations reach too little");
}
