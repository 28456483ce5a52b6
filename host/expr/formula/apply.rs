// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a formula and its inputs to an expression.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use rustc_hash::FxHashMap;

use super::Formula;
use super::arrays::accumulate;
use super::error::{FormulaError, suggestion};
use super::functions::{self, CONSTANTS, Constant, Exponentials, Operation};
use super::numbers::{Number, convert, problem};
use super::operations::{compute, taken};
use super::syntax::{Id, Kind, Statement, Term};
use crate::expr::any::AnyExpr;
use crate::expr::graph::parts::Shape;
use crate::expr::graph::{self, Node};
use crate::expr::normalize::{log_softmax, log_sum_exp, softmax};
use crate::expr::reductions::{Statistic, reduce, with_axes};

/// The result of the formula.
pub(super) fn apply<'a>(formula: &Formula, inputs: &[(&str, AnyExpr<'a>)]) -> Result<Arc<Node<'a>>, FormulaError> {
    let mut scope = Scope {
        inputs: inputs.iter().map(|(name, expr)| (*name, expr)).collect(),
        bound: FxHashMap::default(),
        // One number for all elements, until the shape is known.
        shape: None,
    };
    let result = scope.result(formula)?;
    if !formula.terms.iter().any(Term::is_index) {
        return Ok(result);
    }
    scope.shape = Some(result.shape.clone());
    scope.result(formula)
}

impl Term {
    fn is_index(&self) -> bool {
        matches!(self.kind, Kind::Call(function, _) if function.operation == Operation::Index)
    }
}

/// What names stand for.
struct Scope<'s, 'a> {
    inputs: FxHashMap<&'s str, &'s AnyExpr<'a>>,
    bound: FxHashMap<&'s str, Number<'a>>,
    /// The shape along whose axes `index` counts.
    shape: Option<Shape>,
}

impl<'s, 'a> Scope<'s, 'a> {
    fn result(&mut self, formula: &'s Formula) -> Result<Arc<Node<'a>>, FormulaError> {
        self.bound.clear();
        let mut numbers: Vec<Number<'a>> = Vec::with_capacity(formula.terms.len());
        for Statement { name, root } in &formula.statements {
            for term in &formula.terms[numbers.len()..=*root] {
                let number = self.number(formula, term, &numbers);
                numbers.push(number.map_err(|message| formula.error(term, message))?);
            }
            if let Some(name) = name {
                self.bound.insert(name, numbers[*root].clone());
            }
        }
        let last = formula.terms.len() - 1;
        let result = numbers[last].clone().typed();
        result.map_err(|message| formula.error(&formula.terms[last], message))
    }

    /// The number of a part, behind those of its parts.
    fn number(&self, formula: &Formula, term: &Term, numbers: &[Number<'a>]) -> Result<Number<'a>, String> {
        let number = |id: Id| numbers[id].clone();
        match &term.kind {
            Kind::Int(value) => Ok(Number::Int((*value).into())),
            Kind::Float(value) => Ok(Number::Float(*value)),
            Kind::Name(name) => self.named(name),
            Kind::Prefix(prefix, x) => compute(prefix.symbol, prefix.operation, vec![number(*x)]),
            Kind::Infix(infix, a, b) => compute(infix.symbol, infix.operation, vec![number(*a), number(*b)]),
            Kind::Call(function, arguments) => {
                // As the text has it.
                let name = &formula.text[term.span.clone()];
                match function.operation {
                    Operation::Index => self.index(arguments[0].map(number)),
                    Operation::Reduction(statistic) => {
                        let arguments: Vec<_> = arguments.iter().map(|id| id.map(number)).collect();
                        reduction(name, statistic, arguments)
                    }
                    Operation::Exponentials(of) => {
                        let arguments: Vec<_> = arguments.iter().map(|id| id.map(number)).collect();
                        exponentials(name, of, arguments)
                    }
                    Operation::Accumulation(by) => {
                        let [x, axis] = [0, 1].map(|at| arguments[at].map(number));
                        let x = x.expect("what is added up is no option");
                        accumulate(function.name, by, x, |shape| {
                            let axis = integer("axis", name, axis)?;
                            axis.map(|axis| axis_of(name, axis, shape)).transpose()
                        })
                    }
                    operation => compute(
                        name,
                        operation,
                        arguments.iter().flatten().copied().map(number).collect(),
                    ),
                }
            }
        }
    }

    fn named(&self, name: &str) -> Result<Number<'a>, String> {
        if let Some(number) = self.bound.get(name) {
            return Ok(number.clone());
        }
        if let Some(input) = self.inputs.get(name) {
            let part = input.part().clone();
            return part.map(Number::Typed).map_err(problem);
        }
        if let Some((_, constant)) = CONSTANTS.iter().find(|(constant, _)| *constant == name) {
            return Ok(match constant {
                Constant::Float(value) => Number::Float(*value),
                Constant::Bool(value) => Number::truth(*value),
            });
        }
        Err(unknown_name(name, self.bound.keys().chain(self.inputs.keys()).copied()))
    }

    fn index(&self, axis: Option<Number<'a>>) -> Result<Number<'a>, String> {
        let Some(Number::Int(given)) = axis else {
            return Err("`index` of an axis that is no integer, wanted one, as in `index(0)`".into());
        };
        let Some(shape) = &self.shape else {
            return Ok(Number::Typed(Node::scalar(ScalarType::I64, 0)));
        };
        let axis = axis_of("index", given, shape)?;
        let place = Node::index(shape, axis).map_err(problem)?;
        convert(place, ScalarType::I64).map(Number::Typed)
    }
}

/// The axis that `given` is of that shape; negative ones count from the last.
fn axis_of(name: &str, given: i128, shape: &[usize]) -> Result<usize, String> {
    let axes = shape.len();
    let axis = if given < 0 { given + axes as i128 } else { given };
    let axis = usize::try_from(axis).ok().filter(|&axis| axis < axes);
    axis.ok_or_else(|| {
        let from = if axes > 0 {
            format!(", from -{axes} to {}", axes - 1)
        } else {
            String::new()
        };
        format!("`{name}` of axis {given}, wanted one of the {axes} of shape {shape:?}{from}")
    })
}

/// An argument that is an integer, if it is given.
fn integer(what: &str, of: &str, given: Option<Number<'_>>) -> Result<Option<i128>, String> {
    match given {
        None => Ok(None),
        Some(Number::Int(value)) => Ok(Some(value)),
        Some(other) => Err(format!(
            "`{what}` of `{of}` is {}, wanted an integer",
            other.type_name()
        )),
    }
}

/// The axis that is given, or all.
fn axes(name: &str, given: Option<Number<'_>>, shape: &[usize]) -> Result<Vec<usize>, String> {
    match integer("axis", name, given)? {
        Some(axis) => Ok(vec![axis_of(name, axis, shape)?]),
        None => Ok((0..shape.len()).collect()),
    }
}

/// Whether axes are kept, with length 1, where elements are combined along them.
fn keepdims(name: &str, given: Option<Number<'_>>) -> Result<bool, String> {
    let given = match given {
        None => return Ok(false),
        Some(Number::Typed(node)) if node.ty == ScalarType::Bool => match node.kind {
            graph::Kind::Scalar(bits) => return Ok(bits != 0),
            _ => "an array",
        },
        Some(other) => other.type_name(),
    };
    Err(format!("`keepdims` of `{name}` is {given}, wanted true or false"))
}

/// A reduction of its first argument: along `axis`, or of all elements; with `ddof`, for those that have it; and with the axes
/// kept, with length 1, if `keepdims` says so.
fn reduction<'a>(
    name: &str,
    statistic: Statistic,
    mut arguments: Vec<Option<Number<'a>>>,
) -> Result<Number<'a>, String> {
    let keeps = keepdims(name, arguments.pop().flatten())?;
    let mut arguments = arguments.into_iter();
    let x = arguments
        .next()
        .flatten()
        .expect("what is reduced is no option")
        .typed()?;
    let axes = axes(name, arguments.next().flatten(), &x.shape)?;
    let ddof = integer("ddof", name, arguments.next().flatten())?.unwrap_or(0);
    let ddof = usize::try_from(ddof).map_err(|_| format!("`ddof` of `{name}` is {ddof}, wanted 0 or more"))?;
    let is_of_conditions = matches!(statistic, Statistic::Any | Statistic::All | Statistic::Sum);
    if x.ty == ScalarType::Bool && !is_of_conditions {
        return Err(format!("`{name}` of bool, wanted numbers, as in `{name}(f32(…))`"));
    }
    let reduced = reduce(statistic, x, &axes, ddof).map_err(problem)?;
    Ok(Number::Typed(if keeps { with_axes(&reduced, &axes) } else { reduced }))
}

/// What is made of the exponentials of the first argument: along `axis`, or of all elements; with `keepdims`, for what has it.
fn exponentials<'a>(name: &str, of: Exponentials, arguments: Vec<Option<Number<'a>>>) -> Result<Number<'a>, String> {
    let mut arguments = arguments.into_iter();
    let x = arguments
        .next()
        .flatten()
        .expect("what it is of is no option")
        .typed()?;
    let x = taken(name, Operation::Exponentials(of), vec![x])?.swap_remove(0);
    let axes = axes(name, arguments.next().flatten(), &x.shape)?;
    let keeps = keepdims(name, arguments.next().flatten())?;
    let computed = match of {
        Exponentials::Softmax => softmax(&x, &axes),
        Exponentials::LogSoftmax => log_softmax(&x, &axes),
        Exponentials::LogSumExp => log_sum_exp(&x, &axes),
    };
    let computed = computed.map_err(problem)?;
    Ok(Number::Typed(if keeps {
        with_axes(&computed, &axes)
    } else {
        computed
    }))
}

/// The message for a name that nothing is given for, beside those that something is.
pub(super) fn unknown_name<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    let hint = match functions::find(name) {
        Some(function) => format!(": the function is called as {}", function.usage(name)),
        None => suggestion(name, known.chain(CONSTANTS.map(|(name, _)| name))),
    };
    format!("unknown name `{name}`{hint}")
}
