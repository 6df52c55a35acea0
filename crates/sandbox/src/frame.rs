//! Messages on a pipe: their length in four bytes, then JSON.

use serde::Serialize;
use std::io;

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
