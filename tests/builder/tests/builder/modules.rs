// SPDX-License-Identifier: MIT OR Apache-2.0
//! What comes out: modules, functions, debug information.

use crate::fixture::{Fixture, scratch};
use cuda_builder::{DebugInfo, NvvmArch, PtxFile};
use std::fs;
use std::process::Command;

fn sysroot() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "sysroot"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The PTX with the bytes of its constants, which it spells as numbers, as text below it.
fn with_strings(ptx: &str) -> String {
    let mut bytes = Vec::new();
    for (_, values) in ptx.lines().filter_map(|line| line.split_once("= {")) {
        let numbers = values.trim_end_matches("};").split(',');
        bytes.extend(numbers.filter_map(|number| number.trim().parse::<u8>().ok()));
        bytes.push(b'\n');
    }
    format!("{ptx}\n{}", String::from_utf8_lossy(&bytes))
}

fn assert_no_path_of_this_machine(ptx: &str) {
    let home = std::env::var("HOME").unwrap();
    for path in [
        env!("CARGO_TARGET_TMPDIR"),
        env!("CARGO_MANIFEST_DIR"),
        &home,
        &sysroot(),
    ] {
        assert!(!with_strings(ptx).contains(path), "{path} in\n{ptx}");
    }
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn modules_for_two_architectures() {
    let fixture = Fixture::new("two");
    let archs = [NvvmArch::Compute90a, NvvmArch::Compute75];
    let files = fixture.builder().archs(&archs).build().unwrap();
    let folder = fixture.path("out/fixture-kernels.ptx.d");
    let expected = ["binary_f32", "reduce"].into_iter().flat_map(|module| {
        [NvvmArch::Compute75, NvvmArch::Compute90a].map(|arch| PtxFile {
            module: module.to_owned(),
            arch,
            path: folder.join(format!("{module}.{arch}.ptx")),
        })
    });
    assert_eq!(files, expected.collect::<Vec<_>>());

    for file in &files {
        let ptx = fs::read_to_string(&file.path).unwrap();
        assert!(ptx.contains(&format!(".target {}\n", file.arch)), "{ptx}");
        assert_no_path_of_this_machine(&ptx);
        let entries: Vec<_> = ptx
            .split(".visible .entry ")
            .skip(1)
            .map(|rest| rest.split('(').next().unwrap())
            .collect();
        if file.module == "binary_f32" {
            assert_eq!(entries, ["add_f32", "twice_f32"]);
            assert!(ptx.contains(")\n.maxntid 128, 1, 1\n.minnctapersm 4\n{\n"));
            assert_eq!(ptx.matches(".maxntid").count(), 1);
            assert!(!ptx.contains("fixture_scratch") && !ptx.contains(".func"));
        } else {
            assert_eq!(entries, ["pick_f32"]);
            assert!(ptx.contains(")\n.maxntid 256, 1, 1\n{\n"));
            assert!(ptx.contains(".shared .align 16 .b8 fixture_scratch[1024];"));
            assert!(ptx.contains("__assertfail"));
            // A panic names its file: below the workspace, and below another package.
            let strings = with_strings(&ptx);
            assert!(strings.contains("\nsrc/reduce.rs\n"), "{strings}");
            assert!(strings.contains("\ndevice_lib-0.1.0/src/lib.rs\n"), "{strings}");
        }
    }
}

/// As `#[device_fn]` would write them, in a crate with nothing else.
const FUNCTIONS: &str = r#"
#[cfg(cuda_entries)]
mod functions {
    core::arch::global_asm!("//cuda_builder function=element module=functions signature=4");
    core::arch::global_asm!("//cuda_builder function=half_f32 module=functions signature=5");

    /// Panics beyond the end, for which it reaches more than itself.
    #[unsafe(no_mangle)]
    extern "C" fn element(i: u32) -> u32 {
        device_lib::checked(&[1.0, 2.0, 4.0], i as usize).to_bits()
    }

    #[unsafe(no_mangle)]
    extern "C" fn half_f32(x: u32) -> u32 {
        (0.5 * f32::from_bits(x)).to_bits()
    }

    #[unsafe(no_mangle)]
    extern "C" fn without_a_note(x: u64) -> u64 {
        x + 1
    }
}
"#;

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn functions_come_out_one_by_one_with_what_they_reach() {
    let fixture = Fixture::new("functions");
    fixture.edit("kernels/src/lib.rs", |text| {
        text.replace("cfg(cuda_entries)", "cfg(any())") + FUNCTIONS
    });
    let files = fixture.build().unwrap();
    let [file] = &files[..] else { panic!("{files:?}") };
    assert_eq!(file.module, "functions");
    let ptx = fs::read_to_string(&file.path).unwrap();
    assert_no_path_of_this_machine(&ptx);
    let texts: Vec<_> = ptx.split("//cuda_builder function=").skip(1).collect();
    let [element, half] = texts[..] else { panic!("{ptx}") };
    for (text, name) in [(element, "element"), (half, "half_f32")] {
        assert!(text.starts_with(&format!("{name}\n")), "{text}");
        // What rustc makes of a function in C's convention, by which the host calls it.
        let head = format!(".visible .func  (.param .b32 func_retval0) {name}(\n\t.param .b32 {name}_param_0\n)\n{{");
        for (part, times) in [
            (&*head, 1),
            (".version ", 1),
            (".target sm_75\n", 1),
            ("without_a_note", 0),
        ] {
            assert_eq!(text.matches(part).count(), times, "{part} in\n{text}");
        }
    }
    assert_eq!(half.matches(".func").count(), 1, "{half}");
    assert!(element.contains("__assertfail") && with_strings(element).contains("device_lib-0.1.0/src/lib.rs"));
    let expression = fs::read_to_string(fixture.path("out/fixture_kernels.ptx.rs")).unwrap();
    assert!(
        expression.contains("&[(\"element\", 4), (\"half_f32\", 5)]"),
        "{expression}"
    );
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn line_tables_and_checks_on_request() {
    let fixture = Fixture::new("debug");
    // A `core` of its own, while which is built the other tests go on: a target folder of its own.
    let builder = fixture.builder().target_dir(scratch().join("checked"));
    let builder = builder.release(false).debug(DebugInfo::LineTables);
    for file in builder.arch(NvvmArch::Compute80).build().unwrap() {
        let ptx = fs::read_to_string(&file.path).unwrap();
        assert!(ptx.contains("\t.loc\t") && ptx.contains("src/lib.rs\"\n"), "{ptx}");
        assert!(!ptx.contains(".section"), "{ptx}");
        assert_no_path_of_this_machine(&ptx);
        assert!(ptx.contains("panic_const_add_overflow"), "{ptx}");
    }
}

/// A kernel that writes a value by `{:?}`, and a number by `{}`.
const WRITES: &str = r#"
#[derive(Debug)]
struct Answer;

#[cfg(cuda_entries)]
mod writes {
    core::arch::global_asm!("//cuda_builder entry=write module=write signature=6");

    struct Memory(*mut u8);

    impl core::fmt::Write for Memory {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            for &byte in text.as_bytes() {
                // SAFETY: the launch's contract.
                unsafe { self.0.write_volatile(byte) }
            }
            Ok(())
        }
    }

    #[unsafe(no_mangle)]
    extern "ptx-kernel" fn write(to: *mut u8, number: u32) {
        let _ = core::fmt::write(&mut Memory(to), format_args!("{:?} is {number}", crate::Answer));
    }
}
"#;

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn debug_formatting_goes_where_it_is_not_wanted() {
    let fixture = Fixture::new("fmt_debug");
    fixture.edit("kernels/src/lib.rs", |text| text + WRITES);
    for writes in [true, false, true] {
        let files = fixture.builder().fmt_debug(writes).build().unwrap();
        let file = files.iter().find(|file| file.module == "write").unwrap();
        let text = with_strings(&fs::read_to_string(&file.path).unwrap());
        assert_eq!(text.contains("Answer\n"), writes, "{text}");
        assert!(text.contains(" is "), "{text}");
    }
}
