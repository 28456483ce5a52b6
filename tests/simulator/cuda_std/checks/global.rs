// SPDX-License-Identifier: MIT OR Apache-2.0
//! Global memory that somebody has to have written, a kernel or the host, before it is read.

use std::ops::Range;

use cuda_sim::{Array, Checks, Error, Fault, FindingKind, LaunchConfig, Options, Written, launch_with};
use cuda_std::prelude::*;

/// Elements of each of three arrays. The first is an input, which the host has written, the others nobody.
const LEN: usize = 64;

mod kernels {
    use cuda_std::async_copy;
    use cuda_std::prelude::*;

    fn me() -> usize {
        thread::thread_idx_x() as usize
    }

    pub fn added_to_what_is_not_there<const RIGHT: bool>(x: &[u32], _: &[u32], out: SliceMut<'_, u32>) {
        let before = if RIGHT { 0 } else { out.get(me()) }; // added_to_what_is_not_there: second
        out.set(me(), before + x[me()]);
    }

    pub fn bins_never_cleared<const RIGHT: bool>(x: &[u32], _: &[u32], out: SliceMut<'_, u32>) {
        if RIGHT && me() < 8 {
            out.set(me(), 0);
        }
        thread::sync_threads();
        out.atomic(x[me()] as usize % 8).fetch_add(1); // bins_never_cleared: second
    }

    pub fn last_threads_write_nothing<const RIGHT: bool>(x: &[u32], _: &[u32], out: SliceMut<'_, u32>) {
        if RIGHT || me() < 30 {
            out.set(me(), x[me()]);
        }
        thread::sync_threads();
        out.set(32 + me(), out.get(31 - me())); // last_threads_write_nothing: second
    }

    pub fn vector_of_which_the_end_is_missing<const RIGHT: bool>(x: &[u32], _: &[u32], out: SliceMut<'_, u32>) {
        out.set(2 * me(), x[0]);
        if RIGHT {
            out.set(2 * me() + 1, x[1]);
        }
        let [_, last] = out.get_vec::<2>(2 * me()); // vector_of_which_the_end_is_missing: second
        out.set(2 * me(), last);
    }

    pub fn flag_that_nobody_has_cleared<const RIGHT: bool>(x: &[u32], _: &[u32], out: SliceMut<'_, u32>) {
        let flag = out.atomic(0);
        if RIGHT && me() == 0 {
            flag.store(0);
        }
        thread::sync_threads();
        // It may be 1 from the beginning.
        let is_first = flag.compare_exchange(0, 1) == 0; // flag_that_nobody_has_cleared: second
        out.set(1 + me(), if is_first { x[me()] } else { 0 });
    }

    pub fn elements_of_an_output<const RIGHT: bool>(x: &[u32], y: &[u32], out: SliceMut<'_, u32>) {
        let from = if RIGHT { x } else { y };
        out.set(me(), from.load(me())); // elements_of_an_output: second
    }

    pub fn copied_to_shared_memory<const RIGHT: bool>(x: &[u32], y: &[u32], out: SliceMut<'_, u32>) {
        let tile = shared_array![u32; 128].aligned::<16>();
        let from = if RIGHT { x } else { y };
        // SAFETY: 16 bytes of the array, aligned, and of the tile.
        unsafe { async_copy::copy_16(tile, 16 * me() as u32, from.as_ptr().add(4 * (me() % 16)), 16) }; // copied_to_shared_memory: second
        async_copy::commit();
        async_copy::wait::<0>();
        out.set(me(), tile.get(4 * me()));
    }
}

/// As users write it: what `x[i]` reads is seen in kernels.
#[kernel]
pub fn indexed(y: &[u32], out: SliceMut<'_, u32>) {
    let i = thread::thread_idx_x() as usize;
    out.set(i, y[i]); // indexed: second
}

type Kernel = dyn Fn(&[u32], &[u32], SliceMut<'_, u32>) + Sync;

/// Runs a kernel of a warp on the three arrays.
fn run(checks: Checks, kernel: &Kernel) -> Option<Fault> {
    #[repr(align(16))]
    struct Aligned([u32; 3 * LEN]);
    let mut memory = Aligned([7; 3 * LEN]);
    let at = memory.0.as_mut_ptr().expose_provenance();
    let (written, bytes) = (Written::default(), 4 * LEN);
    let starts = [at, at + bytes, at + 2 * bytes];
    starts.iter().for_each(|&start| written.allocate(start, bytes));
    written.write(at, bytes);
    let find = |address: usize| -> Option<Range<usize>> {
        let arrays = starts.map(|start| start..start + bytes);
        arrays.into_iter().find(|array| array.contains(&address))
    };
    let options = Options {
        checks,
        allocation: Some(&find),
        written: Some(&written),
        ..Options::default()
    };
    let body = || {
        let [x, y, out] = starts.map(std::ptr::with_exposed_provenance_mut::<u32>);
        // SAFETY: parts of `memory`, which nothing else uses before the launch is over.
        unsafe {
            let [x, y] = [x, y].map(|array| std::slice::from_raw_parts(array.cast_const(), LEN));
            kernel(x, y, SliceMut::from_raw_parts(out, LEN));
        }
    };
    match launch_with("kernel", &LaunchConfig::new(1, 32), options, &body) {
        Ok(()) => None,
        Err(Error::Fault(fault)) => Some(fault),
        Err(error) => panic!("{error}"),
    }
}

const SOURCE: (&str, &str) = ("global.rs", include_str!("global.rs"));

/// Runs both forms.
fn try_both(name: &str, element: &str, right: &Kernel, wrong: &Kernel) {
    let wanted =
        format!("uninitialised: this read of {element} of an array of 256 bytes in global memory is of what nobody");
    crate::checks::try_both(SOURCE, name, &wanted, |is_right, checks| {
        run(checks, if is_right { right } else { wrong })
    });
    assert_eq!(
        run(crate::checks::RACES, wrong),
        None,
        "`{name}`: checked for races alone"
    );
}

macro_rules! cases {
    ($($name:ident $element:literal;)*) => {$(
        #[test]
        fn $name() {
            try_both(stringify!($name), $element, &kernels::$name::<true>, &kernels::$name::<false>);
        }
    )*};
}

cases! {
    added_to_what_is_not_there "element 0 (of 4 bytes)";
    bins_never_cleared "element 7 (of 4 bytes)";
    last_threads_write_nothing "element 31 (of 4 bytes)";
    vector_of_which_the_end_is_missing "element 0 (of 8 bytes)";
    flag_that_nobody_has_cleared "element 0 (of 4 bytes)";
    elements_of_an_output "element 0 (of 4 bytes)";
    copied_to_shared_memory "element 0 (of 16 bytes)";
}

#[test]
fn elements_of_a_parameter() {
    try_both(
        "indexed",
        "element 0 (of 4 bytes)",
        &|x, _, out| indexed(x, out),
        &|_, y, out| indexed(y, out),
    );
}

#[test]
fn the_finding_has_the_array_and_the_element() {
    let fault = run(Checks::ALL, &|_, y, out| indexed(y, out)).unwrap();
    let finding = fault.finding.as_deref().unwrap();
    assert_eq!((finding.kind, finding.element()), (FindingKind::Uninitialised, Some(0)));
    assert!(matches!(finding.array, Array::Global { bytes: 256, .. }), "{finding:?}");
    assert_eq!(fault.thread.x, 0);
}
