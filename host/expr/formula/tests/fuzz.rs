// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text is a formula or an error, and any formula's text is that formula.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::Formula;
use super::super::functions::{CONSTANTS, FUNCTIONS, Function, INFIXES, POWER, PREFIXES, names};
use super::super::syntax::{Id, Kind, Statement, Term};
use super::results::{evaluated, inputs};

/// Reads a text, and computes what it is a formula of.
fn run(text: &str) {
    let result = Formula::parse(text).and_then(|formula| {
        let again = Formula::parse(&formula.to_string());
        // What is written is more deeply nested only where parentheses were left out; and `x;` is `x`.
        assert_eq!(again.as_ref().map(ToString::to_string), Ok(formula.to_string()));
        formula.apply(&inputs())
    });
    match result {
        Ok(expr) => {
            evaluated(&expr).unwrap_or_else(|error| panic!("{text}: {error}"));
            expr.explain().unwrap();
        }
        Err(error) => {
            assert!(!error.message().is_empty(), "{text}");
            assert!(error.span().end <= text.len(), "{text}");
            assert_eq!(error.marked().lines().count(), 2, "{text}: {error:?}");
            assert!(!error.to_string().contains('\n'), "{text}: {error}");
        }
    }
}

/// A word of a formula, or one that looks like one.
fn word() -> impl Strategy<Value = String> {
    let types = [
        "f32", "f64", "f16", "bf16", "i32", "i64", "u8", "u16", "u32", "u64", "c", "m", "x", "axis", "lo",
    ];
    let symbols: Vec<_> = INFIXES.iter().map(|infix| infix.symbol).collect();
    let others = [
        "**", "-", "~", "!", "(", ")", "(", ")", ",", ";", "=", "and", "&&", "²", "$", "\n",
    ];
    let numbers = [
        "0",
        "1",
        "2",
        "7",
        "0.5",
        "1e300",
        "1e999",
        "18446744073709551615",
        "0x",
        "1_0",
        "2x",
        ".5",
        "3.",
    ];
    let functions: Vec<_> = names().map(|name| format!("{name}(")).collect();
    prop_oneof![
        3 => prop::sample::select(types.to_vec()).prop_map(String::from),
        3 => prop::sample::select(symbols).prop_map(String::from),
        2 => prop::sample::select(others.to_vec()).prop_map(String::from),
        2 => prop::sample::select(numbers.to_vec()).prop_map(String::from),
        1 => prop::sample::select(CONSTANTS.to_vec()).prop_map(|(name, _)| name.to_string()),
        1 => prop::sample::select(functions),
    ]
}

/// A formula as a tree that is made at random.
#[derive(Clone, Debug)]
enum Tree {
    Leaf(Kind),
    Prefix(usize, Box<Tree>),
    Infix(usize, Box<Tree>, Box<Tree>),
    Call(&'static Function, Vec<Option<Tree>>),
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        any::<u64>().prop_map(Kind::Int),
        (0u64..10).prop_map(Kind::Int),
        any::<f64>().prop_filter_map("a number of a text", |x| x.is_finite().then_some(Kind::Float(x.abs()))),
        prop::sample::select(vec!["f32", "i64", "u8", "c", "m", "pi", "true", "sum", "größe"])
            .prop_map(|name| Kind::Name(name.into())),
    ];
    leaf.prop_map(Tree::Leaf).prop_recursive(6, 40, 3, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        let call = (0..FUNCTIONS.len(), prop::collection::vec(inner.clone(), 5), any::<u8>());
        prop_oneof![
            (0..PREFIXES.len(), boxed()).prop_map(|(at, x)| Tree::Prefix(at, x)),
            (0..=INFIXES.len(), boxed(), boxed()).prop_map(|(at, a, b)| Tree::Infix(at, a, b)),
            call.prop_map(|(at, arguments, given)| {
                let function = &FUNCTIONS[at];
                let arguments = function.parameters().zip(arguments).enumerate();
                let arguments = arguments
                    .map(|(at, (_, tree))| (at < function.wanted.len() || given >> at & 1 == 1).then_some(tree));
                Tree::Call(function, arguments.collect())
            }),
        ]
    })
}

/// Puts the tree into the list.
fn push(tree: &Tree, terms: &mut Vec<Term>) -> Id {
    let kind = match tree {
        Tree::Leaf(kind) => kind.clone(),
        Tree::Prefix(at, x) => Kind::Prefix(&PREFIXES[*at], push(x, terms)),
        Tree::Infix(at, a, b) => {
            let (a, b) = (push(a, terms), push(b, terms));
            Kind::Infix(INFIXES.get(*at).unwrap_or(&POWER), a, b)
        }
        Tree::Call(function, arguments) => {
            let arguments = arguments.iter().map(|tree| tree.as_ref().map(|tree| push(tree, terms)));
            Kind::Call(function, arguments.collect())
        }
    };
    terms.push(Term { kind, span: 0..0 });
    terms.len() - 1
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn any_text_is_a_formula_or_an_error(text in ".{0,40}|[-+*/%~!&|^<>=(),;a-f0-9. ]{0,40}") {
        run(&text);
    }

    #[test]
    fn any_words_are_a_formula_or_an_error(words in prop::collection::vec(word(), 0..12), space in any::<bool>()) {
        run(&words.join(if space { " " } else { "" }));
    }

    /// As a whole and cut off anywhere.
    #[test]
    fn any_trees_text_is_that_tree(trees in prop::collection::vec(tree(), 1..4), cut in 0.0f64..1.0) {
        let (mut terms, mut statements) = (Vec::new(), Vec::new());
        for (at, tree) in trees.iter().enumerate() {
            let root = push(tree, &mut terms);
            let name = (at + 1 < trees.len()).then(|| format!("m{at}").into());
            statements.push(Statement { name, root });
        }
        let formula = Formula { text: Arc::from(""), statements, terms };
        let text = formula.to_string();
        let again = Formula::parse(&text);
        prop_assert_eq!(again.as_ref(), Ok(&formula), "{}", text);
        run(&text);
        let kept = (cut * text.len() as f64) as usize;
        run(&text.chars().take(kept).collect::<String>());
    }
}
