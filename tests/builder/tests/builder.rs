// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the kernels crate in `fixture/` for real. `core` is built twice, once for each profile: that of the release
//! profile is the workspace's own, if it has built device code, the other is kept in cargo's folder for test files. Only
//! the tests of the cache have one. Where device code is not wanted, what compiles it is ignored.

use cuda_builder::{CudaBuilder, CudaBuilderError, DebugInfo, NvvmArch, PtxFile};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;

/// A copy of the fixture, and a folder for what comes out, for one test alone.
struct Fixture {
    root: PathBuf,
}

impl Fixture {
    fn new(test: &str) -> Self {
        static PREPARE: Once = Once::new();
        PREPARE.call_once(|| {
            // Below a file there are no folders, so there is no cache.
            fs::create_dir_all(scratch()).unwrap();
            fs::write(scratch().join("file"), "").unwrap();
            // SAFETY: nothing in this process reads the environment but by way of `std`, which guards it.
            unsafe {
                std::env::set_var("XDG_CACHE_HOME", scratch().join("file"));
                std::env::remove_var("WARPSMITH_SIM_ONLY");
                // What cargo gives the tests of a package that has a build script.
                std::env::remove_var("OUT_DIR");
            }
            share_core();
        });
        let root = scratch().join(test);
        let _ = fs::remove_dir_all(&root);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixture");
        for file in [
            "kernels/Cargo.toml",
            "kernels/src/lib.rs",
            "kernels/src/reduce.rs",
            "device_lib/Cargo.toml",
            "device_lib/src/lib.rs",
        ] {
            let copy = root.join(file);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(source.join(file), copy).unwrap();
        }
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn edit(&self, name: &str, edit: impl FnOnce(String) -> String) {
        let path = self.path(name);
        fs::write(&path, edit(fs::read_to_string(&path).unwrap())).unwrap();
    }

    /// A builder whose target folder all tests share.
    fn builder(&self) -> CudaBuilder {
        CudaBuilder::new(self.path("kernels"))
            .copy_to(self.path("out"))
            .target_dir(scratch().join("outer/cuda_builder"))
    }

    fn build(&self) -> Result<Vec<PtxFile>, CudaBuilderError> {
        self.builder().build()
    }

    /// Where a build script of cargo's writes.
    fn out_dir(&self) -> PathBuf {
        scratch().join(format!(
            "outer/debug/build/{}-0123456789abcdef/out",
            self.root.file_name().unwrap().display()
        ))
    }

    /// What the build script below wrote for `warpsmith::kernels!`.
    fn expression(&self) -> String {
        fs::read_to_string(self.out_dir().join("fixture_kernels.ptx.rs")).unwrap()
    }

    /// Runs the test `as_a_build_script` below as cargo runs a build script.
    fn run_build_script(&self, configure: impl FnOnce(&mut Command)) -> Output {
        let mut command = self.build_script();
        configure(&mut command);
        command.output().unwrap()
    }

    fn build_script(&self) -> Command {
        let out_dir = self.out_dir();
        fs::create_dir_all(&out_dir).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--ignored", "--exact", "--nocapture", "as_a_build_script"])
            .env("FIXTURE", self.path("kernels"))
            .env("OUT_DIR", out_dir)
            .env_remove("WARPSMITH_SIM_ONLY")
            .env_remove("CI")
            // What cargo and clippy set must not reach the inner cargo.
            .env("CARGO_ENCODED_RUSTFLAGS", "--cfg\u{1f}of_the_host")
            .env("RUSTC_WORKSPACE_WRAPPER", "/no/such/clippy-driver")
            .env("CARGO_TARGET_DIR", "/no/such/target")
            .env("CARGO_PROFILE_RELEASE_PANIC", "unwind");
        command
    }
}

/// The expression of a crate without device code.
const NO_MODULE: &str = "(\"fixture-kernels\", \"0.1.0\", &[\n])\n";

fn scratch() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda_builder")
}

/// Makes the tests' folder for device code the workspace's, which has `core`, where a file system has links.
fn share_core() {
    #[cfg(unix)]
    {
        let workspace = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("cuda_builder");
        fs::create_dir_all(&workspace).unwrap();
        fs::create_dir_all(scratch().join("outer")).unwrap();
        // Where there is a folder or a link already, it stays.
        let _ = std::os::unix::fs::symlink(workspace, scratch().join("outer/cuda_builder"));
    }
}

/// Not a test by itself: the body of a build script.
#[test]
#[ignore = "run by the tests that need a build script"]
fn as_a_build_script() {
    let Some(kernels) = std::env::var_os("FIXTURE") else {
        return;
    };
    println!();
    CudaBuilder::new(kernels)
        .archs(&[NvvmArch::Compute75, NvvmArch::Compute80])
        .build()
        .unwrap();
}

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
fn a_build_script_reruns_for_what_went_in_and_shows_warnings() {
    let fixture = Fixture::new("script");
    let output = fixture.run_build_script(|_| ());
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}");

    let lines = |prefix| -> Vec<&str> {
        let lines = stdout.lines();
        lines.filter_map(|line| line.strip_prefix(prefix)).collect()
    };
    let mut files = [
        "kernels/Cargo.toml",
        "kernels/Cargo.lock",
        "kernels/src/lib.rs",
        "kernels/src/reduce.rs",
        "device_lib/Cargo.toml",
        "device_lib/src/lib.rs",
    ]
    .map(|file| fixture.path(file).display().to_string());
    files.sort();
    let mut reported = lines("cargo::rerun-if-changed=");
    reported.sort();
    assert_eq!(reported, files);
    assert_eq!(
        lines("cargo::rerun-if-env-changed="),
        ["WARPSMITH_SIM_ONLY", "CI", "FIXTURE_TILE"]
    );
    let warnings = lines("cargo::warning=");
    let unused = "warning: function `deliberately_unused` is never used";
    let count = warnings.iter().filter(|line| **line == unused).count();
    assert_eq!(count, 1, "{warnings:?}");

    let out_dir = scratch().join("outer/debug/build/script-0123456789abcdef/out");
    let expression = out_dir.join("fixture_kernels.ptx.rs");
    let variable = lines("cargo::rustc-env=CUDA_BUILDER_PTX_fixture_kernels=");
    assert_eq!(variable, [expression.to_str().unwrap()]);
    let embedding = fs::read_to_string(expression).unwrap();
    let line = |module, arch, entries: &[(&str, u64)]| {
        let packed = format!("fixture-kernels.ptx.d/{module}.{arch}.ptx.packed");
        format!("    ({module:?}, {arch:?}, &{entries:?}, include_bytes!({packed:?})),\n")
    };
    let (binary, reduce) = ([("add_f32", 1), ("twice_f32", 2)], [("pick_f32", 3)]);
    let expected = [
        line("binary_f32", "sm_75", &binary),
        line("binary_f32", "sm_80", &binary),
        line("reduce", "sm_75", &reduce),
        line("reduce", "sm_80", &reduce),
    ];
    let expected = format!("(\"fixture-kernels\", \"0.1.0\", &[\n{}])\n", expected.concat());
    assert_eq!(embedding, expected);
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn what_stands_still_is_not_written_and_what_is_stale_goes() {
    let fixture = Fixture::new("again");
    let first = fixture.build().unwrap();
    let written = |file: &PtxFile| fs::metadata(&file.path).unwrap().modified().unwrap();
    let times: Vec<_> = first.iter().map(written).collect();
    let stale = first[0].path.with_file_name("gone.sm_75.ptx");
    fs::write(&stale, "").unwrap();
    let second = fixture.build().unwrap();
    assert_eq!(second, first);
    assert_eq!(second.iter().map(written).collect::<Vec<_>>(), times);
    assert!(!stale.exists());
}

#[test]
fn the_variable_for_the_simulator_alone_compiles_nothing() {
    let fixture = Fixture::new("sim_only");
    let output = fixture.run_build_script(|command| {
        command.env("WARPSMITH_SIM_ONLY", "1").env("CI", "true");
    });
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}");
    assert!(
        stdout.contains("cargo::rerun-if-env-changed=WARPSMITH_SIM_ONLY\n"),
        "{stdout}"
    );
    assert!(!stdout.contains("cargo::warning="), "{stdout}");
    assert_eq!(fixture.expression(), NO_MODULE);
}

/// Of a package with a name of its own: other tests build the fixture in between.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn what_is_fresh_is_not_compiled_again() {
    let fixture = Fixture::new("fresh");
    fixture.edit("kernels/Cargo.toml", |manifest| {
        manifest.replace("fixture-kernels", "fresh-kernels")
    });
    let build = |arch| -> Vec<String> {
        let files = fixture.builder().arch(arch).build().unwrap();
        files
            .iter()
            .map(|file| fs::read_to_string(&file.path).unwrap())
            .collect()
    };
    // The compiler's last output, and when it was written.
    let compiled = || {
        let folder = scratch().join("outer/cuda_builder/nvptx64-nvidia-cuda/release/deps");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let of_this = files.filter(|file| {
            let name = file.file_name().unwrap().to_string_lossy();
            name.starts_with("fresh_kernels-") && name.ends_with(".s")
        });
        of_this
            .map(|file| (fs::metadata(&file).unwrap().modified().unwrap(), file))
            .max()
            .unwrap()
    };
    let first = build(NvvmArch::Compute75);
    let written = compiled();
    assert_eq!((build(NvvmArch::Compute75), compiled()), (first.clone(), written));

    assert_ne!(build(NvvmArch::Compute80), first);
    assert_eq!(
        build(NvvmArch::Compute75),
        first,
        "another architecture came in between"
    );

    fs::remove_file(compiled().1).unwrap();
    assert_eq!(build(NvvmArch::Compute75), first, "the compiler's output was removed");

    let minus = |source: String| source.replace("+ _thread_idx_x()", "- _thread_idx_x()");
    fixture.edit("device_lib/src/lib.rs", minus);
    assert_ne!(build(NvvmArch::Compute75), first, "a dependency's source changed");
}

/// One crate's build compiles the dependency again, and the other's must see that, for which its own files are all fresh.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_change_of_what_two_crates_depend_on_reaches_both() {
    let fixture = Fixture::new("two-crates");
    let names = ["one-kernels", "other-kernels"];
    for name in names {
        for file in ["Cargo.toml", "src/lib.rs", "src/reduce.rs"] {
            let text = fs::read_to_string(fixture.path("kernels").join(file)).unwrap();
            let copy = fixture.path(name).join(file);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::write(copy, text.replace("fixture-kernels", name)).unwrap();
        }
    }
    let build = || {
        names.map(|name| {
            let builder = CudaBuilder::new(fixture.path(name)).copy_to(fixture.path("out"));
            let files = builder
                .target_dir(scratch().join("outer/cuda_builder"))
                .build()
                .unwrap();
            fs::read_to_string(&files[0].path).unwrap()
        })
    };
    let first = build();
    assert_eq!(build(), first);
    let minus = |source: String| source.replace("+ _thread_idx_x()", "- _thread_idx_x()");
    fixture.edit("device_lib/src/lib.rs", minus);
    let [one, other] = build();
    assert_ne!(one, first[0]);
    assert_ne!(other, first[1], "the crate that is built last");
}

/// What rustc compiles incrementally is what it compiles from nothing. Of a package with a name of its own.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn an_edit_gives_what_a_build_from_nothing_gives() {
    let fixture = Fixture::new("steady");
    fixture.edit("kernels/Cargo.toml", |manifest| {
        manifest.replace("fixture-kernels", "steady-kernels")
    });
    let build = || -> Vec<String> {
        let files = fixture.build().unwrap();
        files
            .iter()
            .map(|file| fs::read_to_string(&file.path).unwrap())
            .collect()
    };
    let first = build();
    fixture.edit("kernels/src/reduce.rs", |text| {
        text.replace("use core::arch::nvptx", "\nuse core::arch::nvptx")
            .replace("values[i +", "2.0 * values[i +")
    });
    let edited = build();
    assert_eq!(edited[0], first[0], "another module's");
    assert_ne!(edited[1], first[1]);
    // Without what rustc and cargo know of the crate.
    let folder = scratch().join("outer/cuda_builder/nvptx64-nvidia-cuda/release/deps");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("steady_kernels")
        {
            match path.is_dir() {
                true => fs::remove_dir_all(path).unwrap(),
                false => fs::remove_file(path).unwrap(),
            }
        }
    }
    assert_eq!(build(), edited);
}

/// A build that is killed leaves its cargo running, and that writes the units of a source that is no more. Of a package
/// with a name of its own.
#[cfg(unix)]
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn what_a_killed_build_leaves_is_not_taken_in() {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Stdio;
    use std::thread::sleep;
    use std::time::Duration;

    let fixture = Fixture::new("killed");
    fixture.edit("kernels/Cargo.toml", |manifest| {
        manifest.replace("fixture-kernels", "killed-kernels")
    });
    // A compiler that says when it begins with the kernels, and goes on when it is told.
    let rustc = fixture.path("rustc");
    let real = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *'--crate-name killed_kernels '*)\n: > '{}'\n\
         until [ -e '{}' ]; do sleep 0.05; done\nesac\nexec '{real}' \"$@\"\n",
        fixture.path("begun").display(),
        fixture.path("told").display(),
    );
    fs::write(&rustc, script).unwrap();
    fs::set_permissions(&rustc, fs::Permissions::from_mode(0o755)).unwrap();

    let mut first = fixture.build_script();
    let mut first = first.env("RUSTC", rustc).stdout(Stdio::null()).spawn().unwrap();
    while !fixture.path("begun").exists() {
        assert_eq!(first.try_wait().unwrap(), None);
        sleep(Duration::from_millis(20));
    }
    first.kill().unwrap();
    first.wait().unwrap();

    // The same entries in another module are in another unit.
    fixture.edit("kernels/src/lib.rs", |text| text.replace("mod entries", "mod others"));
    let mut second = fixture.build_script();
    let second = second.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Long enough for the second build to come to where it has to wait.
    sleep(Duration::from_secs(2));
    fs::write(fixture.path("told"), "").unwrap();
    let output = second.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
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

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn errors_of_rustc_are_shown_as_rustc_wrote_them() {
    let fixture = Fixture::new("broken");
    fixture.edit("kernels/src/reduce.rs", |text| {
        text + "\npub fn broken() -> u32 {\n    1.5f32\n}\n"
    });
    let error = fixture.build().unwrap_err();
    let message = error.to_string();
    let CudaBuilderError::RustcFailed { package, arch, .. } = error else {
        panic!("{message}");
    };
    assert_eq!((package.as_str(), arch), ("fixture-kernels", "sm_75"));
    for part in ["error[E0308]: mismatched types", "--> src/reduce.rs:", "1.5f32"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(
        !message.contains('\u{1b}') && !message.contains("never used"),
        "{message}"
    );
}

/// As two operators of one name would have, in two modules of a crate.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn two_entries_of_one_name_do_not_compile() {
    let fixture = Fixture::new("twice");
    fixture.edit("kernels/src/reduce.rs", |text| {
        text + "\n#[cfg(cuda_entries)]\n#[unsafe(export_name = \"twice_f32\")]\nunsafe extern \"ptx-kernel\" fn again() {}\n"
    });
    let error = fixture.build().unwrap_err();
    assert!(matches!(error, CudaBuilderError::RustcFailed { .. }), "{error}");
    let message = error.to_string();
    for part in ["error: symbol `twice_f32` is already defined", "--> src/"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn errors_of_cargo_are_shown_too() {
    let fixture = Fixture::new("dependency");
    let manifest = "kernels/Cargo.toml";
    fixture.edit(manifest, |text| text.replace("lib\" }", "lib\", version = \"2\" }"));
    let error = fixture.build().unwrap_err();
    assert!(matches!(error, CudaBuilderError::RustcFailed { .. }));
    assert!(error.to_string().contains("failed to select a version"), "{error}");

    fixture.edit(manifest, |text| text.replace("../device_lib", "../gone"));
    let error = fixture.build().unwrap_err();
    assert!(matches!(error, CudaBuilderError::Metadata { .. }));
    // `unwrap` shows the causes as well.
    assert!(format!("{error:?}").contains("/gone/Cargo.toml"), "{error:?}");
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn entries_need_notes() {
    let fixture = Fixture::new("notes");
    fixture.edit("kernels/src/lib.rs", |text| {
        text.replace("entry=twice_f32", "entry=other_f32")
    });
    let error = fixture.build().unwrap_err();
    assert!(matches!(error, CudaBuilderError::EntryNote { line: 1.., .. }));
    assert!(error.to_string().contains("entry `twice_f32` has no note"), "{error}");

    fixture.edit("kernels/src/lib.rs", |text| {
        text.replace("cfg(cuda_entries)", "cfg(any())")
    });
    let error = fixture.build().unwrap_err();
    assert!(error.to_string().contains("`fixture-kernels` has no kernel"), "{error}");
}

#[test]
fn a_crate_that_is_not_one_is_named() {
    let fixture = Fixture::new("absent");
    let error = CudaBuilder::new(fixture.path("nowhere")).build().unwrap_err();
    assert!(matches!(error, CudaBuilderError::CrateNotFound { path } if path.ends_with("nowhere")));

    let folder = fixture.path("kernels");
    let error = CudaBuilder::new(folder.join("src")).build().unwrap_err();
    assert!(matches!(error, CudaBuilderError::NoSuchPackage { path } if path.ends_with("src")));

    let error = CudaBuilder::new(&folder).build().unwrap_err();
    assert!(matches!(error, CudaBuilderError::NoOutputDir));

    fs::rename(folder.join("src/lib.rs"), folder.join("src/main.rs")).unwrap();
    let error = CudaBuilder::new(&folder).build().unwrap_err();
    assert!(matches!(error, CudaBuilderError::NoLibrary { package } if package == "fixture-kernels"));
}

/// A toolchain without the source of `core`: a rustc that gives another folder as its own.
///
/// The crate is built without device code, and again when the source has come; where `CI` is set, it fails.
#[cfg(unix)]
#[test]
fn a_missing_core_source_is_warned_of_and_watched_for() {
    use std::os::unix::fs::PermissionsExt;

    let fixture = Fixture::new("bare");
    let bare = fixture.path("toolchain/lib/rustlib");
    fs::create_dir_all(&bare).unwrap();
    let rustc = fixture.path("rustc");
    let script = format!(
        "#!/bin/sh\n[ \"$1 $2\" = '--print sysroot' ] && echo '{}' && exit\nexec rustc \"$@\"\n",
        fixture.path("toolchain").display()
    );
    fs::write(&rustc, script).unwrap();
    fs::set_permissions(&rustc, fs::Permissions::from_mode(0o755)).unwrap();
    let line = format!("cargo::rerun-if-changed={}\n", bare.display());
    let command = "The command that brings it: `rustup component add rust-src`";

    let output = fixture.run_build_script(|script| {
        script.env("RUSTC", &rustc);
    });
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}");
    assert!(stdout.contains(&line), "{stdout}");
    let warned = |text: &str| {
        let mut lines = stdout.lines().filter_map(|line| line.strip_prefix("cargo::warning="));
        lines.any(|line| line.contains(text))
    };
    assert!(warned(command) && warned("built without device code"), "{stdout}");
    assert_eq!(fixture.expression(), NO_MODULE);

    let output = fixture.run_build_script(|script| {
        script.env("RUSTC", &rustc).env("CI", "true");
    });
    assert!(!output.status.success());
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains(&line), "{stdout}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains(command), "{stderr}");
}

/// A build script with a cache, and a cargo that counts how often it compiles.
#[cfg(unix)]
struct Cached {
    fixture: Fixture,
    cargo: PathBuf,
    cache: PathBuf,
}

#[cfg(unix)]
impl Cached {
    fn new(test: &str, cache: &Path) -> Self {
        use std::os::unix::fs::PermissionsExt;

        let fixture = Fixture::new(test);
        // A lock file that is made during a build keeps it out of the cache.
        let lock = "# This file is automatically @generated by Cargo.\n# It is not intended for manual editing.\nversion = 4\n\n[[package]]\nname = \"device_lib\"\nversion = \"0.1.0\"\n\n\
                    [[package]]\nname = \"fixture-kernels\"\nversion = \"0.1.0\"\ndependencies = [\n \"device_lib\",\n]\n";
        fs::write(fixture.path("kernels/Cargo.lock"), lock).unwrap();
        let cargo = fixture.path("cargo");
        let real = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let log = fixture.path("log").display().to_string();
        fs::write(&cargo, format!("#!/bin/sh\necho $1 >> '{log}'\nexec '{real}' \"$@\"\n")).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let cache = cache.to_owned();
        Self { fixture, cargo, cache }
    }

    /// Builds, and says how often the compiler ran, and what the build script printed.
    fn build(&self, configure: impl FnOnce(&mut Command)) -> (usize, String) {
        let log = self.fixture.path("log");
        let _ = fs::remove_file(&log);
        let output = self.fixture.run_build_script(|command| {
            command.env("CARGO", &self.cargo).env("XDG_CACHE_HOME", &self.cache);
            configure(command);
        });
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{stdout}");
        let runs = fs::read_to_string(log).unwrap();
        (runs.lines().filter(|line| *line == "rustc").count(), stdout)
    }

    fn compiles(&self) -> usize {
        self.build(|_| ()).0
    }

    /// The files that the build script has written, without their paths.
    fn written(&self) -> Vec<(String, Vec<u8>)> {
        let name = self.fixture.root.file_name().unwrap().display();
        let out = scratch().join(format!(
            "outer/debug/build/{name}-0123456789abcdef/out/fixture-kernels.ptx.d"
        ));
        let files = fs::read_dir(out).unwrap().map(|entry| entry.unwrap());
        let mut files: Vec<_> = files
            .map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()))
            .collect();
        files.sort();
        files
    }
}

#[cfg(unix)]
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_second_clone_compiles_nothing() {
    let cache = scratch().join("cache-of-clones");
    let _ = fs::remove_dir_all(&cache);
    let first = Cached::new("first", &cache);
    let (compiled, printed) = first.build(|_| ());
    assert_eq!(compiled, 2, "one for each architecture");
    assert_eq!(first.compiles(), 0);

    let second = Cached::new("second", &cache);
    let (compiled, again) = second.build(|_| ());
    assert_eq!(compiled, 0);
    assert_eq!(second.written(), first.written());
    let lines = |printed: &str, name: &str| {
        let folder = scratch().join(name).display().to_string();
        let script = format!("/build/{name}-");
        let lines = printed.lines().filter(|line| line.starts_with("cargo::"));
        lines
            .map(|line| line.replace(&folder, "").replace(&script, "/build/script-"))
            .collect::<Vec<_>>()
    };
    let expected = lines(&printed, "first");
    assert_eq!(lines(&again, "second"), expected);
    assert!(
        expected.contains(&"cargo::rerun-if-changed=/device_lib/src/lib.rs".to_owned()),
        "{expected:?}"
    );
    assert!(
        expected.iter().any(|line| line.contains("deliberately_unused")),
        "{expected:?}"
    );
}

#[cfg(unix)]
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn what_has_changed_is_not_taken_from_the_cache() {
    let cache = scratch().join("cache-of-edits");
    let _ = fs::remove_dir_all(&cache);
    let build = Cached::new("edits", &cache);
    assert_eq!((build.compiles(), build.compiles()), (2, 0));
    let first = build.written();
    for (file, from, to) in [
        ("kernels/src/reduce.rs", "values[i +", "3.0 * values[i +"),
        ("device_lib/src/lib.rs", "+ _thread_idx_x()", "- _thread_idx_x()"),
        ("kernels/Cargo.toml", "publish = false", "publish = true"),
        (
            "kernels/Cargo.lock",
            "version = 4\n",
            "version = 4\n# Of all packages.\n",
        ),
    ] {
        build.fixture.edit(file, |text| {
            assert!(text.contains(from), "{file}");
            text.replacen(from, to, 1)
        });
        assert_ne!(build.compiles(), 0, "{file}");
        assert_eq!(
            build.written() == first,
            file.ends_with("toml") || file.ends_with("lock"),
            "{file}"
        );
        build.fixture.edit(file, |text| text.replacen(to, from, 1));
        assert_eq!(build.compiles(), 0, "{file}, as it was");
        assert_eq!(build.written(), first);
    }
    // Another member's: of the kernels crate the file says the same.
    let other = "\n[[package]]\nname = \"other\"\nversion = \"0.1.0\"\n";
    build.fixture.edit("kernels/Cargo.lock", |text| text + other);
    assert_eq!(build.compiles(), 0, "a package that is none of its dependencies");
    build.fixture.edit("kernels/Cargo.lock", |text| text.replace(other, ""));
    let with_tile = |command: &mut Command| {
        command.env("FIXTURE_TILE", "16");
    };
    assert_ne!(build.build(with_tile).0, 0, "a variable");
    assert_eq!(build.build(with_tile).0, 0);
    assert_eq!(build.compiles(), 0, "without the variable");
    fs::create_dir(build.fixture.path("kernels/.cargo")).unwrap();
    fs::write(build.fixture.path("kernels/.cargo/config.toml"), "[term]\n").unwrap();
    assert_ne!(build.compiles(), 0, "cargo's configuration");
}

#[cfg(unix)]
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn what_is_broken_in_the_cache_is_made_again() {
    let cache = scratch().join("cache-of-broken");
    let _ = fs::remove_dir_all(&cache);
    let build = Cached::new("broken-cache", &cache);
    assert_eq!(build.compiles(), 2);
    let first = build.written();
    for entry in fs::read_dir(cache.join("cuda_builder")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    }
    assert_eq!(build.compiles(), 2);
    assert_eq!((build.compiles(), build.written()), (0, first));
}
