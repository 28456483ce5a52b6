// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PTX of a kernels crate, and what a device has been given of it.
//!
//! A launch hands untyped addresses to whatever entry has the kernel's name. So PTX comes from a build script and
//! nowhere else, it carries the package and the version that it belongs to and a signature for each entry, and nothing
//! that was registered is ever replaced.

use std::collections::HashSet;
use std::fmt;

use crate::backend::KernelInfo;
use crate::error::{Error, Result};

/// A module as a build script writes it: name, target (`sm_75`, `sm_90a`), entries with their signatures, packed PTX.
type Module = (
    &'static str,
    &'static str,
    &'static [(&'static str, u64)],
    &'static [u8],
);

/// What a build script writes for a kernels crate: its package, that package's version, its modules.
#[doc(hidden)]
pub type WrittenModules = (&'static str, &'static str, &'static [Module]);

/// The PTX modules of one kernels crate, as [`kernels!`](crate::kernels!) takes them from the build script's output.
///
/// Give them to a device with [`Device::register_kernels`](crate::Device::register_kernels).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PtxModules {
    package: &'static str,
    version: &'static str,
    modules: &'static [Module],
}

impl PtxModules {
    /// For [`kernels!`](crate::kernels!) alone.
    ///
    /// # Safety
    ///
    /// `written` is what `cuda_builder` wrote: each entry's signature is the one that `#[kernel]` gave it, and the
    /// packed text is the PTX that it was compiled to.
    #[doc(hidden)]
    pub const unsafe fn from_build(
        (package, version, modules): (&'static str, &'static str, &'static [Module]),
    ) -> Self {
        Self {
            package,
            version,
            modules,
        }
    }

    /// The package that the kernels are of.
    pub const fn package(&self) -> &'static str {
        self.package
    }

    /// That package's version.
    pub const fn version(&self) -> &'static str {
        self.version
    }

    /// The number of modules, counted once for each architecture.
    pub const fn len(&self) -> usize {
        self.modules.len()
    }

    /// Whether the crate was built without device code.
    pub const fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// The PTX of the module that has the kernel `entry`, for `target` (`sm_75`, `sm_90a`), packed by DEFLATE.
    pub fn packed(&self, entry: &str, target: &str) -> Option<&'static [u8]> {
        let (_, packed) = self.find(entry, target)?;
        Some(packed)
    }

    /// The signature that the kernel `entry` carries in its PTX for `target`.
    #[doc(hidden)]
    pub fn signature(&self, entry: &str, target: &str) -> Option<u64> {
        let (signature, _) = self.find(entry, target)?;
        Some(signature)
    }

    fn find(&self, entry: &str, target: &str) -> Option<(u64, &'static [u8])> {
        let for_target = self.modules.iter().filter(|(_, of, _, _)| *of == target);
        for_target.into_iter().find_map(|(_, _, entries, packed)| {
            let (_, signature) = entries.iter().find(|(name, _)| *name == entry)?;
            Some((*signature, *packed))
        })
    }

    fn is_of(&self, package: &str, version: &str) -> bool {
        self.package == package && self.version == version
    }

    fn entries(&self) -> impl Iterator<Item = &'static str> {
        let entries = self.modules.iter().flat_map(|(_, _, entries, _)| entries.iter());
        entries.map(|(name, _)| *name)
    }
}

impl fmt::Debug for PtxModules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { package, version, .. } = self;
        write!(f, "PtxModules({package} {version}, {} modules)", self.len())
    }
}

/// The [`PtxModules`] that this crate's build script made with `cuda_builder` of the kernels crate of that name, written
/// with underscores.
///
/// It is a constant expression, and can be used under `#![forbid(unsafe_code)]`. Where the build script has not built
/// that crate it does not compile, and says what to do.
///
/// ```ignore
/// let device = Device::auto()?;
/// device.register_kernels(warpsmith::kernels!(my_kernels))?;
/// ```
///
/// It includes the file that the build script names by the variable `CUDA_BUILDER_PTX_my_kernels`. That file is trusted
/// to be `cuda_builder`'s: a build script that writes it by hand can give a kernel the code of another.
#[macro_export]
macro_rules! kernels {
    ($library:ident) => {
        const {
            const WRITTEN: $crate::WrittenModules = include!(env!(
                concat!("CUDA_BUILDER_PTX_", stringify!($library)),
                concat!(
                    "no device code of `",
                    stringify!($library),
                    "`: this package's build.rs has to build it, by \
                     `cuda_builder::CudaBuilder::new(\"FOLDER\").build()?;` with the folder of that crate, \
                     and its Cargo.toml has to have `cuda_builder` in [build-dependencies]"
                )
            ));
            // SAFETY: the build script wrote the file with `cuda_builder`; see the macro's documentation.
            unsafe { $crate::PtxModules::from_build(WRITTEN) }
        }
    };
}

/// The modules that a device has been given. What is in it stays.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    registered: Vec<PtxModules>,
}

impl Registry {
    /// Adds modules, all or none. The same again are in it already; others that have one of the same kernels, of the
    /// same package and version, are refused.
    pub(crate) fn register(&mut self, modules: PtxModules) -> Result<()> {
        let PtxModules { package, version, .. } = modules;
        for known in self.registered.iter().filter(|known| known.is_of(package, version)) {
            if *known == modules {
                return Ok(());
            }
            let names: HashSet<_> = known.entries().collect();
            if let Some(kernel) = modules.entries().find(|name| names.contains(name)) {
                return Err(Error::DuplicateKernels {
                    package,
                    version,
                    kernel,
                });
            }
        }
        self.registered.push(modules);
        Ok(())
    }

    /// Refuses a kernel whose registered PTX is of other source. One without PTX is none of this function's business.
    pub(crate) fn check(&self, kernel: &KernelInfo) -> Result<()> {
        let KernelInfo {
            name, package, version, ..
        } = *kernel;
        let mut entries = self
            .registered
            .iter()
            .filter(|known| known.is_of(package, version))
            .flat_map(|known| known.modules.iter())
            .flat_map(|(_, _, entries, _)| entries.iter());
        match entries.any(|(entry, signature)| *entry == name && *signature != kernel.signature) {
            true => Err(Error::SignatureMismatch {
                kernel: name,
                package,
                version,
            }),
            false => Ok(()),
        }
    }

    /// The packed PTX for `kernel`: the best that a GPU of that compute capability can run.
    pub(crate) fn find(&self, kernel: &KernelInfo, capability: (u32, u32)) -> Result<&'static [u8]> {
        let KernelInfo {
            name, package, version, ..
        } = *kernel;
        let of_package = self.registered.iter().filter(|known| known.is_of(package, version));
        let modules = of_package.flat_map(|known| known.modules.iter());
        let with_entry = modules.filter_map(|(_, target, entries, packed)| {
            let (_, signature) = entries.iter().find(|(entry, _)| *entry == name)?;
            Some((target_rank(target, capability)?, *signature, *packed))
        });
        let best = with_entry.max_by_key(|(rank, _, _)| *rank);
        let (_, signature, packed) = best.ok_or(Error::NoModule {
            kernel: name,
            package,
            version,
        })?;
        if signature != kernel.signature {
            return Err(Error::SignatureMismatch {
                kernel: name,
                package,
                version,
            });
        }
        Ok(packed)
    }
}

/// How well PTX for `target` ("sm_75", "sm_90a", "sm_100f") suits a GPU; `None` where it cannot run. PTX for a plain
/// target runs on every later GPU, PTX for an architecture's own features (`a`) on that one alone, PTX for those of its
/// family (`f`) on later ones of the same major version.
fn target_rank(target: &str, (major, minor): (u32, u32)) -> Option<(u32, u32)> {
    let capability = major * 10 + minor;
    let name = target.strip_prefix("sm_")?;
    let number: u32 = name.trim_end_matches(['a', 'f']).parse().ok()?;
    let (runs, rank) = match name.as_bytes().last()? {
        b'a' => (number == capability, 2),
        b'f' => (number <= capability && number / 10 == major, 1),
        _ => (number <= capability, 0),
    };
    runs.then_some((number, rank))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A launch of a kernel of package `p` 1.0.0.
    fn kernel(name: &'static str, signature: u64) -> KernelInfo {
        struct Any;
        KernelInfo {
            id: std::any::TypeId::of::<Any>(),
            package: "p",
            version: "1.0.0",
            name,
            signature,
            sizes: &[],
            run: |_| unreachable!("nothing is launched here"),
        }
    }

    fn modules(version: &'static str, modules: &'static [Module]) -> PtxModules {
        // SAFETY: nothing of it is ever loaded.
        unsafe { PtxModules::from_build(("p", version, modules)) }
    }

    const SUM: &[Module] = &[
        ("sum", "sm_75", &[("sum", 7)], b"75"),
        ("sum", "sm_80", &[("sum", 7)], b"80"),
    ];

    #[test]
    fn what_is_registered_is_never_replaced() {
        let mut registry = Registry::default();
        registry.register(modules("1.0.0", SUM)).unwrap();
        // The same contents in another place: another macro call, another codegen unit.
        let again: &'static [Module] = Vec::leak(SUM.to_vec());
        registry.register(modules("1.0.0", again)).unwrap();
        registry.register(modules("1.0.0", again)).unwrap();
        assert_eq!(registry.registered.len(), 1);

        let other = modules(
            "1.0.0",
            &[
                ("new", "sm_75", &[("new", 1)], b"new"),
                ("sum", "sm_75", &[("sum", 7)], b"another"),
            ],
        );
        let error = registry.register(other).unwrap_err();
        assert!(
            matches!(
                error,
                Error::DuplicateKernels {
                    package: "p",
                    version: "1.0.0",
                    kernel: "sum"
                }
            ),
            "{error}"
        );
        let half = registry.find(&kernel("new", 1), (9, 0));
        assert!(
            matches!(half, Err(Error::NoModule { .. })),
            "nothing is half-registered"
        );
        assert_eq!(registry.find(&kernel("sum", 7), (7, 5)).unwrap(), b"75");
    }

    #[test]
    fn versions_and_other_kernels_of_a_package_stand_side_by_side() {
        let mut registry = Registry::default();
        registry.register(modules("1.0.0", SUM)).unwrap();
        registry
            .register(modules("2.0.0", &[("sum", "sm_75", &[("sum", 8)], b"two")]))
            .unwrap();
        registry
            .register(modules("1.0.0", &[("max", "sm_75", &[("max", 9)], b"max")]))
            .unwrap();
        assert_eq!(registry.find(&kernel("sum", 7), (9, 0)).unwrap(), b"80");
        assert_eq!(registry.find(&kernel("max", 9), (9, 0)).unwrap(), b"max");
        let of_two = KernelInfo {
            version: "2.0.0",
            ..kernel("sum", 8)
        };
        assert_eq!(registry.find(&of_two, (9, 0)).unwrap(), b"two");
    }

    #[test]
    fn an_entry_with_another_signature_is_an_error_that_says_what_to_do() {
        let mut registry = Registry::default();
        registry.register(modules("1.0.0", SUM)).unwrap();
        let error = registry.find(&kernel("sum", 8), (9, 0)).unwrap_err();
        assert!(matches!(error, Error::SignatureMismatch { kernel: "sum", .. }));
        assert!(error.to_string().contains("build the program again"), "{error}");
        let checked = registry.check(&kernel("sum", 8));
        assert!(matches!(checked, Err(Error::SignatureMismatch { .. })));
        assert!(registry.check(&kernel("sum", 7)).is_ok() && registry.check(&kernel("unknown", 7)).is_ok());
        let error = registry.find(&kernel("sum", 7), (7, 0)).unwrap_err();
        assert!(matches!(error, Error::NoModule { kernel: "sum", .. }), "{error}");
    }

    #[test]
    fn the_best_target_that_runs_is_taken() {
        assert_eq!(target_rank("sm_75", (9, 0)), Some((75, 0)));
        assert_eq!(target_rank("sm_80", (7, 5)), None);
        assert_eq!(target_rank("sm_90a", (9, 0)), Some((90, 2)));
        assert_eq!(target_rank("sm_90a", (10, 0)), None);
        assert_eq!(target_rank("sm_100f", (10, 3)), Some((100, 1)));
        assert_eq!(target_rank("sm_100f", (12, 0)), None);
        assert_eq!(target_rank("sm_103f", (10, 0)), None);
        assert!(target_rank("sm_90a", (9, 0)) > target_rank("sm_90", (9, 0)));
        assert!(target_rank("sm_90", (9, 0)) > target_rank("sm_80", (9, 0)));
        assert!(target_rank("sm_103", (10, 3)) > target_rank("sm_100f", (10, 3)));
        assert_eq!(target_rank("compute_75", (9, 0)), None);
        assert_eq!(target_rank("sm_", (9, 0)), None);
    }
}
