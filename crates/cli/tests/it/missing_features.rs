//! Tests of the binary without its optional parts. `cargo xtask features` runs them.

use crate::home::Home;

#[cfg(not(feature = "mcp"))]
#[test]
fn a_program_without_mcp_names_the_feature() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    std::fs::write(home.path("mcp.json"), r#"{"mcpServers": {}}"#).expect("written");
    let say = ["run", "desk", "--input", "What is 6 times 7?", "--mcp", "mcp.json"];
    for args in [&["mcp", "servers"][..], &["--mcp", "mcp.json", "mcp", "servers"], &say] {
        let came = home.weft(args);
        assert_eq!(came.status, Some(2), "{came:?}");
        assert!(came.errors.contains("feature `mcp`"), "{came:?}");
    }
    assert_eq!(home.weft(&say[..4]).status, Some(0), "the rest works");
}

#[cfg(not(feature = "remote"))]
#[test]
fn a_program_without_remotes_names_the_feature() {
    let file = "[remotes.helper]\nurl = \"http://127.0.0.1:1\"\nassistant = \"desk\"\n";
    let came = Home::new().config(file).weft(&["agents", "list"]);
    assert_eq!(came.status, Some(2), "{came:?}");
    assert!(came.errors.contains("feature `remote`"), "{came:?}");
    assert!(came.errors.contains("`[remotes.helper]`"), "{came:?}");
}
