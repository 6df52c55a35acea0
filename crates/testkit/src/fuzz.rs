//! Mutation fuzzing: valid bytes with a few changes, and statistics of a decoder's results.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A pseudorandom generator (xorshift64); a seed gives the same numbers on all platforms.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates a generator with a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % end.max(1) as u64).unwrap_or_default()
    }
}

/// Bytes to insert or overwrite with: limits of integer ranges, and the largest numbers in
/// encodings with 7 bits per byte.
const STRANGE: [&[u8]; 7] = [
    &[0],
    &[0xff],
    &[0x7f],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
    b"[[[[[[[[[[[[[[[[{\"",
];

/// Returns the bytes with one to four changes: a flipped bit, a changed byte, special bytes or
/// bytes of another input, a repeated or removed range, or a cut end. Positions below `from` are
/// not changed.
#[must_use]
pub fn mutated(bytes: &[u8], others: &[&[u8]], from: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let from = from.min(bytes.len());
        let at = from + random.below(bytes.len() - from);
        let to = (at + random.below(24)).min(bytes.len());
        match (random.below(8), bytes.get_mut(at)) {
            (0, Some(byte)) => *byte ^= 1 << random.below(8),
            (1, Some(byte)) => *byte = random.number().to_le_bytes()[0],
            (2, Some(byte)) => *byte = byte.wrapping_add(1),
            (3, _) => bytes.truncate(at),
            (4, _) => drop(bytes.splice(at..at, bytes[at..to].to_vec())),
            (5, _) => drop(bytes.drain(at..to)),
            (6, _) if !others.is_empty() => {
                let other = others[random.below(others.len())];
                let start = random.below(other.len());
                let end = (start + random.below(40)).min(other.len());
                bytes.splice(at..at, other[start..end].iter().copied());
            }
            _ => {
                let strange = STRANGE[random.below(STRANGE.len())];
                let over = (at + random.below(2) * strange.len()).min(bytes.len());
                bytes.splice(at..over, strange.iter().copied());
            }
        }
    }
    bytes
}

/// Runs a number of rounds, each with its own seed, and prints how often `round` returned each
/// result. `WEFT_FUZZ_SEED` and `WEFT_FUZZ_ROUNDS` override the seed and the number.
///
/// # Panics
/// If a round panics; the message has its seed.
pub fn rounds(rounds: u64, round: impl Fn(&mut Random) -> String) -> BTreeMap<String, u64> {
    let variable = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let seed = variable("WEFT_FUZZ_SEED").unwrap_or(20_261_122);
    let rounds = variable("WEFT_FUZZ_ROUNDS").unwrap_or(rounds);
    let mut results = BTreeMap::new();
    for index in 0..rounds {
        let own = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let result = catch_unwind(AssertUnwindSafe(|| round(&mut Random::new(own))));
        let result =
            result.unwrap_or_else(|_| panic!("WEFT_FUZZ_SEED={own} WEFT_FUZZ_ROUNDS=1 panics"));
        *results.entry(result).or_insert(0) += 1;
    }
    let lines: String =
        results.iter().map(|(result, times)| format!("\n  {times:>9} {result}")).collect();
    #[expect(clippy::print_stdout, reason = "the log of the test shows what it reached")]
    {
        println!("WEFT_FUZZ_SEED={seed} WEFT_FUZZ_ROUNDS={rounds}: {} ways{lines}", results.len());
    }
    results
}
