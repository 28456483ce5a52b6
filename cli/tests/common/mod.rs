// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of the program share. The program is the one that the variable WARPSMITH_BIN names,
//! else the one that cargo built; its device is that of the environment.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ndarray::{Array, ArrayD, Dimension};
use ndarray_npy::{ReadNpyExt, ReadableElement, WritableElement, WriteNpyExt};
use tempfile::TempDir;

/// A folder of its own for a test, in which the program runs.
pub struct Workplace {
    folder: TempDir,
}

impl Workplace {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub fn save<T: WritableElement, D: Dimension>(&self, name: &str, array: &Array<T, D>) {
        array.write_npy(File::create(self.path(name)).unwrap()).unwrap();
    }

    pub fn load<T: ReadableElement>(&self, name: &str) -> ArrayD<T> {
        ArrayD::read_npy(File::open(self.path(name)).unwrap()).unwrap()
    }

    pub fn save_picture(&self, name: &str, picture: impl Into<image::DynamicImage>) {
        picture.into().save(self.path(name)).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let program = std::env::var_os("WARPSMITH_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_warpsmith").into());
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path());
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs the program, which must succeed, and gives what it printed.
    #[track_caller]
    pub fn succeed(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the program, which must succeed, and gives its JSON.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.succeed(args)).unwrap()
    }

    /// Runs the program, which must fail with status 1, one line of standard error that contains all
    /// `parts`, nothing on standard output, and no file made or changed.
    #[track_caller]
    pub fn fail(&self, args: &[&str], parts: &[&str]) {
        let before = contents(self.folder.path());
        let output = self.run(args);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {message}");
        assert!(message.starts_with("warpsmith: error: "), "{args:?}: {message}");
        assert_eq!(message.matches('\n').count(), 1, "{args:?}: {message}");
        for part in parts {
            assert!(message.contains(part), "{args:?}: no {part:?} in {message:?}");
        }
        assert_eq!(output.stdout, b"", "{args:?}");
        assert_eq!(contents(self.folder.path()), before, "{args:?}");
    }
}

/// The files of a folder with their lengths and beginnings (some are longer than memory).
fn contents(folder: &Path) -> Vec<(PathBuf, u64, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let (path, metadata) = (entry.as_ref().unwrap().path(), entry.unwrap().metadata().unwrap());
            let mut start = Vec::new();
            if metadata.is_file() {
                File::open(&path)
                    .unwrap()
                    .take(1 << 16)
                    .read_to_end(&mut start)
                    .unwrap();
            }
            (path, if metadata.is_file() { metadata.len() } else { 0 }, start)
        })
        .collect();
    files.sort();
    files
}

/// The bytes of a .npy file with that header, as text, and data.
pub fn npy_bytes(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16 + 1).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.push(b'\n');
    bytes.extend(data);
    bytes
}

/// The header of elements of that NumPy type.
pub fn npy_header(descr: &str, fortran_order: bool, shape: &str) -> String {
    let order = if fortran_order { "True" } else { "False" };
    format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}")
}
