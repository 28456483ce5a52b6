// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device code in the user's cache folder, by the content of all that it was made from.
//!
//! What a build reads is known only when it is over. So the cache has, for each *request* (what is known before: the
//! kernels crate's name, the settings, the compiler, this crate's own source, cargo's configuration), the lists of files
//! and variables that its builds turned out to read; and for each list with the contents of those files and variables,
//! the modules. A request is looked up by hashing what its lists name, and of the workspace's files what is about the
//! packages that went in. As paths are relative to the kernels crate, a
//! clone elsewhere finds what the first one built.
//!
//! Every file is written beside its place and renamed. One that is broken counts as missing. A build during which one of
//! its files was written is not kept: nobody knows which text the compiler saw.

use crate::deps::files_at;
use crate::output::{Packed, replace};
use crate::{Dependencies, NvvmArch, workspace};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How many bytes the cache keeps; the oldest go first. The library's own kernels take some 4 MB.
const LIMIT: u64 = 256 << 20;

/// Coarser than the clock of any file system that tells fractions of seconds.
const CLOCK: Duration = Duration::from_millis(20);

/// This crate, which decides what is made of the sources.
const OWN_SOURCE: [&str; 22] = [
    include_str!("arch.rs"),
    include_str!("cache.rs"),
    include_str!("cargo.rs"),
    include_str!("deps.rs"),
    include_str!("error.rs"),
    include_str!("json.rs"),
    include_str!("lib.rs"),
    include_str!("lock.rs"),
    include_str!("manifest.rs"),
    include_str!("message.rs"),
    include_str!("output.rs"),
    include_str!("parallel.rs"),
    include_str!("ptx.rs"),
    include_str!("ptx/constants.rs"),
    include_str!("ptx/item.rs"),
    include_str!("ptx/lexer.rs"),
    include_str!("ptx/link.rs"),
    include_str!("ptx/note.rs"),
    include_str!("ptx/reduction.rs"),
    include_str!("script.rs"),
    include_str!("toolchain.rs"),
    include_str!("workspace.rs"),
];

/// The modules of one architecture, with what they were made from.
#[derive(Debug, PartialEq)]
pub(crate) struct Build {
    /// By name.
    pub(crate) modules: Vec<(String, Packed)>,
    /// rustc's warnings, rendered.
    pub(crate) warnings: Vec<String>,
    pub(crate) dependencies: Dependencies,
}

/// What is known of a build before it.
pub(crate) struct Request<'a> {
    /// The folder of the kernels crate.
    pub(crate) folder: &'a Path,
    /// All else that decides what comes out, but for what the lists name.
    pub(crate) settings: Vec<String>,
    pub(crate) arch: NvvmArch,
}

/// The cache, if there is a folder for it.
pub(crate) struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// `cuda_builder` in the folder that the system has for caches.
    pub(crate) fn of_the_user() -> Self {
        let variable = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let caches = match cfg!(windows) {
            true => variable("LOCALAPPDATA"),
            false => variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache"))),
        };
        Self {
            folder: caches.map(|folder| folder.join("cuda_builder")),
        }
    }

    /// What an earlier build of the same made.
    pub(crate) fn find(&self, request: &Request) -> Option<Build> {
        let folder = self.folder.as_deref()?;
        let prefix = format!("{:032x}.", request.key());
        let lists = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        let mut lists: Vec<PathBuf> = lists
            .filter(|path| {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                name.starts_with(&prefix) && name.ends_with(".inputs")
            })
            .collect();
        lists.sort();
        lists.iter().find_map(|list| {
            let inputs = Inputs::parse(&fs::read_to_string(list).ok()?)?;
            let place = folder.join(modules_name(inputs.digest(request)?));
            let build = unpack(&fs::read(&place).ok()?, inputs.dependencies(request.folder))?;
            // The oldest go first: these are young again. Nothing is lost where that fails.
            for path in [list, &place] {
                let _ = fs::File::options()
                    .append(true)
                    .open(path)
                    .and_then(|file| file.set_modified(SystemTime::now()));
            }
            Some(build)
        })
    }

    /// Keeps what a build has made that began at `started`. Where that is not possible, the next build compiles.
    pub(crate) fn store(&self, request: &Request, started: SystemTime, build: &Build) {
        let Some(folder) = self.folder.as_deref() else { return };
        let untouched = |path: PathBuf| {
            let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
            modified.is_ok_and(|modified| modified + CLOCK < started)
        };
        let mut files = build.dependencies.all_files();
        if !files.all(|path| files_at(path).is_ok_and(|files| files.into_iter().all(untouched))) {
            return;
        }
        let Some(inputs) = Inputs::of(&build.dependencies, request.folder) else {
            return;
        };
        let Some(digest) = inputs.digest(request) else { return };
        let list = inputs.to_text();
        let name = format!("{:032x}.{:032x}.inputs", request.key(), hash([list.as_bytes()]));
        // A folder that cannot be written, a full disk: reasons to compile again, not to fail.
        let _ = fs::create_dir_all(folder)
            .map_err(drop)
            .and_then(|()| replace(&folder.join(modules_name(digest)), &pack(build)).map_err(drop))
            .and_then(|()| replace(&folder.join(name), list.as_bytes()).map_err(drop));
        evict(folder, LIMIT);
    }
}

impl Request<'_> {
    fn key(&self) -> u128 {
        let own_source = own_source().to_le_bytes();
        let words = [self.arch.target_cpu()].into_iter();
        let words = words.chain(self.settings.iter().map(String::as_str)).map(str::as_bytes);
        hash(words.chain([&own_source[..]]))
    }
}

/// A hash of this crate.
pub(crate) fn own_source() -> u128 {
    let words = OWN_SOURCE.into_iter().chain(ptx_pack::SOURCE);
    hash(words.chain([env!("CARGO_PKG_VERSION")]).map(str::as_bytes))
}

/// What a build reads: as [`Dependencies`], but with paths relative to the kernels crate.
#[derive(Debug, Default, PartialEq)]
struct Inputs {
    files: BTreeSet<String>,
    workspace: BTreeSet<String>,
    packages: BTreeSet<String>,
    variables: BTreeSet<String>,
}

impl Inputs {
    /// `None` where a path cannot be written in a line of text.
    fn of(dependencies: &Dependencies, folder: &Path) -> Option<Self> {
        let line =
            |path: &PathBuf| Some(relative(path, folder)?.to_str()?.to_owned()).filter(|path| !path.contains('\n'));
        let lines = |paths: &BTreeSet<PathBuf>| paths.iter().map(line).collect::<Option<_>>();
        Some(Self {
            files: lines(&dependencies.files)?,
            workspace: lines(&dependencies.workspace)?,
            packages: dependencies.packages.clone(),
            variables: dependencies.variables.clone(),
        })
    }

    fn to_text(&self) -> String {
        let kinds = [
            ("file", &self.files),
            ("workspace", &self.workspace),
            ("package", &self.packages),
            ("variable", &self.variables),
        ];
        let lines = kinds
            .iter()
            .flat_map(|(kind, names)| names.iter().map(move |name| format!("{kind} {name}\n")));
        lines.chain(["end\n".to_owned()]).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let mut inputs = Self::default();
        for line in text.strip_suffix("end\n")?.lines() {
            let (kind, name) = line.split_once(' ')?;
            let names = match kind {
                "file" => &mut inputs.files,
                "workspace" => &mut inputs.workspace,
                "package" => &mut inputs.packages,
                "variable" => &mut inputs.variables,
                _ => return None,
            };
            names.insert(name.to_owned());
        }
        Some(inputs)
    }

    /// By what the modules are found: the request, and each input with what it contains now. `None` where a file cannot
    /// be read.
    fn digest(&self, request: &Request) -> Option<u128> {
        let mut words = vec![request.key().to_le_bytes().to_vec()];
        for file in &self.files {
            words.push(file.clone().into_bytes());
            let path = joined(request.folder, Path::new(file));
            for file in files_at(&path).ok()? {
                let beside = file.strip_prefix(&path).ok()?;
                words.extend([beside.as_os_str().as_encoded_bytes().to_owned(), fs::read(&file).ok()?]);
            }
        }
        for file in &self.workspace {
            let path = joined(request.folder, Path::new(file));
            let text = workspace::decisive(&path, &fs::read_to_string(&path).ok()?, &self.packages);
            words.extend([file.clone().into_bytes(), text.into_bytes()]);
        }
        for variable in &self.variables {
            let value = std::env::var_os(variable);
            let is_set = vec![u8::from(value.is_some())];
            let value = value.unwrap_or_default().into_encoded_bytes();
            words.extend([variable.clone().into_bytes(), is_set, value]);
        }
        Some(hash(words.iter().map(Vec::as_slice)))
    }

    fn dependencies(self, folder: &Path) -> Dependencies {
        let paths = |files: &BTreeSet<String>| files.iter().map(|file| joined(folder, Path::new(file))).collect();
        Dependencies {
            files: paths(&self.files),
            workspace: paths(&self.workspace),
            packages: self.packages,
            variables: self.variables,
        }
    }
}

fn modules_name(digest: u128) -> String {
    format!("{digest:032x}.modules")
}

/// 128 bits of each word and its length. It tells contents apart that differ by chance, and keeps nobody from making two
/// with one hash, who could as well write to the cache.
pub(crate) fn hash<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> u128 {
    let (mut low, mut high) = (DefaultHasher::new(), DefaultHasher::new());
    high.write_u8(1);
    for word in words {
        for hasher in [&mut low, &mut high] {
            hasher.write_usize(word.len());
            hasher.write(word);
        }
    }
    u128::from(high.finish()) << 64 | u128::from(low.finish())
}

/// `path` as seen from `folder`, both absolute.
fn relative(path: &Path, folder: &Path) -> Option<PathBuf> {
    let plain = |path: &Path| !path.components().any(|part| part == Component::ParentDir);
    if !plain(path) || !plain(folder) {
        return None;
    }
    let common = path
        .components()
        .zip(folder.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = folder.components().skip(common).map(|_| Component::ParentDir);
    Some(up.chain(path.components().skip(common)).collect())
}

/// The inverse of [`relative`]: as cargo does, and not as the system where a folder is a link.
pub(crate) fn joined(folder: &Path, path: &Path) -> PathBuf {
    let mut joined = folder.to_owned();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                joined.pop();
            }
            part => joined.push(part),
        }
    }
    joined
}

/// The modules and warnings as bytes, with a hash before them.
fn pack(build: &Build) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut field = |field: &[u8]| {
        bytes.extend((field.len() as u64).to_le_bytes());
        bytes.extend(field);
    };
    for warning in &build.warnings {
        field(b"warning");
        field(warning.as_bytes());
    }
    for (name, module) in &build.modules {
        field(b"module");
        field(name.as_bytes());
        field(module.packed());
        field(&(module.entries().len() as u64).to_le_bytes());
        for (entry, signature) in module.entries() {
            field(entry.as_bytes());
            field(&signature.to_le_bytes());
        }
    }
    [&hash([&bytes[..]]).to_le_bytes()[..], &bytes].concat()
}

/// The inverse of [`pack`], but for the dependencies; `None` where the bytes are not what that wrote.
fn unpack(bytes: &[u8], dependencies: Dependencies) -> Option<Build> {
    let (expected, bytes) = bytes.split_first_chunk()?;
    if hash([bytes]).to_le_bytes() != *expected {
        return None;
    }
    let mut rest = bytes;
    let mut field = || -> Option<&[u8]> {
        let (length, tail) = rest.split_first_chunk()?;
        let (field, tail) = tail.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        rest = tail;
        Some(field)
    };
    let text = |field: &[u8]| String::from_utf8(field.to_owned()).ok();
    let number = |field: &[u8]| Some(u64::from_le_bytes(field.try_into().ok()?));
    let (mut modules, mut warnings) = (Vec::new(), Vec::new());
    while let Some(kind) = field() {
        if kind == b"warning" {
            warnings.push(text(field()?)?);
            continue;
        }
        let (name, packed) = (text(field()?)?, field()?.to_owned());
        let mut entries = Vec::new();
        for _ in 0..number(field()?)? {
            entries.push((text(field()?)?, number(field()?)?));
        }
        modules.push((name, Packed::from_packed(entries, packed)?));
    }
    Some(Build {
        modules,
        warnings,
        dependencies,
    })
}

/// Removes the oldest files until those that remain have `limit` bytes at most. Other builds may do the same.
fn evict(folder: &Path, limit: u64) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut files: Vec<(SystemTime, u64, OsString)> = entries
        .flatten()
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            Some((metadata.modified().ok()?, metadata.len(), entry.file_name()))
        })
        .collect();
    files.sort();
    let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, bytes, name) in files {
        if total <= limit {
            break;
        }
        // One that another build has removed meanwhile is gone as well.
        let _ = fs::remove_file(folder.join(name));
        total -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::Module;

    /// A folder with a source of a kernels crate in `k`, and a cache.
    struct Fixture {
        root: PathBuf,
    }

    impl Fixture {
        fn new(test: &str) -> Self {
            let root = std::env::temp_dir().join(format!("cuda_builder-cache-{}-{test}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            fs::create_dir_all(root.join("k")).unwrap();
            fs::write(root.join("k/lib.rs"), "one").unwrap();
            fs::write(root.join("Cargo.lock"), "version = 4\n\n").unwrap();
            Self { root }
        }

        fn cache(&self) -> Cache {
            Cache {
                folder: Some(self.root.join("cache")),
            }
        }

        fn request(&self, setting: &str, arch: NvvmArch) -> (PathBuf, Vec<String>, NvvmArch) {
            (self.root.join("k"), vec![setting.to_owned()], arch)
        }

        fn build(&self) -> Build {
            let module = Module {
                entries: vec![("add".to_owned(), 7)],
                text: ".version 7.0\n".repeat(100),
            };
            Build {
                modules: vec![("add".to_owned(), Packed::new(module))],
                warnings: vec!["warning: unused".to_owned()],
                dependencies: Dependencies {
                    files: [self.root.join("k/lib.rs")].into(),
                    workspace: [self.root.join("Cargo.lock")].into(),
                    packages: ["k".to_owned()].into(),
                    variables: ["CUDA_BUILDER_NO_SUCH_VARIABLE".to_owned()].into(),
                },
            }
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.root);
        }
    }

    fn request((folder, settings, arch): &(PathBuf, Vec<String>, NvvmArch)) -> Request<'_> {
        Request {
            folder,
            settings: settings.clone(),
            arch: *arch,
        }
    }

    fn later() -> SystemTime {
        SystemTime::now() + Duration::from_secs(1)
    }

    #[test]
    fn what_was_stored_is_found_for_the_same_and_for_nothing_else() {
        let fixture = Fixture::new("same");
        let cache = fixture.cache();
        let this = fixture.request("release", NvvmArch::Compute75);
        assert_eq!(cache.find(&request(&this)), None);
        cache.store(&request(&this), later(), &fixture.build());
        assert_eq!(cache.find(&request(&this)), Some(fixture.build()));
        for other in [
            fixture.request("debug", NvvmArch::Compute75),
            fixture.request("release", NvvmArch::Compute80),
        ] {
            assert_eq!(cache.find(&request(&other)), None);
        }
        fs::write(fixture.root.join("k/lib.rs"), "two").unwrap();
        assert_eq!(cache.find(&request(&this)), None);
        fs::write(fixture.root.join("k/lib.rs"), "one").unwrap();
        assert_eq!(cache.find(&request(&this)), Some(fixture.build()));
        let lock = |package: &str| {
            let text = format!("version = 4\n\n[[package]]\nname = \"{package}\"\n");
            fs::write(fixture.root.join("Cargo.lock"), text).unwrap();
        };
        lock("k");
        assert_eq!(cache.find(&request(&this)), None);
        lock("other");
        assert_eq!(cache.find(&request(&this)), Some(fixture.build()));
        fs::remove_file(fixture.root.join("k/lib.rs")).unwrap();
        assert_eq!(cache.find(&request(&this)), None);
    }

    #[test]
    fn a_source_written_during_the_build_keeps_it_out() {
        let fixture = Fixture::new("meanwhile");
        let this = fixture.request("release", NvvmArch::Compute75);
        let before = SystemTime::now() - Duration::from_secs(1);
        fixture.cache().store(&request(&this), before, &fixture.build());
        assert_eq!(fixture.cache().find(&request(&this)), None);
    }

    #[test]
    fn what_is_broken_counts_as_missing() {
        let fixture = Fixture::new("broken");
        let (cache, this) = (fixture.cache(), fixture.request("release", NvvmArch::Compute75));
        let whole = {
            cache.store(&request(&this), later(), &fixture.build());
            let files = fs::read_dir(fixture.root.join("cache")).unwrap();
            let files = files.map(|entry| entry.unwrap().path());
            files.map(|path| (fs::read(&path).unwrap(), path)).collect::<Vec<_>>()
        };
        assert_eq!(whole.len(), 2);
        for (bytes, path) in &whole {
            for length in 0..bytes.len() {
                fs::write(path, &bytes[..length]).unwrap();
                assert_eq!(
                    cache.find(&request(&this)),
                    None,
                    "{length} bytes of {}",
                    path.display()
                );
            }
            if path.extension().is_some_and(|extension| extension == "modules") {
                for changed in 0..bytes.len() {
                    let mut bytes = bytes.clone();
                    bytes[changed] ^= 1;
                    fs::write(path, bytes).unwrap();
                    assert_eq!(cache.find(&request(&this)), None, "byte {changed} changed");
                }
            }
            fs::write(path, bytes).unwrap();
        }
        assert_eq!(cache.find(&request(&this)), Some(fixture.build()));
    }

    #[test]
    fn the_oldest_go_first() {
        let fixture = Fixture::new("old");
        let folder = fixture.root.join("k");
        for (age, name) in [(3, "a"), (1, "b"), (2, "c"), (0, "lib.rs")] {
            fs::write(folder.join(name), [0; 10]).unwrap();
            let file = fs::File::options().append(true).open(folder.join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        evict(&folder, 40);
        assert!(folder.join("a").exists());
        evict(&folder, 25);
        let exist = ["a", "b", "c", "lib.rs"].map(|name| folder.join(name).exists());
        assert_eq!(exist, [false, true, false, true]);
    }

    #[test]
    fn all_of_this_crate_counts() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let files = ["", "ptx"].map(|folder| fs::read_dir(source.join(folder)).unwrap());
        let files = files.into_iter().flatten().map(|entry| entry.unwrap().path());
        let files: BTreeSet<_> = files.filter(|path| path.is_file()).collect();
        let texts: BTreeSet<_> = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(texts, OWN_SOURCE.map(str::to_owned).into());
    }

    #[test]
    fn paths_are_as_seen_from_the_crate() {
        let folder = Path::new("/w/kernels");
        for (path, expected) in [
            ("/w/kernels/src/lib.rs", "src/lib.rs"),
            ("/w/std/lib.rs", "../std/lib.rs"),
            ("/else/lib.rs", "../../else/lib.rs"),
        ] {
            assert_eq!(relative(Path::new(path), folder).unwrap(), Path::new(expected));
            assert_eq!(joined(folder, Path::new(expected)), Path::new(path));
        }
        assert_eq!(relative(Path::new("/w/../x"), folder), None);
    }
}
