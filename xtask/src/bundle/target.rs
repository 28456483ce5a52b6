// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which of cargo's targets the bundle can have, which of them it gets, by what names, and how cargo is asked for them.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::workspace::package_name;

/// Packages whose tests run on the device that WARPSMITH_DEVICE names, or call the driver. Those of all others call cargo, or
/// are of the simulated GPU and what runs on no other, which a GPU machine does not change; and so are those within a library
/// or a program.
const DEVICE_PACKAGES: [&str; 5] = [
    "cuda_driver",
    "device-tests",
    "own-kernel",
    "warpsmith",
    "warpsmith-cli",
];

/// Tests that call cargo or rustc.
const CARGO_TESTS: [&str; 2] = ["compile_fail", "driver"];

/// The program, which its own tests start.
const PROGRAM: &str = "warpsmith";

/// The package of the program.
const PROGRAM_PACKAGE: &str = "warpsmith-cli";

/// What cargo makes an executable of: a target itself, or its tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    package: String,
    kind: String,
    name: String,
    is_test: bool,
}

impl Target {
    /// That which a message of cargo's tells of.
    pub fn of_message(message: &Value) -> Option<Self> {
        Some(Self {
            package: package_name(message["package_id"].as_str()?).into(),
            kind: message["target"]["kind"][0].as_str()?.into(),
            name: message["target"]["name"].as_str()?.into(),
            is_test: message["profile"]["test"].as_bool()?,
        })
    }

    /// Those of a package that the bundle can have, as `cargo metadata` describes it.
    fn of_package(package: &Value) -> Vec<Self> {
        let targets = package["targets"].as_array().into_iter().flatten();
        let itself_and_tests = targets.flat_map(|target| {
            let of = |is_test| {
                Some(Self {
                    package: package["name"].as_str()?.into(),
                    kind: target["kind"][0].as_str()?.into(),
                    name: target["name"].as_str()?.into(),
                    is_test,
                })
            };
            [of(false), of(true).filter(|_| target["test"] == true)]
        });
        let targets = itself_and_tests.flatten();
        targets.filter(|target| target.place().is_some()).collect()
    }

    /// Where in the bundle it goes, if it belongs there.
    pub fn place(&self) -> Option<String> {
        let (package, name) = (self.package.as_str(), self.name.as_str());
        Some(match (self.kind.as_str(), self.is_test) {
            ("bin", false) if name == PROGRAM => name.to_string(),
            // The program's experiments do what the laboratory's do, and more.
            ("example", false) if package == "warpsmith-lab" => return None,
            ("example", false) => format!("examples/{name}"),
            ("bench", _) => format!("benches/{name}"),
            (_, true) if !DEVICE_PACKAGES.contains(&package) => return None,
            ("test", true) if CARGO_TESTS.contains(&name) => return None,
            ("test", true) => format!("tests/{package}-{name}"),
            // Other programs, and tests within a library or a program.
            _ => return None,
        })
    }

    /// Whether a bundle has it that nothing else is said of.
    fn is_usual(&self) -> bool {
        self.is_test || self.kind == "bin"
    }
}

/// What a bundle is to have.
pub enum Choice {
    /// The program and the tests.
    Usual,
    /// Benchmarks and examples, too.
    All,
    /// What is in these places.
    Only(Vec<String>),
}

/// The targets of `packages` that are chosen.
pub fn wanted(packages: &[Value], choice: &Choice) -> Result<Vec<Target>> {
    let all: Vec<_> = packages.iter().flat_map(Target::of_package).collect();
    match choice {
        Choice::Usual => Ok(all.into_iter().filter(Target::is_usual).collect()),
        Choice::All => Ok(all),
        Choice::Only(places) => named(&all, places),
    }
}

/// Those of `all` in the places `only`, with the program if its tests are among them.
fn named(all: &[Target], only: &[String]) -> Result<Vec<Target>> {
    let there: BTreeSet<_> = all.iter().filter_map(Target::place).collect();
    let unknown: Vec<_> = only.iter().filter(|name| !there.contains(*name)).cloned().collect();
    ensure!(
        unknown.is_empty(),
        "the bundle has no executable {}; it has\n    {}",
        unknown.join(", "),
        there.into_iter().collect::<Vec<_>>().join("\n    ")
    );
    let is_named = |target: &Target| target.place().is_some_and(|place| only.contains(&place));
    let starts_program = all
        .iter()
        .any(|target| is_named(target) && target.package == PROGRAM_PACKAGE);
    Ok(all
        .iter()
        .filter(|target| is_named(target) || starts_program && target.place().as_deref() == Some(PROGRAM))
        .cloned()
        .collect())
}

/// The options of `cargo build` that name `targets`, and those of other packages that have the same names. It is
/// always asked to do so for the whole workspace: by packages of their own some would lack features, and the tests of these.
pub fn cargo_options(targets: &[Target]) -> BTreeSet<[String; 2]> {
    let option = |target: &Target| [format!("--{}", target.kind), target.name.clone()];
    targets.iter().map(option).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place(package: &str, kind: &str, target: &str, is_test: bool) -> Option<String> {
        let message = json!({
            "reason": "compiler-artifact",
            "package_id": package,
            "target": {"kind": [kind], "name": target},
            "profile": {"test": is_test},
            "executable": "/target/release/deps/x-0123",
        });
        Target::of_message(&message)?.place()
    }

    #[test]
    fn everything_has_one_place() {
        let root = "path+file:///tree#warpsmith@0.1.0";
        let driver = "path+file:///tree/crates/cuda_driver#0.1.0";
        let lab = "path+file:///tree/lab#warpsmith-lab@0.1.0";
        let benches = "path+file:///tree/benches#warpsmith-benches@0.1.0";
        let cases = [
            (root, "bin", "warpsmith", false, Some("warpsmith")),
            (root, "lib", "warpsmith", true, None),
            (root, "test", "reduce", true, Some("tests/warpsmith-reduce")),
            (root, "test", "compile_fail", true, None),
            (benches, "bench", "copy", true, Some("benches/copy")),
            (root, "example", "sum", false, Some("examples/sum")),
            (lab, "example", "sum_steps", false, None),
            (driver, "bin", "other", false, None),
            (driver, "test", "with_cust", true, Some("tests/cuda_driver-with_cust")),
            (driver, "proc-macro", "macros", true, None),
            (driver, "custom-build", "build-script-build", false, None),
        ];
        for (package, kind, target, is_test, wanted) in cases {
            let found = place(package, kind, target, is_test);
            assert_eq!(found.as_deref(), wanted, "{package} {kind} {target}");
        }
    }

    #[test]
    fn what_a_gpu_does_not_change_stays_behind() {
        for package in ["cuda_builder", "cuda_sim", "warpsmith-guide", "xtask"] {
            let id = format!("path+file:///tree/crates/{package}#0.1.0");
            assert_eq!(place(&id, "lib", package, true), None);
            assert_eq!(place(&id, "test", "any", true), None);
        }
    }

    /// What `cargo metadata` says of the library, its benchmarks and the program, shortened.
    fn packages() -> Vec<Value> {
        let target = |kind: &str, name: &str, test: bool| json!({"kind": [kind], "name": name, "test": test});
        vec![
            json!({"name": "warpsmith", "targets": [
                target("lib", "warpsmith", true),
                target("example", "sum", false),
                target("test", "suite", true),
                target("test", "driver", true),
                target("custom-build", "build-script-build", false),
            ]}),
            json!({"name": "warpsmith-benches", "targets": [target("bench", "kernels", false)]}),
            json!({"name": "warpsmith-cli", "targets": [
                target("bin", "warpsmith", true),
                target("test", "suite", true),
            ]}),
        ]
    }

    /// The places of those that are chosen, and what cargo is asked for.
    fn bundle(choice: &Choice) -> Result<(Vec<String>, String)> {
        let targets = wanted(&packages(), choice)?;
        let options: Vec<_> = cargo_options(&targets).iter().map(|option| option.join(" ")).collect();
        let places = targets.iter().filter_map(Target::place);
        Ok((places.collect(), options.join(" ")))
    }

    fn only(places: &[&str]) -> Choice {
        Choice::Only(places.iter().map(|place| place.to_string()).collect())
    }

    #[test]
    fn it_is_the_program_and_the_tests_unless_all_are_wanted() -> Result<()> {
        let (places, options) = bundle(&Choice::Usual)?;
        assert_eq!(
            places,
            ["tests/warpsmith-suite", "warpsmith", "tests/warpsmith-cli-suite"]
        );
        assert_eq!(options, "--bin warpsmith --test suite");
        let (places, options) = bundle(&Choice::All)?;
        assert_eq!(
            places,
            [
                "examples/sum",
                "tests/warpsmith-suite",
                "benches/kernels",
                "warpsmith",
                "tests/warpsmith-cli-suite",
            ]
        );
        assert_eq!(options, "--bench kernels --bin warpsmith --example sum --test suite");
        Ok(())
    }

    #[test]
    fn what_is_named_is_built_alone() -> Result<()> {
        let (places, options) = bundle(&only(&["examples/sum", "tests/warpsmith-suite"]))?;
        assert_eq!(places, ["examples/sum", "tests/warpsmith-suite"]);
        assert_eq!(options, "--example sum --test suite");
        Ok(())
    }

    #[test]
    fn tests_of_the_program_bring_it_along() -> Result<()> {
        let (places, options) = bundle(&only(&["tests/warpsmith-cli-suite"]))?;
        assert_eq!(places, ["warpsmith", "tests/warpsmith-cli-suite"]);
        assert_eq!(options, "--bin warpsmith --test suite");
        Ok(())
    }

    #[test]
    fn a_wrong_name_is_told_with_those_there_are() {
        let error = bundle(&only(&["warpsmith", "tests/suite", "tests/warpsmith-driver"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the bundle has no executable tests/suite, tests/warpsmith-driver; it has\n    benches/kernels\n    \
             examples/sum\n    tests/warpsmith-cli-suite\n    tests/warpsmith-suite\n    warpsmith"
        );
    }
}
