// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is told of a crate that cannot be built, and what is made without device code.

use crate::fixture::{Fixture, NO_MODULE};
use cuda_builder::{CudaBuilder, CudaBuilderError};
use std::fs;

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

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn the_variable_for_the_simulator_alone_may_say_no() {
    let fixture = Fixture::new("not_sim_only");
    for no in ["0", ""] {
        let output = fixture.run_build_script(|command| {
            command.env("WARPSMITH_SIM_ONLY", no).env("FIXTURE_ONE_ARCH", "1");
        });
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert_ne!(fixture.expression(), NO_MODULE, "{no:?}");
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

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_crate_that_wants_std_is_told_what_there_is_on_a_gpu() {
    for (test, file, name) in [
        ("std", "kernels/src/lib.rs", "fixture_kernels"),
        ("std-below", "device_lib/src/lib.rs", "device_lib"),
    ] {
        let fixture = Fixture::new(test);
        fixture.edit(file, |text| text.replace("#![no_std]", ""));
        let message = fixture.build().unwrap_err().to_string();
        let required = format!("`std` is required by `{name}`");
        for part in [&*required, "begins with `#![no_std]`", "default-features = false"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(message.matches("error").count(), 1, "{message}");
    }
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
