// SPDX-License-Identifier: MIT OR Apache-2.0

//! The contributor's whole interface: `cargo xtask setup | demo | test | sanitize | compare | exchange | ptx |
//! guide | bundle | package | new`.
//!
//! Every command does its own set-up first, so that each works on a fresh machine that has
//! cargo and nothing else. This program is compiled there before anything else: it stays small.

mod bundle;
mod compare;
mod demo;
mod exchange;
mod guide;
// The program's own, so that there is one such project; it needs nothing of the program.
#[path = "../../cli/src/new.rs"]
mod new;
mod outside;
mod package;
mod ptx;
mod sanitize;
mod setup;
mod test;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use bundle::Choice;
use workspace::Workspace;

/// Set up, show, test and pack Warpsmith.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Bring the source of `core`, which the kernels are built with, into the toolchain.
    Setup {
        /// A tar archive with the folder `library` of the compiler's own version, used when
        /// neither rustup nor Debian's archive has it.
        #[arg(long, value_name = "ARCHIVE")]
        core_source: Option<PathBuf>,
    },
    /// Build the program and run `warpsmith demo`.
    Demo {
        /// Arguments for `warpsmith demo`.
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Build and run every test of the workspace, doc tests included.
    Test {
        /// Arguments for `cargo test`.
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Run the tests of the simulated GPU and of the device library under ThreadSanitizer.
    Sanitize {
        /// Arguments for `cargo test`.
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Hold the program against NumPy, SciPy and scikit-image, which pip installs beside the build.
    Compare,
    /// Build and run examples/exchange, which has candle and burn and takes minutes to build; `.ci/run` leaves it out.
    Exchange,
    /// Assemble every PTX module with ptxas and hold it against the checked-in report.
    Ptx(ptx::Options),
    /// Build the book of docs/guide with mdBook, and check its listings, its links and those of all Markdown pages.
    Guide(guide::Options),
    /// Pack the program and the tests that run on a GPU for a machine with no Rust on it.
    Bundle {
        /// The folder to write.
        #[arg(long, default_value = "bundle")]
        out: PathBuf,
        /// cargo's profile. The kernels are the same by `release`, which is for figures of the host's own time.
        #[arg(long, default_value = "dev")]
        profile: String,
        /// Pack benchmarks and examples, too.
        #[arg(long)]
        all: bool,
        /// The executables to build and pack, by their names in the archive, such as
        /// `warpsmith,tests/warpsmith-suite`.
        #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "all")]
        only: Option<Vec<String>>,
    },
    /// Make the packages that are published, the PTX packed in, in target/package.
    Package {
        /// Then build projects from them as their users would, in an empty folder.
        #[arg(long)]
        try_out: bool,
    },
    /// Write a project with a kernel of its own into a new folder; it depends on this checkout.
    New {
        /// The folder; its name is the project's.
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    match perform(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: Task) -> Result<()> {
    let workspace = Workspace::find()?;
    let core_source = match &task {
        Task::Setup { core_source } => core_source.as_deref(),
        _ => None,
    };
    setup::ensure_core(&workspace, core_source)?;
    match task {
        Task::Setup { .. } => Ok(()),
        Task::Demo { args } => demo::demo(&workspace, &args),
        Task::Test { args } => test::test(&workspace, &args),
        Task::Sanitize { args } => sanitize::run_tests(&workspace, &args),
        Task::Compare => compare::compare(&workspace),
        Task::Exchange => exchange::exchange(&workspace),
        Task::Ptx(options) => ptx::run(&workspace, &options),
        Task::Guide(options) => guide::build(&workspace, &options),
        Task::Package { try_out } => {
            let packages = package::package(&workspace)?;
            if try_out {
                outside::try_out(&workspace, &packages)?;
            }
            // Last: by then CI has built what this builds.
            package::check_ptx(&workspace, &packages)
        }
        Task::New { folder } => new::run(&folder, |folder| format!("path = {:?}", workspace.root.join(folder))),
        Task::Bundle {
            out,
            profile,
            all,
            only,
        } => {
            let choice = match only {
                Some(places) => Choice::Only(places),
                None if all => Choice::All,
                None => Choice::Usual,
            };
            bundle::run(&workspace, &out, &profile, &choice)
        }
    }
}
