// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts of functions: what becomes of each form that rustc gives them, and what is refused.

use cuda_std::scalar::ScalarType::{F32, U32};

use super::programs::{info, sample};
use crate::backend::DeviceFnInfo;
use crate::device::KERNELS;
use crate::expr::graph::function::{Unary, unary};
use crate::expr::program::{Input, Layout, Program, Step};
use crate::expr::ptx::{Malformed, kernel, vector_len};

const HEADER: &str = ".version 6.3\n.target sm_75\n.address_size 64\n";

/// The program that applies a function to an input for each of its parameters.
fn apply(function: &'static DeviceFnInfo, layout: Layout) -> Program {
    let arguments = function.arguments;
    let inputs = (0..arguments.len()).map(|k| Step::Input(k as u16));
    let mut values = [0; 6];
    (0..arguments.len()).for_each(|k| values[k] = k as u16);
    Program {
        axes: 1,
        aligned: false,
        transposed: None,
        inputs: arguments.iter().map(|&ty| Input { ty, layout }).collect(),
        scalars: Vec::new(),
        functions: vec![function],
        steps: inputs.chain([Step::Call(0, values)]).collect(),
        types: arguments.iter().copied().chain([function.result]).collect(),
        outputs: vec![arguments.len() as u16],
        ..Program::default()
    }
}

/// The text of function `f` with that body, of one number of 32 bits.
fn text(body: &str) -> String {
    format!("{HEADER}.visible .func (.param .b32 func_retval0) f(\n\t.param .b32 f_param_0\n)\n{{\n{body}\n}}\n")
}

fn compile(text: &str) -> Result<String, Malformed> {
    kernel(
        &apply(info("f", &[U32], U32), Layout::Single),
        &[text.to_owned()],
        (9, 0),
    )
}

/// What stands in the kernel for that body, in its first copy.
fn inlined(body: &str) -> String {
    let text = compile(&text(body)).unwrap();
    let (_, rest) = text.split_once("\t{\n").expect("a copy");
    rest.split_once("\tmad.wide").expect("a store").0.to_owned()
}

#[test]
fn a_dense_kernel() {
    let (function, text) = sample("binary_f32_Add");
    let program = Program {
        aligned: true,
        ..apply(function, Layout::Rows)
    };
    assert_eq!(vector_len(&program), 4);
    let kernel = kernel(&program, &[text.to_owned()], (9, 0)).unwrap();
    assert_eq!(kernel, include_str!("fixtures/dense.txt"));
}

#[test]
fn a_strided_kernel() {
    let program = Program {
        axes: 2,
        functions: Vec::new(),
        steps: vec![Step::Input(0)],
        outputs: vec![0],
        ..apply(info("f", &[U32], U32), Layout::Strided)
    };
    assert_eq!(
        kernel(&program, &[], (9, 0)).unwrap(),
        include_str!("fixtures/strided.txt")
    );
}

#[test]
fn parts_of_parameters_are_taken_out() {
    let body = ".reg .b16 %rs<2>;\n.reg .b32 %r<2>;\nld.param.s8 %rs1, [f_param_0+1];\ncvt.u32.u16 %r1, %rs1;\n\
                st.param.b32 [func_retval0], %r1;\nret;";
    let text = inlined(body);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let [_, _, shift, convert, ..] = lines[..] else {
        panic!("{text}")
    };
    let shifted = shift
        .strip_prefix("shr.u32 ")
        .and_then(|rest| rest.split_once(','))
        .expect("a shift")
        .0;
    assert!(shift.ends_with(", 8;"), "{text}");
    assert_eq!(convert, format!("cvt.s16.s8 %rs1, {shifted};"));
}

#[test]
fn returns_are_branches_to_the_end() {
    let body = ".reg .pred %p<2>;\n.reg .b32 %r<2>;\nld.param.b32 %r1, [f_param_0];\nsetp.eq.b32 %p1, %r1, 0;\n\
                st.param.b32 [func_retval0], -1;\n@%p1 ret;\n@!%p1 bra $L;\nret;\n$L:\n\
                st.param.b32 [func_retval0], %r1;\nret;";
    let text = inlined(body);
    for line in [
        "\t@%p1 bra $return_1;\n",
        "\tbra.uni $return_1;\n",
        "\t@!%p1 bra $L_1;\n",
        "$L_1:\n",
        "\t}\n$return_1:\n",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    assert!(!text.contains("ret;"), "{text}");
}

#[test]
fn local_memory_is_declared_once() {
    let body = ".local .align 4 .b8 __local_depot0[8];\n.reg .b64 %SPL;\n.reg .b32 %r<3>;\nmov.b64 %SPL, __local_depot0;\n\
                ld.param.b32 %r1, [f_param_0];\nst.local.b32 [%SPL+4], %r1;\nld.local.b32 %r2, [%SPL+4];\n\
                st.param.b32 [func_retval0], %r2;\nret;";
    let text = of_vectors(&text(body));
    assert_eq!(
        text.matches(".local .align 4 .b8 __local_depot0_0[8];").count(),
        1,
        "{text}"
    );
    assert_eq!(text.matches("mov.b64 %SPL, __local_depot0_0;").count(), 5, "{text}");
}

#[test]
fn a_large_function_is_called() {
    let lines = "add.s32 %r1, %r1, 1;\n".repeat(300);
    let body =
        format!(".reg .b32 %r<2>;\nld.param.b32 %r1, [f_param_0];\n{lines}st.param.b32 [func_retval0], %r1;\nret;");
    let text = compile(&text(&body)).unwrap();
    assert_eq!(text.matches("\n.func").count(), 1, "{text}");
    assert_eq!(text.matches("call.uni (retval0), f, (param0);").count(), 1, "{text}");
}

/// A function that calls another one if its argument is more than 9, with these lines ahead of that and these behind.
fn with_rare_way(before: &str, behind: &str) -> String {
    let rare = ".func (.param .b32 func_retval0) rare(\n\t.param .b32 rare_param_0\n)\n{\n.reg .b32 %r<2>;\n\
                ld.param.b32 %r1, [rare_param_0];\nst.param.b32 [func_retval0], %r1;\nret;\n}\n";
    let body = format!(
        ".reg .pred %p<3>;\n.reg .b32 %r<5>;\nld.param.b32 %r1, [f_param_0];\n{before}setp.gt.u32 %p1, %r1, 9;\n\
         @%p1 bra $RARE;\nadd.s32 %r2, %r1, 1;\n$BACK:\nmul.lo.s32 %r3, %r2, %r2;\n{behind}\
         st.param.b32 [func_retval0], %r3;\nret;\n$RARE:\n{{\n.param .b32 param0;\n.param .b32 retval0;\n\
         st.param.b32 [param0], %r1;\ncall.uni (retval0), rare, (param0);\nld.param.b32 %r2, [retval0];\n}}\n\
         bra.uni $BACK;"
    );
    text(&body).replace(HEADER, &format!("{HEADER}{rare}"))
}

/// The kernel of that function, by vectors of four and, behind them, one element.
fn of_vectors(text: &str) -> String {
    let program = Program {
        aligned: true,
        ..apply(info("f", &[U32], U32), Layout::Rows)
    };
    kernel(&program, &[text.to_owned()], (9, 0)).unwrap()
}

/// The numbers of the copies in the order in which they have this line, of which each makes something.
fn copies_by<'t>(text: &'t str, line: &str) -> Vec<&'t str> {
    let lines = text.lines().filter_map(|text| text.trim().strip_prefix(line));
    lines.map(|rest| rest.trim_end_matches([';', ':'])).collect()
}

/// That function, whose rare way is not behind the end.
fn with_way_ahead() -> String {
    let text = with_rare_way("", "");
    let (before, rest) = text.split_once("@%p1 bra $RARE;\n").expect("a branch");
    let (usual, rest) = rest.split_once("$BACK:\n").expect("a label");
    let (behind, rare) = rest.split_once("$RARE:\n").expect("a label");
    let (rare, end) = rare.split_once("bra.uni $BACK;").expect("the way back");
    format!("{before}@!%p1 bra $USUAL;\n{rare}bra.uni $BACK;\n$USUAL:\n{usual}$BACK:\n{behind}{end}")
}

#[test]
fn elements_of_a_thread_meet_before_they_go_on() {
    let text = of_vectors(&with_way_ahead());
    let (vectors, single) = text.split_once("$single:").expect("elements behind the vectors");
    let (ahead, behind) = vectors.split_once("mul.lo.s32 %r3").expect("what comes behind");
    let counts = |text: &str| ["add.s32 %r2", "$BACK_", "st.global"].map(|part| text.matches(part).count());
    assert_eq!(counts(ahead), [4, 8, 0], "{text}");
    assert_eq!(counts(behind), [0, 0, 1], "{text}");
    assert_eq!(copies_by(ahead, "$USUAL_"), ["1", "2", "3", "4"], "{text}");
    assert_eq!(counts(single), [1, 2, 1], "{text}");
}

#[test]
fn one_branch_asks_whether_any_element_of_a_thread_is_rare() {
    for (guard, opcode) in [("@%p1 bra", "mov.pred"), ("@!%p1 bra", "not.pred")] {
        let text = of_vectors(&with_rare_way("", "").replace("@%p1 bra", guard));
        // Ahead is the function that is called.
        let (functions, text) = text.split_once(".visible .entry").expect("an entry");
        assert_eq!(functions.matches(".func").count(), 2, "{functions}");
        let (vectors, single) = text.split_once("$single:").expect("elements behind the vectors");
        let (asked, rest) = vectors.split_once(" bra $any_5;\n").expect("a branch");
        let (usual, any) = rest.split_once("\tbra.uni $usual_5;\n$any_5:\n").expect("a way around");
        let (any, behind) = any.split_once("$usual_5:\n").expect("the end of that");
        let parts = [
            "setp.gt.u32 %p1",
            opcode,
            "or.pred",
            "add.s32 %r2",
            "mul.lo.s32 %r3",
            "call.uni",
        ];
        let counts = |text: &str| parts.map(|part| text.matches(part).count());
        assert_eq!(counts(asked), [4, 4, 3, 0, 0, 0], "{text}");
        assert_eq!(counts(usual), [4, 0, 0, 4, 4, 0], "{text}");
        assert_eq!(counts(any), [0, 0, 0, 0, 0, 4], "{text}");
        assert_eq!(any.matches("call.uni (retval0), f, (param0);").count(), 4, "{text}");
        assert_eq!(counts(behind), [0; 6], "{text}");
        // A single element has no others to wait for.
        assert_eq!(counts(single), [1, 0, 0, 1, 1, 1], "{text}");
    }
}

#[test]
fn copies_stay_whole_that_have_no_place_to_meet() {
    for (before, behind) in [
        // Another end.
        ("@%p2 ret;\n", ""),
        ("@%p2 exit;\n", ""),
        // Another way behind, or a loop.
        ("", "@%p2 bra $RARE;\n"),
        ("", "@%p2 bra $BACK;\n"),
    ] {
        let text = of_vectors(&with_rare_way(before, behind));
        let (ahead, _) = text.split_once("mul.lo.s32 %r3").expect("what comes behind");
        assert_eq!(ahead.matches("add.s32 %r2").count(), 1, "{before}{behind}: {text}");
    }
    // A label in a scope of its own.
    let scoped = with_rare_way("", "")
        .replace("$BACK:\n", "{\n$BACK:\n")
        .replace("ret;\n$RARE", "ret;\n}\n$RARE");
    let text = of_vectors(&scoped);
    let (ahead, _) = text.split_once("mul.lo.s32 %r3").expect("what comes behind");
    assert_eq!(ahead.matches("add.s32 %r2").count(), 1, "{text}");
}

#[test]
fn tables_of_one_name_are_shared_or_renamed() {
    let (table, text) = sample("table_f32");
    let program = |other: &'static DeviceFnInfo| {
        let mut program = apply(table, Layout::Rows);
        program.functions.push(other);
        program.steps.push(Step::Call(1, [0, 2, 0, 0, 0, 0]));
        program.types.push(F32);
        program.outputs = vec![3];
        program
    };
    let other = info("other_f32", &[U32, F32], F32);
    let same = text.replace("table_f32", "other_f32");
    let shared = kernel(&program(other), &[text.to_owned(), same.clone()], (9, 0)).unwrap();
    assert_eq!(shared.matches(" TABLE[32] = ").count(), 1, "{shared}");
    let different = same.replace("224, 64", "225, 64");
    let renamed = kernel(&program(other), &[text.to_owned(), different.clone()], (9, 0)).unwrap();
    assert!(
        renamed.contains(" TABLE_u1[32] = ") && renamed.contains("mov.b64 %rd2, TABLE_u1;"),
        "{renamed}"
    );
    let public = different.replace(".global .align", ".visible .global .align");
    assert!(kernel(&program(other), &[text.to_owned(), public], (9, 0)).is_err());
}

#[test]
fn the_header_is_that_of_the_newest_function() {
    let newer = text("ret;").replace("6.3", "7.8").replace("sm_75", "sm_90a");
    assert!(compile(&newer).unwrap().starts_with(".version 7.8\n.target sm_90a\n"));
}

#[test]
fn what_is_not_known_is_an_error_that_names_it() {
    let registers = ".reg .b32 %r<3>;\n.reg .b64 %rd<3>;\n";
    for (body, what) in [
        ("bar.sync 0;\nret;", "bar.sync"),
        ("shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;\nret;", "shfl.sync.idx.b32"),
        ("frobnicate.b32 %r1, %r2;\nret;", "frobnicate"),
        ("add.s32 %r1, %r9, 1;\nret;", "%r9"),
        ("mov.b32 %r1, elsewhere;\nret;", "elsewhere"),
        ("bra $L__BB0_7;\nret;", "$L__BB0_7"),
        ("ld.shared.b32 %r1, [%rd1];\nret;", "ld.shared"),
        ("ld.param.b64 %rd1, [f_param_0];\nret;", "ld.param.b64"),
        ("ld.param.b32 %r1, [f_param_0+2];\nret;", "ld.param.b32"),
        ("st.param.b16 [func_retval0], %r1;\nret;", "st.param.b16"),
        ("mov.b64 %rd1, f_param_0;\nadd.s64 %rd2, %rd1, 4;\nret;", "add.s64"),
        (".shared .b32 x;\nret;", ".shared"),
        ("mov.b32 %r1, 0", "`;`"),
    ] {
        let error = compile(&text(&format!("{registers}{body}"))).unwrap_err().to_string();
        assert!(error.contains("`f`") && error.contains(what), "{body}: {error}");
    }
    for (text, what) in [
        (text("ret;").replace(".visible .func", ".visible .entry"), ".entry"),
        (text("ret;").replace(" f(", " g("), "no such function"),
        (
            text("ret;").replace(".param .b32 f_", ".param .b64 f_"),
            "other numbers",
        ),
        (text("ret;").replace(".version 6.3", ""), "no header"),
        (text(".reg .b32 %w<2>;\nret;"), "%w"),
        (text("ret;") + ".surfref s;\n", ".surfref"),
    ] {
        let error = compile(&text).unwrap_err().to_string();
        assert!(error.contains("`f`") && error.contains(what), "{text}: {error}");
    }
}

/// Which functions have such a way the generator finds by what rustc has made of them.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn functions_of_the_library_with_rare_arguments_are_told_by_their_texts() {
    use Unary::{Cbrt, Cos, Exp2, Ln, Log2, Log10, Rsqrt, Sin, Sqrt};
    for operator in [Sqrt, Rsqrt, Cbrt, Exp2, Ln, Log2, Log10, Sin, Cos] {
        let function = unary(operator, F32).expect("a function of its own");
        let program = Program {
            aligned: true,
            ..apply(function, Layout::Rows)
        };
        let source = KERNELS.text(function.name, "sm_75").expect("its text");
        let text = kernel(&program, std::slice::from_ref(&source), (9, 0)).expect("a kernel");
        assert_eq!(text.matches(" bra $any_").count(), 1, "{operator:?}: {source}");
    }
}
