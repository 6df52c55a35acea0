use crate::tiny::{self, Recipe};
use std::path::{Path, PathBuf};
use weftwork_local::engine::Engine;
use weftwork_local::snapshot::Origin;

fn prompts(engine: &Engine) -> Vec<Vec<u32>> {
    ["Requests for the weather:", "There is another order"].map(|t| engine.encode(t)).to_vec()
}

fn file(directory: &Path) -> PathBuf {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .expect("directory")
        .map(|e| e.expect("entry").path())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

fn scores(engine: &Engine, directory: &Path) -> (Vec<f32>, Origin) {
    let (mut prefixes, origin) = engine.recall_prefixes(prompts(engine), directory);
    let lead = engine.encode("-")[0];
    let text = engine.encode(" the town");
    (engine.likelihoods(&mut prefixes, &[(0, lead), (1, lead)], &text), origin)
}

#[test]
fn a_snapshot_changes_no_number() {
    let engine = tiny::engine();
    let directory = tempfile::tempdir().expect("directory");
    let (read, origin) = scores(&engine, directory.path());
    assert_eq!(origin, Origin::Read);
    let (recalled, origin) = scores(&engine, directory.path());
    assert_eq!(origin, Origin::Disk);
    assert_eq!(recalled, read);
    // Two layers, keys and values, 32 numbers of two bytes each, and a header.
    let tokens: usize = prompts(&engine).iter().map(Vec::len).sum();
    let bytes = std::fs::metadata(file(directory.path())).expect("file").len();
    assert!(bytes < (tokens * 2 * 2 * 32 * 2 + 200) as u64, "{bytes}");
}

#[test]
fn a_damaged_snapshot_is_read_anew_and_mended() {
    let engine = tiny::engine();
    let directory = tempfile::tempdir().expect("directory");
    let (expected, _) = scores(&engine, directory.path());
    let path = file(directory.path());
    let good = std::fs::read(&path).expect("bytes");
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let mut older = good.clone();
    older[8] = 0;
    for damaged in [&flipped[..], &older, &good[..good.len() - 7], &good[..20], b""] {
        std::fs::write(&path, damaged).expect("written");
        assert_eq!(scores(&engine, directory.path()), (expected.clone(), Origin::Read));
        assert_eq!(std::fs::read(&path).expect("bytes"), good);
    }
}

#[test]
fn another_model_does_not_use_it() {
    let directory = tempfile::tempdir().expect("directory");
    scores(&tiny::engine(), directory.path());
    let (_model, path) = tiny::model(&Recipe { seed: 8, ..Recipe::default() });
    assert_eq!(scores(&tiny::open(&path), directory.path()).1, Origin::Read);
}

#[test]
fn where_nothing_can_be_written_the_prompts_are_read() {
    let engine = tiny::engine();
    let (_, origin) = scores(&engine, Path::new("/proc/no/such/place"));
    assert_eq!(origin, Origin::Read);
}

#[test]
fn old_snapshots_are_deleted() {
    let engine = tiny::engine();
    let directory = tempfile::tempdir().expect("directory");
    for n in 0..12 {
        let prompt = engine.encode(&format!("prompt number {n}"));
        assert_eq!(engine.recall_prefixes(vec![prompt], directory.path()).1, Origin::Read);
    }
    assert_eq!(std::fs::read_dir(directory.path()).expect("directory").count(), 4);
}
