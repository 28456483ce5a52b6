// SPDX-License-Identifier: MIT OR Apache-2.0
//! The assembly of a lazily bound function: a jump through a slot, and what fills the slot.
//!
//! A trampoline is entered in place of the function that it stands for, with that function's
//! arguments in registers and on the stack, of which it knows nothing. [`jump_through_slot`] loads
//! the slot and jumps to what it holds. While the slot is null it goes on to the body that
//! [`resolve_then_jump`] makes instead, one for all trampolines of a table, with the slot's index in
//! a scratch register. That body saves every register that may carry an argument, calls a resolver
//! written in Rust, restores them, and jumps to the address that it was given. The stack pointer is
//! then as it was on entry, so the arguments on the stack and the return address are the caller's.
//!
//! The slots are loaded with acquire order, against the resolver's release store: a thread that
//! finds a slot filled also sees the library that another thread loaded. On x86-64 every load is
//! one; on AArch64 it is `ldar`.
//!
//! Both entries are landing pads for indirect branches (`endbr64`; `bti c`, written as `hint 34`
//! so that any assembler takes it). Neither writes call frame information: the resolver must not
//! unwind, and a frame pointer keeps the chain for debuggers.

/// The body of a naked function that jumps to the address in `$slots[$index]`, or to `$unresolved`
/// with `$index` while that slot is null.
#[cfg(target_arch = "x86_64")]
macro_rules! jump_through_slot {
    ($slots:path, $index:expr, $unresolved:path) => {
        core::arch::naked_asm!(
            "endbr64",
            "mov r11, qword ptr [rip + {slots} + {offset}]",
            "test r11, r11",
            "jz 2f",
            "jmp r11",
            "2:",
            "mov r10d, {index}",
            "jmp {unresolved}",
            slots = sym $slots,
            offset = const $index * size_of::<*const ()>(),
            index = const $index,
            unresolved = sym $unresolved,
        )
    };
}

/// The body of a naked function that gives the index in r10 to `$resolve`, an
/// `extern "C" fn(usize) -> *const ()`, and jumps to the address that it returns.
///
/// r10 and r11 are the two registers that neither carry arguments nor survive a call; rax is kept
/// because it counts the vector registers of a variadic call.
#[cfg(target_arch = "x86_64")]
macro_rules! resolve_then_jump {
    ($resolve:path) => {
        core::arch::naked_asm!(
            // The return address and eight pushes leave the stack 8 bytes off a multiple of 16,
            // hence 8 bytes more than the eight vector registers take.
            "push rbp",
            "mov rbp, rsp",
            "push rax",
            "push rdi",
            "push rsi",
            "push rdx",
            "push rcx",
            "push r8",
            "push r9",
            "sub rsp, 136",
            "movaps xmmword ptr [rsp], xmm0",
            "movaps xmmword ptr [rsp + 16], xmm1",
            "movaps xmmword ptr [rsp + 32], xmm2",
            "movaps xmmword ptr [rsp + 48], xmm3",
            "movaps xmmword ptr [rsp + 64], xmm4",
            "movaps xmmword ptr [rsp + 80], xmm5",
            "movaps xmmword ptr [rsp + 96], xmm6",
            "movaps xmmword ptr [rsp + 112], xmm7",
            "mov rdi, r10",
            "call {resolve}",
            "mov r11, rax",
            "movaps xmm0, xmmword ptr [rsp]",
            "movaps xmm1, xmmword ptr [rsp + 16]",
            "movaps xmm2, xmmword ptr [rsp + 32]",
            "movaps xmm3, xmmword ptr [rsp + 48]",
            "movaps xmm4, xmmword ptr [rsp + 64]",
            "movaps xmm5, xmmword ptr [rsp + 80]",
            "movaps xmm6, xmmword ptr [rsp + 96]",
            "movaps xmm7, xmmword ptr [rsp + 112]",
            "add rsp, 136",
            "pop r9",
            "pop r8",
            "pop rcx",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "pop rax",
            "pop rbp",
            "jmp r11",
            resolve = sym $resolve,
        )
    };
}

/// The body of a naked function that jumps to the address in `$slots[$index]`, or to `$unresolved`
/// with `$index` while that slot is null.
///
/// The index travels in x9: the linker may place a veneer on the way to `$unresolved`, which
/// overwrites x16 and x17. The jump through the slot takes x16, as `bti c` at its target demands.
#[cfg(target_arch = "aarch64")]
macro_rules! jump_through_slot {
    ($slots:path, $index:expr, $unresolved:path) => {
        core::arch::naked_asm!(
            "hint 34",
            "adrp x17, {slots} + {offset}",
            "add x17, x17, :lo12:{slots} + {offset}",
            "ldar x16, [x17]",
            "cbz x16, 2f",
            "br x16",
            "2:",
            "mov w9, {index}",
            "b {unresolved}",
            slots = sym $slots,
            offset = const $index * size_of::<*const ()>(),
            index = const $index,
            unresolved = sym $unresolved,
        )
    };
}

/// The body of a naked function that gives the index in x9 to `$resolve`, an
/// `extern "C" fn(usize) -> *const ()`, and jumps to the address that it returns.
///
/// x8 is saved with the argument registers because it points to the room for a large result.
#[cfg(target_arch = "aarch64")]
macro_rules! resolve_then_jump {
    ($resolve:path) => {
        core::arch::naked_asm!(
            "hint 34",
            "stp x29, x30, [sp, -224]!",
            "mov x29, sp",
            "stp x0, x1, [sp, 16]",
            "stp x2, x3, [sp, 32]",
            "stp x4, x5, [sp, 48]",
            "stp x6, x7, [sp, 64]",
            "str x8, [sp, 80]",
            "stp q0, q1, [sp, 96]",
            "stp q2, q3, [sp, 128]",
            "stp q4, q5, [sp, 160]",
            "stp q6, q7, [sp, 192]",
            "mov x0, x9",
            "bl {resolve}",
            "mov x16, x0",
            "ldp q6, q7, [sp, 192]",
            "ldp q4, q5, [sp, 160]",
            "ldp q2, q3, [sp, 128]",
            "ldp q0, q1, [sp, 96]",
            "ldr x8, [sp, 80]",
            "ldp x6, x7, [sp, 64]",
            "ldp x4, x5, [sp, 48]",
            "ldp x2, x3, [sp, 32]",
            "ldp x0, x1, [sp, 16]",
            "ldp x29, x30, [sp], 224",
            "br x16",
            resolve = sym $resolve,
        )
    };
}

pub(crate) use {jump_through_slot, resolve_then_jump};

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::ptr;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

    /// More integers than the registers take (six on x86-64, eight on AArch64), the pointer among
    /// them, and more floats (eight on both), so that some of each travel on the stack.
    #[rustfmt::skip]
    type ManyArguments = unsafe extern "C" fn(
        *mut Received, i64, i64, i64, i64, i64, i64, i64, i64, i64,
        f64, f64, f64, f64, f64, f64, f64, f64, f64, f64,
    ) -> u32;

    #[derive(Debug, Default, PartialEq)]
    struct Received {
        integers: [i64; 9],
        floats: [f64; 10],
    }

    static SLOTS: [AtomicPtr<()>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];
    static RESOLVED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    static STACK_ALIGNED: AtomicBool = AtomicBool::new(true);

    #[unsafe(naked)]
    extern "C" fn trampoline_0() {
        super::jump_through_slot!(SLOTS, 0, unresolved)
    }

    #[unsafe(naked)]
    extern "C" fn trampoline_1() {
        super::jump_through_slot!(SLOTS, 1, unresolved)
    }

    #[unsafe(naked)]
    extern "C" fn unresolved() {
        super::resolve_then_jump!(resolve)
    }

    /// Overwrites every argument register before it answers.
    extern "C" fn resolve(index: usize) -> *const () {
        let (i, x) = (black_box(-1), black_box(-1.0));
        overwrite_argument_registers(i, i, i, i, i, i, i, i, x, x, x, x, x, x, x, x);

        #[repr(align(16))]
        struct Aligned([u8; 16]);
        let local = black_box(Aligned([0; 16]));
        let address = black_box(ptr::from_ref(&local.0).addr());
        STACK_ALIGNED.fetch_and(address.is_multiple_of(16), Ordering::Relaxed);

        RESOLVED[index].fetch_add(1, Ordering::Relaxed);
        let target = [receive_0 as *const (), receive_1 as *const ()][index];
        SLOTS[index].store(target.cast_mut(), Ordering::Release);
        target
    }

    #[inline(never)]
    #[rustfmt::skip]
    extern "C" fn overwrite_argument_registers(
        a: i64, b: i64, c: i64, d: i64, e: i64, f: i64, g: i64, h: i64,
        p: f64, q: f64, r: f64, s: f64, t: f64, u: f64, v: f64, w: f64,
    ) {
        black_box(([a, b, c, d, e, f, g, h], [p, q, r, s, t, u, v, w]));
    }

    macro_rules! receiver {
        ($name:ident returns $result:literal) => {
#[rustfmt::skip]
            unsafe extern "C" fn $name(
                received: *mut Received,
                a: i64, b: i64, c: i64, d: i64, e: i64, f: i64, g: i64, h: i64, i: i64,
                p: f64, q: f64, r: f64, s: f64, t: f64, u: f64, v: f64, w: f64, x: f64, y: f64,
            ) -> u32 {
                let integers = [a, b, c, d, e, f, g, h, i];
                let floats = [p, q, r, s, t, u, v, w, x, y];
                // SAFETY: `check` passes a pointer to a `Received` of its own.
                unsafe { received.write(Received { integers, floats }) };
                $result
            }
        };
    }
    receiver!(receive_0 returns 70);
    receiver!(receive_1 returns 71);

    /// Calls a trampoline with arguments that `seed` makes its own, and checks that its receiver
    /// had exactly those.
    fn check(trampoline: extern "C" fn(), seed: i64, result: u32) {
        // SAFETY: the trampoline leaves its arguments alone and jumps to a receiver, which is of
        // this type.
        let call = unsafe { std::mem::transmute::<extern "C" fn(), ManyArguments>(trampoline) };
        let n: [i64; 9] = std::array::from_fn(|i| seed + ((i as i64 + 1) << 40));
        let x: [f64; 10] = std::array::from_fn(|i| seed as f64 + (i as f64 + 1.0) / 16.0);
        let mut received = Received::default();
        #[rustfmt::skip]
        // SAFETY: `received` may be written to.
        let answer = unsafe {
            call(
                &mut received, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8],
                x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9],
            )
        };
        let (integers, floats) = (n, x);
        assert_eq!(received, Received { integers, floats });
        assert_eq!(answer, result);
    }

    #[test]
    fn arguments_arrive_on_the_first_and_the_second_call() {
        check(trampoline_0, 1000, 70);
        assert_eq!(RESOLVED[0].load(Ordering::Relaxed), 1);
        check(trampoline_0, 2000, 70);
        assert_eq!(RESOLVED[0].load(Ordering::Relaxed), 1, "the slot is filled");
        assert!(STACK_ALIGNED.load(Ordering::Relaxed));
    }

    #[test]
    fn arguments_arrive_from_many_threads_at_once() {
        const THREADS: usize = 16;
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    for call in 0..100 {
                        check(trampoline_1, (1000 * thread + call) as i64, 71);
                    }
                });
            }
        });
        assert!((1..=THREADS).contains(&RESOLVED[1].load(Ordering::Relaxed)));
        assert!(STACK_ALIGNED.load(Ordering::Relaxed));
    }
}
