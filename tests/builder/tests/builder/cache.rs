// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cache of the user: what is taken from it, and that nothing is taken which was made from something else.

use crate::fixture::{Cached, Fixture, scratch};
use std::fs;
use std::process::Command;

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
    assert!(build.compiles() == 0 && build.written() == first);
}

/// A cache of its own, which is empty, and a build for one architecture that has everything in it: a lock file that is made
/// during a build keeps that out.
fn kept(test: &str, change: impl FnOnce(&Fixture)) -> Cached {
    let cache = scratch().join(format!("cache-of-{test}"));
    let _ = fs::remove_dir_all(&cache);
    let mut build = Cached::new(test, &cache);
    build.one_arch = true;
    change(&build.fixture);
    build.compiles();
    build.compiles();
    assert_eq!(build.compiles(), 0);
    build
}

/// Cargo tells by files' times whether what it has made is out of date; these are not what it was made from.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_change_with_a_time_before_the_build_is_no_less_a_change() {
    let build = kept("old-times", |_| ());
    let first = build.written();
    for (file, from, to) in [
        ("kernels/src/reduce.rs", "values[i +", "3.0 * values[i +"),
        ("device_lib/src/lib.rs", "+ _thread_idx_x()", "- _thread_idx_x()"),
    ] {
        build.fixture.edit(file, |text| text.replacen(from, to, 1));
        build.fixture.make_old(file);
        assert_ne!(build.compiles(), 0, "{file}");
        assert!(build.written() != first, "{file}");
        build.fixture.edit(file, |text| text.replacen(to, from, 1));
        assert!(build.compiles() == 0 && build.written() == first, "{file}");
    }
}

/// A device library with this build script, and a constant in its code that the script reads from a file.
fn with_script(fixture: &Fixture, instruction: &str) {
    let script = format!(
        "fn main() {{\n    println!(\"{instruction}\");\n    let all = std::fs::read_dir(\"data\").unwrap();\n    \
         let sum: usize = all.map(|file| std::fs::read(file.unwrap().path()).unwrap().len()).sum();\n    \
         println!(\"cargo::rustc-env=DATA={{sum}}\");\n}}\n"
    );
    fixture.write("device_lib/build.rs", &script);
    fixture.write("device_lib/data/a", "one");
    fixture.edit("device_lib/src/lib.rs", |text| {
        text.replace(
            "    slice[index]\n",
            "    slice[index + env!(\"DATA\").len() + env!(\"DATA\").as_bytes()[0] as usize]\n",
        )
    });
}

/// Without an instruction cargo runs it again for any file of its package; and a folder stands for all that is in it.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn what_a_build_script_reads_counts() {
    for (test, instruction, read) in [
        ("script-untold", "", "device_lib"),
        ("script-folder", "cargo::rerun-if-changed=data", "device_lib/data"),
        ("script-file", "cargo::rerun-if-changed=data/a", "device_lib/data/a"),
    ] {
        let build = kept(test, |fixture| with_script(fixture, instruction));
        let first = build.written();
        build.fixture.write("device_lib/data/a", "three");
        build.fixture.make_old("device_lib/data/a");
        let (compiled, printed) = build.build(|_| ());
        assert_ne!(compiled, 0, "{test}");
        assert!(build.written() != first, "{test}");
        let line = format!("cargo::rerun-if-changed={}\n", build.fixture.path(read).display());
        assert!(printed.contains(&line), "{test}: {printed}");
        build.fixture.write("device_lib/data/a", "one");
        assert!(build.compiles() == 0 && build.written() == first, "{test}");
    }
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn what_is_read_at_compile_time_counts() {
    let build = kept("compile-time", |fixture| {
        fixture.write("kernels/factor.bin", "\x01");
        fixture.edit("kernels/src/reduce.rs", |text| {
            text.replace("values[i +", "include_bytes!(\"../factor.bin\")[0] as f32 * values[i +")
                .replace("+ checked", "+ FACTOR * checked")
                + "const FACTOR: f32 = factor::of!();\n"
        });
        fixture.edit("kernels/Cargo.toml", |text| {
            text.replace("[dependencies]", "[dependencies]\nfactor = { path = \"../factor\" }")
        });
        fixture.write(
            "factor/Cargo.toml",
            "[package]\nname = \"factor\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lib]\nproc-macro = true\n",
        );
        fixture.write(
            "factor/src/lib.rs",
            "#[proc_macro]\npub fn of(_: proc_macro::TokenStream) -> proc_macro::TokenStream {\n    \
             option_env!(\"FIXTURE_FACTOR\").unwrap_or(\"3.0\").parse().unwrap()\n}\n",
        );
    });
    let first = build.written();
    for (file, from, to) in [
        ("kernels/factor.bin", "\x01", "\x02"),
        ("factor/src/lib.rs", "3.0", "4.0"),
    ] {
        build.fixture.edit(file, |text| text.replace(from, to));
        build.fixture.make_old(file);
        assert_ne!(build.compiles(), 0, "{file}");
        assert!(build.written() != first, "{file}");
        build.fixture.edit(file, |text| text.replace(to, from));
        assert!(build.compiles() == 0 && build.written() == first, "{file}");
    }
    let with_factor = |command: &mut Command| {
        command.env("FIXTURE_FACTOR", "5.0");
    };
    assert_ne!(
        build.build(with_factor).0,
        0,
        "a variable that a macro was compiled with"
    );
    assert!(build.written() != first);
    assert!(build.compiles() == 0 && build.written() == first);
}

/// A path dependency may be a member of another workspace, which its manifest takes features from.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn another_workspace_counts() {
    let build = kept("workspaces", |fixture| {
        fixture.write(
            "Cargo.toml",
            "[workspace]\nmembers = [\"device_lib\"]\nexclude = [\"kernels\"]\nresolver = \"3\"\n\n\
             [workspace.dependencies]\noffset = { path = \"offset\" }\n",
        );
        fixture.edit("device_lib/Cargo.toml", |text| {
            text + "\n[dependencies]\noffset.workspace = true\n"
        });
        fixture.edit("device_lib/src/lib.rs", |text| {
            text.replace("slice[index]", "slice[index + offset::OFFSET]")
        });
        fixture.write(
            "offset/Cargo.toml",
            "[package]\nname = \"offset\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[features]\nmore = []\n",
        );
        fixture.write(
            "offset/src/lib.rs",
            "#![no_std]\npub const OFFSET: usize = if cfg!(feature = \"more\") { 2 } else { 1 };\n",
        );
    });
    let first = build.written();
    let (from, to) = ("path = \"offset\"", "path = \"offset\", features = [\"more\"]");
    build.fixture.edit("Cargo.toml", |text| text.replace(from, to));
    let (compiled, printed) = build.build(|_| ());
    assert_ne!(compiled, 0);
    assert!(build.written() != first);
    let line = format!(
        "cargo::rerun-if-changed={}\n",
        build.fixture.path("Cargo.toml").display()
    );
    assert!(printed.contains(&line), "{printed}");
}

/// A manifest may name its workspace, which then need not be in a folder above.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_workspace_that_a_manifest_names_counts() {
    let build = kept("named_workspace", |fixture| {
        fixture.write(
            "root/Cargo.toml",
            "[workspace]\nmembers = [\"../device_lib\"]\nresolver = \"3\"\n\n[workspace.package]\nversion = \"0.1.0\"\n",
        );
        fixture.edit("device_lib/Cargo.toml", |text| {
            text.replace(
                "version = \"0.1.0\"\n",
                "version.workspace = true\nworkspace = \"../root\"\n",
            )
        });
        fixture.edit("device_lib/src/lib.rs", |text| {
            text.replace(
                "slice[index]",
                "slice[index + env!(\"CARGO_PKG_VERSION_PATCH\").len() - 1]",
            )
        });
    });
    let (compiled, printed) = build.build(|_| ());
    assert_eq!(compiled, 0);
    let line = format!(
        "cargo::rerun-if-changed={}\n",
        build.fixture.path("root/Cargo.toml").display()
    );
    assert!(printed.contains(&line), "{printed}");
    build
        .fixture
        .edit("root/Cargo.toml", |text| text.replace("0.1.0", "0.1.10"));
    let (compiled, _) = build.build(|_| ());
    assert_ne!(compiled, 0);
}

/// Cargo's configuration decides of profiles, patches and variables, and may include other files.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn the_configuration_counts_with_what_it_includes() {
    let build = kept("configuration", |fixture| {
        fixture.edit("kernels/src/reduce.rs", |text| {
            text.replace(
                "values[i +",
                "option_env!(\"FIXTURE_SCALE\").unwrap_or(\"\").len() as f32 * values[i +",
            )
        });
        fixture.write("kernels/.cargo/config.toml", "include = [\"more.toml\"]\n");
        fixture.write("kernels/.cargo/more.toml", "[env]\nFIXTURE_SCALE = \"1\"\n");
    });
    let first = build.written();
    build
        .fixture
        .write("kernels/.cargo/more.toml", "[env]\nFIXTURE_SCALE = \"12\"\n");
    let (compiled, printed) = build.build(|_| ());
    assert_ne!(compiled, 0);
    assert!(build.written() != first);
    for name in ["config", "more"] {
        let path = build.fixture.path(&format!("kernels/.cargo/{name}.toml"));
        let line = format!("cargo::rerun-if-changed={}\n", path.display());
        assert!(printed.contains(&line), "{printed}");
    }
}

/// Cargo takes `..` from a path as it is written, the system from where a link leads.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_crate_behind_a_link_is_found_with_its_neighbours() {
    let build = kept("linked", |fixture| {
        fs::create_dir(fixture.path("real")).unwrap();
        fs::rename(fixture.path("kernels"), fixture.path("real/kernels")).unwrap();
        std::os::unix::fs::symlink(fixture.path("real/kernels"), fixture.path("kernels")).unwrap();
        // What is not its neighbour.
        for file in ["Cargo.toml", "src/lib.rs"] {
            let text = fs::read_to_string(fixture.path("device_lib").join(file)).unwrap();
            fixture.write(&format!("real/device_lib/{file}"), &text);
        }
    });
    let first = build.written();
    build.fixture.edit("device_lib/src/lib.rs", |text| {
        text.replace("+ _thread_idx_x()", "- _thread_idx_x()")
    });
    assert_ne!(build.compiles(), 0);
    assert!(build.written() != first);
}

/// Two profiles, say: the second waits for the first, and then has what that made.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn of_two_builds_at_once_one_compiles() {
    let build = kept("at-once", |_| ());
    build.fixture.edit("kernels/src/reduce.rs", |text| {
        text.replace("values[i +", "3.0 * values[i +")
    });
    let compiled = std::thread::scope(|scope| {
        let builds = [(), ()].map(|()| scope.spawn(|| build.run(|_| ())));
        for build in builds {
            assert!(build.join().unwrap().status.success());
        }
        build.runs()
    });
    assert_eq!(compiled, 1);
}
