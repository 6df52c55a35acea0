//! Draws that repeat: a failing test prints its seed.

/// xorshift64*.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The draws of one seed, told apart by what they are for.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self((seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1);
        for _ in 0..8 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
