// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which of cargo's targets the bundle has, by what names, and how cargo is asked for some of them.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::workspace::package_name;

/// Packages whose tests run on the device that WARPSMITH_DEVICE names, or call the driver. Those of all others call cargo, or
/// are of the simulated GPU and what runs on no other, which a GPU machine does not change.
const DEVICE_PACKAGES: [&str; 6] = [
    "cuda_driver",
    "device-tests",
    "own-kernel",
    "warpsmith",
    "warpsmith-cli",
    "warpsmith-lab",
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
            ("bin", true) => format!("tests/{package}-unit-bin"),
            ("lib" | "rlib", true) => format!("tests/{package}-unit"),
            // Other programs, and procedural macros, whose tests are linked with the compiler.
            _ => return None,
        })
    }

    /// Whether these are tests within a library or a program, which `cargo test` alone can be asked for by name.
    fn is_unit(&self) -> bool {
        self.is_test && self.kind != "test"
    }

    /// The options that name it to cargo.
    fn options(&self) -> Vec<String> {
        match self.kind.as_str() {
            "lib" | "rlib" => vec!["--lib".into()],
            kind => vec![format!("--{kind}"), self.name.clone()],
        }
    }
}

/// The targets of `packages` that the bundle is to have: those in the places `only`, or all if there are none.
pub fn wanted(packages: &[Value], only: &[String]) -> Result<Vec<Target>> {
    let all: Vec<_> = packages.iter().flat_map(Target::of_package).collect();
    if only.is_empty() {
        return Ok(all);
    }
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

/// The arguments of cargo, call by call, that build `targets`, and those of other packages that have the same names. It is
/// always asked to do so for the whole workspace: by packages of their own some would lack features, and the tests of these.
pub fn cargo_calls(targets: &[Target]) -> Vec<Vec<String>> {
    let calls = [(false, vec!["build"]), (true, vec!["test", "--no-run"])];
    let calls = calls.map(|(is_unit, command)| {
        let options: BTreeSet<_> = targets
            .iter()
            .filter(|target| target.is_unit() == is_unit)
            .map(Target::options)
            .collect();
        let command = command.into_iter().map(str::to_string);
        (!options.is_empty()).then(|| command.chain(options.into_iter().flatten()).collect())
    });
    calls.into_iter().flatten().collect()
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
        let cases = [
            (root, "bin", "warpsmith", false, Some("warpsmith")),
            (root, "lib", "warpsmith", true, Some("tests/warpsmith-unit")),
            (root, "test", "reduce", true, Some("tests/warpsmith-reduce")),
            (root, "test", "compile_fail", true, None),
            (root, "bench", "copy", true, Some("benches/copy")),
            (root, "example", "sum", false, Some("examples/sum")),
            (lab, "example", "sum_steps", false, None),
            (driver, "bin", "other", false, None),
            (driver, "lib", "cuda_driver", true, Some("tests/cuda_driver-unit")),
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

    /// What `cargo metadata` says of the library and the program, shortened.
    fn packages() -> Vec<Value> {
        let target = |kind: &str, name: &str, test: bool| json!({"kind": [kind], "name": name, "test": test});
        vec![
            json!({"name": "warpsmith", "targets": [
                target("lib", "warpsmith", true),
                target("example", "sum", false),
                target("test", "suite", true),
                target("test", "driver", true),
                target("bench", "kernels", false),
                target("custom-build", "build-script-build", false),
            ]}),
            json!({"name": "warpsmith-cli", "targets": [
                target("bin", "warpsmith", true),
                target("test", "suite", true),
            ]}),
        ]
    }

    /// The places of those that are wanted where `only` is said, and how cargo is called for them.
    fn bundle(only: &[&str]) -> Result<(Vec<String>, Vec<String>)> {
        let only: Vec<_> = only.iter().map(|name| name.to_string()).collect();
        let targets = wanted(&packages(), &only)?;
        let calls = cargo_calls(&targets).into_iter().map(|call| call.join(" "));
        let places = targets.iter().filter_map(Target::place);
        Ok((places.collect(), calls.collect()))
    }

    #[test]
    fn without_names_it_is_everything() -> Result<()> {
        let (places, calls) = bundle(&[])?;
        assert_eq!(
            places,
            [
                "tests/warpsmith-unit",
                "examples/sum",
                "tests/warpsmith-suite",
                "benches/kernels",
                "warpsmith",
                "tests/warpsmith-cli-unit-bin",
                "tests/warpsmith-cli-suite",
            ]
        );
        assert_eq!(
            calls,
            [
                "build --bench kernels --bin warpsmith --example sum --test suite",
                "test --no-run --bin warpsmith --lib",
            ]
        );
        Ok(())
    }

    #[test]
    fn what_is_named_is_built_alone() -> Result<()> {
        let (places, calls) = bundle(&["warpsmith", "tests/warpsmith-suite"])?;
        assert_eq!(places, ["tests/warpsmith-suite", "warpsmith"]);
        assert_eq!(calls, ["build --bin warpsmith --test suite"]);
        let (places, calls) = bundle(&["tests/warpsmith-unit"])?;
        assert_eq!(places, ["tests/warpsmith-unit"]);
        assert_eq!(calls, ["test --no-run --lib"]);
        Ok(())
    }

    #[test]
    fn tests_of_the_program_bring_it_along() -> Result<()> {
        let (places, calls) = bundle(&["tests/warpsmith-cli-suite"])?;
        assert_eq!(places, ["warpsmith", "tests/warpsmith-cli-suite"]);
        assert_eq!(calls, ["build --bin warpsmith --test suite"]);
        Ok(())
    }

    #[test]
    fn a_wrong_name_is_told_with_those_there_are() {
        let error = bundle(&["warpsmith", "tests/suite", "tests/warpsmith-driver"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the bundle has no executable tests/suite, tests/warpsmith-driver; it has\n    benches/kernels\n    \
             examples/sum\n    tests/warpsmith-cli-suite\n    tests/warpsmith-cli-unit-bin\n    tests/warpsmith-suite\n    \
             tests/warpsmith-unit\n    warpsmith"
        );
    }
}
