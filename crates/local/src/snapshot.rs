//! Snapshots of processed prompts on disk, for later processes.
//!
//! A snapshot is a cache: a missing, old or damaged one, or one of another model, is ignored and
//! written again. Keys and values are stored with the 16 bits that the engine uses, so a snapshot
//! does not change answers.

use crate::engine::Engine;
use crate::half;
use crate::llama::{LayerMemory, Memory};
use crate::prefixes::Prefixes;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::{Path, PathBuf};
use weftwork_types::canonical::Hash;

/// Version of the layout of snapshots and of the computation.
const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"WEFTKV\r\n";
const HEADER_BYTES: usize = 8 + 4 + 32 + 4 + 4 + 4;
/// Maximum number of snapshots in a directory, of about 20 MB each; older ones are deleted.
const FILES_MAX: usize = 4;

/// The origin of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It was computed.
    Read,
    /// It was found on disk.
    Disk,
}

impl Engine {
    /// Loads processed prompts from a snapshot in `directory`, or processes them. A snapshot that
    /// cannot be written is not an error: the next process computes it again.
    #[must_use]
    pub fn recall_prefixes(&self, prompts: Vec<Vec<u32>>, directory: &Path) -> (Prefixes, Origin) {
        let file = directory.join(format!("{}.kv", key(&self.hash(), &prompts)));
        if let Ok(bytes) = std::fs::read(&file)
            && let Some(memory) = self.unpack(&bytes, rows(&prompts))
        {
            return (Prefixes { prompts, memory }, Origin::Disk);
        }
        let prefixes = self.read_prefixes(prompts);
        if store(&file, &self.pack(&prefixes.memory)).is_ok() {
            prune(directory);
        }
        (prefixes, Origin::Read)
    }

    fn pack(&self, memory: &Memory) -> Vec<u8> {
        let shape = self.llama.shape();
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.hash().0);
        for size in [memory.len(), shape.layers, shape.kv_width()] {
            out.extend_from_slice(&(size as u32).to_le_bytes());
        }
        for layer in memory.layers() {
            for number in layer.keys.iter().chain(&layer.values) {
                out.extend_from_slice(&half::from_f32(*number).to_le_bytes());
            }
        }
        let sum = Sha256::digest(&out);
        out.extend_from_slice(&sum);
        out
    }

    fn unpack(&self, bytes: &[u8], rows: usize) -> Option<Memory> {
        let shape = self.llama.shape();
        let (content, sum) = bytes.split_last_chunk::<32>()?;
        let (header, numbers) = content.split_at_checked(HEADER_BYTES)?;
        let mut expected = Vec::with_capacity(HEADER_BYTES);
        expected.extend_from_slice(MAGIC);
        expected.extend_from_slice(&VERSION.to_le_bytes());
        expected.extend_from_slice(&self.hash().0);
        for size in [rows, shape.layers, shape.kv_width()] {
            expected.extend_from_slice(&(size as u32).to_le_bytes());
        }
        let half_layer = rows * shape.kv_width();
        let whole = numbers.len() == 2 * 2 * half_layer * shape.layers;
        if header != expected || !whole || Sha256::digest(content).as_slice() != sum {
            return None;
        }
        let mut numbers =
            numbers.as_chunks().0.iter().map(|b| half::to_f32(u16::from_le_bytes(*b)));
        let mut take = || numbers.by_ref().take(half_layer).collect();
        let layers = (0..shape.layers).map(|_| LayerMemory { keys: take(), values: take() });
        Some(Memory::from_layers(rows, layers.collect()))
    }
}

fn rows(prompts: &[Vec<u32>]) -> usize {
    prompts.iter().map(Vec::len).sum()
}

/// The name of a snapshot, from its contents and the model.
fn key(model: &Hash, prompts: &[Vec<u32>]) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(VERSION.to_le_bytes());
    hasher.update(model.0);
    for prompt in prompts {
        hasher.update((prompt.len() as u32).to_le_bytes());
        for token in prompt {
            hasher.update(token.to_le_bytes());
        }
    }
    Hash(hasher.finalize().into())
}

/// Writes a temporary file and renames it, so that readers never see an incomplete file.
fn store(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let beside = file.with_extension(format!("{}.tmp", std::process::id()));
    let written = std::fs::File::create(&beside).and_then(|mut f| f.write_all(bytes));
    let done = written.and_then(|()| std::fs::rename(&beside, file));
    if done.is_err() {
        drop(std::fs::remove_file(&beside));
    }
    done
}

/// Deletes the oldest snapshots when there are too many.
fn prune(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut files: Vec<(std::time::SystemTime, PathBuf)> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().extension().is_some_and(|e| e == "kv"))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort();
    for (_, file) in files.iter().rev().skip(FILES_MAX) {
        drop(std::fs::remove_file(file));
    }
}
