//! Arithmetic.
//!
//! The expression is parsed by recursive descent, with bounds on its length and nesting, so that the
//! work is linear in the length.

use crate::{FnTool, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Maximum length of an expression, in characters.
pub const EXPRESSION_CHARS_MAX: usize = 1_000;
/// Maximum nesting of parentheses, signs and powers.
pub const NESTING_MAX: usize = 50;

const FUNCTIONS: &str = "abs, ceil, cos, exp, floor, ln, log10, max, min, round, sin, sqrt, tan, and the constants e, pi";

#[derive(Deserialize, JsonSchema)]
struct Expression {
    /// Numbers with `+ - * / % ^`, parentheses, `sqrt abs round floor ceil ln log10 exp sin cos tan
    /// min max`, `pi` and `e`. Angles are in radians.
    #[schemars(length(min = 1, max = 1_000))]
    expression: String,
}

#[derive(Serialize, JsonSchema)]
struct Number {
    /// The value, rounded to 15 significant digits.
    value: f64,
}

pub(super) fn calculate() -> FnTool {
    let about = "Evaluates an arithmetic expression, such as `(3 + 4) * 2.5`.";
    FnTool::new("calculate", about, |args: Expression, _: ToolContext| async move {
        evaluate(&args.expression)
            .map(|value| Number { value: rounded(value) })
            .map_err(ToolError::invalid_args)
    })
    .example("What is 15 percent of 80?", json!({"expression": "80 * 15 / 100"}))
}

fn rounded(value: f64) -> f64 {
    format!("{value:.14e}").parse().unwrap_or(value)
}

/// Evaluates an expression. The error names the position in characters, from 1.
fn evaluate(text: &str) -> Result<f64, String> {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() > EXPRESSION_CHARS_MAX {
        return Err(format!(
            "the expression has {} characters; expected at most {EXPRESSION_CHARS_MAX}",
            chars.len()
        ));
    }
    let mut parser = Parser { chars: &chars, at: 0, nesting: 0 };
    let value = parser.sum()?;
    match parser.peek() {
        Some(_) => Err(parser.expected("an operator or the end")),
        None if value.is_finite() => Ok(value),
        None => Err("the result is not a finite number: a division by zero, a root or logarithm \
            outside its domain, or a value over 1.8e308"
            .to_owned()),
    }
}

struct Parser<'a> {
    chars: &'a [char],
    at: usize,
    nesting: usize,
}

impl Parser<'_> {
    /// The next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.chars.get(self.at).copied()
    }

    fn take_char(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn expected(&mut self, what: &str) -> String {
        let found = match self.peek() {
            Some(c) => format!("`{}`", c.escape_debug()),
            None => "the end".to_owned(),
        };
        format!("at character {}: found {found}, expected {what}", self.at + 1)
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.read_product()?;
        loop {
            if self.take_char('+') {
                value += self.read_product()?;
            } else if self.take_char('-') {
                value -= self.read_product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn read_product(&mut self) -> Result<f64, String> {
        let mut value = self.read_signed()?;
        loop {
            if self.take_char('*') {
                value *= self.read_signed()?;
            } else if self.take_char('/') {
                value /= self.read_signed()?;
            } else if self.take_char('%') {
                value %= self.read_signed()?;
            } else {
                return Ok(value);
            }
        }
    }

    /// A factor with its sign, which binds weaker than a power: `-2^2` is `-4`.
    fn read_signed(&mut self) -> Result<f64, String> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(self.expected(&format!("at most {NESTING_MAX} levels of nesting")));
        }
        let value = if self.take_char('-') {
            -self.read_signed()?
        } else if self.take_char('+') {
            self.read_signed()?
        } else {
            let base = self.read_atom()?;
            if self.take_char('^') { base.powf(self.read_signed()?) } else { base }
        };
        self.nesting -= 1;
        Ok(value)
    }

    fn read_atom(&mut self) -> Result<f64, String> {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let value = self.sum()?;
                self.close_bracket()?;
                Ok(value)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.read_number(),
            Some(c) if c.is_ascii_alphabetic() => self.read_named(),
            _ => Err(self.expected("a number, a name or `(`")),
        }
    }

    fn close_bracket(&mut self) -> Result<(), String> {
        if self.take_char(')') { Ok(()) } else { Err(self.expected("`)`")) }
    }

    fn read_number(&mut self) -> Result<f64, String> {
        let start = self.at;
        let digit = |c: &char| c.is_ascii_digit() || *c == '.';
        self.skip_while(digit);
        if matches!(self.chars.get(self.at), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.chars.get(self.at + 1), Some('+' | '-')));
            if self.chars.get(self.at + 1 + sign).is_some_and(char::is_ascii_digit) {
                self.at += 1 + sign;
                self.skip_while(char::is_ascii_digit);
            }
        }
        let text: String = self.chars[start..self.at].iter().collect();
        text.parse().map_err(|_| format!("at character {}: `{text}` is no number", start + 1))
    }

    fn skip_while(&mut self, matches: impl Fn(&char) -> bool) {
        while self.chars.get(self.at).is_some_and(&matches) {
            self.at += 1;
        }
    }

    fn read_named(&mut self) -> Result<f64, String> {
        let start = self.at;
        self.skip_while(char::is_ascii_alphanumeric);
        let name: String = self.chars[start..self.at].iter().collect();
        match name.as_str() {
            "pi" => return Ok(std::f64::consts::PI),
            "e" => return Ok(std::f64::consts::E),
            _ => {}
        }
        let unknown =
            || format!("at character {}: unknown name `{name}`; known are {FUNCTIONS}", start + 1);
        if !self.take_char('(') {
            return Err(unknown());
        }
        let first = self.sum()?;
        let value = match name.as_str() {
            "min" | "max" => {
                let mut value = first;
                while self.take_char(',') {
                    let other = self.sum()?;
                    value = if name == "min" { value.min(other) } else { value.max(other) };
                }
                value
            }
            other => function(other).ok_or_else(unknown)?(first),
        };
        self.close_bracket()?;
        Ok(value)
    }
}

fn function(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "abs" => f64::abs,
        "ceil" => f64::ceil,
        "cos" => f64::cos,
        "exp" => f64::exp,
        "floor" => f64::floor,
        "ln" => f64::ln,
        "log10" => f64::log10,
        "round" => f64::round,
        "sin" => f64::sin,
        "sqrt" => f64::sqrt,
        "tan" => f64::tan,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn expressions_have_their_usual_values() {
        for (text, value) in [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("2 ^ 3 ^ 2", 512.0),
            ("-2 ^ 2", -4.0),
            ("2 ^ -1", 0.5),
            ("7 % 4 - -1", 4.0),
            ("8 / 4 / 2", 1.0),
            ("0.1 + 0.2", 0.3),
            ("1.5e3 + .5", 1500.5),
            ("2e", f64::NAN),
            ("max(1, 7, 3) - min(4, 2)", 5.0),
            ("sqrt(16) + abs(-3) + round(2.5)", 10.0),
            ("2 * pi", std::f64::consts::TAU),
            ("ln(e) + log10(1000)", 4.0),
            (" ( ( 5 ) ) ", 5.0),
        ] {
            match evaluate(text) {
                Ok(found) => assert!((rounded(found) - value).abs() < 1e-12, "{text}: {found}"),
                Err(error) => assert!(value.is_nan(), "{text}: {error}"),
            }
        }
    }

    #[test]
    fn errors_name_the_place_what_was_found_and_what_was_expected() {
        for (text, part) in [
            ("", "at character 1: found the end, expected a number"),
            ("1 +", "at character 4: found the end"),
            ("1 2", "at character 3: found `2`, expected an operator"),
            ("(1", "expected `)`"),
            ("1.2.3", "`1.2.3` is no number"),
            ("system(1)", "unknown name `system`"),
            ("x", "unknown name `x`; known are abs"),
            ("1 / 0", "not a finite number"),
            ("sqrt(-1)", "not a finite number"),
            ("9 ^ 9 ^ 9", "not a finite number"),
            ("1; import os", "found `;`"),
        ] {
            let error = evaluate(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        for deep in ["(".repeat(900), "-".repeat(900), "2^".repeat(400), "sin(".repeat(200)] {
            let error = evaluate(&deep).expect_err("too deep");
            assert!(error.contains("at most 50 levels"), "{error}");
        }
        let error = evaluate(&"1+".repeat(501)).expect_err("too long");
        assert!(error.contains("1002 characters"), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9a-z+*/%^(),. e-]{0,80}|.{0,40}") {
            if let Ok(value) = evaluate(&text) {
                prop_assert!(value.is_finite());
            }
        }

        #[test]
        fn sums_of_products_are_those_of_rust(a in -1e6..1e6f64, b in -1e6..1e6f64, c in 1.0..1e6f64) {
            let found = evaluate(&format!("{a} * {b} - {a} / {c} + ({b} - {c})"));
            prop_assert_eq!(found, Ok(a * b - a / c + (b - c)));
        }
    }
}
