// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests' machine itself: lanes that part and meet again, functions of numbers of any size, and what threads tell each other.

use test_reference::emulator::{Emulator, Function, Memory};

/// Words of 32 bits, one for each thread.
struct Words(Vec<u32>);

impl Memory for Words {
    fn load(&mut self, address: u64, _: usize) -> u64 {
        self.0[address as usize / 4].into()
    }

    fn store(&mut self, address: u64, _: usize, value: u64) {
        self.0[address as usize / 4] = value as u32;
    }
}

/// What so many threads store, each `%r9`, of which `%r0` is the number.
fn run(threads: u32, lines: &str, functions: &[Function]) -> Vec<u32> {
    let text = format!(
        ".visible .entry test(\n.param .b64 expression_param_0\n)\n{{\n\t.shared .align 4 .b8 folded[128];\n\tmov.u32 %r0, %tid.x;\n\
         {lines}\n\tmad.wide.u32 %rd0, %r0, 4, 0;\n\tst.global.b32 [%rd0], %r9;\n\tret;\n}}\n"
    );
    let mut words = Words(vec![u32::MAX; threads as usize]);
    Emulator::new(&text, functions).block((0, 0), threads, &[], &mut words);
    words.0
}

/// Each goes around as often as its number says; a warp is not full.
#[test]
fn lanes_part_and_meet_again() {
    let sums = run(
        40,
        "\tmov.u32 %r1, 0;\n\tmov.u32 %r9, 0;\n$next:\n\tsetp.ge.u32 %p0, %r1, %r0;\n\t@%p0 bra $end;\n\tadd.s32 %r1, %r1, 1;\n\
         \tadd.s32 %r9, %r9, %r1;\n\tbra.uni $next;\n$end:",
        &[],
    );
    let wanted: Vec<u32> = (0..40).map(|thread| thread * (thread + 1) / 2).collect();
    assert_eq!(sums, wanted);
}

/// `a + b` of a byte and a word, in 16 bits.
///
/// # Safety
///
/// As [`Function::new`] says.
unsafe fn sums(arguments: *const *const (), results: *mut (), lanes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let a = std::slice::from_raw_parts((*arguments).cast::<u8>(), lanes);
        let b = std::slice::from_raw_parts((*arguments.add(1)).cast::<u64>(), lanes);
        let sums = std::slice::from_raw_parts_mut(results.cast::<u16>(), lanes);
        for ((sum, &a), &b) in sums.iter_mut().zip(a).zip(b) {
            *sum = (u64::from(a) + b) as u16;
        }
    }
}

/// In the odd lanes, of which the low bytes count.
#[test]
fn functions_have_the_numbers_of_the_lanes_that_call() {
    // SAFETY: these are the sizes of its arguments and its results.
    let sums = unsafe { Function::new(vec![1, 8], 2, sums) };
    let results = run(
        64,
        "\tmov.u32 %r9, 7;\n\tadd.s32 %r1, %r0, 1000;\n\tand.b32 %r2, %r0, 1;\n\tsetp.ne.u32 %p0, %r2, 0;\n\
         \t@%p0 native.0 %r9, %r1, %r1;",
        &[sums],
    );
    let wanted = |thread: u32| match thread % 2 {
        0 => 7,
        _ => ((thread + 1000) & 0xff) + thread + 1000,
    };
    assert_eq!(results, (0..64).map(wanted).collect::<Vec<_>>());
}

/// Each word is written by one thread and read by its neighbour.
fn exchanged(between: &str) -> Vec<u32> {
    let lines = format!(
        "\tshl.b32 %r1, %r0, 2;\n\tst.shared.b32 [%r1+0], %r0;\n{between}\txor.b32 %r2, %r1, 4;\n\tld.shared.b32 %r9, [%r2+0];"
    );
    run(32, &lines, &[])
}

#[test]
fn what_is_written_is_read_behind_a_barrier() {
    let wanted: Vec<u32> = (0..32).map(|thread| thread ^ 1).collect();
    assert_eq!(exchanged("\tbar.sync 0;\n"), wanted);
}

#[test]
#[should_panic(
    expected = "thread 0 reads byte 4 of shared memory, which thread 1 has written, without a barrier between"
)]
fn what_is_read_without_a_barrier_is_found() {
    exchanged("");
}

#[test]
#[should_panic(expected = "thread 0 writes byte 0 of shared memory, which another has read, without a barrier between")]
fn what_is_written_where_another_still_reads_is_found() {
    run(
        32,
        "\tshl.b32 %r1, %r0, 2;\n\txor.b32 %r2, %r1, 4;\n\tld.shared.b32 %r9, [%r2+0];\n\tst.shared.b32 [%r1+0], %r0;",
        &[],
    );
}

/// What two blocks of a cluster store, each thread what its neighbour of the other block has told it: that one's number.
fn told(barrier: &str) -> Vec<u32> {
    let text = format!(
        ".visible .entry test(\n.param .b64 expression_param_0\n)\n{{\n\t.shared .align 4 .b8 folded[128];\n\tmov.u32 %r0, %tid.x;\n\
         \tmov.u32 %r1, %ctaid.x;\n\tshl.b32 %r2, %r0, 2;\n\txor.b32 %r3, %r1, 1;\n\
         \tmapa.shared::cluster.u32 %r4, %r2, %r3;\n\tbarrier.cluster.arrive.relaxed.aligned;\n\
         \tbarrier.cluster.wait.aligned;\n\tst.shared::cluster.b32 [%r4+0], %r1;\n\t{barrier};\n\
         \tbarrier.cluster.wait.aligned;\n\tld.shared.b32 %r9, [%r2+0];\n\tmad.lo.s32 %r5, %r1, 32, %r0;\n\
         \tmad.wide.u32 %rd0, %r5, 4, 0;\n\tst.global.b32 [%rd0], %r9;\n\tret;\n}}\n"
    );
    let mut words = Words(vec![u32::MAX; 64]);
    Emulator::new(&text, &[]).cluster((0, 0), 2, 32, &[], &mut words);
    words.0
}

#[test]
fn blocks_of_a_cluster_tell_each_other() {
    let wanted: Vec<u32> = (0..64).map(|thread| 1 - thread / 32).collect();
    assert_eq!(told("barrier.cluster.arrive.aligned"), wanted);
}

#[test]
#[should_panic(
    expected = "thread 0 reads byte 0 of shared memory, which thread 1024 has written, without a barrier between"
)]
fn what_another_block_has_not_released_is_found() {
    told("barrier.cluster.arrive.relaxed.aligned");
}
