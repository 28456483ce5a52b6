// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is built again, and what is not, in one target folder.

use crate::fixture::{Fixture, scratch};
use cuda_builder::{CudaBuilder, NvvmArch, PtxFile};
use std::fs;
use std::path::Path;

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
    // This machine's configuration of cargo counts too, if there is one.
    reported.retain(|file| Path::new(file).file_stem().is_none_or(|name| name != "config"));
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

/// Where the package depends on the kernels crate cargo shows the warnings when it compiles that for the host, unless they are of
/// code that a GPU alone has.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn warnings_that_cargo_shows_are_not_shown_again() {
    let fixture = Fixture::new("warnings");
    fixture.write("src/lib.rs", "");
    // Entries that come from another crate's macro, as those of `#[kernel]` do.
    let mut entries = String::new();
    fixture.edit("kernels/src/lib.rs", |text| {
        let (others, own) = text.split_once("#[cfg(cuda_entries)]").unwrap();
        entries = format!("#[macro_export]\nmacro_rules! entries {{ () => {{\n#[cfg(cuda_entries)]{own}}} }}\n");
        format!("{others}device_lib::entries!();\n").replace("cfg that cuda_builder sets", "cfg")
    });
    fixture.edit("device_lib/src/lib.rs", |text| text + &entries);
    fixture.edit("kernels/Cargo.toml", |text| text.replace("[workspace]", ""));
    let manifest = |dependencies: &str| {
        format!(
            "[package]\nname = \"outer\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\nmembers = [\"kernels\"]\n\n{dependencies}"
        )
    };
    let depends = "[dependencies]\nfixture-kernels = { path = \"kernels\" }\n";
    let is_shown = |dependencies: &str| {
        fixture.write("Cargo.toml", &manifest(dependencies));
        let output = fixture.run_build_script(|command| {
            command
                .env("CARGO_MANIFEST_DIR", &fixture.root)
                .env("FIXTURE_ONE_ARCH", "1");
        });
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{stdout}");
        stdout.contains("cargo::warning=warning: function `deliberately_unused` is never used")
    };
    assert!(!is_shown(depends));
    assert!(is_shown(""));
    assert!(is_shown(&depends.replace("dependencies", "dev-dependencies")));
    fixture.edit("kernels/src/reduce.rs", |text| {
        text + "\n#[cfg(target_arch = \"nvptx64\")]\npub const ON_A_GPU: bool = true;\n"
    });
    assert!(is_shown(depends));
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

/// Of one layout, with one target folder: cargo knows a member of a workspace by its place in that, and calls fresh what is
/// older than what the other clone's build has left.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn two_clones_do_not_get_each_others_code() {
    let build = |name: &str, change: &str| {
        let clone = Fixture::new(name);
        clone.write(
            "Cargo.toml",
            "[workspace]\nmembers = [\"kernels\", \"device_lib\"]\nresolver = \"3\"\n",
        );
        clone.edit("kernels/Cargo.toml", |manifest| {
            manifest
                .replace("fixture-kernels", "clone-kernels")
                .replace("[workspace]", "")
        });
        clone.edit("device_lib/src/lib.rs", |source| {
            source.replace("+ _thread_idx_x()", change)
        });
        clone.make_old("device_lib/src/lib.rs");
        let files = clone.build().unwrap();
        fs::read_to_string(&files[0].path).unwrap()
    };
    let first = build("clone-one", "+ _thread_idx_x()");
    assert!(build("clone-other", "- _thread_idx_x()") != first);
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

/// A kernels crate's features are those that the builder names: cargo tells it nothing of the crate around it.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn features_are_those_that_are_named() {
    let fixture = Fixture::new("features");
    fixture.edit("kernels/Cargo.toml", |manifest| {
        manifest.replace("fixture-kernels", "feature-kernels")
            + "\n[features]\ndefault = [\"one\"]\none = []\ntwo = []\n"
    });
    fixture.edit("kernels/src/lib.rs", |text| {
        text.replace(
            "*a.add(i) + *b.add(i)",
            "if cfg!(feature = \"one\") { *a.add(i) } else { 0.0 } + if cfg!(feature = \"two\") { *b.add(i) } else { 1.0 }",
        )
    });
    let loads = |builder: CudaBuilder| {
        let files = builder.build().unwrap();
        let text = fs::read_to_string(&files[0].path).unwrap();
        let add = text
            .split(".visible .entry ")
            .find(|entry| entry.starts_with("add_f32"))
            .unwrap();
        add.matches("ld.global").count()
    };
    let (none, both): ([&str; 0], _) = ([], ["one", "two"]);
    assert_eq!(loads(fixture.builder()), 1);
    assert_eq!(loads(fixture.builder().features(["two"])), 2);
    assert_eq!(loads(fixture.builder().features(none)), 1);
    assert_eq!(loads(fixture.builder().features(none).default_features(false)), 0);
    assert_eq!(loads(fixture.builder().features(both).default_features(false)), 2);
    let error = fixture.builder().features(["three"]).build().unwrap_err();
    assert!(error.to_string().contains("three"), "{error}");
}

/// Cargo keeps what rustc has told it, which it does not where a wrapper is an empty variable; and one that a configuration
/// file names is not called all the same.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn rustc_is_not_asked_each_time_and_has_no_wrapper() {
    let fixture = Fixture::new("asked");
    fixture.build().unwrap();
    assert!(scratch().join("outer/cuda_builder/.rustc_info.json").is_file());
    fixture.write(
        "kernels/.cargo/config.toml",
        "[build]\nrustc-wrapper = \"/no/such/wrapper\"\nrustc-workspace-wrapper = \"/no/such/wrapper\"\n",
    );
    fixture.edit("kernels/src/reduce.rs", |text| {
        text.replace("values[i +", "3.0 * values[i +")
    });
    fixture.build().unwrap();
}
