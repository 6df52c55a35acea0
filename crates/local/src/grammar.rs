//! Constrained decoding: limits the generated text to a JSON schema.

use crate::Error;
use crate::tokenizer::Tokenizer;
use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use toktrie::{
    InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv,
};

/// Maximum length in characters of a text without a limit in its schema.
const TEXT_CHARS_MAX: u64 = 240;
/// Maximum length of a list without a limit in its schema.
const LIST_ITEMS_MAX: u64 = 8;
/// Largest absolute value of a number without limits in its schema.
const NUMBER_MAX: f64 = 1e12;
const SPECIAL: u8 = TokTrie::SPECIAL_TOKEN_MARKER;

/// A compiler of schemas for a vocabulary.
pub(crate) struct Grammars {
    factory: ParserFactory,
    closers: Closers,
}

impl std::fmt::Debug for Grammars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammars").finish_non_exhaustive()
    }
}

/// A compiled JSON schema.
#[derive(Debug, Clone)]
pub struct Grammar {
    subject: String,
    schema: Value,
}

/// The state of an answer in a grammar.
pub(crate) struct Guide<'g> {
    matcher: Matcher,
    closers: &'g Closers,
    subject: String,
}

/// The tokens that the grammar allows next.
pub(crate) enum Next {
    /// The text is complete.
    Done,
    /// These tokens follow without a choice.
    Forced(Vec<TokenId>),
    /// The model chooses among these.
    Open(SimpleVob),
}

struct Environment {
    tokenizer: Arc<Tokenizer>,
    trie: TokTrie,
}

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.tokenizer.encode_bytes(bytes)
    }
}

impl Grammars {
    /// Prepares the vocabulary.
    pub(crate) fn new(tokenizer: &Arc<Tokenizer>) -> Result<Self, Error> {
        let words: Vec<Vec<u8>> = (0..tokenizer.len() as u32)
            .map(|token| {
                let mut word = if tokenizer.is_mark(token) { vec![SPECIAL] } else { Vec::new() };
                word.extend_from_slice(tokenizer.bytes(token));
                word
            })
            .collect();
        let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, tokenizer.end()), &words);
        let env: TokEnv = Arc::new(Environment { tokenizer: Arc::clone(tokenizer), trie });
        let caps = InferenceCapabilities { ff_tokens: true, ..Default::default() };
        let mut factory = ParserFactory::new(&env, caps, &[])
            .map_err(|error| refused("the vocabulary", &error))?;
        factory.quiet();
        Ok(Self { factory, closers: Closers::new(tokenizer) })
    }

    /// Compiles a schema and checks that it can be enforced. `subject` names its owner in errors.
    pub(crate) fn compile(&self, subject: &str, schema: &Value) -> Result<Grammar, Error> {
        let mut schema = schema.clone();
        bound(&mut schema);
        if let Value::Object(map) = &mut schema {
            map.insert("x-guidance".to_owned(), json!({ "whitespace_flexible": false }));
        }
        let grammar = Grammar { subject: subject.to_owned(), schema };
        self.start(&grammar)?;
        Ok(grammar)
    }

    /// Begins an answer.
    pub(crate) fn start(&self, grammar: &Grammar) -> Result<Guide<'_>, Error> {
        let top = TopLevelGrammar::from_json_schema(grammar.schema.clone());
        let matcher = Matcher::new(self.factory.create_parser(top));
        if let Some(reason) = matcher.get_error() {
            return Err(Error::Grammar { subject: grammar.subject.clone(), reason });
        }
        Ok(Guide { matcher, closers: &self.closers, subject: grammar.subject.clone() })
    }
}

impl Guide<'_> {
    /// Returns the tokens that may follow.
    pub(crate) fn next(&mut self) -> Result<Next, Error> {
        if self.matcher.is_stopped() {
            return Ok(Next::Done);
        }
        let forced = self.matcher.compute_ff_tokens();
        if !forced.is_empty() {
            self.matcher.consume_tokens(&forced).map_err(|error| refused(&self.subject, &error))?;
            return Ok(Next::Forced(forced));
        }
        let mask = self.matcher.compute_mask().map_err(|error| refused(&self.subject, &error))?;
        if self.matcher.is_stopped() {
            return Ok(Next::Done);
        }
        if mask.num_set() == 1
            && let Some(only) = mask.first_bit_set()
        {
            let only = only as TokenId;
            self.take(only)?;
            return Ok(Next::Forced(vec![only]));
        }
        Ok(Next::Open(mask))
    }

    /// Advances by the token that the model chose.
    pub(crate) fn take(&mut self, token: TokenId) -> Result<(), Error> {
        self.matcher.consume_token(token).map_err(|error| refused(&self.subject, &error))
    }

    /// Restricts a choice to the tokens that end the text soonest, near the limit.
    pub(crate) fn narrow(&self, mask: SimpleVob) -> SimpleVob {
        self.closers.narrow(mask)
    }
}

/// Tokens that only close a text, a list or an object.
#[derive(Debug)]
struct Closers {
    brackets: SimpleVob,
    quotes: SimpleVob,
    commas: SimpleVob,
    /// A plain letter, which is allowed in texts only.
    letter: Option<TokenId>,
}

impl Closers {
    fn new(tokenizer: &Tokenizer) -> Self {
        let mut sets = [0; 3].map(|_| SimpleVob::alloc(tokenizer.len()));
        for token in 0..tokenizer.len() as u32 {
            let bytes = tokenizer.bytes(token);
            if tokenizer.is_mark(token) || !bytes.iter().all(|b| b"\"}],:".contains(b)) {
                continue;
            }
            match bytes.first() {
                Some(b'}' | b']') => sets[0].allow_token(token),
                Some(b'"') => sets[1].allow_token(token),
                Some(b',') => sets[2].allow_token(token),
                _ => {}
            }
        }
        let letter = tokenizer.encode("a").first().copied();
        let [brackets, quotes, commas] = sets;
        Self { brackets, quotes, commas, letter }
    }

    fn narrow(&self, mask: SimpleVob) -> SimpleVob {
        let in_text = self.letter.is_some_and(|letter| mask.is_allowed(letter));
        let order = if in_text {
            [&self.quotes, &self.quotes, &self.quotes]
        } else {
            [&self.brackets, &self.quotes, &self.commas]
        };
        for set in order {
            if !mask.and_is_zero(set) {
                let mut narrowed = mask;
                narrowed.and(set);
                return narrowed;
            }
        }
        mask
    }
}

fn refused(subject: &str, error: &impl std::fmt::Display) -> Error {
    let text = error.to_string();
    let reason = text.lines().next().unwrap_or_default().to_owned();
    Error::Grammar { subject: subject.to_owned(), reason }
}

/// Limits every text and list, and closes objects that are not declared open, so that an answer
/// ends. A value that satisfies the bounded schema satisfies the original.
fn bound(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    if is_type(map, "string") && !map.contains_key("enum") && !map.contains_key("const") {
        cap(map, "maxLength", "minLength", TEXT_CHARS_MAX);
    }
    if (is_type(map, "number") || is_type(map, "integer"))
        && !map.contains_key("enum")
        && !map.contains_key("const")
    {
        limit_number(map);
    }
    if is_type(map, "array") {
        cap(map, "maxItems", "minItems", LIST_ITEMS_MAX);
    }
    if map.contains_key("properties") && !map.contains_key("patternProperties") {
        map.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(key) {
            bound(inner);
        }
    }
    for key in ["anyOf", "oneOf", "prefixItems"] {
        if let Some(Value::Array(list)) = map.get_mut(key) {
            list.iter_mut().for_each(bound);
        }
    }
    for key in ["properties", "patternProperties", "$defs", "definitions"] {
        if let Some(Value::Object(inner)) = map.get_mut(key) {
            inner.values_mut().for_each(bound);
        }
    }
}

/// Adds the missing bounds of a number. Without bounds the grammar allows exponents, and with them
/// numbers outside the range of all number types.
fn limit_number(map: &mut Map<String, Value>) {
    let bound = |keys: [&str; 2]| keys.iter().find_map(|key| map.get(*key)?.as_f64());
    let lowest = bound(["minimum", "exclusiveMinimum"]);
    let highest = bound(["maximum", "exclusiveMaximum"]);
    if lowest.is_none() {
        let open = highest.map_or(-NUMBER_MAX, |highest| highest.min(0.0) - NUMBER_MAX);
        map.insert("minimum".to_owned(), json!(open));
    }
    if highest.is_none() {
        let open = lowest.map_or(NUMBER_MAX, |lowest| lowest.max(0.0) + NUMBER_MAX);
        map.insert("maximum".to_owned(), json!(open));
    }
}

fn is_type(map: &Map<String, Value>, name: &str) -> bool {
    match map.get("type") {
        Some(Value::String(found)) => found == name,
        Some(Value::Array(found)) => found.iter().any(|item| item == name),
        _ => false,
    }
}

fn cap(map: &mut Map<String, Value>, max_key: &str, min_key: &str, limit: u64) {
    let min = map.get(min_key).and_then(Value::as_u64).unwrap_or(0);
    let max = map.get(max_key).and_then(Value::as_u64).unwrap_or(u64::MAX);
    map.insert(max_key.to_owned(), json!(max.min(limit.max(min))));
}
