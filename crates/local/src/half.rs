//! 16-bit floating point numbers as they stand in files.

/// Reads an IEEE 754 half.
#[inline]
pub(crate) fn to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let mantissa = u32::from(bits & 0x3ff);
    match (exponent, mantissa) {
        (0, 0) => f32::from_bits(sign),
        (0, _) => {
            let value = mantissa as f32 / 16_777_216.0;
            f32::from_bits(value.to_bits() | sign)
        }
        (0x1f, 0) => f32::from_bits(sign | 0x7f80_0000),
        (0x1f, _) => f32::from_bits(sign | 0x7fc0_0000 | (mantissa << 13)),
        _ => f32::from_bits(sign | ((exponent + 112) << 23) | (mantissa << 13)),
    }
}

/// Writes an IEEE 754 half, rounding to nearest, ties to even.
#[inline]
pub(crate) fn from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let rest = bits & 0x7fff_ffff;
    if rest >= 0x7f80_0000 {
        return sign | if rest > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    }
    if rest >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    if rest >= 0x3880_0000 {
        let rounded = rest + 0xfff + ((rest >> 13) & 1);
        return sign | ((rounded - 0x3800_0000) >> 13) as u16;
    }
    // Below the smallest normal half: adding 0.5 lines the bits up, and the FPU rounds.
    let shifted = f32::from_bits(rest) + 0.5;
    sign | (shifted.to_bits() - 0x3f00_0000) as u16
}

/// The nearest value that a half can represent.
#[inline]
pub(crate) fn round(value: f32) -> f32 {
    to_f32(from_f32(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_the_round_trip() {
        for bits in 0..=u16::MAX {
            let value = to_f32(bits);
            if value.is_nan() {
                assert!(to_f32(from_f32(value)).is_nan());
            } else {
                assert_eq!(from_f32(value), bits, "{value}");
            }
        }
    }

    #[test]
    fn rounding_is_to_nearest_even_and_saturates_to_infinity() {
        assert_eq!(round(1.0), 1.0);
        assert_eq!(from_f32(1.0 + 1.0 / 2048.0), 0x3c00);
        assert_eq!(from_f32(1.0 + 3.0 / 2048.0), 0x3c02);
        assert_eq!(from_f32(65519.0), 0x7bff);
        assert_eq!(from_f32(65520.0), 0x7c00);
        assert_eq!(from_f32(-1e9), 0xfc00);
        assert_eq!(from_f32(1e-9), 0);
    }
}
