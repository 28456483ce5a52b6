// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PTX of a kernels crate, and what a device has been given of it.
//!
//! A launch hands untyped addresses to whatever entry has the kernel's name. So PTX comes from a build script and
//! nowhere else, it carries the package and the version that it belongs to and a signature for each entry, and nothing
//! that was registered is ever replaced.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;

use ptx_pack::unpack;

use crate::backend::{DeviceFnInfo, KernelInfo};
use crate::device::Properties;
use crate::error::{Error, Result};

/// A module as a build script writes it: name, target (`sm_75`, `sm_90a`), entries or device functions with their signatures,
/// packed PTX.
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

    /// The PTX of the module that has the kernel `entry`, for `target` (`sm_75`, `sm_90a`). `None` where there is none.
    ///
    /// Of a device function, which is found by its name too, the PTX is that function with what it uses.
    pub fn text(&self, entry: &str, target: &str) -> Option<String> {
        let (_, packed) = self.find(entry, target)?;
        let text = unpack(packed).ok()?;
        match text.starts_with(FUNCTION) {
            true => function_of(&text, entry).map(str::to_owned),
            false => Some(text),
        }
    }

    /// The signature that the kernel or device function `entry` carries in its PTX for `target`.
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

    /// The version of PTX of the modules that a GPU of that compute capability runs; none where it runs none of them.
    pub(crate) fn version_for(&self, capability: (u32, u32)) -> Option<PtxVersion> {
        let ranked = self.modules.iter().filter_map(|(_, target, _, packed)| {
            let rank = target_rank(target, capability)?;
            Some((rank, Reverse(packed.len()), *packed))
        });
        // All of one target have one version: the shortest says it soonest.
        let (_, _, packed) = ranked.max_by_key(|(rank, shortest, _)| (*rank, *shortest))?;
        PtxVersion::of(unpack(packed).ok()?.as_bytes())
    }

    fn is_of(&self, package: &str, version: &str) -> bool {
        self.package == package && self.version == version
    }

    fn entries(&self) -> impl Iterator<Item = &'static str> {
        let entries = self.modules.iter().flat_map(|(_, _, entries, _)| entries.iter());
        entries.map(|(name, _)| *name)
    }
}

/// How the line above each function's PTX begins, in a module of device functions as `cuda_builder` makes it.
const FUNCTION: &str = "//cuda_builder function=";

/// The PTX of one function of such a module.
pub(crate) fn function_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut functions = text.split(FUNCTION);
    functions.find_map(|function| function.strip_prefix(name)?.strip_prefix('\n'))
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

/// The version of PTX that a module is written in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PtxVersion(u32, u32);

impl PtxVersion {
    /// That which the module's text names first; none in what is not PTX.
    pub(crate) fn of(text: &[u8]) -> Option<Self> {
        let mark = b".version";
        let begin = text.windows(mark.len()).position(|bytes| bytes == mark)? + mark.len();
        let line = text[begin..].split(|&byte| byte == b'\n').next()?;
        let (major, minor) = std::str::from_utf8(line).ok()?.trim().split_once('.')?;
        Some(Self(major.parse().ok()?, minor.parse().ok()?))
    }

    /// The first CUDA version that has it, by the release history of the PTX ISA.
    fn driver(self) -> (u32, u32) {
        match self {
            Self(..6, _) => (8, 0),
            Self(6, minor @ ..3) => (9, minor),
            Self(6, minor) => (10, minor - 3),
            // CUDA 12.5 and 12.6 have one version.
            Self(8, minor @ 6..) => (12, minor + 1),
            Self(major, minor) => (major + 4, minor),
        }
    }

    /// An error if the device's driver is older than the version.
    pub(crate) fn check(self, device: &Properties) -> Result<()> {
        let wanted = self.driver();
        match device.driver_version {
            Some(given) if given < wanted => Err(Error::DriverTooOld {
                device: device.id.clone(),
                given,
                wanted,
            }),
            _ => Ok(()),
        }
    }
}

/// The modules that a device has been given. What is in it stays.
#[derive(Clone, Debug, Default)]
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

    /// Refuses a kernel or function whose registered PTX is of other source. One without PTX is none of this function's
    /// business.
    pub(crate) fn check(&self, wanted: impl Into<Wanted>) -> Result<()> {
        let wanted = wanted.into();
        let mut entries = self.modules_of(wanted).flat_map(|(_, _, entries, _)| entries.iter());
        let differs = |(entry, signature): &(&str, u64)| *entry == wanted.name && *signature != wanted.signature;
        match entries.any(differs) {
            true => Err(wanted.of_other_source()),
            false => Ok(()),
        }
    }

    /// The packed PTX for a kernel or a function: the best that a GPU of that compute capability can run.
    pub(crate) fn find(&self, wanted: impl Into<Wanted>, capability: (u32, u32)) -> Result<&'static [u8]> {
        let wanted = wanted.into();
        let with_entry = self.modules_of(wanted).filter_map(|(_, target, entries, packed)| {
            let (_, signature) = entries.iter().find(|(entry, _)| *entry == wanted.name)?;
            Some((target_rank(target, capability)?, *signature, *packed))
        });
        let best = with_entry.max_by_key(|(rank, _, _)| *rank);
        let (_, signature, packed) = best.ok_or(wanted.missing())?;
        match signature == wanted.signature {
            true => Ok(packed),
            false => Err(wanted.of_other_source()),
        }
    }

    /// The modules of the package that has it.
    fn modules_of(&self, wanted: Wanted) -> impl Iterator<Item = &'static Module> {
        let Wanted { package, version, .. } = wanted;
        let of_package = self
            .registered
            .iter()
            .filter(move |known| known.is_of(package, version));
        of_package.flat_map(|known| known.modules.iter())
    }
}

/// A kernel or a device function that is looked for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    package: &'static str,
    version: &'static str,
    name: &'static str,
    signature: u64,
}

impl Wanted {
    /// The error for one whose PTX the device was not given.
    pub(crate) fn missing(self) -> Error {
        let Self {
            package, version, name, ..
        } = self;
        Error::NoModule {
            kernel: name,
            package,
            version,
        }
    }

    fn of_other_source(self) -> Error {
        let Self {
            package, version, name, ..
        } = self;
        Error::SignatureMismatch {
            kernel: name,
            package,
            version,
        }
    }
}

impl From<&KernelInfo> for Wanted {
    fn from(kernel: &KernelInfo) -> Self {
        Self {
            package: kernel.package,
            version: kernel.version,
            name: kernel.name,
            signature: kernel.signature,
        }
    }
}

impl From<&DeviceFnInfo> for Wanted {
    fn from(function: &DeviceFnInfo) -> Self {
        Self {
            package: function.package,
            version: function.version,
            name: function.name,
            signature: function.signature,
        }
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
    use ptx_pack::pack;

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
            cooperative: false,
            cluster: 1.into(),
            sets_cluster: false,
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
    fn functions_are_found_with_a_text_of_their_own() {
        const TEXT: &str = "//cuda_builder function=f_f32\n.version 7.0\n.visible .func f_f32() { }\n\
                            //cuda_builder function=f_f3\n.version 7.0\n.visible .func f_f3() { }\n";
        let packed = pack(TEXT);
        let entries: &'static [(&str, u64)] = &[("f_f32", 3), ("f_f3", 4), ("absent", 5)];
        let modules = modules("1.0.0", Vec::leak(vec![("f", "sm_75", entries, &*packed.leak())]));
        let first = ".version 7.0\n.visible .func f_f32() { }\n";
        let second = ".version 7.0\n.visible .func f_f3() { }\n";
        assert_eq!(modules.text("f_f32", "sm_75").as_deref(), Some(first));
        assert_eq!(modules.text("f_f3", "sm_75").as_deref(), Some(second));
        assert_eq!(modules.text("absent", "sm_75"), None);
        assert_eq!(modules.text("f_f3", "sm_80"), None);
        assert_eq!(function_of(TEXT, "f"), None);

        let mut registry = Registry::default();
        registry.register(modules).unwrap();
        let function = |name, signature| DeviceFnInfo {
            package: "p",
            version: "1.0.0",
            name,
            signature,
            arguments: &[],
            result: cuda_std::scalar::ScalarType::F32,
            run: |_, _, _| unreachable!("nothing is called here"),
        };
        assert!(registry.find(&function("f_f3", 4), (9, 0)).is_ok());
        let error = registry.find(&function("f_f3", 3), (9, 0)).unwrap_err();
        assert!(
            matches!(error, Error::SignatureMismatch { kernel: "f_f3", .. }),
            "{error}"
        );
        assert!(registry.check(&function("f_f3", 3)).is_err());
        let error = registry.find(&function("g", 3), (9, 0)).unwrap_err();
        assert!(matches!(error, Error::NoModule { kernel: "g", .. }), "{error}");
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
    fn a_driver_older_than_the_ptx_is_refused() {
        let device = |driver_version| Properties {
            driver_version: Some(driver_version),
            ..Properties::default()
        };
        let version = |text: &str| PtxVersion::of(text.as_bytes());
        assert_eq!(version("//\n.version 7.8\n.target sm_90"), Some(PtxVersion(7, 8)));
        assert_eq!(
            (version("\x7fELF"), version(".version"), version(".version 7\n")),
            (None, None, None)
        );
        for ((major, minor), first) in [
            ((3, 2), (8, 0)),
            ((6, 0), (9, 0)),
            ((6, 3), (10, 0)),
            ((6, 5), (10, 2)),
            ((7, 0), (11, 0)),
            ((7, 8), (11, 8)),
            ((8, 5), (12, 5)),
            ((8, 6), (12, 7)),
            ((8, 8), (12, 9)),
            ((9, 0), (13, 0)),
        ] {
            assert_eq!(PtxVersion(major, minor).driver(), first);
        }
        assert!(PtxVersion(7, 8).check(&device((11, 8))).is_ok() && PtxVersion(7, 8).check(&device((12, 0))).is_ok());
        let error = PtxVersion(8, 6).check(&device((12, 6))).unwrap_err();
        assert!(
            matches!(
                error,
                Error::DriverTooOld {
                    given: (12, 6),
                    wanted: (12, 7),
                    ..
                }
            ),
            "{error}"
        );
        assert!(
            PtxVersion(9, 0).check(&Properties::default()).is_ok(),
            "the simulated GPU has no driver"
        );
    }

    #[test]
    fn the_version_is_that_of_the_modules_for_the_gpu() {
        let pack = |text: &str| &*Vec::leak(pack(text));
        let rest = "// more\n".repeat(1000);
        let all: Vec<Module> = vec![
            (
                "sum",
                "sm_75",
                &[],
                pack(&format!(".version 6.3\n.target sm_75\n{rest}")),
            ),
            ("sum", "sm_90", &[], pack(".version 7.8\n.target sm_90\n")),
        ];
        let modules = modules("1.0.0", Vec::leak(all));
        assert_eq!(modules.version_for((8, 6)), Some(PtxVersion(6, 3)));
        assert_eq!(modules.version_for((9, 0)), Some(PtxVersion(7, 8)));
        assert_eq!(modules.version_for((7, 0)), None);
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
