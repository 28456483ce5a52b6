// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mistakes that do not compile, each with what the compiler says: one file of `cases/` and its `.stderr`.
//!
//! Needs cargo and the sources. To write the messages anew after a change:
//! `TRYBUILD=overwrite cargo test -p compile-fail-tests`.

#[test]
fn mistakes_do_not_compile() {
    // Nothing here is run, on no device.
    // SAFETY: no other thread of this process, which has this test alone, reads the environment meanwhile.
    unsafe { std::env::set_var("WARPSMITH_SIM_ONLY", "1") };
    trybuild::TestCases::new().compile_fail("cases/*.rs");
}
