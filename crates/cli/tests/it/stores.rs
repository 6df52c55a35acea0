//! The same commands over a Postgres database.

use crate::database;
use crate::home::Home;

const REFUND: &str = "Refund order A1001, amount 25.";

#[test]
fn threads_are_kept_in_postgres_and_its_password_is_not_shown() {
    let url = database::fresh();
    let password = url.split([':', '@']).nth(2).expect("a password").to_owned();
    let home = Home::new().set("WEFT_MODEL", "scripted").set("WEFT_STORE", &url);
    let mut said = String::new();
    let mut weft = |status: i32, args: &[&str]| {
        let came = home.weft(args);
        assert_eq!(came.status, Some(status), "{args:?}: {came:?}");
        said.push_str(&came.out);
        said.push_str(&came.errors);
        came.out
    };
    assert!(weft(0, &["threads", "list"]).is_empty());
    weft(3, &["run", "desk", "--thread", "t", "--input", REFUND]);
    assert!(weft(0, &["threads", "list"]).contains("waits for an answer"));
    assert!(weft(0, &["threads", "show", "t"]).contains("refund_order"));
    let out = weft(0, &["threads", "resume", "t", "--approve"]);
    assert!(out.contains("[scripted model] Refund order"), "{out}");
    assert!(weft(0, &["threads", "journal", "t"]).contains("calls made: 3, reused: 0"));
    weft(0, &["run", "desk", "--thread", "t", "--input", "What is 6 times 7?"]);
    assert!(weft(0, &["threads", "state", "t"]).contains("42"));
    let out = weft(0, &["doctor"]);
    assert!(out.contains("store     postgres://weft@127.0.0.1:"), "{out}");
    weft(0, &["threads", "delete", "t", "--yes"]);
    weft(2, &["threads", "show", "t"]);
    assert!(!said.contains(&password), "{said}");
    // Not even when it cannot be reached.
    let gone = Home::new().set("WEFT_STORE", "postgres://ada:secret@127.0.0.1:1/weft");
    for args in [&["threads", "list"][..], &["doctor"]] {
        let came = gone.weft(args);
        assert_eq!(came.status, Some(6), "{came:?}");
        let said = format!("{}{}", came.out, came.errors);
        assert!(said.contains("postgres://ada@127.0.0.1:1/weft") && !said.contains("secret"));
    }
}
