//! Writing answers, token by token.

use crate::Error;
use crate::engine::{Engine, Session};
use crate::grammar::{Grammar, Guide, Next};
use crate::repeat;
use toktrie::SimpleVob;

/// Tokens for closing an answer under a grammar that has reached its limit: the names of members
/// that must still come, and the least their values need.
const CLOSING_MAX: usize = 400;

/// The settings for writing an answer.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    /// The grammar that the answer must satisfy.
    pub grammar: Option<&'a Grammar>,
    /// The most tokens of the answer. An answer under a grammar that reaches this limit is closed
    /// as fast as the grammar allows, with a few hundred tokens more at most.
    pub tokens_max: usize,
    /// Texts that end the answer; they are not part of it.
    pub stop: &'a [&'a str],
    /// 0 takes the likeliest token; more takes others too, in proportion.
    pub temperature: f32,
    /// Which words may be written; `None` allows all. For answers in words.
    pub vocabulary: Option<Vocabulary<'a>>,
}

impl<'a> Plan<'a> {
    /// An answer in words, of at most so many tokens, always the likeliest.
    #[must_use]
    pub fn words(tokens_max: usize) -> Self {
        Self { grammar: None, tokens_max, stop: &[], temperature: 0.0, vocabulary: None }
    }

    /// An answer within a grammar, always the likeliest.
    #[must_use]
    pub fn within(grammar: &'a Grammar, tokens_max: usize) -> Self {
        Self { grammar: Some(grammar), ..Self::words(tokens_max) }
    }
}

/// Words an answer in words is held to.
#[derive(Debug, Clone, Copy)]
pub enum Vocabulary<'a> {
    /// Words with digits must stand in this text: no number is made up.
    Numbers(&'a str),
    /// All words must stand in this text.
    Words(&'a str),
}

/// A written answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// Number of tokens.
    pub tokens: usize,
    /// Why it ended.
    pub end: End,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The model or the grammar was done.
    Complete,
    /// The limit was reached.
    Limit,
    /// The caller does not want it any more.
    Cancelled,
}

/// Listens to an answer while it is written.
pub trait Listener {
    /// More text, whole characters.
    fn text(&mut self, _piece: &str) {}

    /// `true` while the answer is still wanted; checked before every token.
    fn wanted(&self) -> bool {
        true
    }
}

/// Listens to nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Listener for Quiet {}

impl Engine {
    /// Writes an answer after what the session has read.
    ///
    /// # Errors
    /// [`Error::PromptTooLong`] when prompt and answer do not fit the context together,
    /// [`Error::Grammar`] when the grammar engine gives up, [`Error::CallUnfinished`] when an
    /// answer under a grammar cannot be closed.
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
            told: 0,
            written: 0,
            lexicon: plan.vocabulary.map(Lexicon::new),
            dice: Dice::new(plan.temperature),
        };
        let end = writer.run(listener)?;
        Ok(Answer {
            text: String::from_utf8_lossy(&writer.bytes).into_owned(),
            tokens: writer.written,
            end,
        })
    }
}

/// An answer while it is written.
struct Writer<'a> {
    engine: &'a Engine,
    session: &'a mut Session,
    plan: &'a Plan<'a>,
    guide: Option<Guide<'a>>,
    hard_max: usize,
    /// Tokens decided but not yet read by the model.
    pending: Vec<u32>,
    bytes: Vec<u8>,
    told: usize,
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
            let done = self.step()?;
            let stopped = self.cut_at_stop() || self.cut_at_repeat();
            self.tell(listener, done || stopped);
            if done || stopped {
                return Ok(End::Complete);
            }
        }
    }

    /// Decides the next token or tokens; true when the answer is complete.
    fn step(&mut self) -> Result<bool, Error> {
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
        let (tokenizer, bytes, lexicon) = (&self.engine.tokenizer, &self.bytes, &self.lexicon);
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

    /// Ends an answer in words that says something again.
    fn cut_at_repeat(&mut self) -> bool {
        let cut = self.plan.grammar.is_none().then(|| repeat::cut(&self.bytes)).flatten();
        if let Some(at) = cut {
            self.bytes.truncate(at);
        }
        cut.is_some()
    }

    /// Tells what is certain: whole characters that cannot become part of a stop text or of a
    /// sentence that was there before.
    fn tell(&mut self, listener: &mut dyn Listener, all: bool) {
        let stop = || self.plan.stop.iter().map(|s| s.len() - 1).max().unwrap_or(0);
        let held = match self.plan.grammar {
            _ if all => 0,
            Some(_) => stop(),
            None => stop().max(repeat::held(&self.bytes)),
        };
        let end = self.bytes.len().saturating_sub(held);
        if end <= self.told {
            return;
        }
        let fresh = &self.bytes[self.told..end];
        let whole = match std::str::from_utf8(fresh) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&fresh[..error.valid_up_to()]).unwrap_or_default(),
        };
        if !whole.is_empty() {
            listener.text(whole);
            self.told += whole.len();
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

    /// `true` if the text stays within the vocabulary when a token is added: all words are known,
    /// and the last one, which may continue, is the beginning of a known one.
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

/// Chooses tokens; the same seed throws the same numbers, so an answer can be repeated.
#[derive(Debug)]
struct Dice {
    temperature: f32,
    state: u64,
}

impl Dice {
    fn new(temperature: f32) -> Self {
        Self { temperature, state: 0x9e37_79b9_7f4a_7c15 }
    }

    fn choose(&mut self, logits: &[f32], allowed: impl Fn(u32) -> bool) -> Option<u32> {
        let candidates = || logits.iter().zip(0u32..).filter(|(_, token)| allowed(*token));
        let (max, best) = candidates().max_by(|a, b| a.0.total_cmp(b.0))?;
        if self.temperature <= 0.0 {
            return Some(best);
        }
        let temperature = self.temperature;
        let weight = |logit: f32| ((logit - max) / temperature).exp();
        let total: f32 = candidates().map(|(logit, _)| weight(*logit)).sum();
        let mut left = self.throw() * total;
        for (logit, token) in candidates() {
            left -= weight(*logit);
            if left <= 0.0 {
                return Some(token);
            }
        }
        Some(best)
    }

    /// The next number from 0 to 1 (splitmix64).
    fn throw(&mut self) -> f32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 24) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::{Lexicon, Vocabulary};

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
