//! The printable characters that represent bytes in the vocabulary.

use std::collections::HashMap;

/// GPT-2's byte alphabet: printable Latin-1 characters represent themselves, the other bytes are
/// represented by the characters from U+0100 on, in order.
#[derive(Debug)]
pub(super) struct Table {
    chars: [char; 256],
    bytes: HashMap<char, u8>,
}

impl Table {
    pub(super) fn new() -> Self {
        let mut chars = ['\0'; 256];
        let mut next = 0x100;
        for (byte, slot) in (0..=u8::MAX).zip(&mut chars) {
            *slot = match byte {
                b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
                _ => {
                    let c = char::from_u32(next).unwrap_or_default();
                    next += 1;
                    c
                }
            };
        }
        let bytes = chars.iter().copied().zip(0..=u8::MAX).collect();
        Self { chars, bytes }
    }

    pub(super) fn encode(&self, byte: u8) -> char {
        self.chars[usize::from(byte)]
    }

    pub(super) fn decode(&self, text: &str) -> Option<Vec<u8>> {
        text.chars().map(|c| self.bytes.get(&c).copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_its_own_character() {
        let table = Table::new();
        assert_eq!(table.encode(b' '), 'Ġ');
        assert_eq!(table.encode(b'\n'), 'Ċ');
        assert_eq!(table.encode(b'a'), 'a');
        for byte in 0..=u8::MAX {
            assert_eq!(table.decode(&table.encode(byte).to_string()), Some(vec![byte]));
        }
        assert_eq!(table.decode("→"), None);
    }
}
