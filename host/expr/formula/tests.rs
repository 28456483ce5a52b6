// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formulas: what is read, what is refused and where, and what comes out.

mod fuzz;
mod results;

use super::Formula;

#[track_caller]
fn parse(text: &str) -> Formula {
    Formula::parse(text).unwrap_or_else(|error| panic!("{error:?}"))
}

#[test]
fn operators_are_in_pythons_order() {
    for (text, wanted) in [
        ("a + b * c", "a + (b * c)"),
        ("a * b + c", "(a * b) + c"),
        ("a - b - c", "(a - b) - c"),
        ("a / b * c // d % e", "(((a / b) * c) // d) % e"),
        ("a @ b * c @ -d ** 2 + e", "(((a @ b) * c) @ (-(d ** 2))) + e"),
        ("-a ** 2", "-(a ** 2)"),
        ("2 ** -1", "2 ** (-1)"),
        ("a ** b ** c", "a ** (b ** c)"),
        ("-a * b", "(-a) * b"),
        ("a ** -b * c", "(a ** (-b)) * c"),
        ("a ** -b ** c", "a ** (-(b ** c))"),
        ("- - ~+a", "-(-(~(+a)))"),
        ("!a", "!(a)"),
        ("a << b + c", "a << (b + c)"),
        ("a & b << c", "a & (b << c)"),
        ("a ^ b & c", "a ^ (b & c)"),
        ("a | b ^ c", "a | (b ^ c)"),
        ("a < b | c", "a < (b | c)"),
        ("a == b + c", "a == (b + c)"),
        ("f32(a) ** 2", "(f32(a)) ** 2"),
        ("((((a))))", "a"),
        ("clip(x, hi=1, lo=0,)", "clamp(x, 0, 1)"),
        ("sum(x, 1)", "sum(x, axis=1)"),
        ("mean(x, axis=-1, keepdims=true)", "mean(x, -1, true)"),
        ("m = a*2; m + b;", "m = (a * 2); (m + b)"),
        ("a\n+\tb", "a + b"),
    ] {
        // The order of arguments is not that of the terms.
        assert_eq!(parse(text).to_string(), parse(wanted).to_string(), "{text}");
    }
}

#[test]
fn a_formula_is_written_with_no_more_parentheses_than_it_needs() {
    for text in [
        "a + b * c",
        "(a + b) * c",
        "a - (b - c)",
        "(-a) ** 2",
        "-a ** 2",
        "a ** -b ** c",
        "(a ** b) ** c",
        "(a < b) == (c < d)",
        "~(a > 0) & (b != 0.001)",
        "m = 2.0 * pi; select(m < x, tanh(m), max(x, axis=1))",
    ] {
        assert_eq!(parse(text).to_string(), text);
    }
    assert_eq!(parse("arcsin( x )+0xff+1_0.").to_string(), "asin(x) + 255 + 10.0");
}

#[test]
fn names_are_those_that_are_not_bound_before() {
    let formula = parse("m = a + m; n = m * e; b + m + a + n * pi");
    assert_eq!(formula.names(), ["a", "m", "b"]);
    assert!(formula.reads("e") && formula.reads("m") && !formula.reads("n"));
    assert_eq!(formula.check_names(&["m", "b", "a", "x"]), Ok(()));
    let error = formula.check_names(&["a", "m"]).unwrap_err();
    assert_eq!(error.to_string(), "column 23: unknown name `b`");
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (text, wanted) in [
        ("", "column 1: given nothing, wanted a number, a name or `(`"),
        ("a +", "column 4: given nothing, wanted a number, a name or `(`"),
        ("a b", "column 3: given `b`, wanted an operator, `;` or the end"),
        ("a + * b", "column 5: given `*`, wanted a number, a name or `(`"),
        ("(a + b", "column 7: given nothing, wanted an operator or `)`"),
        ("a)", "column 2: given `)`, wanted an operator"),
        ("(a, b)", "column 3: given `,`, wanted an operator or `)`"),
        (
            "a = b = c",
            "column 7: given `=`, wanted an operator, `;` or the end; `==` compares",
        ),
        (
            "a < b < c",
            "column 7: comparisons stand alone: wanted `(a < b) & (b < c)`",
        ),
        ("a > 0 & b > 0", "column 11: comparisons stand alone"),
        (
            "a > 0 and b > 0",
            "column 7: `and` is no operator: `&` takes conditions",
        ),
        ("not a", "column 1: `not` is no operator: `~`"),
        ("not(a)", "column 1: unknown function `not`: `~` takes"),
        ("tahn(a)", "column 1: unknown function `tahn`: did you mean `tanh`?"),
        ("1 + foo_bar(a)", "column 5: unknown function `foo_bar`"),
        (
            "where(a, b)",
            "column 1: `where` without its argument `b`, wanted `where(c, a, b)`",
        ),
        ("tanh()", "column 1: `tanh` without its argument `x`"),
        ("tanh(a, b)", "column 9: more arguments than `tanh(x)` takes"),
        (
            "sum(a, axes=1)",
            "column 8: unknown argument `axes` of `sum(x, axis=…, keepdims=…)`: did you mean `axis`?",
        ),
        (
            "clip(a, lo=1, lo=2)",
            "column 15: an argument of `clip(x, lo, hi)` for the second time",
        ),
        (
            "clip(a, lo=1, 2)",
            "column 15: given `2`, wanted an argument by its name",
        ),
        ("clip(a, 1 2)", "column 11: given `2`, wanted an operator, `,` or `)`"),
        ("a; b", "column 1: a result with more behind it"),
        ("a = 1;", "column 7: given nothing, wanted a formula for the result"),
        ("; a", "column 1: given `;`"),
        ("\"a\"", "column 1: '\"' is no part of a formula"),
    ] {
        let error = Formula::parse(text).expect_err(text);
        assert!(error.to_string().starts_with(wanted), "{text}: {error}");
    }
}

#[test]
fn no_text_is_too_deep_or_too_long() {
    let deep = |before: &str, behind: &str| format!("{}a{}", before.repeat(1000), behind.repeat(1000));
    for text in [
        deep("(", ")"),
        deep("-", ""),
        deep("", "**a"),
        deep("exp(", ")"),
        deep("a|(", ")"),
        deep("", "|(a^(a&(a<<(a+(a*(a"),
    ] {
        let error = Formula::parse(&text).unwrap_err();
        assert!(error.message().starts_with("more than 256 operands"), "{error}");
    }
    let error = Formula::parse(&"a+".repeat(50_000)).unwrap_err();
    assert_eq!(error.message(), "a formula of 100000 bytes, wanted at most 65536");
    // As deep a tree, which nothing recurses over.
    let long = format!("a{}", "+a".repeat(15_000));
    assert_eq!(parse(&parse(&long).to_string()), parse(&long));
}
