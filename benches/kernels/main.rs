// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels, by criterion, in one executable, most of which all have in common: `cargo bench --bench kernels`, or a part
//! of them with one of criterion's filters: `cargo bench --bench kernels -- reduce/sum`.

mod attention;
mod binary;
mod common;
mod convolve;
mod histogram;
mod image;
mod map;
mod matmul;
mod random;
mod reduce;
mod scan;
mod transpose;

use std::env;

use criterion::Criterion;

type Group = fn(&mut Criterion);

/// The groups, by what their benchmarks' names begin with.
const GROUPS: [(&str, Group); 12] = [
    ("map", map::map),
    ("binary", binary::binary),
    ("broadcast", binary::broadcast),
    ("reduce", reduce::reduce),
    ("scan", scan::scan),
    ("histogram", histogram::histogram),
    ("matmul", matmul::matmul),
    ("attention", attention::attention),
    ("convolve", convolve::convolve),
    ("transpose", transpose::transpose),
    ("image", image::image),
    ("random", random::random),
];

fn main() {
    let is_asked_for = |name: &str| env::args().any(|argument| argument.split('/').next() == Some(name));
    // A group makes its inputs before criterion leaves out what the filter does not name.
    let one_is = GROUPS.iter().any(|(name, _)| is_asked_for(name));
    let mut criterion = common::criterion().configure_from_args();
    for (name, benchmark) in GROUPS {
        if !one_is || is_asked_for(name) {
            benchmark(&mut criterion);
        }
    }
    criterion.final_summary();
}
