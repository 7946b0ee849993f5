//! The tree of an expression.

use std::ops::Range;

use super::functions::Function;
use super::like::Like;

/// An expression, and where it stands in its text.
#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) kind: Kind,
    pub(crate) at: Range<usize>,
}

/// What an expression is.
#[derive(Debug)]
pub(crate) enum Kind {
    Literal(Literal),
    Reference(Reference),
    Exists(Reference),
    Not(Box<Expr>),
    Minus(Box<Expr>),
    /// Operators of one precedence, from left to right; at least one.
    Chain(Box<Expr>, Vec<(Binary, Expr)>),
    Like {
        value: Box<Expr>,
        like: Like,
        negated: bool,
    },
    In {
        value: Box<Expr>,
        set: Vec<Expr>,
        negated: bool,
    },
    /// `None`: there is no such function, or not with so many arguments.
    Call(Option<Function>, Vec<Expr>),
}

/// A value that is written in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Literal {
    Boolean(bool),
    Integer(i32),
    Text(Box<str>),
}

/// Something of the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reference {
    /// A context attribute, in lower case.
    Attribute(Box<str>),
    /// Keys from the root of the body; at least one.
    Data(Box<[Box<str>]>),
}

/// An operator between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
    Xor,
}

impl Binary {
    /// How tightly it binds: more is tighter.
    pub(super) fn precedence(self) -> u8 {
        match self {
            Binary::Multiply | Binary::Divide | Binary::Remainder => 4,
            Binary::Add | Binary::Subtract => 3,
            Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual => 2,
            Binary::And | Binary::Or | Binary::Xor => 1,
        }
    }

    /// It joins truths.
    pub(crate) fn is_logic(self) -> bool {
        self.precedence() == 1
    }

    /// It compares values.
    pub(crate) fn is_comparison(self) -> bool {
        self.precedence() == 2
    }

    /// The same comparison with the sides exchanged.
    pub(crate) fn mirrored(self) -> Self {
        match self {
            Binary::Less => Binary::Greater,
            Binary::LessOrEqual => Binary::GreaterOrEqual,
            Binary::Greater => Binary::Less,
            Binary::GreaterOrEqual => Binary::LessOrEqual,
            other => other,
        }
    }
}

/// The type that an expression always has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Boolean,
    Integer,
    Text,
}

impl Expr {
    /// Its type, when it is known without an event.
    pub(crate) fn known_type(&self) -> Option<Type> {
        match &self.kind {
            Kind::Literal(Literal::Boolean(_))
            | Kind::Exists(_)
            | Kind::Not(_)
            | Kind::Like { .. }
            | Kind::In { .. } => Some(Type::Boolean),
            Kind::Literal(Literal::Integer(_)) | Kind::Minus(_) => Some(Type::Integer),
            Kind::Literal(Literal::Text(_)) => Some(Type::Text),
            Kind::Reference(_) => None,
            Kind::Chain(_, rest) => {
                let compares = rest.first().is_some_and(|(op, _)| op.is_logic() || op.is_comparison());
                Some(if compares { Type::Boolean } else { Type::Integer })
            }
            Kind::Call(function, _) => function.map(Function::result),
        }
    }

    /// The single comparison that this is.
    pub(crate) fn as_comparison(&self) -> Option<(&Expr, Binary, &Expr)> {
        match &self.kind {
            Kind::Chain(first, rest) => match rest.as_slice() {
                [(op, second)] if op.is_comparison() => Some((first, *op, second)),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Expr {
    /// What it is made of, from left to right.
    pub(crate) fn children(&self) -> Box<dyn Iterator<Item = &Expr> + '_> {
        match &self.kind {
            Kind::Literal(_) | Kind::Reference(_) | Kind::Exists(_) => Box::new(std::iter::empty()),
            Kind::Not(inner) | Kind::Minus(inner) | Kind::Like { value: inner, .. } => {
                Box::new(std::iter::once(&**inner))
            }
            Kind::Chain(first, rest) => {
                Box::new(std::iter::once(&**first).chain(rest.iter().map(|(_, operand)| operand)))
            }
            Kind::In { value, set, .. } => Box::new(std::iter::once(&**value).chain(set)),
            Kind::Call(_, arguments) => Box::new(arguments.iter()),
        }
    }

    /// Some part asks for the body.
    pub(crate) fn asks_for_data(&self) -> bool {
        matches!(&self.kind, Kind::Reference(Reference::Data(_)) | Kind::Exists(Reference::Data(_)))
            || self.children().any(Expr::asks_for_data)
    }

    /// It joins truths: AND, OR, XOR, or NOT of such.
    pub(crate) fn is_logic(&self) -> bool {
        match &self.kind {
            Kind::Not(inner) => inner.known_type() == Some(Type::Boolean) || inner.is_logic(),
            Kind::Chain(_, rest) => rest.iter().all(|(op, _)| op.is_logic()),
            _ => false,
        }
    }

    /// Literals, attributes and paths in it.
    pub(crate) fn count_values(&self) -> usize {
        let own = match &self.kind {
            Kind::Literal(_) | Kind::Reference(_) | Kind::Exists(_) | Kind::Like { .. } => 1,
            _ => 0,
        };
        own + self.children().map(Expr::count_values).sum::<usize>()
    }
}
