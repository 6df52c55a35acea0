//! Weight matrices in blocks of 32, and their products with activations.
//!
//! The loops are written so that the compiler turns them into the widest vector instructions the
//! build allows: fixed block sizes, separate accumulators, no branches inside. Few rows of
//! activations walk the weights once and unpack each block in registers; many rows unpack a panel
//! of 16 weight rows once and multiply it with all of them.

use crate::gguf::{Format, Tensor};
use crate::half;
use rayon::prelude::*;
use std::array::from_fn;

const BLOCK: usize = 32;
const HALF: usize = 16;
const PANEL: usize = 16;
/// Number of rows of activations up to which the weights are unpacked per use.
const FEW: usize = 20;
/// Number of weight rows per work item of a thread.
const ROWS_PER_TASK: usize = 48;

/// A matrix of `rows` x `cols` weights, row major.
#[derive(Debug)]
pub(crate) struct Matrix {
    rows: usize,
    cols: usize,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Four(Vec<Four>),
    Eight(Vec<Eight>),
    Full(Vec<[f32; BLOCK]>),
}

/// 32 weights as 4-bit steps above a minimum.
#[derive(Debug, Clone, Copy)]
struct Four {
    step: f32,
    min: f32,
    quants: [u8; 16],
}

/// 32 weights as 8-bit multiples of a step.
#[derive(Debug, Clone, Copy)]
struct Eight {
    step: f32,
    quants: [i8; 32],
}

/// A block that unpacks to 32 weights.
trait Block: Sync {
    fn unpack_to(&self, out: &mut [f32; BLOCK]);

    #[inline(always)]
    fn unpack(&self) -> [f32; BLOCK] {
        let mut out = [0.0; BLOCK];
        self.unpack_to(&mut out);
        out
    }
}

impl Block for Four {
    #[inline(never)]
    fn unpack_to(&self, out: &mut [f32; BLOCK]) {
        let (low, high) = out.split_at_mut(16);
        for (o, &q) in low.iter_mut().zip(&self.quants) {
            *o = fma(f32::from(q & 15), self.step, self.min);
        }
        for (o, &q) in high.iter_mut().zip(&self.quants) {
            *o = fma(f32::from(q >> 4), self.step, self.min);
        }
    }
}

impl Block for Eight {
    #[inline(never)]
    fn unpack_to(&self, out: &mut [f32; BLOCK]) {
        for (o, &q) in out.iter_mut().zip(&self.quants) {
            *o = f32::from(q) * self.step;
        }
    }
}

impl Block for [f32; BLOCK] {
    #[inline(always)]
    fn unpack_to(&self, out: &mut [f32; BLOCK]) {
        *out = *self;
    }
}

/// `a * b + c`, fused where the build has the instruction: elsewhere it would be a library call.
#[inline(always)]
pub(crate) fn fma(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
        a.mul_add(b, c)
    } else {
        a * b + c
    }
}

impl Matrix {
    /// Creates a matrix from a tensor, whose row length is a multiple of 32 unless it is stored in
    /// full.
    pub(crate) fn from_tensor(tensor: &Tensor) -> Self {
        let Tensor { rows, cols, .. } = *tensor;
        let body = match tensor.format {
            Format::Q4_0 | Format::Q4_1 => Body::Four(fours(tensor)),
            Format::Q8_0 => Body::Eight(eights(tensor)),
            Format::F32 | Format::F16 => Body::Full(padded(&numbers(tensor), cols)),
        };
        Self { rows, cols, body }
    }

    /// Concatenates matrices of equal row length.
    pub(crate) fn stack(parts: Vec<Self>) -> Self {
        let cols = parts.first().map_or(0, |part| part.cols);
        let rows = parts.iter().map(|part| part.rows).sum();
        let mut fours = Vec::new();
        let mut eights = Vec::new();
        let mut count = 0;
        for part in &parts {
            count += part.rows * cols.div_ceil(BLOCK);
            match &part.body {
                Body::Four(blocks) => fours.extend_from_slice(blocks),
                Body::Eight(blocks) => eights.extend_from_slice(blocks),
                Body::Full(_) => {}
            }
        }
        let body = if fours.len() == count {
            Body::Four(fours)
        } else if eights.len() == count {
            Body::Eight(eights)
        } else {
            Body::Full(parts.iter().flat_map(Self::unpacked).collect())
        };
        Self { rows, cols, body }
    }

    /// Unpacks one row.
    pub(crate) fn row(&self, row: usize) -> Vec<f32> {
        fn collect<B: Block>(blocks: &[B]) -> Vec<f32> {
            blocks.iter().flat_map(Block::unpack).collect()
        }
        let width = self.cols.div_ceil(BLOCK);
        let range = row * width..(row + 1) * width;
        let mut out = match &self.body {
            Body::Four(blocks) => collect(&blocks[range]),
            Body::Eight(blocks) => collect(&blocks[range]),
            Body::Full(blocks) => collect(&blocks[range]),
        };
        out.truncate(self.cols);
        out
    }

    /// Multiplies: `x` holds rows of `cols` activations, the result rows of `rows` values.
    pub(crate) fn apply(&self, x: &[f32]) -> Vec<f32> {
        let padded_x;
        let x = if self.cols.is_multiple_of(BLOCK) {
            x
        } else {
            padded_x = padded(x, self.cols);
            padded_x.as_flattened()
        };
        match &self.body {
            Body::Four(blocks) => product(blocks, self.rows, x),
            Body::Eight(blocks) => product(blocks, self.rows, x),
            Body::Full(blocks) => product(blocks, self.rows, x),
        }
    }

    fn unpacked(&self) -> Vec<[f32; BLOCK]> {
        match &self.body {
            Body::Four(blocks) => blocks.iter().map(Block::unpack).collect(),
            Body::Eight(blocks) => blocks.iter().map(Block::unpack).collect(),
            Body::Full(blocks) => blocks.clone(),
        }
    }
}

/// The numbers of a tensor stored in full.
pub(crate) fn numbers(tensor: &Tensor) -> Vec<f32> {
    if tensor.format == Format::F16 {
        return tensor
            .bytes
            .as_chunks()
            .0
            .iter()
            .map(|b| half::to_f32(u16::from_le_bytes(*b)))
            .collect();
    }
    tensor.bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn fours(tensor: &Tensor) -> Vec<Four> {
    let half_at =
        |bytes: &[u8], at: usize| half::to_f32(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let centred = tensor.format == Format::Q4_0;
    let (_, block_bytes) = tensor.format.block();
    let to_block = |bytes: &[u8]| {
        let step = half_at(bytes, 0);
        let min = if centred { -8.0 * step } else { half_at(bytes, 2) };
        let mut quants = [0; 16];
        quants.copy_from_slice(&bytes[block_bytes - 16..]);
        Four { step, min, quants }
    };
    tensor.bytes.chunks_exact(block_bytes).map(to_block).collect()
}

fn eights(tensor: &Tensor) -> Vec<Eight> {
    let to_block = |bytes: &[u8; 34]| {
        let mut quants = [0; 32];
        for (q, byte) in quants.iter_mut().zip(&bytes[2..]) {
            *q = i8::from_le_bytes([*byte]);
        }
        Eight { step: half::to_f32(u16::from_le_bytes([bytes[0], bytes[1]])), quants }
    };
    tensor.bytes.as_chunks().0.iter().map(to_block).collect()
}

/// Cuts rows into blocks; the last block of a row is filled up with zeros.
fn padded(numbers: &[f32], cols: usize) -> Vec<[f32; BLOCK]> {
    let mut out = Vec::with_capacity(numbers.len().div_ceil(BLOCK));
    for row in numbers.chunks_exact(cols) {
        for piece in row.chunks(BLOCK) {
            let mut block = [0.0; BLOCK];
            block[..piece.len()].copy_from_slice(piece);
            out.push(block);
        }
    }
    out
}

fn product<B: Block>(blocks: &[B], rows: usize, x: &[f32]) -> Vec<f32> {
    let width = blocks.len() / rows;
    let x = x.as_chunks::<BLOCK>().0;
    let count = x.len() / width;
    let mut out = vec![0.0; count * rows];
    if count <= FEW {
        let columns = few(blocks, width, x);
        for (row, column) in columns.chunks_exact(count).enumerate() {
            for (i, value) in column.iter().enumerate() {
                out[i * rows + row] = *value;
            }
        }
    } else {
        let panels = many(blocks, width, x);
        out.par_chunks_mut(rows).enumerate().for_each(|(i, out)| {
            for (out, panel) in out.chunks_mut(PANEL).zip(panels.chunks_exact(count)) {
                out.copy_from_slice(&panel[i][..out.len()]);
            }
        });
    }
    out
}

/// Products with a few activation rows: for each weight row one value per activation row.
fn few<B: Block>(blocks: &[B], width: usize, x: &[[f32; BLOCK]]) -> Vec<f32> {
    let count = x.len() / width;
    let mut columns = vec![0.0; blocks.len() / width * count];
    columns
        .par_chunks_mut(ROWS_PER_TASK * count)
        .zip(blocks.par_chunks(ROWS_PER_TASK * width))
        .for_each_init(
            || vec![[0.0; BLOCK]; width],
            |weights, (columns, blocks)| {
                let rows = blocks.chunks_exact(width);
                for (column, row) in columns.chunks_exact_mut(count).zip(rows) {
                    for (out, block) in weights.iter_mut().zip(row) {
                        block.unpack_to(out);
                    }
                    let (groups, rest) = column.as_chunks_mut::<4>();
                    let mut xs = x.chunks_exact(width);
                    let halves = weights.as_flattened().as_chunks().0;
                    for group in groups {
                        let mut next =
                            || xs.next().unwrap_or_default().as_flattened().as_chunks().0;
                        *group = dots(halves, from_fn(|_| next())).map(|sums| sums.iter().sum());
                    }
                    for (one, x) in rest.iter_mut().zip(xs) {
                        *one = dot(weights, x);
                    }
                }
            },
        );
    columns
}

/// Dot product of an unpacked weight row and a row of activations.
#[inline(never)]
fn dot(weights: &[[f32; BLOCK]], x: &[[f32; BLOCK]]) -> f32 {
    let mut sum = [0.0f32; BLOCK];
    for (w, x) in weights.iter().zip(x) {
        for j in 0..BLOCK {
            sum[j] = fma(w[j], x[j], sum[j]);
        }
    }
    sum.iter().sum()
}

/// Dot products of an unpacked weight row and several rows of activations. The inner loops are
/// short so that the compiler unrolls them and keeps the sums in registers.
#[inline(never)]
fn dots<const N: usize>(weights: &[[f32; HALF]], xs: [&[[f32; HALF]]; N]) -> [[f32; HALF]; N] {
    let xs = xs.map(|x| &x[..weights.len()]);
    let mut sums = [[0.0f32; HALF]; N];
    for (k, w) in weights.iter().enumerate() {
        for (sum, x) in sums.iter_mut().zip(&xs) {
            let x = &x[k];
            for j in 0..HALF {
                sum[j] = fma(w[j], x[j], sum[j]);
            }
        }
    }
    sums
}

/// Products with many activation rows, as panels of 16 weight rows: `[panel][activation][16]`.
fn many<B: Block>(blocks: &[B], width: usize, x: &[[f32; BLOCK]]) -> Vec<[f32; PANEL]> {
    let count = x.len() / width;
    let panels = (blocks.len() / width).div_ceil(PANEL);
    let mut out = vec![[0.0; PANEL]; panels * count];
    out.par_chunks_mut(count).zip(blocks.par_chunks(PANEL * width)).for_each_init(
        || vec![[0.0f32; PANEL]; width * BLOCK],
        |panel, (out, blocks)| {
            let mut rows = [[0.0; BLOCK]; PANEL];
            for (b, columns) in panel.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
                for (row, blocks) in rows.iter_mut().zip(blocks.chunks_exact(width)) {
                    blocks[b].unpack_to(row);
                }
                transpose(&rows, columns);
            }
            let mut xs = x.as_flattened().chunks_exact(width * BLOCK);
            let (tiles, rest) = out.as_chunks_mut::<6>();
            for tile in tiles {
                *tile = multiply(panel, from_fn(|_| xs.next().unwrap_or_default()));
            }
            for (one, x) in rest.iter_mut().zip(xs) {
                [*one] = multiply(panel, [x]);
            }
        },
    );
    out
}

#[inline(never)]
fn transpose(rows: &[[f32; BLOCK]; PANEL], columns: &mut [[f32; PANEL]; BLOCK]) {
    for (c, column) in columns.iter_mut().enumerate() {
        *column = from_fn(|r| rows[r][c]);
    }
}

#[inline(never)]
fn multiply<const N: usize>(panel: &[[f32; PANEL]], xs: [&[f32]; N]) -> [[f32; PANEL]; N] {
    let xs = xs.map(|x| &x[..panel.len()]);
    let mut sums = [[0.0f32; PANEL]; N];
    for (k, w) in panel.iter().enumerate() {
        for (sum, x) in sums.iter_mut().zip(&xs) {
            let a = x[k];
            for j in 0..PANEL {
                sum[j] = fma(a, w[j], sum[j]);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern.
    fn noise(count: usize, mut seed: u32) -> Vec<f32> {
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        (0..count).map(|_| next()).collect()
    }

    /// A tensor of random blocks: scales of 1/16, minima of -1/2.
    fn tensor(format: Format, rows: usize, cols: usize) -> Tensor {
        let (per_block, block_bytes) = format.block();
        let bytes = noise(rows * cols / per_block * block_bytes, 9)
            .chunks(block_bytes)
            .flat_map(|block| {
                let mut bytes: Vec<u8> = block.iter().map(|x| (x * 200.0) as i8 as u8).collect();
                match format {
                    Format::F32 => bytes.copy_from_slice(&block[0].to_le_bytes()),
                    Format::F16 => bytes.copy_from_slice(&half::from_f32(block[0]).to_le_bytes()),
                    Format::Q4_0 | Format::Q8_0 => bytes[..2].copy_from_slice(&[0x00, 0x2c]),
                    Format::Q4_1 => bytes[..4].copy_from_slice(&[0x00, 0x2c, 0x00, 0xb8]),
                }
                bytes
            })
            .collect();
        Tensor { rows, cols, format, bytes }
    }

    fn check(matrix: &Matrix, rows: usize, cols: usize) {
        for count in [1, 2, 3, 4, 7, FEW, FEW + 1, 2 * FEW + 5] {
            let x = noise(count * cols, 4);
            let found = matrix.apply(&x);
            assert_eq!(found.len(), count * rows);
            for (i, x) in x.chunks(cols).enumerate() {
                for row in 0..rows {
                    let expected: f64 =
                        x.iter().zip(matrix.row(row)).map(|(a, b)| f64::from(a * b)).sum();
                    let error = (f64::from(found[i * rows + row]) - expected).abs();
                    assert!(error < 1e-3, "row {row} of {rows}, {i} of {count}: off by {error}");
                }
            }
        }
    }

    #[test]
    fn products_agree_with_the_definition_in_every_format_and_size() {
        use Format::{F16, F32, Q4_0, Q4_1, Q8_0};
        for format in [F32, F16, Q4_0, Q4_1, Q8_0] {
            for (rows, cols) in [(1, 32), (16, 64), (49, 96), (130, 64)] {
                check(&Matrix::from_tensor(&tensor(format, rows, cols)), rows, cols);
            }
        }
        check(&Matrix::from_tensor(&tensor(F32, 5, 48)), 5, 48);
    }

    #[test]
    fn stacked_matrices_keep_their_rows_whatever_their_formats() {
        for (first, second) in [(Format::Q4_1, Format::Q4_0), (Format::Q8_0, Format::Q4_1)] {
            let parts =
                || [first, second].map(|format| Matrix::from_tensor(&tensor(format, 20, 64)));
            let stacked = Matrix::stack(parts().into());
            let [above, below] = parts();
            assert_eq!((stacked.row(3), stacked.row(23)), (above.row(3), below.row(3)));
            check(&stacked, 40, 64);
        }
    }

    #[test]
    fn blocks_unpack_as_the_format_says() {
        let mut bytes = vec![0x00, 0x2c, 0x00, 0xb8];
        bytes.extend([0x9f; 16]);
        let q4_1 = Tensor { rows: 1, cols: 32, format: Format::Q4_1, bytes };
        let row = Matrix::from_tensor(&q4_1).row(0);
        assert_eq!((row[0], row[15], row[16], row[31]), (0.4375, 0.4375, 0.0625, 0.0625));
        let mut bytes = vec![0x00, 0x2c];
        bytes.extend([0x9f; 16]);
        let q4_0 = Tensor { rows: 1, cols: 32, format: Format::Q4_0, bytes };
        let row = Matrix::from_tensor(&q4_0).row(0);
        assert_eq!((row[0], row[16]), (0.4375, 0.0625));
    }
}
