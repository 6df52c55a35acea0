//! Encodings of bodies. Requests ask for none, but some gateways compress all the same.

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use std::io::{self, Write};
use weftwork_types::port::EgressResponse;

/// First bytes of a gzip body.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// First bytes of a zlib body: its method, with windows of up to 32 KiB.
const ZLIB: u8 = 0x78;

/// Number of bytes by which an encoding that the head names is told from text.
const HEAD_BYTES: usize = 16;

/// A body that cannot be decoded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EncodingError {
    /// The encoding is not read.
    #[error(
        "is compressed with `{0}`, which the request did not ask for; expected no compression, gzip or deflate: turn it off at the gateway"
    )]
    Unknown(String),
    /// The body is damaged.
    #[error("is damaged: its {0} cannot be decompressed")]
    Damaged(&'static str),
    /// The decoded body is larger than the limit.
    #[error("is larger than {0} KiB once it is decompressed")]
    TooLarge(usize),
}

/// A decoder for one body, piece by piece.
#[derive(Debug)]
pub(super) struct BodyDecoder {
    /// The encoding that the head of the response names; empty for none.
    named: String,
    state: State,
    bytes_max: usize,
}

#[derive(Debug)]
enum State {
    /// The first bytes.
    Start(Vec<u8>),
    Plain,
    Gzip(Box<MultiGzDecoder<Room>>),
    Zlib(Box<ZlibDecoder<Room>>),
    Deflate(Box<DeflateDecoder<Room>>),
}

/// Decoded bytes, up to a limit for the whole body.
#[derive(Debug)]
struct Room {
    bytes: Vec<u8>,
    left: usize,
}

impl Write for Room {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.left =
            self.left.checked_sub(piece.len()).ok_or_else(|| io::Error::other("too large"))?;
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BodyDecoder {
    /// Creates a decoder for the body of a response, of at most so many bytes.
    pub(super) fn new(response: &EgressResponse, bytes_max: usize) -> Self {
        let named = response.header("content-encoding").unwrap_or_default();
        let mut names = named.split(',').map(|name| name.trim().to_ascii_lowercase());
        // Several encodings are one that is not known.
        let first = names.find(|name| !["", "identity"].contains(&name.as_str()));
        let rest = names.find(|name| !["", "identity"].contains(&name.as_str()));
        let named = match (first, rest) {
            (Some(_), Some(_)) => named.to_ascii_lowercase(),
            (first, _) => first.unwrap_or_default(),
        };
        Self { named, state: State::Start(Vec::new()), bytes_max }
    }

    /// Decodes a piece of the body.
    pub(super) fn decode(&mut self, piece: &[u8]) -> Result<Vec<u8>, EncodingError> {
        if let State::Start(head) = &mut self.state {
            head.extend_from_slice(piece);
            let wanted = if self.named.is_empty() { 1 } else { HEAD_BYTES };
            if head.len() < wanted {
                return Ok(Vec::new());
            }
            return self.decode_first();
        }
        self.decode_on(piece)
    }

    /// Decodes what is left at the end of the body, and checks the body.
    pub(super) fn end(&mut self) -> Result<Vec<u8>, EncodingError> {
        if matches!(&self.state, State::Start(head) if !head.is_empty()) {
            return self.decode_first();
        }
        let ended = match &mut self.state {
            State::Gzip(decoder) => decoder.try_finish(),
            _ => Ok(()),
        };
        match ended {
            // An answer that was cut is read as any other one.
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                Err(EncodingError::Damaged("gzip"))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Decodes the first bytes.
    fn decode_first(&mut self) -> Result<Vec<u8>, EncodingError> {
        let State::Start(head) = &mut self.state else { return Ok(Vec::new()) };
        let head = std::mem::take(head);
        self.state = self.choose_decoder(&head)?;
        self.decode_on(&head)
    }

    fn decode_on(&mut self, piece: &[u8]) -> Result<Vec<u8>, EncodingError> {
        let bytes_max = self.bytes_max;
        match &mut self.state {
            State::Start(_) | State::Plain => Ok(piece.to_vec()),
            State::Gzip(decoder) => {
                let written = decoder.write_all(piece).and_then(|()| decoder.flush());
                decoded(written, decoder.get_mut(), "gzip", bytes_max)
            }
            State::Zlib(decoder) => {
                let written = decoder.write_all(piece).and_then(|()| decoder.flush());
                decoded(written, decoder.get_mut(), "deflate", bytes_max)
            }
            State::Deflate(decoder) => {
                let written = decoder.write_all(piece).and_then(|()| decoder.flush());
                decoded(written, decoder.get_mut(), "deflate", bytes_max)
            }
        }
    }

    /// Chooses the decoder by the first bytes. Some gateways decode a body and keep the header, and
    /// others lose the header.
    fn choose_decoder(&self, piece: &[u8]) -> Result<State, EncodingError> {
        let room = Room { bytes: Vec::new(), left: self.bytes_max };
        if piece.starts_with(&GZIP) || piece == &GZIP[..1] {
            return Ok(State::Gzip(Box::new(MultiGzDecoder::new(room))));
        }
        match self.named.as_str() {
            "deflate" if piece.first() == Some(&ZLIB) => {
                Ok(State::Zlib(Box::new(ZlibDecoder::new(room))))
            }
            _ if self.named.is_empty() || is_text(piece) => Ok(State::Plain),
            "deflate" => Ok(State::Deflate(Box::new(DeflateDecoder::new(room)))),
            other => Err(EncodingError::Unknown(other.to_owned())),
        }
    }
}

/// Returns what was decoded.
fn decoded(
    written: io::Result<()>,
    room: &mut Room,
    encoding: &'static str,
    bytes_max: usize,
) -> Result<Vec<u8>, EncodingError> {
    match written {
        Ok(()) => Ok(std::mem::take(&mut room.bytes)),
        Err(error) if error.kind() == io::ErrorKind::Other => {
            Err(EncodingError::TooLarge(bytes_max / 1024))
        }
        Err(_) => Err(EncodingError::Damaged(encoding)),
    }
}

/// Returns `true` for the beginning of an event stream, of JSON or of a page: text without control
/// characters, which no encoding produces.
fn is_text(piece: &[u8]) -> bool {
    let piece = piece.strip_prefix(b"\xef\xbb\xbf").unwrap_or(piece);
    let is_control = |byte: &u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
    let head = &piece[..piece.len().min(64)];
    let is_utf8 = match std::str::from_utf8(head) {
        Ok(_) => true,
        // A character that the piece or the head cuts.
        Err(error) => error.error_len().is_none(),
    };
    is_utf8 && !head.iter().any(is_control)
}

#[cfg(test)]
mod tests;
