//! The GGUF file format: metadata and the positions of tensors.
//!
//! Source: the GGUF specification of the ggml project, version 3 (version 2 has the same layout).

use crate::Error;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 4] = b"GGUF";
const STRING_BYTES_MAX: u64 = 1 << 20;
const ITEMS_MAX: u64 = 1 << 21;
const DEPTH_MAX: u32 = 4;

/// A metadata value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Meta {
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    List(Vec<Meta>),
}

/// The storage format of a tensor's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    F32,
    F16,
    Q4_0,
    Q4_1,
    Q8_0,
}

impl Format {
    fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            8 => Self::Q8_0,
            _ => return None,
        })
    }

    /// Numbers per block and bytes per block.
    pub(crate) fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 => (1, 2),
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q8_0 => (32, 34),
        }
    }
}

/// The position and shape of a tensor.
#[derive(Debug, Clone)]
struct TensorInfo {
    cols: usize,
    rows: usize,
    code: u32,
    offset: u64,
}

/// A tensor's bytes.
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) format: Format,
    pub(crate) bytes: Vec<u8>,
}

/// An open GGUF file.
#[derive(Debug)]
pub(crate) struct Gguf {
    path: PathBuf,
    reader: BufReader<File>,
    file_bytes: u64,
    data_start: u64,
    meta: BTreeMap<String, Meta>,
    tensors: BTreeMap<String, TensorInfo>,
}

impl Gguf {
    /// Reads the header of a GGUF file.
    pub(crate) fn open(path: &Path, mut file: File) -> Result<Self, Error> {
        let file_bytes =
            file.seek(SeekFrom::End(0)).map_err(|error| Error::io("read", path, &error))?;
        file.seek(SeekFrom::Start(0)).map_err(|error| Error::io("read", path, &error))?;
        let mut header = Header { path, reader: BufReader::new(file), file_bytes, at: 0 };
        let (tensor_count, meta_count) = header.preamble()?;
        let mut meta = BTreeMap::new();
        for _ in 0..meta_count {
            let key = header.text()?;
            let kind = header.u32()?;
            let value = header.value(kind, 0)?;
            meta.insert(key, value);
        }
        let mut tensors = BTreeMap::new();
        for _ in 0..tensor_count {
            let name = header.text()?;
            let info = header.tensor_info(&name)?;
            tensors.insert(name, info);
        }
        let align = match meta.get("general.alignment") {
            Some(Meta::Int(n)) if *n > 0 && n.count_ones() == 1 => *n as u64,
            None => 32,
            Some(other) => return Err(header.broken(format!("alignment {other:?}"))),
        };
        let data_start = header.at.next_multiple_of(align);
        let reader = header.reader;
        Ok(Self { path: path.to_owned(), reader, file_bytes, data_start, meta, tensors })
    }

    /// A metadata value, if it exists.
    pub(crate) fn meta(&self, key: &str) -> Option<&Meta> {
        self.meta.get(key)
    }

    /// Removes and returns a metadata value, so that large lists are not copied.
    pub(crate) fn take_meta(&mut self, key: &str) -> Option<Meta> {
        self.meta.remove(key)
    }

    /// A whole number from the metadata.
    pub(crate) fn int(&self, key: &str) -> Result<usize, Error> {
        match self.meta.get(key) {
            Some(Meta::Int(n)) if *n >= 0 => Ok(*n as usize),
            other => Err(self.missing_key(key, other, "a whole number")),
        }
    }

    /// A fraction from the metadata.
    pub(crate) fn float(&self, key: &str) -> Result<f32, Error> {
        match self.meta.get(key) {
            Some(Meta::Float(x)) => Ok(*x as f32),
            other => Err(self.missing_key(key, other, "a number")),
        }
    }

    /// `true` if there is a tensor of that name.
    pub(crate) fn has_tensor(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Reads a tensor of the given shape.
    pub(crate) fn tensor(&mut self, name: &str, rows: usize, cols: usize) -> Result<Tensor, Error> {
        let Some(info) = self.tensors.get(name).cloned() else {
            return Err(self.unsupported(format!("tensor `{name}`"), "missing", "present"));
        };
        if (info.rows, info.cols) != (rows, cols) {
            return Err(self.unsupported(
                format!("the shape of tensor `{name}`"),
                format!("{} x {}", info.rows, info.cols),
                format!("{rows} x {cols}"),
            ));
        }
        let Some(format) = Format::from_code(info.code) else {
            return Err(self.unsupported(
                format!("the number format of tensor `{name}`"),
                format!("ggml type {}", info.code),
                "F32, F16, Q4_0, Q4_1 or Q8_0",
            ));
        };
        let (per_block, block_bytes) = format.block();
        if !cols.is_multiple_of(per_block) {
            return Err(self.unsupported(
                format!("the row length of tensor `{name}`"),
                cols.to_string(),
                format!("a multiple of {per_block}"),
            ));
        }
        let len = rows * (cols / per_block) * block_bytes;
        let start = self.data_start.saturating_add(info.offset);
        let end = start.saturating_add(len as u64);
        if end > self.file_bytes {
            return Err(Error::Truncated {
                path: self.path.clone(),
                expected_bytes: end,
                found_bytes: self.file_bytes,
            });
        }
        let mut bytes = vec![0; len];
        self.reader
            .seek(SeekFrom::Start(start))
            .and_then(|_| self.reader.read_exact(&mut bytes))
            .map_err(|error| Error::io("read", &self.path, &error))?;
        Ok(Tensor { rows, cols, format, bytes })
    }

    /// An error for a property that this engine does not support.
    pub(crate) fn unsupported(
        &self,
        what: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Error {
        Error::Unsupported {
            path: self.path.clone(),
            what: what.into(),
            found: found.into(),
            expected: expected.into(),
        }
    }

    fn missing_key(&self, key: &str, found: Option<&Meta>, expected: &str) -> Error {
        let found = found.map_or_else(|| "missing".to_owned(), |value| format!("{value:?}"));
        self.unsupported(format!("metadata `{key}`"), found, expected)
    }
}

/// A reader of the header.
struct Header<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    file_bytes: u64,
    at: u64,
}

impl Header<'_> {
    fn preamble(&mut self) -> Result<(u64, u64), Error> {
        let magic: [u8; 4] = self.take()?;
        if &magic != MAGIC {
            return Err(
                self.broken(format!("it begins with `{}`, expected `GGUF`", magic.escape_ascii()))
            );
        }
        let version = self.u32()?;
        if !(2..=3).contains(&version) {
            return Err(self.broken(format!("format version {version}, expected 2 or 3")));
        }
        let tensors = self.read_count("tensors")?;
        let meta = self.read_count("metadata entries")?;
        Ok((tensors, meta))
    }

    fn tensor_info(&mut self, name: &str) -> Result<TensorInfo, Error> {
        let dims = self.u32()?;
        if !(1..=4).contains(&dims) {
            return Err(self.broken(format!("tensor `{name}` has {dims} dimensions")));
        }
        let mut sizes = [1u64; 4];
        for size in sizes.iter_mut().take(dims as usize) {
            *size = self.u64()?;
            if *size == 0 || *size > u64::from(u32::MAX) {
                return Err(self.broken(format!("tensor `{name}` has a dimension of {size}")));
            }
        }
        let code = self.u32()?;
        let offset = self.u64()?;
        let rows = sizes[1].saturating_mul(sizes[2]).saturating_mul(sizes[3]);
        Ok(TensorInfo { cols: sizes[0] as usize, rows: rows as usize, code, offset })
    }

    fn value(&mut self, kind: u32, depth: u32) -> Result<Meta, Error> {
        Ok(match kind {
            0 => Meta::Int(i64::from(self.take::<1>()?[0])),
            1 => Meta::Int(i64::from(i8::from_le_bytes(self.take()?))),
            2 => Meta::Int(i64::from(u16::from_le_bytes(self.take()?))),
            3 => Meta::Int(i64::from(i16::from_le_bytes(self.take()?))),
            4 => Meta::Int(i64::from(self.u32()?)),
            5 => Meta::Int(i64::from(i32::from_le_bytes(self.take()?))),
            6 => Meta::Float(f64::from(f32::from_le_bytes(self.take()?))),
            7 => Meta::Bool(self.take::<1>()?[0] != 0),
            8 => Meta::Text(self.text()?),
            9 if depth < DEPTH_MAX => {
                let kind = self.u32()?;
                let count = self.read_count("list items")?;
                let items: Result<_, _> = (0..count).map(|_| self.value(kind, depth + 1)).collect();
                Meta::List(items?)
            }
            10 => Meta::Int(i64::try_from(self.u64()?).unwrap_or(i64::MAX)),
            11 => Meta::Int(i64::from_le_bytes(self.take()?)),
            12 => Meta::Float(f64::from_le_bytes(self.take()?)),
            other => return Err(self.broken(format!("metadata of type {other}"))),
        })
    }

    fn text(&mut self) -> Result<String, Error> {
        let len = self.u64()?;
        if len > STRING_BYTES_MAX {
            return Err(self.broken(format!("a text of {len} bytes in its header")));
        }
        self.check_room(len)?;
        let mut bytes = vec![0; len as usize];
        self.fill_bytes(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| self.broken("a text that is not UTF-8".to_owned()))
    }

    fn read_count(&mut self, what: &str) -> Result<u64, Error> {
        let count = self.u64()?;
        if count > ITEMS_MAX {
            return Err(self.broken(format!("{count} {what}, expected at most {ITEMS_MAX}")));
        }
        Ok(count)
    }

    fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.check_room(N as u64)?;
        self.fill_bytes(&mut bytes)?;
        Ok(bytes)
    }

    fn check_room(&self, bytes: u64) -> Result<(), Error> {
        let expected_bytes = self.at + bytes;
        if expected_bytes <= self.file_bytes {
            return Ok(());
        }
        Err(Error::Truncated {
            path: self.path.to_owned(),
            expected_bytes,
            found_bytes: self.file_bytes,
        })
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        self.reader.read_exact(bytes).map_err(|error| Error::io("read", self.path, &error))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn broken(&self, reason: String) -> Error {
        Error::NotGguf { path: self.path.to_owned(), reason }
    }
}
