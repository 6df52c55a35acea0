//! Messages on a pipe: their length in four bytes, then JSON.

use serde::Serialize;
use std::io::{self, Read, Write};

/// Largest message in bytes beyond what the limits of a call say.
pub(crate) const MARGIN_BYTES: usize = 64 << 10;
/// Largest message to a process in bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Returns a message as it is written.
pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = u32::try_from(bytes.len() - 4).map_err(|_| io::ErrorKind::FileTooLarge)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// Writes a message.
pub(crate) fn write(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    out.write_all(&encode(message)?)?;
    out.flush()
}

/// Reads a message.
pub(crate) fn read(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > MESSAGE_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}
