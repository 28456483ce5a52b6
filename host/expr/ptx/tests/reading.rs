// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels that read a program's elements in place of an array: one that stores what it reads gives the bits that the simulated
//! GPU gives, and all of the library's that expressions are read by can be rewritten.

use std::env;
use std::fs;

use ndarray::Ix2;
use test_reference::emulator::{Emulator, Memory};

use super::super::halves::Operation;
use super::super::inline::Callee;
use super::super::reading::{FIRST, reading, rewritten};
use super::super::{Arguments, Malformed, reading_parameters};
use super::emulated::programs;
use super::functions::native;
use super::programs::{Random, samples};
use super::ptxas::{ARCHITECTURES, assemble, ptxas};
use crate::DeviceArray;
use crate::backend::DeviceFnInfo;
use crate::device::KERNELS;
use crate::expr::program::lower::Lowered;
use crate::expr::ptx::Parts;

/// A kernel that stores what it reads, elements of `size` bytes: two accesses of `vector` bytes, or what is left, by each thread.
/// Its parameters are told to begin at that offset.
fn reader(size: usize, vector: usize, parameters: usize) -> String {
    let (access, count) = match vector {
        1 => ("u8", 1),
        2 => ("b16", 1),
        4 => ("b32", 1),
        8 if size == 8 => ("b64", 1),
        8 => ("v2.b32", 2),
        _ if size == 8 => ("v2.b64", 2),
        _ => ("v4.b32", 4),
    };
    let (prefix, single) = match size {
        1 => ("%s", "u8"),
        2 => ("%s", "b16"),
        4 => ("%r", "b32"),
        _ => ("%l", "b64"),
    };
    let register = match access.trim_start_matches(|c| c != 'b' && c != 'u') {
        "u8" | "b16" => "%s",
        "b64" => "%l",
        _ => "%r",
    };
    let list = |first: usize| match count {
        1 => format!("{register}{first}"),
        _ => {
            let names: Vec<String> = (0..count).map(|k| format!("{register}{}", first + k)).collect();
            format!("{{{}}}", names.join(", "))
        }
    };
    let (a, b) = (list(10), list(20));
    let (x, out, len) = (parameters, parameters + 8, parameters + 16);
    let of_thread = 2 * vector / size;
    format!(
        ".version 6.3\n.target sm_75\n.address_size 64\n\n.visible .entry reader(\n\t.param .u64 .ptr .align 1 reader_param_0,\n\t\
         .param .u64 reader_param_1,\n\t.param .u32 reader_param_2\n)\n.maxntid 256, 1, 1\n{{\n\
         \t.reg .pred %p<2>;\n\t.reg .b16 %s<30>;\n\t.reg .b32 %r<30>;\n\t.reg .b64 %rd<6>;\n\t.reg .b64 %l<30>;\n\
         \tld.param.b64 %rd0, [reader_param_0+{x}];\n\tld.param.b64 %rd1, [reader_param_1+{out}];\n\
         \tld.param.b32 %r0, [reader_param_2+{len}];\n\tcvta.to.global.u64 %rd2, %rd0;\n\tmov.u32 %r1, %tid.x;\n\
         \tmul.lo.s32 %r2, %r1, {of_thread};\n\tadd.s32 %r3, %r2, {of_thread};\n\tsetp.lt.u32 %p0, %r0, %r3;\n\
         \t@%p0 bra $single;\n\tmad.wide.u32 %rd3, %r2, {size}, %rd2;\n\tmad.wide.u32 %rd4, %r2, {size}, %rd1;\n\
         \tld.global.nc.{access} {a}, [%rd3];\n\tld.global.{access} {b}, [%rd3+{vector}];\n\
         \tst.global.{access} [%rd4], {a};\n\tst.global.{access} [%rd4+{vector}], {b};\n\tret;\n\
         $single:\n\tsetp.ge.u32 %p1, %r2, %r0;\n\t@%p1 ret;\n\tmad.wide.u32 %rd3, %r2, {size}, %rd2;\n\
         \tmad.wide.u32 %rd4, %r2, {size}, %rd1;\n\tld.global.{single} {prefix}9, [%rd3];\n\
         \tst.global.{single} [%rd4], {prefix}9;\n\tadd.s32 %r2, %r2, 1;\n\tbra.uni $single;\n}}\n"
    )
}

/// Has a kernel read the elements, whose bytes are `wanted`, by accesses of every size; gives the number of blocks.
pub(super) fn read_again(
    lowered: &Lowered<'_>,
    callees: &[Callee<'_>],
    operations: &[Option<Operation>],
    wanted: &[u8],
    memory: &mut dyn Memory,
) -> usize {
    let Lowered { program, lengths, .. } = lowered;
    let size = program.types[usize::from(program.outputs[0])].bytes();
    let arguments = Arguments {
        cache: 0,
        outputs: &[0],
        inputs: &lowered.inputs,
        scalars: &lowered.scalars,
        lengths,
        strides: &lowered.strides,
        first: 0,
        parts: Parts {
            count: 1,
            len: super::super::MOST,
            first: 0,
            launched: 1,
        },
    };
    let block = reading_parameters(program, &arguments);
    let len = wanted.len() / size;
    let mut blocks = 0;
    for vector in [1, 2, 4, 8, 16].into_iter().filter(|&vector| vector >= size) {
        let text = reader(size, vector, block.len());
        let text = rewritten(program, (callees, callees), operations, ("reader", &text)).expect("a kernel");
        let mut out = vec![0xaau64; wanted.len().div_ceil(8)];
        let mut parameters = block.clone();
        parameters.extend(FIRST.to_le_bytes());
        parameters.extend((out.as_mut_ptr().expose_provenance() as u64).to_le_bytes());
        parameters.extend((len as u32).to_le_bytes());
        let threads = len.div_ceil(2 * vector / size) as u32;
        Emulator::new(&text, &native(&program.functions)).block((0, 0), threads, &parameters, memory);
        let read: Vec<u8> = out
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .take(wanted.len())
            .collect();
        assert_eq!(read, wanted, "accesses of {vector} bytes of {program:?}\n{text}");
        blocks += 1;
    }
    blocks
}

/// The kernels that expressions are read by, but for users' operators: of each type, those of that name.
fn readers(ty: &str) -> Vec<String> {
    let mut names = Vec::new();
    for family in ["scan", "scan_rows", "scan_columns", "scan_tree"] {
        names.extend(["Sum", "Product", "Min", "Max"].map(|operator| format!("{family}_{ty}_{operator}")));
    }
    for plan in ["Uniform", "Channels", "Search"] {
        names.extend((0..3).map(|mode| format!("histogram_{ty}_{plan}_{mode}")));
    }
    names.push(format!("scan_few_{ty}_Sum"));
    names.retain(|name| KERNELS.text(name, "sm_75").is_some());
    names
}

/// Every kernel of scans and histograms reads its first array in a way that a program takes the place of; and has the registers
/// for it, where there is a ptxas to tell.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn kernels_of_scans_and_histograms_read_programs() {
    let ptxas = ptxas();
    let folder = env::temp_dir().join(format!("warpsmith-reading-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let mut kernels = 0;
    macro_rules! check {
        ($($ty:ident $one:expr),*) => {$(
            let found = programs(|stream| {
                let x = DeviceArray::<$ty, Ix2>::zeros(stream, (6, 8))?;
                let row = DeviceArray::<$ty, Ix2>::zeros(stream, (1, 8))?;
                (x.expr() * &x + $one).eval()?;
                (&x + &row).eval()?;
                Ok(())
            });
            let [flat, rows] = &found[..] else { panic!("two programs") };
            assert_eq!((flat.axes, rows.axes), (1, 2));
            for (number, name) in readers(stringify!($ty)).iter().enumerate() {
                let source = KERNELS.text(name, "sm_75").expect("its text");
                for program in [flat, rows] {
                    let text = |function: &&'static DeviceFnInfo| KERNELS.text(function.name, "sm_75").expect("its text");
                    let texts: Vec<String> = program.functions.iter().map(text).collect();
                    let text = reading(program, &texts, (name, &source), (9, 0)).unwrap_or_else(|error| panic!("{error}"));
                    kernels += 1;
                    // What assembling all would take is half a minute.
                    let Some(ptxas) = ptxas.as_ref().filter(|_| number % 8 == 0 && program.axes == 1) else { continue };
                    let said = assemble(ptxas, &folder.join(format!("{name}.ptx")), ARCHITECTURES[1].0, &text);
                    let spills = said.split_once(" bytes spill stores").expect("what it says").0;
                    let spills: u32 = spills.rsplit(' ').next().unwrap_or_default().parse().expect("a number");
                    // Sums of f16 have 64 bytes by ptxas 13.5, of all kernels the most: 16 words of a thread that has 96
                    // registers, which its launch bounds leave, for 64 elements that are computed when all are loaded.
                    assert!(spills <= 64, "{name}: {said}");
                    if env::var_os("WARPSMITH_SHOW_PTXAS").is_some() {
                        println!("{name} {said}");
                    }
                }
            }
        )*};
    }
    use crate::{bf16, f16};
    check!(f32 1.0, f64 1.0, i32 1, i64 1, u8 1, u16 1, u32 1, u64 1);
    check!(f16 f16::ONE, bf16 bf16::ONE);
    assert!(kernels > 200, "{kernels}");
    fs::remove_dir_all(&folder).expect("the folder");
}

fn error_of(body: &str) -> String {
    let sample = Random::new(3, &samples());
    let text = reader(4, 4, 0).replace("\tmov.u32 %r1, %tid.x;\n", body);
    match reading(&sample.program, &sample.texts, ("reader", &text), (9, 0)) {
        Ok(text) => panic!("{text}"),
        Err(Malformed(message)) => message,
    }
}

#[test]
fn what_else_is_done_with_the_address_is_told() {
    for line in [
        "st.global.b64 [%rd1], %rd2;",
        "st.global.b32 [%rd2], %r1;",
        "atom.global.add.u32 %r1, [%rd2], 1;",
        "ld.volatile.global.b32 %r1, [%rd2];",
        "ld.shared.b32 %r1, [%rd2];",
        "@%p0 ld.global.b32 %r1, [%rd2];",
        "mov.b64 %rd5, reader_param_0;",
    ] {
        let message = error_of(line);
        assert!(
            message.starts_with("kernel `reader`: ") && message.contains(line),
            "{message}"
        );
    }
    let of_names = error_of(".reg .b32 %w<3>;");
    assert!(of_names.contains("`%w` is a name"), "{of_names}");
    let sample = Random::new(3, &samples());
    let other = reading(&sample.program, &sample.texts, ("other", &reader(4, 4, 0)), (9, 0)).unwrap_err();
    assert_eq!(other.to_string(), "kernel `other`: it is not in its text");
}
