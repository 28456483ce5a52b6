// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mistakes that do not compile, each with what the compiler says: one file of `cases/` and its `.stderr`.
//!
//! Needs cargo and the sources. To write the messages anew after a change:
//! `TRYBUILD=overwrite cargo test -p compile-fail-tests`.

#[test]
fn mistakes_do_not_compile() {
    trybuild::TestCases::new().compile_fail("cases/*.rs");
}
