//! Byte-level BPE, built from the tables inside the model file.
//!
//! Source: the GPT-2 tokenizer as configured by SmolLM2: separate digits, no leading space.

mod bytes;
mod split;

use crate::Error;
use crate::gguf::{Gguf, Meta};
use split::Splitter;
use std::collections::HashMap;

const CONTROL: i64 = 3;

/// A tokenizer, which converts text to tokens and back.
#[derive(Debug)]
pub(crate) struct Tokenizer {
    /// The bytes of each token.
    tokens: Vec<Box<[u8]>>,
    /// `true` for control tokens.
    control: Vec<bool>,
    /// The token of each single byte; bytes that do not occur in texts have none.
    singles: [Option<u32>; 256],
    /// The merges of pairs, with their ranks.
    merges: HashMap<(u32, u32), Merge>,
    names: HashMap<String, u32>,
    end: u32,
    splitter: Splitter,
}

#[derive(Debug, Clone, Copy)]
struct Merge {
    rank: u32,
    token: u32,
}

impl Tokenizer {
    /// Reads the tables from a model file.
    pub(crate) fn read(file: &mut Gguf) -> Result<Self, Error> {
        match (file.meta("tokenizer.ggml.model"), file.meta("tokenizer.ggml.pre")) {
            (Some(Meta::Text(model)), Some(Meta::Text(pre)))
                if model == "gpt2" && pre == "smollm" => {}
            found => {
                let found = format!("{found:?}");
                return Err(file.unsupported("the tokenizer", found, "gpt2 with smollm splitting"));
            }
        }
        let end = file.int("tokenizer.ggml.eos_token_id")? as u32;
        let texts = texts(file, "tokenizer.ggml.tokens")?;
        let merges = texts_of_merges(file)?;
        let control = control(file, texts.len())?;
        let names: HashMap<String, u32> =
            texts.iter().zip(0..).map(|(text, id)| (text.clone(), id)).collect();
        let table = bytes::Table::new();
        let mut tokens: Vec<Box<[u8]>> = Vec::with_capacity(texts.len());
        for (text, is_control) in texts.iter().zip(&control) {
            let bytes =
                if *is_control { Some(text.clone().into_bytes()) } else { table.decode(text) };
            let Some(bytes) = bytes else {
                return Err(file.unsupported("a token", text.clone(), "byte-level text"));
            };
            tokens.push(bytes.into());
        }
        let singles = singles(&table, &names);
        if end as usize >= tokens.len() {
            return Err(file.unsupported("the end token", end.to_string(), "a token"));
        }
        let Some(merges) = ranked(&merges, &names) else {
            return Err(file.unsupported("a merge", "unknown tokens", "pairs of known tokens"));
        };
        Ok(Self { tokens, control, singles, merges, names, end, splitter: Splitter::new() })
    }

    /// Number of tokens in the vocabulary.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The token that ends a turn.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// A control token such as `<|im_start|>`, which [`Tokenizer::encode`] never produces.
    pub(crate) fn mark(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied().filter(|id| self.is_mark(*id))
    }

    /// `true` if a token is a control token and not text.
    pub(crate) fn is_mark(&self, token: u32) -> bool {
        self.control.get(token as usize).copied().unwrap_or(true)
    }

    /// The bytes of a token, which may be incomplete characters.
    pub(crate) fn bytes(&self, token: u32) -> &[u8] {
        self.tokens.get(token as usize).map_or(&[], |bytes| bytes)
    }

    /// The tokens of a text. Control tokens in it are plain text, so that users cannot start a
    /// turn.
    pub(crate) fn encode(&self, text: &str) -> Vec<u32> {
        let mut out = Vec::with_capacity(text.len() / 3);
        for piece in self.splitter.split(text) {
            self.merge_bytes(piece.as_bytes(), &mut out);
        }
        out
    }

    /// The tokens of bytes, which may be incomplete characters.
    pub(crate) fn encode_bytes(&self, bytes: &[u8]) -> Vec<u32> {
        let mut out = Vec::new();
        for chunk in bytes.utf8_chunks() {
            out.extend(self.encode(chunk.valid()));
            self.merge_bytes(chunk.invalid(), &mut out);
        }
        out
    }

    /// Merges the bytes of a piece, the pair with the lowest rank first.
    fn merge_bytes(&self, piece: &[u8], out: &mut Vec<u32>) {
        let mut parts: Vec<u32> =
            piece.iter().filter_map(|b| self.singles[usize::from(*b)]).collect();
        loop {
            let best = parts
                .windows(2)
                .enumerate()
                .filter_map(|(at, pair)| Some((self.merges.get(&(pair[0], pair[1]))?, at)))
                .min_by_key(|(merge, at)| (merge.rank, *at));
            let Some((merge, at)) = best else { break };
            parts[at] = merge.token;
            parts.remove(at + 1);
        }
        out.extend(parts);
    }
}

fn texts(file: &mut Gguf, key: &str) -> Result<Vec<String>, Error> {
    let Some(Meta::List(items)) = file.take_meta(key) else {
        return Err(file.unsupported(format!("metadata `{key}`"), "missing", "a list of texts"));
    };
    let texts: Option<Vec<String>> = items
        .into_iter()
        .map(|item| match item {
            Meta::Text(text) => Some(text),
            _ => None,
        })
        .collect();
    texts.ok_or_else(|| file.unsupported(format!("metadata `{key}`"), "mixed", "a list of texts"))
}

fn texts_of_merges(file: &mut Gguf) -> Result<Vec<(String, String)>, Error> {
    let merges = texts(file, "tokenizer.ggml.merges")?;
    let pairs: Option<Vec<_>> = merges
        .iter()
        .map(|line| line.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())))
        .collect();
    pairs.ok_or_else(|| file.unsupported("a merge", "one word", "two words"))
}

fn control(file: &mut Gguf, count: usize) -> Result<Vec<bool>, Error> {
    match file.take_meta("tokenizer.ggml.token_type") {
        Some(Meta::List(kinds)) if kinds.len() == count => {
            Ok(kinds.iter().map(|kind| *kind == Meta::Int(CONTROL)).collect())
        }
        _ => Err(file.unsupported("the token types", "missing or too few", "one per token")),
    }
}

fn singles(table: &bytes::Table, names: &HashMap<String, u32>) -> [Option<u32>; 256] {
    let mut out = [None; 256];
    for (byte, token) in (0..=u8::MAX).zip(&mut out) {
        *token = names.get(table.encode(byte).encode_utf8(&mut [0; 4]) as &str).copied();
    }
    out
}

fn ranked(
    merges: &[(String, String)],
    names: &HashMap<String, u32>,
) -> Option<HashMap<(u32, u32), Merge>> {
    let entries = merges.iter().zip(0..).map(|((a, b), rank)| {
        let token = *names.get(&format!("{a}{b}"))?;
        Some(((*names.get(a)?, *names.get(b)?), Merge { rank, token }))
    });
    entries.collect()
}
