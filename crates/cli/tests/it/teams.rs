//! Tests of the built-in teams, on the scripted model.

use crate::home::Home;

const TEAMS: [(&str, &[&str]); 2] =
    [("supervisor", &["calculator", "clock", "desk"]), ("swarm", &["calculator", "clock"])];

#[test]
fn the_teams_are_listed_and_drawn_with_their_members() {
    let home = Home::new();
    let listed = home.weft(&["agents", "list"]);
    for (team, members) in TEAMS {
        assert!(listed.out.contains(&format!("builtin:{team}")), "{listed:?}");
        let drawn = home.weft(&["graph", "show", team]);
        assert_eq!(drawn.status, Some(0), "{drawn:?}");
        let subgraphs = drawn.out.lines().filter(|line| line.trim().starts_with("subgraph "));
        let drawn: Vec<_> = subgraphs.filter_map(|line| line.split('"').nth(1)).collect();
        assert_eq!(drawn, members, "{team}");
    }
}

#[test]
fn the_teams_hand_requests_to_their_members() {
    let home = Home::new();
    for (team, request, expected) in [
        ("supervisor", "What is 6 times 7?", "Multiply: 42"),
        ("supervisor", "What is 9 minus 4?", "Subtract: 5"),
        ("supervisor", "What is 8 divided by 2?", "Divide: 4"),
        ("supervisor", "What time is it?", "Current time: "),
        ("supervisor", "Where is order A1003?", "being packed"),
        ("swarm", "What is 6 times 7?", "Multiply: 42"),
        ("swarm", "What day is it today?", "Current time: "),
    ] {
        let came = home.weft(&["run", team, "--model", "scripted", "--input", request]);
        assert_eq!(came.status, Some(0), "{team} {request}: {came:?}");
        assert!(came.out.contains(expected), "{team} {request}: {}", came.out);
    }
}

#[test]
fn each_text_of_a_team_is_shown_once_and_in_one_piece() {
    let home = Home::new();
    let request = "What is 6 times 7? What is the weather in Oslo?";
    let came = home.weft(&["run", "supervisor", "--model", "scripted", "--input", request]);
    let mark = "[scripted model] ";
    let texts = came.out.lines().filter_map(|line| line.strip_prefix(mark));
    let texts: Vec<_> = texts.filter(|line| !line.starts_with(['→', '←'])).collect();
    let [first, second, last] = texts[..] else { panic!("{came:?}") };
    assert!(first.starts_with("Multiply: 42") || second.starts_with("Multiply: 42"), "{texts:?}");
    assert!(last.contains(first) && last.contains(second), "{texts:?}");

    let came = home.weft(&["run", "swarm", "--model", "scripted", "--input", "What is 6 plus 7?"]);
    assert_eq!(came.out.matches("Add: 13").count(), 1, "{came:?}");
}
