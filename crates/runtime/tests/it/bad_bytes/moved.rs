//! Sound rows in the place of others.

use super::{Site, line};

/// Our threads, without their graphs within.
const OURS: &str = "org = 'local' AND ns = '' AND thread";

fn newest(thread: &str) -> String {
    format!("(SELECT max(id) FROM checkpoints WHERE {OURS} = '{thread}')")
}

/// The number of the newest row of a thread.
fn newest_row(thread: &str) -> String {
    format!("(SELECT place FROM checkpoints WHERE {OURS} = '{thread}' ORDER BY id DESC LIMIT 1)")
}

/// Puts something in the place of the newest row of `t`.
fn put(what: &str) -> String {
    let place = newest_row("t");
    format!("UPDATE checkpoint_rows SET body = {what} WHERE place = {place}")
}

/// Puts another row there.
fn put_row(from: &str) -> String {
    put(&format!("(SELECT body FROM checkpoints WHERE {from} ORDER BY id DESC LIMIT 1)"))
}

/// Does something to a part of what is pending.
fn pending(set: &str) -> String {
    format!("UPDATE pending SET {set} WHERE {OURS} = 'paused' AND part = 1")
}

fn cases() -> Vec<(&'static str, &'static str, String)> {
    let newest = newest("t");
    let last = newest_row("t");
    let later = newest_row("later");
    let tasks = format!(
        "body = (SELECT tasks FROM checkpoints
             WHERE {OURS} = 'later' AND of IS NOT NULL ORDER BY id LIMIT 1)"
    );
    vec![
        ("an older row of the thread", "t", put_row(&format!("{OURS} = 't' AND id < {newest}"))),
        ("another thread's row", "t", put_row(&format!("{OURS} = 'later'"))),
        ("another organisation's row", "t", put_row("org = 'other' AND thread = 't' AND ns = ''")),
        ("a row of the graph within", "t", put_row("thread = 't' AND ns <> ''")),
        ("what became of tasks", "t", put("tasks")),
        ("what became of tasks at another checkpoint", "paused", pending(&tasks)),
        ("what is pending as what came from outside", "paused", pending("part = 0")),
        (
            "another thread's row, with its id",
            "t",
            format!(
                "INSERT INTO blocks (org, thread, ns, prefix, number, seal)
                     SELECT org, 't', ns, prefix, (SELECT max(number) FROM blocks) + 1, seal
                     FROM blocks WHERE number = {later} >> 24;
                 UPDATE checkpoint_rows
                     SET place = ((SELECT max(number) FROM blocks) << 24) | (place & 0xffffff)
                     WHERE place = {later}"
            ),
        ),
        (
            "all rows of another thread, with their ids",
            "t",
            "UPDATE blocks SET thread = 't' WHERE org = 'local' AND thread = 'later'".into(),
        ),
        (
            "all rows of another organisation, with their ids",
            "t",
            "UPDATE blocks SET org = 'local' WHERE org = 'other'".into(),
        ),
        (
            "the newest row is missing",
            "t",
            format!("DELETE FROM checkpoint_rows WHERE place = {last}"),
        ),
        ("all rows are missing", "t", format!("DELETE FROM blocks WHERE {OURS} = 't'")),
    ]
}

#[tokio::test]
async fn a_row_in_the_place_of_another_is_named() {
    let site = Site::new().await;
    let mut table = String::new();
    for (what, thread, sql) in &cases() {
        let rows = site.copy();
        rows.edit(sql);
        line(&mut table, what, &rows, thread).await;
    }
    insta::assert_snapshot!(table);
}
