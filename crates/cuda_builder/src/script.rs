// SPDX-License-Identifier: MIT OR Apache-2.0
//! Build scripts of the kernels crate and its path dependencies: what they read.
//!
//! Whether one has to run again cargo tells by files' times, whatever flag is set. So beside what it printed lies a record
//! of what its files contained then. Where they contain something else now and it has not run since, cargo was misled.

use crate::CudaBuilderError;
use crate::cache::hash;
use crate::deps::{files_at, instructions};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A build script that has run, in this build or an earlier one.
pub(crate) struct Script {
    /// The folder of its package.
    package: PathBuf,
    /// What it printed, as cargo keeps it.
    output: PathBuf,
}

impl Script {
    /// That of the package with this manifest, and with this `OUT_DIR`.
    pub(crate) fn new(manifest: &Path, out_dir: &Path) -> Self {
        Self {
            package: manifest.parent().unwrap_or(manifest).to_owned(),
            output: printed_at(out_dir),
        }
    }

    /// The files and folders that it says it reads. If it says nothing, cargo runs it again for any file of its package.
    pub(crate) fn reads(&self) -> Result<BTreeSet<PathBuf>, CudaBuilderError> {
        let printed = fs::read_to_string(&self.output).map_err(CudaBuilderError::io("read", &self.output))?;
        if !instructions(&printed).any(|instruction| instruction.starts_with("rerun-if-")) {
            return Ok([self.package.clone()].into());
        }
        let paths = instructions(&printed).filter_map(|instruction| instruction.strip_prefix("rerun-if-changed="));
        Ok(paths.map(|path| self.package.join(path)).collect())
    }

    /// What cargo knows of it, and of the crates of its package, which are made from what it gives:
    /// `.fingerprint/NAME-HASH` beside `build/NAME-HASH`.
    fn fingerprints(&self) -> io::Result<Vec<PathBuf>> {
        let mut folders = self.output.ancestors().skip(1);
        let own = folders.next().and_then(package_of).unwrap_or_default();
        let profile = folders.nth(1).unwrap_or(Path::new(""));
        let entries = fs::read_dir(profile.join(".fingerprint"))?.map(|entry| Ok(entry?.path()));
        let entries = entries.collect::<io::Result<Vec<_>>>()?;
        Ok(entries
            .into_iter()
            .filter(|path| package_of(path) == Some(own))
            .collect())
    }

    /// Has cargo run it again if it should have by now, and says whether that is so; else records what it has read.
    pub(crate) fn outdate(&self) -> Result<bool, CudaBuilderError> {
        let mut words = Vec::new();
        for path in self.reads()? {
            // What is not there, or is no file, has no contents.
            for file in files_at(&path).unwrap_or_default() {
                words.extend([
                    file.as_os_str().as_encoded_bytes().to_owned(),
                    fs::read(&file).unwrap_or_default(),
                ]);
            }
        }
        let contents = format!("{:032x}", hash(words.iter().map(Vec::as_slice)));
        let modified = fs::metadata(&self.output).and_then(|metadata| metadata.modified());
        let ran = modified.map_err(CudaBuilderError::io("read", &self.output))?;
        let ran = format!("{ran:?}\n");

        let record = self.output.with_extension("cuda_builder");
        let before = fs::read_to_string(&record).unwrap_or_default();
        let is_misled = before.strip_prefix(&ran).is_some_and(|before| before != contents);
        if is_misled {
            let fingerprints = self
                .fingerprints()
                .map_err(CudaBuilderError::io("read", &self.output))?;
            for path in fingerprints {
                fs::remove_dir_all(&path).map_err(CudaBuilderError::io("remove", &path))?;
            }
        } else {
            fs::write(&record, ran + &contents).map_err(CudaBuilderError::io("write", &record))?;
        }
        Ok(is_misled)
    }
}

/// The package's name in that of a folder, before the hash.
fn package_of(folder: &Path) -> Option<&str> {
    Some(folder.file_name()?.to_str()?.rsplit_once('-')?.0)
}

/// Where cargo keeps what a build script with this `OUT_DIR` printed.
pub(crate) fn printed_at(out_dir: &Path) -> PathBuf {
    out_dir.with_file_name("output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_reads_and_what_is_made_from_it() {
        let folder = std::env::temp_dir().join(format!("cuda_builder-script-{}", std::process::id()));
        let out_dir = folder.join("release/build/k-1/out");
        fs::create_dir_all(&out_dir).unwrap();
        let script = Script::new(Path::new("/k/Cargo.toml"), &out_dir);
        let known = ["k-1", "k-2", "k-2-1", "other-1"].map(|name| folder.join("release/.fingerprint").join(name));
        known.iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
        let mut fingerprints = script.fingerprints().unwrap();
        fingerprints.sort();
        assert_eq!(fingerprints, known[..2]);
        for (printed, paths) in [
            ("", &["/k"][..]),
            ("cargo::rustc-env=A=B\nrerun-if-changed=C\n", &["/k"]),
            ("cargo:rerun-if-env-changed=A\n", &[]),
            (
                "cargo::rerun-if-changed=data\ncargo:rerun-if-changed=/b\n",
                &["/b", "/k/data"],
            ),
        ] {
            fs::write(printed_at(&out_dir), printed).unwrap();
            let reads: Vec<_> = script.reads().unwrap().into_iter().collect();
            assert_eq!(reads, paths.iter().map(PathBuf::from).collect::<Vec<_>>(), "{printed}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
