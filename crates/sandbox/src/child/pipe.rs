//! Reading and writing of messages, which waits.

use crate::frame::{MESSAGE_BYTES_MAX, encode};
use serde::Serialize;
use std::io::{self, Read, Write};

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
