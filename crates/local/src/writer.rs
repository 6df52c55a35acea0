//! Generation of answers, token by token.

use crate::Error;
use crate::engine::{Engine, Session};
use crate::grammar::{Grammar, Guide, Next};
use crate::repeat;
use toktrie::SimpleVob;

/// Additional tokens for closing a constrained answer that has reached its limit: the names of
/// required members, and their shortest values.
const CLOSING_MAX: usize = 400;

/// The settings for an answer.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    /// The grammar that the answer must satisfy.
    pub grammar: Option<&'a Grammar>,
    /// Maximum number of tokens of the answer. A constrained answer that reaches this limit is
    /// closed as soon as the grammar allows, with at most a few hundred further tokens.
    pub tokens_max: usize,
    /// Texts that end the answer; they are not part of it.
    pub stop: &'a [&'a str],
    /// 0 always selects the likeliest token; larger values select others too, in proportion.
    pub temperature: f32,
    /// Share of the probability from which tokens are selected: the likeliest tokens that have it
    /// together. At 1, all are.
    pub top_p: f32,
    /// Seed of the selection; the same seed repeats an answer.
    pub seed: i64,
    /// The allowed words of an answer in words; `None` allows all.
    pub vocabulary: Option<Vocabulary<'a>>,
    /// Ends an answer in words after its first sentence.
    pub one_sentence: bool,
}

impl<'a> Plan<'a> {
    /// Settings for an answer in words with a limit of tokens, always the likeliest.
    #[must_use]
    pub fn words(tokens_max: usize) -> Self {
        Self {
            grammar: None,
            tokens_max,
            stop: &[],
            temperature: 0.0,
            top_p: 1.0,
            seed: 0,
            vocabulary: None,
            one_sentence: false,
        }
    }

    /// Settings for a constrained answer, always the likeliest.
    #[must_use]
    pub fn within(grammar: &'a Grammar, tokens_max: usize) -> Self {
        Self { grammar: Some(grammar), ..Self::words(tokens_max) }
    }
}

/// Restrictions of the words of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Vocabulary<'a> {
    /// Words with digits must be in this text, so that no number is invented.
    Numbers(&'a str),
    /// All words must be in this text.
    Words(&'a str),
}

/// A generated answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// Number of tokens.
    pub tokens: usize,
    /// The reason for the end.
    pub end: End,
}

/// The reason for the end of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The model or the grammar ended the answer.
    Complete,
    /// The limit was reached.
    Limit,
    /// The answer was cancelled.
    Cancelled,
}

/// A receiver of an answer during its generation.
pub trait Listener {
    /// Receives text of whole characters.
    fn text(&mut self, _piece: &str) {}

    /// Returns `true` until the answer is cancelled; checked before every token.
    fn wanted(&self) -> bool {
        true
    }
}

/// A receiver that ignores the answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Listener for Quiet {}

impl Engine {
    /// Generates an answer after the tokens of the session.
    ///
    /// # Errors
    /// [`Error::PromptTooLong`] if prompt and answer together do not fit in the context,
    /// [`Error::Grammar`] if the grammar engine fails, [`Error::CallUnfinished`] if a constrained
    /// answer cannot be closed.
    pub fn generate(
        &self,
        session: &mut Session,
        plan: &Plan<'_>,
        listener: &mut dyn Listener,
    ) -> Result<Answer, Error> {
        let hard_max = plan.tokens_max + plan.grammar.map_or(0, |_| CLOSING_MAX);
        let needed = session.tokens.len() + hard_max;
        if needed > self.context() {
            return Err(Error::PromptTooLong { tokens: needed, tokens_max: self.context() });
        }
        let guide = plan.grammar.map(|grammar| self.grammars.start(grammar)).transpose()?;
        let mut writer = Writer {
            engine: self,
            session,
            plan,
            guide,
            hard_max,
            pending: Vec::new(),
            bytes: Vec::new(),
            shown_bytes: 0,
            written: 0,
            lexicon: plan.vocabulary.map(Lexicon::new),
            dice: Dice::new(plan),
        };
        let end = writer.run(listener)?;
        Ok(Answer {
            text: String::from_utf8_lossy(&writer.bytes).into_owned(),
            tokens: writer.written,
            end,
        })
    }
}

/// An answer during its generation.
struct Writer<'a> {
    engine: &'a Engine,
    session: &'a mut Session,
    plan: &'a Plan<'a>,
    guide: Option<Guide<'a>>,
    hard_max: usize,
    /// Selected tokens that the model has not processed.
    pending: Vec<u32>,
    bytes: Vec<u8>,
    shown_bytes: usize,
    written: usize,
    lexicon: Option<Lexicon<'a>>,
    dice: Dice,
}

impl Writer<'_> {
    fn run(&mut self, listener: &mut dyn Listener) -> Result<End, Error> {
        loop {
            if !listener.wanted() {
                return Ok(End::Cancelled);
            }
            if self.written >= self.hard_max {
                return match self.plan.grammar {
                    Some(_) => Err(Error::CallUnfinished { tokens_max: self.plan.tokens_max }),
                    None => Ok(End::Limit),
                };
            }
            let done = self.write_step()?;
            let stopped = self.cut_at_stop() || self.cut_at_sentence() || self.cut_at_repeat();
            self.show_text(listener, done || stopped);
            if done || stopped {
                return Ok(End::Complete);
            }
        }
    }

    /// Selects the next tokens; returns `true` if the answer is complete.
    fn write_step(&mut self) -> Result<bool, Error> {
        let mask = match self.guide.as_mut().map(Guide::next).transpose()? {
            Some(Next::Done) => return Ok(true),
            Some(Next::Forced(tokens)) => {
                tokens.iter().for_each(|token| self.push(*token));
                return Ok(false);
            }
            Some(Next::Open(mask)) => Some(mask),
            None => None,
        };
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            self.engine.feed(self.session, &pending);
        }
        let engine = self.engine;
        let logits = engine.logits(&self.session.output);
        let token = match mask {
            Some(mask) => self.choose_within(&logits, mask)?,
            None => self.choose_word(&logits),
        };
        let Some(token) = token.filter(|token| *token != engine.tokenizer.end()) else {
            return Ok(true);
        };
        self.push(token);
        Ok(false)
    }

    fn choose_within(&mut self, logits: &[f32], mask: SimpleVob) -> Result<Option<u32>, Error> {
        let Some(guide) = &mut self.guide else { return Ok(None) };
        let late = self.written >= self.plan.tokens_max;
        let mask = if late { guide.narrow(mask) } else { mask };
        let token = self.dice.choose(logits, |token| mask.is_allowed(token));
        token.map(|token| guide.take(token)).transpose()?;
        Ok(token)
    }

    fn choose_word(&mut self, logits: &[f32]) -> Option<u32> {
        let tokenizer = &self.engine.tokenizer;
        let bytes = &self.bytes;
        let lexicon = &self.lexicon;
        self.dice.choose(logits, |token| {
            let is_end = token == tokenizer.end();
            let adds = if is_end { b" " } else { tokenizer.bytes(token) };
            (is_end || !tokenizer.is_mark(token))
                && lexicon.as_ref().is_none_or(|lexicon| lexicon.allows(bytes, adds))
        })
    }

    fn push(&mut self, token: u32) {
        self.pending.push(token);
        self.bytes.extend_from_slice(self.engine.tokenizer.bytes(token));
        self.written += 1;
    }

    fn cut_at_stop(&mut self) -> bool {
        let found = self
            .plan
            .stop
            .iter()
            .filter_map(|stop| {
                self.bytes.windows(stop.len().max(1)).position(|window| window == stop.as_bytes())
            })
            .min();
        if let Some(at) = found {
            self.bytes.truncate(at);
        }
        found.is_some()
    }

    /// Ends an answer of one sentence.
    fn cut_at_sentence(&mut self) -> bool {
        let cut = self.plan.one_sentence.then(|| repeat::first_sentence(&self.bytes)).flatten();
        if let Some(at) = cut {
            self.bytes.truncate(at);
        }
        cut.is_some()
    }

    /// Ends an answer in words that repeats itself.
    fn cut_at_repeat(&mut self) -> bool {
        let cut = self.plan.grammar.is_none().then(|| repeat::cut(&self.bytes)).flatten();
        if let Some(at) = cut {
            self.bytes.truncate(at);
        }
        cut.is_some()
    }

    /// Emits the final part of the text: whole characters that cannot become part of a stop text or
    /// of a repetition.
    fn show_text(&mut self, listener: &mut dyn Listener, all: bool) {
        let stop = || self.plan.stop.iter().map(|s| s.len() - 1).max().unwrap_or(0);
        let held = match self.plan.grammar {
            _ if all => 0,
            Some(_) => stop(),
            None => stop().max(repeat::held(&self.bytes)),
        };
        let end = self.bytes.len().saturating_sub(held);
        if end <= self.shown_bytes {
            return;
        }
        let fresh = &self.bytes[self.shown_bytes..end];
        let whole = match std::str::from_utf8(fresh) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&fresh[..error.valid_up_to()]).unwrap_or_default(),
        };
        if !whole.is_empty() {
            listener.text(whole);
            self.shown_bytes += whole.len();
        }
    }
}

/// The words of a vocabulary.
struct Lexicon<'a> {
    words: Vec<&'a str>,
    numbers_only: bool,
}

impl<'a> Lexicon<'a> {
    fn new(vocabulary: Vocabulary<'a>) -> Self {
        let (text, numbers_only) = match vocabulary {
            Vocabulary::Numbers(text) => (text, true),
            Vocabulary::Words(text) => (text, false),
        };
        let words = text.split_whitespace().map(|word| word.trim_matches(is_around));
        Self { words: words.collect(), numbers_only }
    }

    /// `true` if the text with a further token is within the vocabulary: all words are known, and
    /// the last one, which may continue, is the beginning of a known word.
    fn allows(&self, written: &[u8], token: &[u8]) -> bool {
        let start = written.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
        let open = &written[start..];
        if !self.counts(open) && !self.counts(token) {
            return true;
        }
        let end = [open, token].concat();
        let Ok(end) = std::str::from_utf8(&end) else { return false };
        let goes_on = !end.ends_with(char::is_whitespace);
        let words: Vec<&str> = end.split_whitespace().collect();
        words.iter().enumerate().all(|(at, word)| {
            let bare = word.trim_matches(is_around);
            // `3.` may end a sentence, and may become `3.5`.
            let begun = word.trim_start_matches(is_around);
            let may_grow = goes_on && at + 1 == words.len();
            !self.counts(bare.as_bytes())
                || self
                    .words
                    .iter()
                    .any(|known| *known == bare || may_grow && known.starts_with(begun))
        })
    }

    fn counts(&self, word: &[u8]) -> bool {
        let letters = !self.numbers_only;
        word.iter().any(|b| b.is_ascii_digit() || letters && b.is_ascii_alphabetic())
    }
}

fn is_around(c: char) -> bool {
    "\"'`()[]{}<>.,;:!?*".contains(c)
}

/// A sampler of tokens; the same seed produces the same numbers, so answers are reproducible.
#[derive(Debug)]
struct Dice {
    temperature: f32,
    top_p: f32,
    state: u64,
}

impl Dice {
    fn new(plan: &Plan<'_>) -> Self {
        let state = 0x9e37_79b9_7f4a_7c15 ^ plan.seed.cast_unsigned();
        Self { temperature: plan.temperature, top_p: plan.top_p, state }
    }

    fn choose(&mut self, logits: &[f32], allowed: impl Fn(u32) -> bool) -> Option<u32> {
        let candidates = || logits.iter().zip(0u32..).filter(|(_, token)| allowed(*token));
        let (max, best) = candidates().max_by(|a, b| a.0.total_cmp(b.0))?;
        if self.temperature <= 0.0 {
            return Some(best);
        }
        let temperature = self.temperature;
        let weight = |logit: f32| ((logit - max) / temperature).exp();
        let mut weighted: Vec<Weighted> =
            candidates().map(|(logit, token)| Weighted { token, weight: weight(*logit) }).collect();
        if self.top_p < 1.0 {
            keep_likeliest(&mut weighted, self.top_p);
        }
        let mut left = self.next_random() * total_weight(&weighted);
        for candidate in weighted {
            left -= candidate.weight;
            if left <= 0.0 {
                return Some(candidate.token);
            }
        }
        Some(best)
    }

    /// The next number from 0 to 1 (splitmix64).
    fn next_random(&mut self) -> f32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 24) as f32
    }
}

/// A token with its share of the sum of all weights.
struct Weighted {
    token: u32,
    weight: f32,
}

fn total_weight(weighted: &[Weighted]) -> f32 {
    weighted.iter().map(|candidate| candidate.weight).sum()
}

/// Retains the likeliest candidates that have a share of the probability together, at least one.
fn keep_likeliest(weighted: &mut Vec<Weighted>, share: f32) {
    let mut left = total_weight(weighted) * share;
    weighted.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let last = weighted.iter().position(|candidate| {
        left -= candidate.weight;
        left <= 0.0
    });
    weighted.truncate(last.map_or(weighted.len(), |last| last + 1));
}

#[cfg(test)]
mod tests {
    use super::{Dice, Lexicon, Plan, Vocabulary};

    #[test]
    fn tokens_are_sampled_from_the_likeliest_ones_and_a_seed_repeats_them() {
        // Probabilities 1/2, 1/4, 1/8 and 1/8.
        let logits = [0.25f32, 0.5, 0.125, 0.125].map(f32::ln);
        let sampled = |top_p: f32, seed: i64| {
            let mut dice = Dice::new(&Plan { temperature: 1.0, top_p, seed, ..Plan::words(1) });
            (0..200).map(|_| dice.choose(&logits, |_| true).expect("a token")).collect::<Vec<_>>()
        };
        let kinds = |top_p: f32| {
            let mut kinds = sampled(top_p, 0);
            kinds.sort_unstable();
            kinds.dedup();
            kinds
        };
        assert_eq!(kinds(1.0), [0, 1, 2, 3]);
        assert_eq!(kinds(0.7), [0, 1]);
        assert_eq!(kinds(0.4), [1]);
        assert_eq!(kinds(f32::MIN_POSITIVE), [1]);
        assert_eq!(sampled(1.0, 7), sampled(1.0, 7));
        assert_ne!(sampled(1.0, 7), sampled(1.0, 8));
        assert_ne!(sampled(1.0, -1), sampled(1.0, 0));
    }

    #[test]
    fn numbers_are_those_of_the_text_decimals_too() {
        let lexicon = Lexicon::new(Vocabulary::Numbers("3.5 times 4; result: 14."));
        let all = |pieces: &[&str]| {
            let mut written = Vec::new();
            pieces.iter().all(|piece| {
                let allowed = lexicon.allows(&written, piece.as_bytes());
                written.extend_from_slice(piece.as_bytes());
                allowed
            })
        };
        assert!(all(&["3", ".", "5", " times", " 4", " is", " 14", ".", " "]));
        assert!(all(&["It is (", "1", "4", ")", "."]));
        assert!(!all(&["3", " "]), "3.5 is not 3");
        assert!(!all(&["3", ".", " "]));
        assert!(!all(&["15"]) && !all(&["14", "0"]));
    }
}
