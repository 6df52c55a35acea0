use crate::tiny::{self, Recipe};
use weftwork_local::engine::{Engine, Session};
use weftwork_local::writer::{End, Listener, Plan, Quiet, Vocabulary};

const TEXT: &str = "Where is the other order, and the weather there? The 25 others are there.";

fn after(engine: &Engine, prompt: &[u32]) -> Session {
    let mut session = engine.session();
    engine.prefill(&mut session, prompt, &Quiet).expect("it fits");
    session
}

fn written(engine: &Engine, session: &mut Session, tokens_max: usize) -> String {
    engine.generate(session, &Plan::words(tokens_max), &mut Quiet).expect("an answer").text
}

#[test]
fn reading_token_by_token_is_reading_at_once() {
    let engine = tiny::engine();
    let prompt = engine.encode(TEXT);
    let mut at_once = after(&engine, &prompt);
    let mut by_token = engine.session();
    for end in 1..=prompt.len() {
        assert_eq!(engine.prefill(&mut by_token, &prompt[..end], &Quiet), Ok(1));
    }
    let expected = written(&engine, &mut at_once, 12);
    assert_eq!(written(&engine, &mut by_token, 12), expected);
    assert!(!expected.is_empty());
}

#[test]
fn only_what_differs_is_read() {
    let engine = tiny::engine();
    let first = engine.encode(TEXT);
    let mut session = after(&engine, &first);
    assert_eq!(engine.prefill(&mut session, &first, &Quiet), Ok(0));
    let mut second = first[..20].to_vec();
    second.extend(engine.encode("something else"));
    let read = engine.prefill(&mut session, &second, &Quiet).expect("it fits");
    assert!(read <= second.len() - 20, "{read}");
    let mut fresh = after(&engine, &second);
    assert_eq!(written(&engine, &mut session, 8), written(&engine, &mut fresh, 8));
}

#[test]
fn prompts_side_by_side_do_not_see_each_other() {
    let engine = tiny::engine();
    let prompts = ["the weather", "there", "an order of 25 lamps"].map(|text| engine.encode(text));
    let text = engine.encode(" in the other town");
    let lead = engine.encode("-")[0];
    let mut together = engine.read_prefixes(prompts.to_vec());
    let leads = [(0, lead), (1, lead), (2, lead)];
    let scores = engine.likelihoods(&mut together, &leads, &text);
    for (index, prompt) in prompts.iter().enumerate() {
        let mut alone = engine.read_prefixes(vec![prompt.clone()]);
        let score = engine.likelihoods(&mut alone, &[(0, lead)], &text)[0];
        assert!((score - scores[index]).abs() < 1e-3, "{score} {}", scores[index]);
        let mut session = engine.session_after(&together, index);
        let mut fresh = after(&engine, prompt);
        engine.prefill(&mut session, prompt, &Quiet).expect("it fits");
        assert_eq!(written(&engine, &mut session, 8), written(&engine, &mut fresh, 8));
    }
    assert_eq!(engine.likelihoods(&mut together, &leads, &text), scores);
}

#[test]
fn a_prompt_that_does_not_fit_is_refused() {
    let (_directory, path) = tiny::model(&Recipe { context: 32, ..Recipe::default() });
    let engine = tiny::open(&path);
    let prompt = engine.encode(&"x".repeat(32));
    let error = engine.prefill(&mut engine.session(), &prompt, &Quiet).expect_err("too long");
    assert_eq!(error.code().0, "W0508");
    let mut session = after(&engine, &prompt[..20]);
    let error = engine.generate(&mut session, &Plan::words(13), &mut Quiet).expect_err("too long");
    assert_eq!(error.code().0, "W0508");
}

#[test]
fn marks_in_a_text_are_text() {
    let engine = tiny::engine();
    let mark = engine.mark("<|im_end|>").expect("a chat vocabulary");
    let tokens = engine.encode("<|im_end|> x");
    assert!(!tokens.contains(&mark));
    assert_eq!(engine.decode(&tokens), "<|im_end|> x");
    assert_eq!(engine.mark("th").expect_err("no mark").code().0, "W0506");
}

#[derive(Default)]
struct Pieces {
    heard: String,
    pieces: usize,
    pieces_max: Option<usize>,
}

impl Listener for Pieces {
    fn text(&mut self, piece: &str) {
        self.heard.push_str(piece);
        self.pieces += 1;
    }

    fn wanted(&self) -> bool {
        self.pieces_max.is_none_or(|max| self.pieces < max)
    }
}

#[test]
fn pieces_make_the_answer_and_stop_texts_are_not_heard() {
    let engine = tiny::engine();
    let prompt = engine.encode(TEXT);
    let mut pieces = Pieces::default();
    let whole = engine.generate(&mut after(&engine, &prompt), &Plan::words(40), &mut pieces);
    let whole = whole.expect("an answer");
    assert!(whole.text.starts_with(&pieces.heard));
    let cut: String = whole.text.chars().skip(4).take(2).collect();
    let stop = [cut.as_str()];
    let plan = Plan { stop: &stop, ..Plan::words(40) };
    let mut pieces = Pieces::default();
    let short = engine.generate(&mut after(&engine, &prompt), &plan, &mut pieces).expect("answer");
    assert_eq!(short.end, End::Complete);
    assert!(!short.text.contains(&cut) && short.text.len() < whole.text.len());
    assert_eq!(pieces.heard, short.text);
}

#[test]
fn an_answer_nobody_wants_ends() {
    let engine = tiny::engine();
    let mut pieces = Pieces { pieces_max: Some(3), ..Pieces::default() };
    let mut session = after(&engine, &engine.encode(TEXT));
    let answer = engine.generate(&mut session, &Plan::words(500), &mut pieces).expect("an answer");
    assert_eq!(answer.end, End::Cancelled);
    assert!(answer.tokens < 20, "{}", answer.tokens);
    let mut nobody = Pieces { pieces_max: Some(0), ..Pieces::default() };
    let read = engine.prefill(&mut engine.session(), &engine.encode(TEXT), &nobody);
    assert_eq!(read, Ok(0));
    nobody.pieces_max = None;
}

#[test]
fn temperature_changes_answers_and_repeats_them() {
    let engine = tiny::engine();
    let prompt = engine.encode(TEXT);
    let warm = |temperature| {
        let plan = Plan { temperature, ..Plan::words(30) };
        engine.generate(&mut after(&engine, &prompt), &plan, &mut Quiet).expect("an answer").text
    };
    assert_eq!(warm(2.0), warm(2.0));
    assert_ne!(warm(2.0), warm(0.0));
}

#[test]
fn a_vocabulary_holds_the_answer_to_its_words() {
    let engine = tiny::engine();
    let prompt = engine.encode(TEXT);
    for seed in 0..5u8 {
        let temperature = 1.0 + f32::from(seed);
        let words = Plan {
            vocabulary: Some(Vocabulary::Words("the weather in A1001")),
            temperature,
            ..Plan::words(60)
        };
        let answer = engine.generate(&mut after(&engine, &prompt), &words, &mut Quiet);
        let text = answer.expect("an answer").text;
        let known = ["the", "weather", "in", "A1001"];
        let heard: Vec<&str> = text
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        // The last word may be cut by the limit.
        for word in heard.iter().rev().skip(1) {
            assert!(known.contains(word), "`{word}` in `{text}`");
        }
        let numbers = Plan { vocabulary: Some(Vocabulary::Numbers("no digits")), ..words };
        let answer = engine.generate(&mut after(&engine, &prompt), &numbers, &mut Quiet);
        assert!(!answer.expect("an answer").text.contains(|c: char| c.is_ascii_digit()));
    }
}
