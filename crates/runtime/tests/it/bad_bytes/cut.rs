//! Rows that are cut off.

use super::{Kind, Rows, Site, asking, opened, sealed};
use crate::support::Bench;
use std::path::Path;
use weftwork_engine::codec::Writer;
use weftwork_types::{Principal, ThreadId};

/// The code of what reading a thread says.
async fn code(path: &Path, thread: &str) -> String {
    let bench = Bench::on(opened(path), asking()).await;
    code_on(&bench, thread).await
}

async fn code_on(bench: &Bench, thread: &str) -> String {
    let id = ThreadId::new(thread).expect("an id");
    match bench.runtime.state(&Principal::local(), &id).await {
        Ok(_) => "it reads".to_owned(),
        Err(error) => {
            assert!(error.to_string().contains("checkpoint `"), "{error}");
            error.code().0.to_owned()
        }
    }
}

/// Cuts a row at each byte, once as it is and once behind a checksum that fits.
async fn cut(rows: &Rows, name: &str, kind: Kind, whole: &[u8], put: impl Fn(&[u8])) -> usize {
    let bench = Bench::on(opened(&rows.path), asking()).await;
    let id = rows.newest(name);
    let torn = sealed(kind, "", id, whole.to_vec());
    let cuts = (0..torn.len()).map(|end| torn[..end].to_vec());
    let made = (0..whole.len()).map(|end| sealed(kind, "", id, whole[..end].to_vec()));
    for row in cuts.chain(made) {
        put(&row);
        assert_eq!(code_on(&bench, name).await, "W0210", "{kind:?}, {} bytes", row.len());
    }
    put(&torn);
    assert_eq!(code_on(&bench, name).await, "it reads", "{kind:?}");
    torn.len() + whole.len()
}

#[tokio::test]
async fn a_row_that_is_cut_off_anywhere_is_named() {
    let site = Site::new().await;
    let rows = site.copy();
    let body = rows.body("t");
    let mut cuts = cut(&rows, "t", Kind::Checkpoint, &body, |row| rows.put("t", row)).await;
    let tasks = rows.pending("paused");
    cuts += cut(&rows, "paused", Kind::Tasks, &tasks, |row| {
        rows.put_pending("paused", 1, row);
    })
    .await;
    // Nothing written, nothing named, nowhere to go, and an answer.
    let mut outside = Writer::default();
    outside.raw(&body[..17]);
    outside.raw(&[0, 0, 0, 1]);
    outside.json("an answer").expect("a text");
    cuts += cut(&rows, "paused", Kind::Outside, &outside.into_bytes(), |row| {
        rows.put_pending("paused", 0, row);
    })
    .await;
    println!("{cuts} cuts");
    assert!(cuts > 500);
}

#[tokio::test]
async fn names_that_are_cut_off_anywhere_are_told() {
    let site = Site::new().await;
    let rows = site.copy();
    let names: i64 = rows
        .conn
        .query_row("SELECT max(length(body)) FROM layouts", [], |row| row.get(0))
        .expect("some");
    for end in (0..names).step_by(7) {
        let rows = site.copy();
        rows.edit(&format!("UPDATE layouts SET body = substr(body, 1, {end})"));
        assert_eq!(code(&rows.path, "t").await, "W0210", "{end} bytes");
    }
}
