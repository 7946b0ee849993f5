//! Tokens → tree. Descends by precedence; nesting, and with it the stack, is bounded by [`Limits::depth`].

use std::ops::Range;

use super::expression::{Binary, Expr, Kind, Literal, Reference};
use super::functions::Function;
use super::lex::{Placed, Token, error_at, lex};
use super::like::Like;
use crate::error::FilterError;
use crate::limits::Limits;

/// Precedence of what binds tighter than every operator between two operands.
const TIGHTEST: u8 = 5;

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Placed>,
    next: usize,
    limits: &'t Limits,
    values: usize,
    /// Postfix operators behind one another, in the whole text: each nests what stands before it.
    suffixes: usize,
}

/// Parses an expression that is within the limits. Functions that do not exist are taken.
pub(super) fn parse(text: &str, limits: &Limits) -> Result<Expr, FilterError> {
    let mut parser = Parser { text, tokens: lex(text)?, next: 0, limits, values: 0, suffixes: 0 };
    let parsed = parser.level(1, 0)?;
    match parser.peek() {
        Token::End => Ok(parsed),
        _ => Err(parser.unexpected("the end of the expression, AND, OR, or another operator")),
    }
}

fn keyword(word: &str) -> Option<&'static str> {
    const KEYWORDS: [&str; 9] = ["AND", "OR", "XOR", "NOT", "LIKE", "IN", "EXISTS", "TRUE", "FALSE"];
    KEYWORDS.into_iter().find(|keyword| keyword.eq_ignore_ascii_case(word))
}

impl Parser<'_> {
    fn placed(&self) -> &Placed {
        // The last token is `End`, and it is never taken.
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn peek(&self) -> &Token {
        &self.placed().token
    }

    fn start(&self) -> usize {
        self.placed().at.start
    }

    /// Where the last taken token ended.
    fn end(&self) -> usize {
        self.next.checked_sub(1).and_then(|last| self.tokens.get(last)).map_or(0, |placed| placed.at.end)
    }

    fn word(&self) -> &str {
        let placed = self.placed();
        if placed.token == Token::Word { &self.text[placed.at.clone()] } else { "" }
    }

    fn is_keyword(&self, wanted: &str) -> bool {
        keyword(self.word()) == Some(wanted)
    }

    fn is_symbol(&self, wanted: &str) -> bool {
        matches!(self.peek(), Token::Symbol(symbol) if *symbol == wanted)
    }

    fn take(&mut self) -> Placed {
        let placed = self.placed().clone();
        self.next += 1;
        placed
    }

    fn take_symbol(&mut self, wanted: &str) -> Result<(), FilterError> {
        if self.is_symbol(wanted) {
            self.next += 1;
            return Ok(());
        }
        Err(self.unexpected(&format!("'{wanted}'")))
    }

    fn error(&self, code: &'static str, offset: usize, message: &str) -> FilterError {
        error_at(code, self.text, offset, message)
    }

    fn unexpected(&self, expected: &str) -> FilterError {
        let found = match self.peek() {
            Token::End => "the text ends".to_owned(),
            _ => format!("'{}' stands", &self.text[self.placed().at.clone()]),
        };
        self.error("filter_syntax", self.start(), &format!("expected {expected}, but {found}"))
    }

    fn check_depth(&self, depth: usize) -> Result<(), FilterError> {
        if depth + self.suffixes < self.limits.depth {
            return Ok(());
        }
        let message = format!(
            "the expression is nested more than {} deep; leave brackets out, or split it,",
            self.limits.depth
        );
        Err(self.error("filter_too_deep", self.start(), &message))
    }

    fn count_value(&mut self, at: &Range<usize>) -> Result<(), FilterError> {
        self.values += 1;
        if self.values <= self.limits.values {
            return Ok(());
        }
        let message = format!(
            "the filter has more than {} values; use LIKE, or split the subscription,",
            self.limits.values
        );
        Err(self.error("filter_too_many_values", at.start, &message))
    }

    /// Operators of one precedence, and everything that binds tighter.
    fn level(&mut self, precedence: u8, depth: usize) -> Result<Expr, FilterError> {
        if precedence == TIGHTEST {
            return self.suffixed(depth);
        }
        let start = self.start();
        let first = self.level(precedence + 1, depth)?;
        let mut rest = Vec::new();
        while let Some(op) = self.binary().filter(|op| op.precedence() == precedence) {
            self.next += 1;
            rest.push((op, self.level(precedence + 1, depth)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(Expr { kind: Kind::Chain(Box::new(first), rest), at: start..self.end() })
    }

    fn binary(&self) -> Option<Binary> {
        let Token::Symbol(symbol) = self.peek() else {
            return match keyword(self.word()) {
                Some("AND") => Some(Binary::And),
                Some("OR") => Some(Binary::Or),
                Some("XOR") => Some(Binary::Xor),
                _ => None,
            };
        };
        Some(match *symbol {
            "*" => Binary::Multiply,
            "/" => Binary::Divide,
            "%" => Binary::Remainder,
            "+" => Binary::Add,
            "-" => Binary::Subtract,
            "=" => Binary::Equal,
            "!=" | "<>" => Binary::NotEqual,
            "<" => Binary::Less,
            "<=" => Binary::LessOrEqual,
            ">" => Binary::Greater,
            ">=" => Binary::GreaterOrEqual,
            _ => return None,
        })
    }

    /// An operand and the `LIKE` and `IN` behind it.
    fn suffixed(&mut self, depth: usize) -> Result<Expr, FilterError> {
        let start = self.start();
        let mut value = self.unary(depth)?;
        let mut repeated = false;
        loop {
            let negated = self.is_keyword("NOT");
            let operator = if negated { self.tokens.get(self.next + 1) } else { self.tokens.get(self.next) };
            let operator = operator
                .filter(|placed| placed.token == Token::Word)
                .and_then(|placed| keyword(&self.text[placed.at.clone()]));
            if !matches!(operator, Some("LIKE" | "IN")) {
                return Ok(value);
            }
            self.suffixes += usize::from(repeated);
            repeated = true;
            self.check_depth(depth)?;
            self.next += 1 + usize::from(negated);
            let kind = if operator == Some("LIKE") {
                let Token::Text(pattern) = self.peek().clone() else {
                    return Err(self.unexpected("a string in quotes, the pattern of LIKE"));
                };
                let placed = self.take();
                self.count_value(&placed.at)?;
                Kind::Like { value: Box::new(value), like: Like::new(&pattern), negated }
            } else {
                self.take_symbol("(")?;
                let set = self.list(depth)?;
                Kind::In { value: Box::new(value), set, negated }
            };
            value = Expr { kind, at: start..self.end() };
        }
    }

    /// Expressions between commas, at least one, and the bracket behind them.
    fn list(&mut self, depth: usize) -> Result<Vec<Expr>, FilterError> {
        let mut list = vec![self.level(1, depth + 1)?];
        while self.is_symbol(",") {
            self.next += 1;
            list.push(self.level(1, depth + 1)?);
        }
        self.take_symbol(")")?;
        Ok(list)
    }

    fn unary(&mut self, depth: usize) -> Result<Expr, FilterError> {
        self.check_depth(depth)?;
        let start = self.start();
        if self.is_keyword("NOT") {
            self.next += 1;
            let inner = self.unary(depth + 1)?;
            return Ok(Expr { kind: Kind::Not(Box::new(inner)), at: start..self.end() });
        }
        if self.is_keyword("EXISTS") {
            self.next += 1;
            let Some(reference) = self.reference()? else {
                return Err(self.unexpected("the name of an attribute, or data.…"));
            };
            return Ok(Expr { kind: Kind::Exists(reference), at: start..self.end() });
        }
        let signed = self.is_symbol("-") || self.is_symbol("+");
        if signed
            && self
                .tokens
                .get(self.next + 1)
                .is_some_and(|n| n.token == Token::Integer && n.at.start == start + 1)
        {
            self.next += 1;
            return self.integer(start);
        }
        if self.is_symbol("-") {
            self.next += 1;
            let inner = self.unary(depth + 1)?;
            return Ok(Expr { kind: Kind::Minus(Box::new(inner)), at: start..self.end() });
        }
        self.operand(depth)
    }

    fn operand(&mut self, depth: usize) -> Result<Expr, FilterError> {
        let start = self.start();
        let kind = match self.peek() {
            Token::Integer => return self.integer(start),
            Token::Text(text) => {
                let kind = Kind::Literal(Literal::Text(text.as_str().into()));
                let placed = self.take();
                self.count_value(&placed.at)?;
                kind
            }
            Token::Symbol("(") => {
                self.next += 1;
                let inner = self.level(1, depth + 1)?;
                self.take_symbol(")")?;
                // Its place is what stands between the brackets: that is what explanations show.
                return Ok(inner);
            }
            Token::Word if keyword(self.word()).is_none() && self.is_call() => self.call(depth)?,
            Token::Word if self.is_keyword("TRUE") || self.is_keyword("FALSE") => {
                let kind = Kind::Literal(Literal::Boolean(self.is_keyword("TRUE")));
                let placed = self.take();
                self.count_value(&placed.at)?;
                kind
            }
            _ => match self.reference()? {
                Some(reference) => Kind::Reference(reference),
                None => {
                    return Err(
                        self.unexpected("a value: an attribute, data.…, a number, or a string in quotes")
                    );
                }
            },
        };
        Ok(Expr { kind, at: start..self.end() })
    }

    fn is_call(&self) -> bool {
        self.tokens.get(self.next + 1).is_some_and(|next| next.token == Token::Symbol("("))
    }

    fn call(&mut self, depth: usize) -> Result<Kind, FilterError> {
        let name = self.word().to_owned();
        self.next += 2;
        let arguments = if self.is_symbol(")") {
            self.next += 1;
            Vec::new()
        } else {
            self.list(depth)?
        };
        Ok(Kind::Call(Function::find(&name, arguments.len()), arguments))
    }

    /// Digits; a sign stands at `start` or not.
    fn integer(&mut self, start: usize) -> Result<Expr, FilterError> {
        let placed = self.take();
        let at = start..placed.at.end;
        self.count_value(&at)?;
        let Ok(number) = self.text[at.clone()].parse() else {
            let message = "the number is out of range; whole numbers are from -2147483648 to 2147483647,";
            return Err(self.error("filter_syntax", start, message));
        };
        Ok(Expr { kind: Kind::Literal(Literal::Integer(number)), at })
    }

    fn reference(&mut self) -> Result<Option<Reference>, FilterError> {
        let reference = match self.peek() {
            Token::Data(keys) => {
                if keys.len() > self.limits.path_steps {
                    let message = format!(
                        "the path has more than {} keys; match a value higher up",
                        self.limits.path_steps
                    );
                    return Err(self.error("filter_too_deep", self.start(), &message));
                }
                Reference::Data(keys.iter().map(|key| key.as_str().into()).collect())
            }
            Token::Word if keyword(self.word()).is_none() => {
                let name = self.word().to_ascii_lowercase();
                if name.contains('_') {
                    let message = "an attribute has a name of letters and digits only";
                    return Err(self.error("filter_syntax", self.start(), message));
                }
                if name == "data" {
                    let message = "'data' is the body; name a field of it, as in data.priority,";
                    return Err(self.error("filter_invalid_attribute", self.start(), message));
                }
                Reference::Attribute(name.into())
            }
            _ => return Ok(None),
        };
        let placed = self.take();
        self.count_value(&placed.at)?;
        Ok(Some(reference))
    }
}
