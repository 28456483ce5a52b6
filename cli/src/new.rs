// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith new FOLDER` and `cargo xtask new FOLDER`: a workspace with a program, a kernel and a test, which builds as it
//! stands.
//!
//! `templates/` is such a workspace of the name hello. Only its manifests are no valid files: where the packages come
//! from is filled in.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// What is written, by its path in the workspace.
const FILES: [(&str, &str); 10] = [
    ("Cargo.toml", include_str!("../templates/Cargo.toml.in")),
    ("build.rs", include_str!("../templates/build.rs")),
    ("src/main.rs", include_str!("../templates/src/main.rs")),
    ("tests/kernels.rs", include_str!("../templates/tests/kernels.rs")),
    ("kernels/Cargo.toml", include_str!("../templates/kernels/Cargo.toml.in")),
    ("kernels/clippy.toml", include_str!("../templates/kernels/clippy.toml")),
    ("kernels/src/lib.rs", include_str!("../templates/kernels/src/lib.rs")),
    ("README.md", include_str!("../templates/README.md")),
    ("rust-toolchain.toml", include_str!("../templates/rust-toolchain.toml")),
    (".gitignore", include_str!("../templates/gitignore")),
];

/// The packages that a project depends on, and where they lie in Warpsmith's repository.
const PACKAGES: [(&str, &str); 5] = [
    ("warpsmith", ""),
    ("cuda_std", "crates/cuda_std"),
    ("cuda_block", "crates/cuda_block"),
    ("cuda_builder", "crates/cuda_builder"),
    ("kernels-gpu", "kernels-gpu"),
];

/// Names that cargo or rustc refuses for a program.
const RESERVED: &str = "abstract alloc artifact as async await become box break build const continue core crate deps do \
    dyn else enum examples extern false final fn for gen if impl in incremental let loop macro match mod move mut override \
    priv proc_macro pub ref return self static std struct super test trait true try type typeof unsafe unsized use virtual \
    where while yield";

/// [`create`], which then says what to do with it.
pub fn run(folder: &Path, source: impl Fn(&str) -> String) -> Result<()> {
    create(folder, source)?;
    println!("{0} is written: cd {0} && cargo run && cargo test", folder.display());
    Ok(())
}

/// Writes the workspace into the new folder `folder`, whose name it takes. `source` says where a package comes from, as a
/// manifest has it (`version = "1"`), by its folder in the repository. On an error nothing is left behind.
pub fn create(folder: &Path, source: impl Fn(&str) -> String) -> Result<()> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    check_name(name)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            anyhow::bail!("{} is there already: take another name", folder.display())
        }
        created => created.with_context(|| format!("{} cannot be made", folder.display()))?,
    }
    let written = FILES.iter().try_for_each(|(path, template)| {
        let path = folder.join(path);
        let text = fill_in(template, name, &source);
        fs::create_dir_all(path.parent().unwrap_or(folder))
            .and_then(|()| fs::write(&path, text))
            .with_context(|| format!("{} cannot be written", path.display()))
    });
    if written.is_err() {
        // What failed is told; a folder that cannot be removed either changes nothing.
        let _ = fs::remove_dir_all(folder);
    }
    written
}

/// Whether cargo takes `name` for a program, and rustc for a part of a crate's name.
fn check_name(name: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    ensure!(
        name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_allowed),
        "`{name}` is no name for a project: it begins with a letter, and has letters, digits, - and _ only"
    );
    let is_taken = RESERVED.split(' ').any(|word| word == name) || PACKAGES.iter().any(|(package, _)| *package == name);
    ensure!(!is_taken, "`{name}` means something else in Rust: take another name");
    Ok(())
}

fn fill_in(template: &str, name: &str, source: impl Fn(&str) -> String) -> String {
    let in_rust = name.replace('-', "_");
    let mut parts = template.split("hello");
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        text += if part.starts_with('_') { &in_rust } else { name };
        text += part;
    }
    for (package, folder) in PACKAGES {
        text = text.replace(&format!("{{{package}}}"), &source(folder));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(_: &str) -> String {
        "version = \"1\"".into()
    }

    #[test]
    fn every_file_has_the_names_filled_in() -> Result<()> {
        let folder = tempfile::tempdir()?;
        create(&folder.path().join("my-project"), |folder| {
            format!("path = \"/at/{folder}\"")
        })?;
        let read = |path: &str| fs::read_to_string(folder.path().join("my-project").join(path));
        for (path, _) in FILES {
            let text = read(path)?;
            assert!(
                !text.contains("hello") && !text.contains("{warpsmith}"),
                "{path}: {text}"
            );
        }
        assert!(read("Cargo.toml")?.contains("warpsmith = { path = \"/at/\", default-features = false }"));
        assert!(read("Cargo.toml")?.contains("cuda_builder = { path = \"/at/crates/cuda_builder\" }"));
        let kernels = read("kernels/Cargo.toml")?;
        assert!(kernels.contains("name = \"my-project-kernels\""));
        // Ready for who takes the `#` away.
        assert!(kernels.contains("\n# cuda_block = { path = \"/at/crates/cuda_block\" }"));
        assert!(kernels.contains("\n# kernels-gpu = { path = \"/at/kernels-gpu\" }"));
        assert!(read("src/main.rs")?.contains("warpsmith::kernels!(my_project_kernels)"));
        Ok(())
    }

    #[test]
    fn the_templates_own_name_may_be_in_the_name() {
        let text = fill_in("use hello_kernels; hello-kernels", "hello-2", version);
        assert_eq!(text, "use hello_2_kernels; hello-2-kernels");
    }

    #[test]
    fn names_that_are_none_write_nothing() -> Result<()> {
        let folder = tempfile::tempdir()?;
        for name in [
            "1st",
            "-x",
            "größe",
            "a b",
            "a.b",
            "fn",
            "test",
            "warpsmith",
            "cuda_std",
        ] {
            let error = create(&folder.path().join(name), version).unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{name}` ")), "{error}");
        }
        assert!(create(Path::new(".."), version).is_err() && create(Path::new(""), version).is_err());
        assert_eq!(fs::read_dir(folder.path())?.count(), 0);
        Ok(())
    }

    #[test]
    fn what_is_there_stays_as_it_is() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let there = folder.path().join("there");
        fs::write(&there, "kept")?;
        let error = create(&there, version).unwrap_err();
        assert!(
            error.to_string().ends_with("is there already: take another name"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(there)?, "kept");
        let error = create(&folder.path().join("no-such-folder/x"), version).unwrap_err();
        assert!(error.to_string().ends_with("cannot be made"), "{error}");
        Ok(())
    }

    /// Where the repository is at hand: a package has neither of the two files.
    #[test]
    fn the_compiler_is_the_one_that_this_repository_is_built_with() {
        let Ok(ours) = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../rust-toolchain.toml")) else {
            return;
        };
        let channel = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("channel"));
            line.expect("there is a line with the channel").to_string()
        };
        assert_eq!(
            channel(include_str!("../templates/rust-toolchain.toml")),
            channel(&ours)
        );
    }
}
