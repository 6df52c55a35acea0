//! Wrong definitions: each problem is at the line that is marked in the file.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use weftwork_platform::{Problem, ProblemKind, read_definition};

/// A file with the lines that are marked by `# !`.
struct Case {
    name: &'static str,
    text: String,
}

fn cases() -> Vec<Case> {
    let blocks = include_str!("wrong.txt").split("=== ").skip(1);
    let case = |block: &'static str| {
        let (name, text) = block.split_once('\n').expect("a name");
        Case { name, text: text.to_owned() }
    };
    blocks.map(case).collect()
}

fn problems(text: &str) -> Vec<Problem> {
    read_definition(text).expect_err("is wrong")
}

#[test]
fn each_problem_is_at_the_line_that_is_wrong() {
    let cases = cases();
    assert!(cases.len() >= 60, "{}", cases.len());
    let mut report = String::new();
    let mut kinds = BTreeSet::new();
    for Case { name, text } in &cases {
        let problems = problems(text);
        let marked = text.lines().enumerate().filter(|(_, line)| line.contains("# !"));
        let marked: BTreeSet<u64> = marked.map(|(location, _)| location as u64 + 1).collect();
        let found: BTreeSet<u64> = problems.iter().map(|problem| problem.location.line).collect();
        assert_eq!(found, marked, "{name}: {problems:#?}");
        kinds.extend(problems.iter().map(|problem| problem.kind));
        writeln!(report, "{name}").expect("writes");
        for problem in &problems {
            writeln!(report, "  {problem}").expect("writes");
        }
    }
    // What a text alone can cause.
    assert!(kinds.len() >= 9, "{kinds:?}");
    assert!(!report.contains("CANARY"), "{report}");
    insta::assert_snapshot!(report);
}

/// Returns the kinds of problems, which are few. A test that takes too long is ended.
fn bounded(text: &str) -> BTreeSet<ProblemKind> {
    let problems = problems(text);
    assert!(problems.len() <= 100, "{}", problems.len());
    problems.iter().map(|problem| problem.kind).collect()
}

#[test]
fn files_that_are_made_to_do_harm_are_refused_in_bounded_time() {
    let mut bomb =
        "type: context\nmetadata:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        let ten = vec![alias; 10].join(", ");
        writeln!(bomb, "  a{level}: &a{level} [{ten}]").expect("writes");
    }
    assert_eq!(bounded(&bomb), [ProblemKind::Syntax].into());

    let circle = "type: context\nmetadata: &a\n  a: *a\n";
    assert_eq!(bounded(circle), [ProblemKind::Syntax].into());

    let mut keys = "type: context\n".to_owned();
    for number in 0..10_000 {
        writeln!(keys, "k{number}: {number}").expect("writes");
    }
    assert!(bounded(&keys).is_subset(&[ProblemKind::Syntax, ProblemKind::UnknownKey].into()));

    let deep = format!("type: context\nmetadata: {}{}\n", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(bounded(&deep), [ProblemKind::Syntax].into());

    for item in ["- ", "? ", "[", "{a: "] {
        assert_eq!(bounded(&item.repeat(5_000)), [ProblemKind::Syntax].into(), "{item}");
    }
    let indented = (0..200).fold(String::new(), |text, level| text + &" ".repeat(level) + "a:\n");
    assert_eq!(bounded(&indented), [ProblemKind::Syntax].into());

    let long = format!("type: context\ncontext: {}\n", "a".repeat(1 << 20));
    assert_eq!(bounded(&long), [ProblemKind::TooLarge].into());

    let quoted = format!("type: \"{}\\e[31m\\n\"\n", "a".repeat(100_000));
    let problem = &problems(&quoted)[0];
    assert!(problem.to_string().len() < 1_000, "{problem}");
    assert!(!problem.to_string().contains('\u{1b}'), "{problem:?}");
}
