//! Writes model files of a few kilobytes with random weights.

use std::path::{Path, PathBuf};
use weftwork_local::engine::Engine;

const WIDTH: usize = 64;
const HIDDEN: usize = 96;
const KV: usize = 32;
const LAYERS: usize = 2;

/// The properties of the generated model file.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) seed: u64,
    pub(crate) architecture: &'static str,
    /// The ggml type of the big matrices: 0, 2, 3 or 8 are known to the engine.
    pub(crate) format: u32,
    pub(crate) context: u32,
}

impl Default for Recipe {
    fn default() -> Self {
        Self { seed: 7, architecture: "llama", format: 3, context: 4096 }
    }
}

/// A directory with a tiny model in it.
pub(crate) fn model(recipe: &Recipe) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("tiny.gguf");
    std::fs::write(&path, bytes(recipe)).expect("written");
    (directory, path)
}

/// A tiny engine.
pub(crate) fn engine() -> Engine {
    let (_directory, path) = model(&Recipe::default());
    open(&path)
}

pub(crate) fn open(path: &Path) -> Engine {
    Engine::open(path, None).expect("a model")
}

/// The whole file.
pub(crate) fn bytes(recipe: &Recipe) -> Vec<u8> {
    let mut dice = Dice(recipe.seed);
    let words = vocabulary();
    let tensors = tensors(words.len());
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    let meta = metadata(recipe, &words);
    out.extend((meta.len() as u64).to_le_bytes());
    meta.iter().for_each(|entry| out.extend(entry));
    let mut data = Vec::new();
    for (name, rows, cols) in &tensors {
        let format = if *rows == 1 { 0 } else { recipe.format };
        out.extend(text(name));
        let dims = if *rows == 1 { vec![*cols] } else { vec![*cols, *rows] };
        out.extend((dims.len() as u32).to_le_bytes());
        dims.iter().for_each(|dim| out.extend((*dim as u64).to_le_bytes()));
        out.extend(format.to_le_bytes());
        out.extend((data.len() as u64).to_le_bytes());
        data.extend(numbers(&mut dice, format, rows * cols));
        data.resize(data.len().next_multiple_of(32), 0);
    }
    out.resize(out.len().next_multiple_of(32), 0);
    out.extend(data);
    out
}

fn tensors(vocabulary: usize) -> Vec<(String, usize, usize)> {
    let mut out = vec![
        ("token_embd.weight".to_owned(), vocabulary, WIDTH),
        ("output_norm.weight".to_owned(), 1, WIDTH),
    ];
    for layer in 0..LAYERS {
        for (name, rows, cols) in [
            ("attn_norm", 1, WIDTH),
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", KV, WIDTH),
            ("attn_v", KV, WIDTH),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_norm", 1, WIDTH),
            ("ffn_gate", HIDDEN, WIDTH),
            ("ffn_up", HIDDEN, WIDTH),
            ("ffn_down", WIDTH, HIDDEN),
        ] {
            out.push((format!("blk.{layer}.{name}.weight"), rows, cols));
        }
    }
    out
}

/// A vocabulary with a token per byte, a few merged ones, and the control tokens of a chat.
fn vocabulary() -> Vec<String> {
    let mut next = 0x100;
    let mut words: Vec<String> = (0..=255u8)
        .map(|byte| match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte).to_string(),
            _ => {
                next += 1;
                char::from_u32(next - 1).expect("a character").to_string()
            }
        })
        .collect();
    words.extend(["th", "the", "Ġthe", "er"].map(str::to_owned));
    words.extend(["<|im_start|>", "<|im_end|>"].map(str::to_owned));
    words
}

fn metadata(recipe: &Recipe, words: &[String]) -> Vec<Vec<u8>> {
    let list = |kind: u32, items: Vec<Vec<u8>>| {
        let mut out = 9u32.to_le_bytes().to_vec();
        out.extend(kind.to_le_bytes());
        out.extend((items.len() as u64).to_le_bytes());
        out.extend(items.concat());
        out
    };
    let int = |n: u32| [4u32.to_le_bytes(), n.to_le_bytes()].concat();
    let float = |x: f32| [6u32.to_le_bytes(), x.to_le_bytes()].concat();
    let string = |s: &str| [8u32.to_le_bytes().to_vec(), text(s)].concat();
    let kinds = words.iter().map(|word| if word.starts_with("<|") { 3i32 } else { 1 });
    let entries = vec![
        ("general.architecture", string(recipe.architecture)),
        ("llama.block_count", int(LAYERS as u32)),
        ("llama.context_length", int(recipe.context)),
        ("llama.embedding_length", int(WIDTH as u32)),
        ("llama.feed_forward_length", int(HIDDEN as u32)),
        ("llama.attention.head_count", int(4)),
        ("llama.attention.head_count_kv", int(2)),
        ("llama.rope.dimension_count", int(16)),
        ("llama.rope.freq_base", float(10_000.0)),
        ("llama.attention.layer_norm_rms_epsilon", float(1e-5)),
        ("tokenizer.ggml.model", string("gpt2")),
        ("tokenizer.ggml.pre", string("smollm")),
        ("tokenizer.ggml.eos_token_id", int(words.len() as u32 - 1)),
        ("tokenizer.ggml.tokens", list(8, words.iter().map(|word| text(word)).collect())),
        ("tokenizer.ggml.token_type", list(5, kinds.map(|k| k.to_le_bytes().to_vec()).collect())),
        ("tokenizer.ggml.merges", list(8, ["t h", "th e", "Ġ the", "e r"].map(text).to_vec())),
    ];
    entries.into_iter().map(|(key, value)| [text(key), value].concat()).collect()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// Random numbers in a format. The halves are 2^-4 and -2^-1.
fn numbers(dice: &mut Dice, format: u32, count: usize) -> Vec<u8> {
    let (per_block, head, tail): (usize, &[u8], usize) = match format {
        2 => (32, &[0x00, 0x2c], 16),
        3 => (32, &[0x00, 0x2c, 0x00, 0xb8], 16),
        8 => (32, &[0x00, 0x14], 32),
        1 => (1, &[], 2),
        _ => (1, &[], 4),
    };
    let mut out = Vec::new();
    for _ in 0..count / per_block {
        out.extend_from_slice(head);
        if format == 0 {
            out.extend((dice.next() as u32 as f32 / u32::MAX as f32 - 0.2).to_le_bytes());
        } else {
            out.extend((0..tail).map(|_| dice.next() as u8 & 0x7f));
        }
    }
    out
}

/// Repeatable random numbers (xorshift).
#[derive(Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
