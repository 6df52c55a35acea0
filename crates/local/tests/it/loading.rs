use crate::tiny::{self, Recipe};
use std::path::Path;
use weftwork_local::Error;
use weftwork_local::engine::Engine;
use weftwork_local::file::Expected;
use weftwork_types::canonical::{Hash, hash_bytes};

fn error(path: &Path, expected: Option<Expected>) -> Error {
    Engine::open(path, expected).expect_err("this file cannot be run")
}

/// The error for a file with these bytes.
fn error_of(bytes: &[u8]) -> Error {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("model.gguf");
    std::fs::write(&path, bytes).expect("written");
    error(&path, None)
}

#[test]
fn every_number_format_loads() {
    for format in [0, 2, 3, 8] {
        let (_directory, path) = tiny::model(&Recipe { format, ..Recipe::default() });
        let engine = tiny::open(&path);
        assert_eq!(engine.context(), 4096);
        assert_eq!(engine.hash(), hash_bytes(&std::fs::read(&path).expect("bytes")));
    }
}

#[test]
fn a_missing_file_says_how_to_get_it() {
    let error = error(Path::new("/nowhere/model.gguf"), None);
    assert_eq!(error.code().0, "W0501");
    let text = error.to_string();
    assert!(text.contains("/nowhere/model.gguf") && text.contains("weft models pull"), "{text}");
}

#[test]
fn a_file_that_cannot_be_read_is_told_apart_from_a_missing_one() {
    let directory = tempfile::tempdir().expect("directory");
    assert_eq!(error(directory.path(), None).code().0, "W0502");
}

#[test]
fn a_truncated_file_is_named_before_its_hash_is_taken() {
    let bytes = tiny::bytes(&Recipe::default());
    let expected = Expected { bytes: bytes.len() as u64, sha256: hash_bytes(&bytes) };
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("model.gguf");
    std::fs::write(&path, &bytes[..bytes.len() - 100]).expect("written");
    let found = error(&path, Some(expected));
    assert_eq!(found.code().0, "W0503", "{found}");
    assert!(found.to_string().contains(&format!("expected {}", bytes.len())), "{found}");
}

#[test]
fn a_file_cut_anywhere_is_truncated_even_when_nothing_is_expected() {
    let bytes = tiny::bytes(&Recipe::default());
    for share in 1..20 {
        let found = error_of(&bytes[..bytes.len() * share / 20]);
        assert_eq!(found.code().0, "W0503", "{found}");
    }
}

#[test]
fn a_wrong_hash_names_both() {
    let (_directory, path) = tiny::model(&Recipe::default());
    let found = error(&path, Some(Expected { bytes: 10, sha256: Hash([7; 32]) }));
    assert_eq!(found.code().0, "W0504");
    assert!(found.to_string().contains(&Hash([7; 32]).to_string()), "{found}");
}

#[test]
fn what_is_no_gguf_file_is_told_by_its_beginning() {
    let found = error_of(b"PK\x03\x04 a zip file");
    assert_eq!(found.code().0, "W0505");
    assert!(found.to_string().contains(r"PK\x03\x04"), "{found}");
    let mut old = tiny::bytes(&Recipe::default());
    old[4] = 1;
    assert_eq!(error_of(&old).code().0, "W0505");
}

#[test]
fn damaged_headers_never_panic() {
    let bytes = tiny::bytes(&Recipe::default());
    let mut dice = tiny::Dice(3);
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        for _ in 0..3 {
            let at = dice.below(9000) as usize % damaged.len();
            damaged[at] = dice.next() as u8;
        }
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("model.gguf");
        std::fs::write(&path, &damaged).expect("written");
        if let Err(found) = Engine::open(&path, None) {
            assert!(found.code().0.starts_with("W050"), "{found}");
        }
    }
}

#[test]
fn other_architectures_and_formats_are_refused_by_name() {
    let qwen = error_of(&tiny::bytes(&Recipe { architecture: "qwen2", ..Recipe::default() }));
    assert_eq!(qwen.code().0, "W0506");
    assert!(qwen.to_string().contains("`qwen2`, expected llama"), "{qwen}");
    let q6 = error_of(&tiny::bytes(&Recipe { format: 14, ..Recipe::default() }));
    assert_eq!(q6.code().0, "W0506");
    assert!(q6.to_string().contains("ggml type 14"), "{q6}");
}
