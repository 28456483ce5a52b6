// SPDX-License-Identifier: MIT OR Apache-2.0
//! The GPU architectures that PTX can be made for.
//!
//! The list is what LLVM 22, the code generator of Rust 1.95, knows from Turing on
//! (`rustc --print target-cpus --target nvptx64-nvidia-cuda`); older GPUs lack the independent
//! thread scheduling that the collectives of `cuda_std` rely on.

use std::fmt;

/// Declares [`NvvmArch`] from one table: variant, LLVM's name, the first version of PTX that has its instructions, what the
/// generation is sold as.
macro_rules! architectures {
    ($($variant:ident = $cpu:literal $ptx:literal, $doc:literal;)*) => {
        /// A GPU architecture, the target of one PTX module.
        ///
        /// A plain one (`Compute80`) runs on that and every later GPU, an `a` one (`Compute90a`)
        /// on exactly that GPU with its own instructions, an `f` one (`Compute100f`) on the GPUs
        /// of its family. The order is that of the variants.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum NvvmArch {
            $(#[doc = $doc] $variant,)*
        }

        impl NvvmArch {
            /// Every architecture, oldest first.
            pub const ALL: &[NvvmArch] = &[$(NvvmArch::$variant),*];

            /// The name that rustc, ptxas and the PTX text itself use, such as `sm_90a`.
            pub const fn target_cpu(self) -> &'static str {
                match self {
                    $(NvvmArch::$variant => $cpu,)*
                }
            }

            /// The first version of PTX that has the instructions which came with the architecture.
            pub(crate) const fn ptx_version(self) -> &'static str {
                match self {
                    $(NvvmArch::$variant => $ptx,)*
                }
            }

            /// The architecture of that name.
            pub(crate) fn from_target_cpu(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|arch| arch.target_cpu() == name)
            }
        }
    };
}

architectures! {
    Compute75 = "sm_75" "6.5", "Turing: runs on every GPU that Warpsmith supports.";
    Compute80 = "sm_80" "7.0", "Ampere data centre (A100): `cp.async`, bf16 and tf32 tensor cores.";
    Compute86 = "sm_86" "7.1", "Ampere consumer and workstation.";
    Compute87 = "sm_87" "7.4", "Ampere embedded (Orin).";
    Compute88 = "sm_88" "9.0", "Ampere embedded, later parts.";
    Compute89 = "sm_89" "8.4", "Ada: fp8 tensor cores.";
    Compute90 = "sm_90" "8.0", "Hopper (H100, H200): thread block clusters.";
    Compute90a = "sm_90a" "8.0", "Hopper alone: `wgmma` and TMA.";
    Compute100 = "sm_100" "8.6", "Blackwell data centre (B200).";
    Compute100a = "sm_100a" "8.6", "Blackwell data centre, exactly `sm_100`: `tcgen05`.";
    Compute100f = "sm_100f" "8.8", "Blackwell data centre, the family of `sm_100`.";
    Compute101 = "sm_101" "8.6", "Blackwell embedded under its first name, since CUDA 13 `sm_110`.";
    Compute101a = "sm_101a" "8.6", "Exactly `sm_101`.";
    Compute101f = "sm_101f" "8.8", "The family of `sm_101`.";
    Compute103 = "sm_103" "8.8", "Blackwell Ultra (B300).";
    Compute103a = "sm_103a" "8.8", "Exactly `sm_103`.";
    Compute103f = "sm_103f" "8.8", "The family of `sm_103`.";
    Compute110 = "sm_110" "9.0", "Blackwell embedded (Thor).";
    Compute110a = "sm_110a" "9.0", "Exactly `sm_110`.";
    Compute110f = "sm_110f" "9.0", "The family of `sm_110`.";
    Compute120 = "sm_120" "8.7", "Blackwell consumer and workstation.";
    Compute120a = "sm_120a" "8.7", "Exactly `sm_120`.";
    Compute120f = "sm_120f" "8.8", "The family of `sm_120`.";
    Compute121 = "sm_121" "8.8", "Blackwell desktop (GB10).";
    Compute121a = "sm_121a" "8.8", "Exactly `sm_121`.";
    Compute121f = "sm_121f" "8.8", "The family of `sm_121`.";
}

impl fmt::Display for NvvmArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.target_cpu())
    }
}

#[cfg(test)]
mod tests {
    use super::NvvmArch;
    use std::collections::BTreeSet;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn versions_of_ptx_are_those_that_rustc_writes_or_later() {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        for arch in NvvmArch::ALL {
            let mut child = Command::new(&rustc)
                .env("RUSTC_BOOTSTRAP", "1")
                .args(["--target", "nvptx64-nvidia-cuda", "--emit", "asm", "-o", "-", "-"])
                .arg(format!("-Ctarget-cpu={arch}"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let source = "#![feature(no_core)]\n#![no_core]\n#![crate_type = \"lib\"]\n";
            child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{arch}");
            let text = String::from_utf8(output.stdout).unwrap();
            let version = text.lines().find_map(|line| line.strip_prefix(".version ")).unwrap();
            let (wanted, given) = match *arch {
                // That lacks the tensor cores' instructions.
                NvvmArch::Compute75 => ("6.3", "6.5"),
                // That lacks the products of 8-bit floats.
                NvvmArch::Compute89 => ("7.8", "8.4"),
                // That lacks copies of tensors.
                NvvmArch::Compute90 => ("7.8", "8.0"),
                _ => (version, version),
            };
            assert_eq!((version, arch.ptx_version()), (wanted, given), "{arch}");
        }
    }

    #[test]
    fn the_list_is_what_rustc_knows_from_turing_on() {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(rustc)
            .args(["--print", "target-cpus", "--target", "nvptx64-nvidia-cuda"])
            .output()
            .unwrap();
        let known: BTreeSet<String> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .filter(|cpu| {
                cpu.strip_prefix("sm_").is_some_and(|number| {
                    let digits = number.trim_end_matches(['a', 'f']);
                    digits.parse::<u32>().is_ok_and(|number| number >= 75)
                })
            })
            .map(String::from)
            .collect();
        let ours: BTreeSet<String> = NvvmArch::ALL.iter().map(NvvmArch::to_string).collect();
        assert_eq!(ours, known);
    }
}
