//! Beginnings of texts that a reader has, and what it lacks of the whole text.

/// The beginning of a text that a reader has: its length and a checksum (FNV-1a). Both grow with the
/// text, which need not be retained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedText {
    bytes: usize,
    sum: u32,
}

const SUM_OF_NOTHING: u32 = 0x811c_9dc5;
const SUM_FACTOR: u32 = 0x0100_0193;

impl Default for ReceivedText {
    fn default() -> Self {
        Self { bytes: 0, sum: SUM_OF_NOTHING }
    }
}

impl ReceivedText {
    /// Creates the beginning that is all of a text.
    #[must_use]
    pub fn whole(text: &str) -> Self {
        let mut received = Self::default();
        received.extend(text);
        received
    }

    /// Creates a beginning with a length and a checksum that were read from an id or a position.
    #[must_use]
    pub fn read(bytes: usize, sum: u32) -> Self {
        Self { bytes, sum }
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// Returns the checksum.
    #[must_use]
    pub fn sum(self) -> u32 {
        self.sum
    }

    /// Adds text that follows.
    pub fn extend(&mut self, text: &str) {
        self.bytes = self.bytes.saturating_add(text.len());
        let add = |sum: u32, byte: u8| (sum ^ u32::from(byte)).wrapping_mul(SUM_FACTOR);
        self.sum = text.bytes().fold(self.sum, add);
    }

    /// Returns the rest of a text that begins with the received one; `None` for other texts.
    #[must_use]
    pub fn rest(self, whole: &str) -> Option<&str> {
        let (received, rest) = whole.split_at_checked(self.bytes)?;
        (Self::whole(received) == self).then_some(rest)
    }
}

/// The part of a whole text that a reader lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingText<'a> {
    /// The reader has nothing of the text.
    Whole,
    /// The reader has text that is not the beginning of this one.
    Other,
    /// The reader has the beginning of the text.
    Rest {
        /// Text that it has.
        received: &'a str,
    },
}

impl<'a> MissingText<'a> {
    /// Compares the text that a reader has with the whole one.
    #[must_use]
    pub fn of(received: Option<ReceivedText>, whole: &'a str) -> Self {
        let Some(received) = received else { return Self::Whole };
        match received.rest(whole) {
            Some(rest) => Self::Rest { received: &whole[..whole.len() - rest.len()] },
            None => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_grows_is_the_beginning_of_the_whole() {
        let mut received = ReceivedText::default();
        assert_eq!(received.rest("aüz"), Some("aüz"));
        received.extend("a");
        received.extend("ü");
        assert_eq!(received, ReceivedText::whole("aü"));
        assert_eq!(ReceivedText::read(3, received.sum()), received);
        assert_eq!(received.rest("aüz"), Some("z"));
        assert_eq!(received.rest("aü"), Some(""));
        for other in ["aöz", "a", "", "aaüz"] {
            assert_eq!(received.rest(other), None, "{other}");
        }
        assert_eq!(ReceivedText::read(2, received.sum()).rest("aüz"), None, "within a letter");
    }

    #[test]
    fn what_a_reader_lacks_is_all_the_rest_or_another_text() {
        let received = Some(ReceivedText::whole("Hel"));
        assert_eq!(MissingText::of(None, "Hello"), MissingText::Whole);
        assert_eq!(MissingText::of(received, "Hello"), MissingText::Rest { received: "Hel" });
        assert_eq!(MissingText::of(received, "Help!"), MissingText::Rest { received: "Hel" });
        assert_eq!(MissingText::of(received, "Good"), MissingText::Other);
    }
}
