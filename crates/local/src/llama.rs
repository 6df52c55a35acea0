//! The Llama architecture, as far as SmolLM2 uses it: RMS norm, rotary positions, grouped-query
//! attention, SwiGLU.
//!
//! Source: the Llama 2 paper (Touvron et al., 2023); rotary pairs are adjacent numbers, as GGUF
//! files of this architecture store them.

use crate::Error;
use crate::gguf::{Gguf, Meta};
use crate::half;
use crate::matrix::{Matrix, fma, numbers};
use rayon::prelude::*;
use std::ops::Range;

/// Maximum length of the context in tokens; attention memory is about 46 KB per token.
pub(crate) const CONTEXT_MAX: usize = 4096;

/// The sizes of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    pub(crate) layers: usize,
    pub(crate) width: usize,
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_width: usize,
    pub(crate) vocabulary: usize,
    pub(crate) context: usize,
    rope_base: f32,
    norm_epsilon: f32,
}

impl Shape {
    /// Numbers per token and layer in the keys, and again in the values.
    pub(crate) fn kv_width(&self) -> usize {
        self.kv_heads * self.head_width
    }

    fn read(file: &Gguf, vocabulary: usize) -> Result<Self, Error> {
        match file.meta("general.architecture") {
            Some(Meta::Text(name)) if name == "llama" => {}
            other => {
                let found = match other {
                    Some(Meta::Text(name)) => name.clone(),
                    _ => "missing".to_owned(),
                };
                return Err(file.unsupported("the architecture", found, "llama"));
            }
        }
        let width = file.int("llama.embedding_length")?;
        let heads = file.int("llama.attention.head_count")?;
        let shape = Self {
            layers: file.int("llama.block_count")?,
            width,
            hidden: file.int("llama.feed_forward_length")?,
            heads,
            kv_heads: file.int("llama.attention.head_count_kv")?,
            head_width: width / heads.max(1),
            vocabulary,
            context: file.int("llama.context_length")?.min(CONTEXT_MAX),
            rope_base: file.float("llama.rope.freq_base")?,
            norm_epsilon: file.float("llama.attention.layer_norm_rms_epsilon")?,
        };
        let fits = shape.layers > 0
            && shape.heads > 0
            && shape.kv_heads > 0
            && shape.head_width * shape.heads == shape.width
            && shape.heads.is_multiple_of(shape.kv_heads)
            && shape.head_width.is_multiple_of(2)
            && file.int("llama.rope.dimension_count").is_ok_and(|n| n == shape.head_width)
            && file.meta("llama.rope.scaling.type").is_none();
        if fits {
            return Ok(shape);
        }
        Err(file.unsupported(
            "the attention layout",
            format!("{shape:?}"),
            "heads that divide the width, full and unscaled rotary positions",
        ))
    }
}

/// The weights of a model.
#[derive(Debug)]
pub(crate) struct Llama {
    shape: Shape,
    embedding: Matrix,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    /// The head, if it is not the embedding itself.
    head: Option<Matrix>,
    /// Rotary frequencies, one per pair.
    frequencies: Vec<f32>,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Vec<f32>,
    /// Queries, keys and values on top of each other: one product instead of three.
    qkv: Matrix,
    output: Matrix,
    mlp_norm: Vec<f32>,
    /// Gate and up on top of each other.
    gate_up: Matrix,
    down: Matrix,
}

/// Keys and values of the processed tokens, one row per token.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    len: usize,
    layers: Vec<LayerMemory>,
}

/// The position of a token in its text, and the rows of the memory that it attends to.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) position: usize,
    pub(crate) sees: [Range<usize>; 2],
}

impl Place {
    /// The places of `count` tokens that follow `start` rows and attend to all rows before them.
    pub(crate) fn following(start: usize, count: usize) -> Vec<Self> {
        (start..start + count).map(|at| Self { position: at, sees: [0..at + 1, 0..0] }).collect()
    }
}

/// The memory of one layer: `[token][kv_width]`.
#[derive(Debug, Clone, Default)]
pub(crate) struct LayerMemory {
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
}

impl Memory {
    pub(crate) fn new(shape: &Shape) -> Self {
        Self { len: 0, layers: vec![LayerMemory::default(); shape.layers] }
    }

    /// Creates a memory from its layers, which all have `len` tokens.
    pub(crate) fn from_layers(len: usize, layers: Vec<LayerMemory>) -> Self {
        Self { len, layers }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn layers(&self) -> &[LayerMemory] {
        &self.layers
    }

    /// Truncates the memory to its first `len` rows.
    pub(crate) fn truncate(&mut self, len: usize) {
        let len = self.len.min(len);
        for layer in &mut self.layers {
            let kv_width = layer.keys.len().checked_div(self.len).unwrap_or(0);
            layer.keys.truncate(len * kv_width);
            layer.values.truncate(len * kv_width);
        }
        self.len = len;
    }

    /// A copy of some of the rows.
    pub(crate) fn rows(&self, rows: Range<usize>) -> Self {
        let cut = |numbers: &[f32]| {
            let kv_width = numbers.len().checked_div(self.len).unwrap_or(0);
            numbers[rows.start * kv_width..rows.end * kv_width].to_vec()
        };
        let layers = self
            .layers
            .iter()
            .map(|layer| LayerMemory { keys: cut(&layer.keys), values: cut(&layer.values) });
        Self { len: rows.len(), layers: layers.collect() }
    }
}

impl Llama {
    /// Reads the weights.
    pub(crate) fn read(file: &mut Gguf, vocabulary: usize) -> Result<Self, Error> {
        let shape = Shape::read(file, vocabulary)?;
        let width = shape.width;
        let embedding =
            Matrix::from_tensor(&file.tensor("token_embd.weight", shape.vocabulary, width)?);
        let head = match file.has_tensor("output.weight") {
            true => {
                let tensor = file.tensor("output.weight", shape.vocabulary, width)?;
                Some(Matrix::from_tensor(&tensor))
            }
            false => None,
        };
        let norm = numbers(&file.tensor("output_norm.weight", 1, width)?);
        let layers: Result<_, _> =
            (0..shape.layers).map(|index| Layer::read(file, &shape, index)).collect();
        let pairs = shape.head_width / 2;
        let frequencies =
            (0..pairs).map(|i| shape.rope_base.powf(-(i as f32) / pairs as f32)).collect();
        Ok(Self { shape, embedding, layers: layers?, norm, head, frequencies })
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Reads tokens, adds a row for each to `memory`, and returns the last layer's normed output
    /// for each: `tokens.len() * width` numbers. The caller has checked that they fit the context.
    pub(crate) fn forward(
        &self,
        tokens: &[u32],
        places: &[Place],
        memory: &mut Memory,
    ) -> Vec<f32> {
        let shape = &self.shape;
        let mut x: Vec<f32> =
            tokens.iter().flat_map(|token| self.embedding.row(*token as usize)).collect();
        let rotations = self.rotations(places);
        for (layer, memory) in self.layers.iter().zip(&mut memory.layers) {
            let mut qkv = layer.qkv.apply(&norm(&x, &layer.attention_norm, shape.norm_epsilon));
            self.remember(&mut qkv, &rotations, memory);
            let heard = self.attend(&qkv, places, memory);
            add(&mut x, &layer.output.apply(&heard));
            let both = layer.gate_up.apply(&norm(&x, &layer.mlp_norm, shape.norm_epsilon));
            add(&mut x, &layer.down.apply(&gated(&both, shape.hidden)));
        }
        memory.len += tokens.len();
        norm(&x, &self.norm, shape.norm_epsilon)
    }

    /// Logits of the next token for each token of the vocabulary, after each row of `outputs`.
    pub(crate) fn logits(&self, outputs: &[f32]) -> Vec<f32> {
        self.head.as_ref().unwrap_or(&self.embedding).apply(outputs)
    }

    /// Sine and cosine of each pair, for each new token.
    fn rotations(&self, places: &[Place]) -> Vec<Vec<(f32, f32)>> {
        let turned = |place: &Place| {
            self.frequencies.iter().map(|f| (place.position as f32 * f).sin_cos()).collect()
        };
        places.iter().map(turned).collect()
    }

    /// Rotates queries and keys by their position and appends keys and values to the memory.
    fn remember(&self, qkv: &mut [f32], rotations: &[Vec<(f32, f32)>], memory: &mut LayerMemory) {
        let Shape { width, head_width, .. } = self.shape;
        let kv_width = self.shape.kv_width();
        for (row, rotation) in qkv.chunks_exact_mut(width + 2 * kv_width).zip(rotations) {
            for head in row[..width + kv_width].chunks_exact_mut(head_width) {
                for (pair, (sin, cos)) in head.as_chunks_mut::<2>().0.iter_mut().zip(rotation) {
                    let [a, b] = *pair;
                    *pair = [a * cos - b * sin, a * sin + b * cos];
                }
            }
            // Rounded as they are stored on disk, so that a snapshot changes no answer.
            let (keys, values) = row[width..].split_at(kv_width);
            memory.keys.extend(keys.iter().map(|x| half::round(*x)));
            memory.values.extend(values.iter().map(|x| half::round(*x)));
        }
    }

    /// Attention of each new token over its visible rows.
    fn attend(&self, qkv: &[f32], places: &[Place], memory: &LayerMemory) -> Vec<f32> {
        let Shape { width, kv_heads, .. } = self.shape;
        let row_width = width + 2 * self.shape.kv_width();
        let mut out = vec![0.0; places.len() * width];
        out.par_chunks_mut(width / kv_heads).enumerate().for_each_init(
            Vec::new,
            |weights, (i, out)| {
                let token = i / kv_heads;
                let kv_head = i % kv_heads;
                let queries = &qkv[token * row_width + kv_head * out.len()..][..out.len()];
                let group = HeadGroup { queries, kv_head, position: &places[token] };
                self.attend_group(group, memory, weights, out);
            },
        );
        out
    }

    /// Attention of a group of heads. `weights` is only scratch space.
    fn attend_group(
        &self,
        group: HeadGroup<'_>,
        memory: &LayerMemory,
        weights: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        let HeadGroup { queries, kv_head, position } = group;
        let head_width = self.shape.head_width;
        let kv_width = self.shape.kv_width();
        let at = |row: usize| row * kv_width + kv_head * head_width;
        let rows = || position.sees.iter().cloned().flatten();
        let heads = queries.chunks_exact(head_width).zip(out.chunks_exact_mut(head_width));
        for (query, out) in heads {
            weights.clear();
            weights.extend(rows().map(|row| dot(query, &memory.keys[at(row)..][..head_width])));
            softmax(weights, (head_width as f32).sqrt().recip());
            for (weight, row) in weights.iter().zip(rows()) {
                for (o, v) in out.iter_mut().zip(&memory.values[at(row)..][..head_width]) {
                    *o = fma(*weight, *v, *o);
                }
            }
        }
    }
}

/// The heads of one token that share a key head.
struct HeadGroup<'a> {
    queries: &'a [f32],
    kv_head: usize,
    position: &'a Place,
}

impl Layer {
    fn read(file: &mut Gguf, shape: &Shape, index: usize) -> Result<Self, Error> {
        let Shape { width, hidden, .. } = *shape;
        let kv = shape.kv_width();
        let mut matrix = |name: &str, rows, cols| {
            let name = format!("blk.{index}.{name}.weight");
            Ok(Matrix::from_tensor(&file.tensor(&name, rows, cols)?))
        };
        let qkv = vec![
            matrix("attn_q", width, width)?,
            matrix("attn_k", kv, width)?,
            matrix("attn_v", kv, width)?,
        ];
        let gate_up = vec![matrix("ffn_gate", hidden, width)?, matrix("ffn_up", hidden, width)?];
        let output = matrix("attn_output", width, width)?;
        let down = matrix("ffn_down", width, hidden)?;
        let mut vector = |name: &str| {
            Ok(numbers(&file.tensor(&format!("blk.{index}.{name}.weight"), 1, width)?))
        };
        Ok(Self {
            attention_norm: vector("attn_norm")?,
            mlp_norm: vector("ffn_norm")?,
            qkv: Matrix::stack(qkv),
            output,
            gate_up: Matrix::stack(gate_up),
            down,
        })
    }
}

fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

fn norm(x: &[f32], weight: &[f32], epsilon: f32) -> Vec<f32> {
    let width = weight.len();
    let mut out = Vec::with_capacity(x.len());
    for row in x.chunks_exact(width) {
        let scale = (dot(row, row) / width as f32 + epsilon).sqrt().recip();
        out.extend(row.iter().zip(weight).map(|(x, w)| x * scale * w));
    }
    out
}

/// SwiGLU: each row has the gates, followed by the gated values.
fn gated(both: &[f32], hidden: usize) -> Vec<f32> {
    let mut out = vec![0.0; both.len() / 2];
    out.par_chunks_mut(hidden).zip(both.par_chunks(2 * hidden)).for_each(|(out, row)| {
        let (gates, values) = row.split_at(hidden);
        for ((o, gate), value) in out.iter_mut().zip(gates).zip(values) {
            *o = gate / (1.0 + (-gate).exp()) * value;
        }
    });
    out
}

fn softmax(values: &mut [f32], scale: f32) {
    let max = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for value in values.iter_mut() {
        *value = ((*value - max) * scale).exp();
        sum += *value;
    }
    let inverse = 1.0 / sum;
    for value in values.iter_mut() {
        *value *= inverse;
    }
}

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    let (a, a_rest) = a.as_chunks::<16>();
    let (b, b_rest) = b.as_chunks::<16>();
    for (a, b) in a.iter().zip(b) {
        for j in 0..16 {
            sums[j] = fma(a[j], b[j], sums[j]);
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}
