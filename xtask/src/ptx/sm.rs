// SPDX-License-Identifier: MIT OR Apache-2.0

//! GPU architectures as ptxas names them.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result};

/// An architecture: `sm_80`, or `sm_90a` with the features that no other one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sm {
    number: u32,
    specific: bool,
}

impl Sm {
    /// An architecture whose PTX also runs on later ones.
    pub const fn new(number: u32) -> Self {
        Self {
            number,
            specific: false,
        }
    }

    /// An architecture with the features that it alone has (`a`).
    pub const fn specific(number: u32) -> Self {
        Self { number, specific: true }
    }

    /// Whether PTX for this architecture can be assembled for `device`.
    pub fn runs_on(self, device: Self) -> bool {
        if self.specific {
            self == device
        } else {
            self.number <= device.number
        }
    }
}

impl fmt::Display for Sm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.number, if self.specific { "a" } else { "" })
    }
}

impl FromStr for Sm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let given = || format!("`{text}` is not an architecture such as sm_80 or sm_90a");
        let number = text.strip_prefix("sm_").with_context(given)?;
        let plain = number.strip_suffix('a');
        Ok(Self {
            number: plain.unwrap_or(number).parse().with_context(given)?,
            specific: plain.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for text in ["sm_75", "sm_90a", "sm_100"] {
            assert_eq!(text.parse::<Sm>().unwrap().to_string(), text);
        }
        for text in ["", "90", "sm_", "sm_a", "compute_75"] {
            assert!(text.parse::<Sm>().is_err(), "{text}");
        }
    }

    #[test]
    fn plain_ptx_runs_on_later_devices_and_specific_ptx_on_its_own() {
        assert!(Sm::new(75).runs_on(Sm::new(100)));
        assert!(Sm::new(75).runs_on(Sm::specific(90)));
        assert!(!Sm::new(80).runs_on(Sm::new(75)));
        assert!(Sm::specific(90).runs_on(Sm::specific(90)));
        assert!(!Sm::specific(90).runs_on(Sm::new(100)));
    }
}
