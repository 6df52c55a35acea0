//! Several prompts processed together, each of which can be continued.
//!
//! The prefixes of the prompts of a set of tools are the same for every request. They are processed
//! once, into one memory, in which prompts do not attend to each other; then a request can be
//! evaluated after all of them in one pass.

use crate::engine::{Engine, Session};
use crate::llama::{Memory, Place};
use std::ops::Range;

/// Maximum number of rows processed in one pass.
const CHUNK: usize = 256;

/// Processed prompts.
#[derive(Debug, Clone)]
pub struct Prefixes {
    pub(crate) prompts: Vec<Vec<u32>>,
    pub(crate) memory: Memory,
}

impl Prefixes {
    /// Number of tokens in all prompts together.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.memory.len()
    }

    pub(crate) fn rows(&self, index: usize) -> Range<usize> {
        let start = self.prompts[..index].iter().map(Vec::len).sum::<usize>();
        start..start + self.prompts[index].len()
    }
}

impl Engine {
    /// Processes several prompts together.
    #[must_use]
    pub fn read_prefixes(&self, prompts: Vec<Vec<u32>>) -> Prefixes {
        let mut memory = Memory::new(self.llama.shape());
        let mut tokens = Vec::new();
        let mut places = Vec::new();
        for prompt in &prompts {
            let start = tokens.len();
            places.extend(
                (0..prompt.len())
                    .map(|position| Place { position, sees: [start..start + position + 1, 0..0] }),
            );
            tokens.extend_from_slice(prompt);
        }
        for (tokens, places) in tokens.chunks(CHUNK).zip(places.chunks(CHUNK)) {
            self.forward(tokens, places, &mut memory);
        }
        Prefixes { prompts, memory }
    }

    /// Creates a session from one of the prompts.
    #[must_use]
    pub fn session_after(&self, prefixes: &Prefixes, index: usize) -> Session {
        Session {
            tokens: prefixes.prompts[index].clone(),
            memory: prefixes.memory.rows(prefixes.rows(index)),
            output: Vec::new(),
        }
    }

    /// Log-likelihood of `text` after each of the prompts, each followed by its own `lead` token:
    /// the logarithm of the product of its tokens' probabilities. The prefixes stay unchanged.
    #[must_use]
    pub fn likelihoods(
        &self,
        prefixes: &mut Prefixes,
        leads: &[(usize, u32)],
        text: &[u32],
    ) -> Vec<f32> {
        let base = prefixes.memory.len();
        let Some(read) = text.len().checked_sub(1) else { return vec![0.0; leads.len()] };
        let mut scores = Vec::with_capacity(leads.len());
        for leads in leads.chunks((CHUNK / text.len()).max(1)) {
            let mut tokens = Vec::new();
            let mut places = Vec::new();
            for (index, lead) in leads {
                let rows = prefixes.rows(*index);
                let start = base + tokens.len();
                places.extend((0..text.len()).map(|at| Place {
                    position: rows.len() + at,
                    sees: [rows.clone(), start..start + at + 1],
                }));
                tokens.push(*lead);
                tokens.extend_from_slice(&text[..read]);
            }
            let outputs = self.forward(&tokens, &places, &mut prefixes.memory);
            prefixes.memory.truncate(base);
            let width = outputs.len() / leads.len();
            scores.extend(
                outputs.chunks_exact(width).map(|outputs| self.log_likelihood(outputs, text)),
            );
        }
        scores
    }

    /// The sum of the log-likelihoods of tokens, each after its output.
    fn log_likelihood(&self, outputs: &[f32], text: &[u32]) -> f32 {
        let logits = self.logits(outputs);
        let rows = logits.chunks_exact(logits.len() / text.len());
        rows.zip(text)
            .map(|(row, token)| {
                let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let sum: f32 = row.iter().map(|x| (x - max).exp()).sum();
                row[*token as usize] - max - sum.ln()
            })
            .sum()
    }
}
