//! Rows that were made to do harm, behind checksums that fit.

use super::{Kind, Rows, Site, line, sealed};
use rusqlite::params;
use weftwork_engine::codec::{VERSION, Writer, open_row};
use weftwork_types::canonical::hash_bytes;

const GIB: u64 = 1 << 30;
/// The channels by their numbers.
const LOG: usize = 0;
const TEXT: usize = 1;
const ANY: usize = 2;
const MESSAGES: usize = 3;
/// Nothing ever happened: all numbers and counts are zero, there is no input.
const CONTROL: [u8; 10] = [0; 10];

/// Levels of lists, far too many.
fn deep() -> Vec<u8> {
    let mut bytes = vec![b'['; 100_000];
    bytes.extend(vec![b']'; 100_000]);
    bytes
}

fn large(mut make: impl FnMut(&mut Vec<u8>), number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    (0..number).for_each(|_| make(&mut bytes));
    bytes
}

/// Returns the bytes of a row before its channels.
fn head(rows: &Rows) -> Writer {
    let body = rows.body("t");
    let (layout, mut read) = open_row(&body).expect("sound");
    let mut out = Writer::default();
    out.byte(VERSION);
    out.raw(&layout.0);
    out.bytes(read.bytes().expect("sound"));
    out
}

fn value(out: &mut Writer, bytes: &[u8]) {
    out.count(bytes.len() + 1);
    out.raw(bytes);
}

/// A row with one channel.
fn with(rows: &Rows, channel: usize, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = head(rows);
    out.count(channel + 1);
    write(&mut out);
    out.byte(0);
    out.raw(&CONTROL);
    out.into_bytes()
}

fn with_value(rows: &Rows, channel: usize, bytes: &[u8]) -> Vec<u8> {
    with(rows, channel, |out| {
        out.byte(0);
        value(out, bytes);
    })
}

/// A value that is kept apart.
fn blob(rows: &Rows, bytes: &[u8]) -> [u8; 32] {
    let hash = hash_bytes(bytes);
    let sql = "INSERT INTO blobs (org, hash, body) VALUES ('local', ?1, ?2)";
    rows.conn.execute(sql, params![hash.0, bytes]).expect("writes");
    hash.0
}

fn apart(out: &mut Writer, hash: &[u8; 32]) {
    out.count(0);
    out.raw(hash);
}

/// A row without channels, up to what was sent.
fn with_sends(rows: &Rows, sends: u64, mut send: impl FnMut(&mut Writer)) -> Vec<u8> {
    let mut out = head(rows);
    out.count(0);
    out.raw(&[0; 7]);
    out.number(sends);
    for _ in 0..sends {
        out.count(0);
        out.text("say");
        send(&mut out);
    }
    out.raw(&[0, 0]);
    out.into_bytes()
}

type Make = fn(&Rows) -> Vec<u8>;

const CHECKPOINTS: &[(&str, Make)] = &[
    ("of a newer format", |rows| {
        let mut body = rows.body("t");
        body[0] = VERSION + 1;
        body
    }),
    ("of no format", |rows| {
        let mut body = rows.body("t");
        body[0] = 0;
        body
    }),
    ("nothing but a checksum", |_| Vec::new()),
    ("names that nobody has", |rows| {
        let mut body = rows.body("t");
        body[5] ^= 1;
        body
    }),
    ("1 GiB of how it came about", |rows| {
        let mut body = rows.body("t");
        body.truncate(17);
        let mut out = Writer::default();
        out.raw(&body);
        out.number(GIB);
        out.raw(&[1; 40]);
        out.into_bytes()
    }),
    ("a value of 1 GiB", |rows| {
        with(rows, TEXT, |out| {
            out.byte(0);
            out.number(GIB + 1);
        })
    }),
    ("a value of 2^127 bytes", |rows| {
        with(rows, TEXT, |out| {
            out.byte(0);
            out.number(1u128 << 127);
        })
    }),
    ("2^64 - 1 channels that did not change", |rows| {
        with(rows, TEXT, |out| {
            out.raw(&[1, 1]);
            out.number(u64::MAX);
        })
    }),
    ("a channel twice", |rows| {
        with(rows, TEXT, |out| {
            out.byte(0);
            value(out, b"\"a\"");
            out.count(TEXT + 1);
            out.byte(0);
            value(out, b"\"a\"");
        })
    }),
    ("a channel that is not there", |rows| with_value(rows, 40, b"1")),
    ("a list whose changes are in 2^30 rows", |rows| {
        with(rows, LOG, |out| {
            out.byte(2);
            out.number(GIB);
            out.number(GIB);
        })
    }),
    ("a list whose changes are in 100,000 rows", |rows| {
        with(rows, LOG, |out| {
            out.byte(2);
            out.number(1u64 << 40);
            out.count(100_000);
            out.raw(&[1; 100_000]);
            value(out, b"[]");
        })
    }),
    ("a value in the row itself", |rows| with(rows, TEXT, |out| out.raw(&[1, 0, 0]))),
    ("a value in a row that is missing", |rows| with(rows, TEXT, |out| out.raw(&[1, 1, 0]))),
    ("100,000 levels in a text", |rows| with_value(rows, TEXT, &deep())),
    ("100,000 levels in any value", |rows| with_value(rows, ANY, &deep())),
    ("100,000 levels in a list", |rows| with_value(rows, LOG, &deep())),
    ("100,000 levels in messages", |rows| with_value(rows, MESSAGES, &deep())),
    ("100,000 levels of objects", |rows| {
        with_value(rows, ANY, &large(|bytes| bytes.extend_from_slice(b"{\"a\":"), 100_000))
    }),
    ("100,000 levels in a value kept apart", |rows| {
        let hash = blob(rows, &deep());
        with(rows, ANY, |out| {
            out.byte(0);
            apart(out, &hash);
        })
    }),
    ("100,000 levels in what was sent", |rows| with_sends(rows, 1, |out| value(out, &deep()))),
    ("100,000 levels in the input", |rows| {
        let mut out = head(rows);
        out.raw(&[0; 9]);
        out.byte(1);
        value(&mut out, &deep());
        out.byte(0);
        out.into_bytes()
    }),
    ("a value kept apart that is missing", |rows| {
        with(rows, ANY, |out| {
            out.byte(0);
            apart(out, &[7; 32]);
        })
    }),
    ("4 GiB of one value of 1 MiB", |rows| {
        let mut text = vec![b'x'; 1 << 20];
        (text[0], text[(1 << 20) - 1]) = (b'"', b'"');
        let hash = blob(rows, &text);
        with_sends(rows, 4_096, |out| apart(out, &hash))
    }),
    ("2^32 things sent", |rows| {
        let mut out = head(rows);
        out.raw(&[0; 8]);
        out.number(1u64 << 32);
        out.raw(&[0; 10]);
        out.into_bytes()
    }),
    ("bytes after its end", |rows| {
        let mut body = with_value(rows, TEXT, b"\"a\"");
        body.push(0);
        body
    }),
];

/// The format of rows that say what tasks called.
const TASKS_VERSION: u8 = 2;

const TASKS: &[(&str, Make)] = &[
    ("of a newer format", |rows| {
        let mut body = rows.pending("paused");
        body[0] = TASKS_VERSION + 1;
        body
    }),
    ("2^64 - 1 tasks", |rows| {
        let mut out = tasks_head(rows);
        out.number(u64::MAX);
        out.into_bytes()
    }),
    ("a name of 1 GiB", |rows| {
        let mut out = tasks_head(rows);
        out.raw(&[1, 1]);
        out.number(GIB);
        out.raw(b"name");
        out.into_bytes()
    }),
    ("100,000 calls within calls", |rows| {
        let mut out = tasks_head(rows);
        out.count(1);
        out.raw(&large(|bytes| bytes.extend_from_slice(&[2, 1, b'x', 0]), 100_000));
        out.into_bytes()
    }),
    ("100,000 levels in what is known of a task", |rows| {
        let mut out = tasks_head(rows);
        out.raw(&[1, 0, 0, 0, 4]);
        value(&mut out, &deep());
        out.into_bytes()
    }),
    ("100,000 levels in a write", |rows| {
        let mut out = tasks_head(rows);
        out.raw(&[1, 0, 0, 0, 1, 1, 2, 0]);
        value(&mut out, &deep());
        out.raw(&[0, 0]);
        out.into_bytes()
    }),
    ("4 GiB of one value of 1 MiB", |rows| {
        let mut text = vec![b'x'; 1 << 20];
        (text[0], text[(1 << 20) - 1]) = (b'"', b'"');
        let hash = blob(rows, &text);
        let mut out = tasks_head(rows);
        out.raw(&[1, 0, 0, 0, 1]);
        out.count(4_096);
        for _ in 0..4_096 {
            out.raw(&[2, 0]);
            apart(&mut out, &hash);
        }
        out.raw(&[0, 0]);
        out.into_bytes()
    }),
    ("2^64 - 1 calls", |rows| {
        let mut out = tasks_head(rows);
        out.raw(&[1, 0, 0, 0, 16]);
        out.number(u64::MAX);
        out.into_bytes()
    }),
    ("a call of no kind", |rows| with_calls(rows, 1, |out| out.raw(&[9, 0]))),
    ("a call that stands in no way", |rows| with_calls(rows, 1, |out| out.raw(&[0, 16]))),
    ("a call with a name of 1 GiB", |rows| {
        with_calls(rows, 1, |out| {
            out.raw(&[0, 0]);
            out.number(GIB);
            out.raw(b"name");
        })
    }),
    ("100,000 levels in the answer of a call", |rows| {
        with_calls(rows, 1, |out| {
            out.raw(ANSWERED);
            value(out, &deep());
        })
    }),
    ("4 GiB of one answer of 1 MiB", |rows| {
        let mut text = vec![b'x'; 1 << 20];
        (text[0], text[(1 << 20) - 1]) = (b'"', b'"');
        let hash = blob(rows, &text);
        with_calls(rows, 4_096, |out| {
            out.raw(ANSWERED);
            apart(out, &hash);
        })
    }),
];

/// Bytes before the answer of a call: kind and effect, no name, superstep and counts, and time.
const ANSWERED: &[u8] = &[0, 2, 0, 0, 0, 0, 0, 0];

/// A task with calls.
fn with_calls(rows: &Rows, count: usize, call: impl Fn(&mut Writer)) -> Vec<u8> {
    let mut out = tasks_head(rows);
    out.raw(&[1, 0, 0, 0, 16]);
    out.count(count);
    for _ in 0..count {
        out.raw(&[7; 32]);
        call(&mut out);
    }
    out.into_bytes()
}

/// Format and names.
fn tasks_head(rows: &Rows) -> Writer {
    let mut out = Writer::default();
    out.raw(&rows.pending("paused")[..17]);
    out
}

type Write = fn(&mut Writer);

/// Names of a build; a row leaves them out.
const NAMES: &[(&str, Write)] = &[
    ("names of a newer format", |out| out.byte(VERSION + 1)),
    ("2^64 - 1 names", |out| {
        out.byte(VERSION);
        out.number(u64::MAX);
    }),
    ("a name of 1 GiB", |out| {
        out.raw(&[VERSION, 1]);
        out.number(GIB);
        out.raw(b"name");
    }),
];

#[tokio::test]
async fn rows_that_were_made_to_do_harm_are_named() {
    let site = Site::new().await;
    let mut table = String::new();
    for (what, make) in CHECKPOINTS {
        let rows = site.copy();
        rows.put("t", &sealed(Kind::Checkpoint, "", rows.newest("t"), make(&rows)));
        line(&mut table, &format!("checkpoint: {what}"), &rows, "t").await;
    }
    for (what, make) in TASKS {
        let rows = site.copy();
        let row = sealed(Kind::Tasks, "", rows.newest("paused"), make(&rows));
        rows.put_pending("paused", 1, &row);
        line(&mut table, &format!("tasks: {what}"), &rows, "paused").await;
    }
    for (what, make) in NAMES {
        let rows = site.copy();
        let mut names = Writer::default();
        make(&mut names);
        let names = names.into_bytes();
        let mut key = [0u8; 32];
        key[..16].copy_from_slice(&hash_bytes(&names).0[..16]);
        let sql = "INSERT INTO layouts (org, hash, body) VALUES ('local', ?1, ?2)";
        rows.conn.execute(sql, params![key, names]).expect("writes");
        let mut body = rows.body("t");
        body[1..17].copy_from_slice(&key[..16]);
        rows.put("t", &sealed(Kind::Checkpoint, "", rows.newest("t"), body));
        line(&mut table, what, &rows, "t").await;
    }
    insta::assert_snapshot!(table);
}

/// The same in a process that may have 1 GiB of memory, its program and threads included.
#[cfg(target_os = "linux")]
#[test]
fn rows_that_were_made_to_do_harm_take_little_memory() {
    let program = std::env::current_exe().expect("this program");
    let name = "bad_bytes::made::rows_that_were_made_to_do_harm_are_named";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -v 1048576 && exec \"$0\" --exact \"$1\""]).arg(program).arg(name);
    let output = shell.output().expect("runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
}
