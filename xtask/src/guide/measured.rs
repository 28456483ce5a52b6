// SPDX-License-Identifier: MIT OR Apache-2.0

//! What `warpsmith lab all` printed on a GPU, as files that the book's pages include: one for each experiment that is
//! shown, in `src/measured`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Replaces the files in `folder` by those of the experiments in the file `printed`. An experiment that has none is not
/// shown.
pub fn take(printed: &Path, folder: &Path) -> Result<()> {
    let text = fs::read_to_string(printed).with_context(|| format!("{} cannot be read", printed.display()))?;
    let experiments = experiments(&text);
    ensure!(
        !experiments.is_empty(),
        "{} has nothing that `warpsmith lab` printed",
        printed.display()
    );
    for experiment in &experiments {
        ensure!(
            experiment.device != "sim",
            "{}: wanted what a GPU measured, given the simulated one's counts",
            experiment.name
        );
    }
    for experiment in experiments {
        let path = folder.join(experiment.name).with_extension("md");
        if !path.is_file() {
            continue;
        }
        fs::write(&path, experiment.markdown()).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

/// An experiment, as the program prints it.
struct Printed<'a> {
    name: &'a str,
    gpu: &'a str,
    /// Its name in this library, such as `cuda:0`.
    device: &'a str,
    lines: Vec<&'a str>,
}

impl Printed<'_> {
    fn markdown(&self) -> String {
        let mut markdown = format!("Measured by `warpsmith lab {}` on one {}:\n", self.name, self.gpu);
        let mut last = "";
        for &line in self.lines.iter().filter(|line| !line.starts_with("Kernels: ")) {
            // A table is not a part of the paragraph above.
            if line.starts_with('|') && !last.starts_with('|') && !last.is_empty() {
                markdown.push('\n');
            }
            markdown += &format!("{line}\n");
            last = line;
        }
        markdown.trim_end().to_string() + "\n"
    }
}

/// An experiment begins with a line `name: sentence` and one with the device.
fn experiments(text: &str) -> Vec<Printed<'_>> {
    let lines: Vec<_> = text.lines().collect();
    let mut found: Vec<Printed<'_>> = Vec::new();
    let mut i = 0;
    while i < lines.len() {
        if let Some((name, (gpu, device))) = name(lines[i]).zip(lines.get(i + 1).and_then(|line| device(line))) {
            found.push(Printed {
                name,
                gpu,
                device,
                lines: Vec::new(),
            });
            i += 2;
            continue;
        }
        if let Some(experiment) = found.last_mut() {
            experiment.lines.push(lines[i]);
        }
        i += 1;
    }
    found
}

/// The name in `name: sentence`.
fn name(line: &str) -> Option<&str> {
    let (name, _) = line.split_once(": ")?;
    let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    is_name.then_some(name)
}

/// The GPU and its name in `NVIDIA H200 (cuda:0)`.
fn device(line: &str) -> Option<(&str, &str)> {
    let (gpu, device) = line.strip_suffix(')')?.rsplit_once(" (")?;
    (device == "sim" || device.starts_with("cuda:")).then_some((gpu, device))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
coalescing: neighbours, and others
NVIDIA H200 (cuda:0)

reads with a stride
| stride | GB/s |
|--------|------|
| 1      | 2439 |

At stride 1: much.
Kernels: lab/kernels/src/coalescing.rs

latency: what a launch costs
NVIDIA H200 (cuda:0)

a launch
| µs |
|----|
| 3  |
";

    #[test]
    fn experiments_become_pages() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let printed = folder.path().join("lab.txt");
        fs::write(&printed, PRINTED)?;
        fs::write(folder.path().join("coalescing.md"), "older")?;
        take(&printed, folder.path())?;
        assert_eq!(
            fs::read_to_string(folder.path().join("coalescing.md"))?,
            "Measured by `warpsmith lab coalescing` on one NVIDIA H200:\n\nreads with a stride\n\n| stride | GB/s |\n\
             |--------|------|\n| 1      | 2439 |\n\nAt stride 1: much.\n"
        );
        assert!(!folder.path().join("latency.md").exists(), "no page shows it");
        Ok(())
    }

    #[test]
    fn counts_are_no_measurements() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let printed = folder.path().join("lab.txt");
        for (text, wrong) in [
            (PRINTED.replace("cuda:0", "sim"), "simulated"),
            ("nothing".into(), "has nothing"),
        ] {
            fs::write(&printed, text)?;
            let error = take(&printed, folder.path()).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
        assert_eq!(fs::read_dir(folder.path())?.count(), 1);
        Ok(())
    }
}
