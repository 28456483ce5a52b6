// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a launch is checked for, and the environment variable that says it.

/// What sets the checks of launches that do not say theirs.
const VARIABLE: &str = "WARPSMITH_SIM_CHECKS";

/// What a launch is checked for beside what always is: the rules of barriers and warps, and bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Checks {
    /// Data races, in shared and in global memory.
    pub races: bool,
    /// Reads of shared memory that the block has not written, and of global memory that nobody has, where
    /// [`Options::written`](crate::Options::written) tells.
    pub uninitialised: bool,
}

impl Checks {
    /// None of them.
    pub const NONE: Checks = Checks {
        races: false,
        uninitialised: false,
    };

    /// All of them.
    pub const ALL: Checks = Checks {
        races: true,
        uninitialised: true,
    };

    /// Those that the environment variable `WARPSMITH_SIM_CHECKS` names: `all`, `none`, or a list of `races` and
    /// `uninitialised` with commas between them. Without it none. What else it says is an error on the standard error,
    /// and then all.
    pub fn from_env() -> Checks {
        let Some(value) = std::env::var_os(VARIABLE) else {
            return Checks::NONE;
        };
        value.to_str().and_then(Checks::parse).unwrap_or_else(|| {
            eprintln!(
                "{VARIABLE} is {value:?}: wanted `all`, `none`, or a list of `races` and `uninitialised`; it is taken for `all`"
            );
            Checks::ALL
        })
    }

    fn parse(text: &str) -> Option<Checks> {
        match text.trim() {
            "" | "none" => return Some(Checks::NONE),
            "all" => return Some(Checks::ALL),
            _ => {}
        }
        let mut checks = Checks::NONE;
        for name in text.split(',') {
            match name.trim() {
                "races" => checks.races = true,
                "uninitialised" => checks.uninitialised = true,
                _ => return None,
            }
        }
        Some(checks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_named() {
        let races = Checks {
            races: true,
            ..Checks::NONE
        };
        assert_eq!(Checks::parse("all"), Some(Checks::ALL));
        assert_eq!(Checks::parse(" none "), Some(Checks::NONE));
        assert_eq!(Checks::parse("races"), Some(races));
        assert_eq!(Checks::parse("uninitialised, races"), Some(Checks::ALL));
        assert_eq!(Checks::parse("race"), None);
    }
}
