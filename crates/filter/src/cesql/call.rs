//! Calls of functions, with every choice of values that their arguments give.

use super::evaluate::{Evaluator, cost};
use super::expression::{Expr, Type};
use super::functions::Function;
use super::value::{Problem, Value, Values};
use crate::error::EvalError;

impl<'e> Evaluator<'e, '_, '_> {
    pub(super) fn call(
        &mut self,
        function: Option<Function>,
        arguments: &'e [Expr],
    ) -> Result<Values<'e>, EvalError> {
        let Some(function) = function else {
            self.note(Problem::MissingFunction);
            return Ok(Values::truth(false));
        };
        let arguments: Vec<Values<'e>> =
            arguments.iter().map(|argument| self.values(argument)).collect::<Result<_, _>>()?;
        if arguments.contains(&Values::Missing) {
            return Ok(Values::One(zero(function)));
        }
        // One list of arguments for every choice of values.
        let mut choices: Vec<Vec<&Value<'e>>> = vec![Vec::new()];
        for argument in &arguments {
            let values = argument.as_slice();
            if let [only] = values {
                choices.iter_mut().for_each(|choice| choice.push(only));
                continue;
            }
            let size = arguments.len().saturating_mul(choices.len()).saturating_mul(values.len());
            self.budget.spend(size)?;
            let mut longer = Vec::with_capacity(choices.len().saturating_mul(values.len()));
            for choice in &choices {
                for value in values {
                    longer.push(choice.iter().copied().chain([value]).collect());
                }
            }
            choices = longer;
        }
        let mut results = Vec::with_capacity(choices.len());
        for choice in choices {
            let delimiters = choice.first().map_or(0, |first| cost(first)).saturating_mul(choice.len());
            self.budget.spend(1 + delimiters + choice.iter().map(|value| cost(value)).sum::<usize>())?;
            let (value, problem) = function.call(&choice);
            if let Some(problem) = problem {
                self.note(problem);
            }
            results.push(value);
        }
        Ok(Values::of(results))
    }
}

fn zero(function: Function) -> Value<'static> {
    match function.result() {
        Type::Boolean => Value::Boolean(false),
        Type::Integer => Value::Integer(0),
        Type::Text => Value::Text("".into()),
    }
}
