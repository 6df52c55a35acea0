//! The errors of `docs/errors`, by what can cause them.

use std::collections::BTreeSet;

/// Errors that no run, request or tool of a server can cause, with the place that reports them. A
/// program does not begin to serve before they are gone, or they are of another command.
const OUTSIDE: [(&str, &[&str]); 10] = [
    ("building a graph", &["W0101", "W0112"]),
    ("a call in Rust of what has no form over HTTP", &["W0119", "W0135"]),
    ("opening a store", &["W0206", "W0209", "W0219", "W0220"]),
    (
        "configuration of models",
        &["W0316", "W0501", "W0502", "W0503", "W0504", "W0505", "W0506", "W0507", "W0511", "W0512"],
    ),
    ("directories of model files", &["W0513", "W0514"]),
    (
        "building tools and policies",
        &["W0420", "W0421", "W0422", "W0423", "W0424", "W0425", "W0426", "W0427"],
    ),
    ("building prompts, teams and evaluations", &["W0610", "W0625", "W0626", "W0628"]),
    (
        "starting the program and its other commands",
        &[
            "W0701", "W0702", "W0703", "W0705", "W0710", "W0711", "W0712", "W0713", "W0714",
            "W0715", "W0716", "W0717", "W0718", "W0719", "W0806", "W0807", "W0808",
        ],
    ),
    ("the file of MCP servers", &["W0901", "W0902", "W0913"]),
    (
        "definitions of agents",
        &[
            "W1001", "W1002", "W1003", "W1004", "W1005", "W1006", "W1007", "W1008", "W1009",
            "W1010", "W1011", "W1012", "W1013", "W1014", "W1015", "W1016",
        ],
    ),
];

const PARTS: usize = 12;

/// Errors that a run or a tool can cause. Each is driven as the error of a node and of a tool, with
/// a text that repeats the conversation; those that the test causes by their own means are driven
/// that way too.
const OF_RUNS: [&str; 203] = [
    "W0102", "W0103", "W0104", "W0105", "W0106", "W0107", "W0108", "W0109", "W0110", "W0111",
    "W0113", "W0114", "W0115", "W0116", "W0117", "W0118", "W0120", "W0121", "W0122", "W0123",
    "W0124", "W0125", "W0126", "W0127", "W0128", "W0129", "W0130", "W0131", "W0132", "W0133",
    "W0134", "W0136", "W0137", "W0138", "W0139", "W0140", "W0141", "W0201", "W0202", "W0203",
    "W0204", "W0205", "W0207", "W0208", "W0210", "W0211", "W0212", "W0213", "W0214", "W0215",
    "W0216", "W0217", "W0218", "W0301", "W0302", "W0303", "W0304", "W0305", "W0306", "W0307",
    "W0308", "W0309", "W0310", "W0311", "W0312", "W0314", "W0315", "W0317", "W0318", "W0401",
    "W0402", "W0403", "W0404", "W0405", "W0406", "W0407", "W0408", "W0409", "W0410", "W0411",
    "W0412", "W0413", "W0414", "W0415", "W0416", "W0417", "W0418", "W0508", "W0509", "W0510",
    "W0515", "W0516", "W0601", "W0602", "W0603", "W0609", "W0611", "W0612", "W0613", "W0614",
    "W0615", "W0616", "W0617", "W0618", "W0619", "W0620", "W0621", "W0622", "W0623", "W0624",
    "W0627", "W0629", "W0630", "W0631", "W0635", "W0636", "W0637", "W0638", "W0639", "W0640",
    "W0641", "W0642", "W0643", "W0644", "W0645", "W0646", "W0647", "W0648", "W0649", "W0650",
    "W0651", "W0652", "W0653", "W0654", "W0655", "W0656", "W0657", "W0658", "W0659", "W0660",
    "W0661", "W0704", "W0706", "W0707", "W0708", "W0709", "W0801", "W0802", "W0803", "W0804",
    "W0805", "W0809", "W0903", "W0904", "W0905", "W0906", "W0907", "W0908", "W0909", "W0910",
    "W0911", "W0912", "W0914", "W0915", "W0916", "W1020", "W1021", "W1022", "W1023", "W1024",
    "W1025", "W1030", "W1031", "W1032", "W1033", "W1034", "W1035", "W1036", "W1037", "W1038",
    "W1039", "W1050", "W1051", "W1052", "W1053", "W1054", "W1055", "W1060", "W1061", "W1062",
    "W1063", "W1064", "W1065", "W1066", "W1067", "W1068", "W1070", "W1071", "W1072", "W1073",
    "W1074", "W1075", "W1076",
];

/// Returns the errors that a run or a tool can cause.
pub(super) fn of_runs() -> impl Iterator<Item = &'static str> {
    OF_RUNS.into_iter()
}

/// The errors that are driven as those of nodes and tools: all in the full tier, a sixth in the fast
/// one, which differs between processes. `WEFT_CANARY_PART` plays a sixth again.
#[expect(clippy::print_stdout, reason = "the log says what was driven, and how to repeat it")]
pub(super) fn driven() -> Vec<&'static str> {
    if std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full") {
        return of_runs().collect();
    }
    let part = std::env::var("WEFT_CANARY_PART").ok().map(|part| part.parse().expect("a number"));
    let part = part.unwrap_or_else(std::process::id) as usize % PARTS;
    println!("WEFT_CANARY_PART={part}");
    of_runs().skip(part).step_by(PARTS).collect()
}

/// Returns the errors that no run, request or tool of a server can cause.
pub(super) fn outside() -> impl Iterator<Item = (&'static str, &'static str)> {
    OUTSIDE.into_iter().flat_map(|(place, codes)| codes.iter().map(move |code| (place, *code)))
}

/// Checks that each page of `docs/errors` is in one of the lists, and each code of the lists has a
/// page.
#[test]
fn each_error_has_a_place_in_the_lists() {
    let pages = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    let pages = std::fs::read_dir(pages).expect("the pages");
    let stems = pages.map(|page| page.expect("a page").path().file_stem().map(ToOwned::to_owned));
    let stems = stems.filter_map(|stem| stem?.into_string().ok());
    let pages: BTreeSet<String> = stems.filter(|stem| stem.starts_with('W')).collect();
    let listed: Vec<&str> = of_runs().chain(outside().map(|(_, code)| code)).collect();
    let unique: BTreeSet<String> = listed.iter().map(|code| (*code).to_owned()).collect();
    assert_eq!(unique.len(), listed.len(), "a code is in two lists");
    assert_eq!(unique, pages);
}
