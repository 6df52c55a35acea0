use super::*;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use futures_util::{StreamExt as _, stream};

const TEXT: &str = "data: {\"choices\": [{\"delta\": {\"content\": \"hi 🧵\"}}]}\n\n";

fn response(encoding: &str) -> EgressResponse {
    let headers = vec![("content-encoding".to_owned(), encoding.to_owned())];
    EgressResponse { status: 200, headers, body: stream::empty().boxed() }
}

fn read(encoding: &str, body: &[u8], size: usize) -> Result<String, EncodingError> {
    let mut decoder = BodyDecoder::new(&response(encoding), 10_000);
    let mut out = Vec::new();
    for piece in body.chunks(size) {
        out.extend(decoder.decode(piece)?);
    }
    out.extend(decoder.end()?);
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("writes");
    encoder.finish().expect("a body")
}

fn zlib(text: &str) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("writes");
    encoder.finish().expect("a body")
}

fn deflate(text: &str) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("writes");
    encoder.finish().expect("a body")
}

#[test]
fn bodies_are_read_with_and_without_the_header_that_names_their_encoding() {
    let plain = TEXT.as_bytes().to_vec();
    for (encoding, body) in [
        ("gzip", gzip(TEXT)),
        ("X-GZIP", gzip(TEXT)),
        ("identity, gzip", gzip(TEXT)),
        // A gateway that lost the header, and one that names another encoding.
        ("", gzip(TEXT)),
        ("br", gzip(TEXT)),
        // Two bodies, one after the other.
        ("gzip", [gzip(&TEXT[..9]), gzip(&TEXT[9..])].concat()),
        ("deflate", zlib(TEXT)),
        ("deflate", deflate(TEXT)),
        ("", plain.clone()),
        ("identity", plain.clone()),
        // A gateway that decoded the body and kept the header.
        ("gzip", plain.clone()),
        ("br", plain.clone()),
        ("deflate", plain.clone()),
        ("zstd, gzip", plain),
    ] {
        for size in [1, 2, 3, 7, 10_000] {
            let found = read(encoding, &body, size);
            assert_eq!(found.as_deref(), Ok(TEXT), "`{encoding}`, pieces of {size}");
        }
    }
}

#[test]
fn text_arrives_with_the_piece_that_has_it() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut decoder = BodyDecoder::new(&response("gzip"), 10_000);
    for text in ["data: one\n\n", "data: two\n\n"] {
        encoder.write_all(text.as_bytes()).expect("writes");
        encoder.flush().expect("flushes");
        let piece = std::mem::take(encoder.get_mut());
        assert_eq!(decoder.decode(&piece).as_deref(), Ok(text.as_bytes()));
    }
    assert_eq!(decoder.end().as_deref(), Ok(&[][..]));
}

#[test]
fn other_encodings_damage_and_large_bodies_are_errors_that_say_so() {
    let compressed = [0x1b, 0x3f, 0x00, 0xf8, 0x8d, 0x94, 0x6e, 0xde, 0x55];
    for encoding in ["br", "zstd", "gzip, br"] {
        let error = read(encoding, &compressed, 3).expect_err(encoding);
        assert!(error.to_string().contains(&format!("`{encoding}`")), "{error}");
    }
    let mut damaged = gzip(TEXT);
    damaged[20] ^= 0xff;
    for size in [1, 7, 10_000] {
        assert_eq!(read("gzip", &damaged, size), Err(EncodingError::Damaged("gzip")));
    }
    // The answer itself says that it was cut.
    let whole = gzip(TEXT);
    assert!(read("gzip", &whole[..whole.len() - 9], 7).is_ok_and(|text| TEXT.starts_with(&text)));
    for body in [gzip(&"x".repeat(20_000)), deflate(&"x".repeat(20_000))] {
        assert!(body.len() < 100);
        let error = read("deflate", &body, 10).expect_err("too large");
        assert_eq!(error, EncodingError::TooLarge(9), "{error}");
    }
}
