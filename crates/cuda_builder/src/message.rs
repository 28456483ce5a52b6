// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the inner cargo reports, one JSON object a line (`--message-format=json`): what is used here of it.

use crate::json::{self, Value, elements, member, text};
use std::fs;
use std::path::{Path, PathBuf};

/// A message of cargo's.
pub(crate) enum Message {
    /// A crate is built.
    Artifact(Artifact),
    /// A build script has run.
    Script {
        /// The id of its package.
        package: String,
        /// Its `OUT_DIR`, absolute.
        out_dir: PathBuf,
    },
    /// rustc has said something.
    Diagnostic(Diagnostic),
}

/// A crate that is built.
pub(crate) struct Artifact {
    /// The id of its package.
    pub(crate) package: String,
    /// Its package's Cargo.toml.
    pub(crate) manifest: PathBuf,
    /// Its target's name.
    pub(crate) target: String,
    /// The first file that was made.
    pub(crate) file: Option<PathBuf>,
    /// Whether it is a build script.
    pub(crate) is_script: bool,
    /// Whether it was built before.
    pub(crate) fresh: bool,
}

/// What rustc says.
pub(crate) struct Diagnostic {
    /// `error`, `warning`, ….
    pub(crate) level: String,
    /// In one line.
    pub(crate) message: String,
    /// As the terminal shows it, else the message.
    pub(crate) rendered: String,
    /// Whether it is about no place in the source.
    pub(crate) is_placeless: bool,
}

impl Message {
    /// Reads what cargo printed; lines that are no messages, and messages of other kinds, are left out.
    pub(crate) fn parse_all(printed: &[u8]) -> Vec<Self> {
        let lines = printed.split(|&byte| byte == b'\n');
        let objects = lines.filter_map(|line| json::parse(line).ok());
        objects.filter_map(|object| Self::parse(&object)).collect()
    }

    /// The crate that is built, if the message is about one.
    pub(crate) fn artifact(&self) -> Option<&Artifact> {
        match self {
            Self::Artifact(artifact) => Some(artifact),
            _ => None,
        }
    }

    fn parse(object: &Value) -> Option<Self> {
        match text(object, "reason")? {
            "compiler-artifact" => Some(Self::Artifact(Artifact {
                package: text(object, "package_id")?.into(),
                manifest: text(object, "manifest_path")?.into(),
                target: text(member(object, "target")?, "name")?.into(),
                file: elements(object, "filenames")
                    .first()
                    .and_then(json::as_text)
                    .map(PathBuf::from),
                is_script: elements(member(object, "target")?, "kind")
                    .iter()
                    .filter_map(json::as_text)
                    .any(|kind| kind == "custom-build"),
                fresh: *member(object, "fresh")?.get()?,
            })),
            "build-script-executed" => Some(Self::Script {
                package: text(object, "package_id")?.into(),
                out_dir: text(object, "out_dir")?.into(),
            }),
            "compiler-message" => {
                let said = member(object, "message")?;
                let message = text(said, "message")?;
                Some(Self::Diagnostic(Diagnostic {
                    level: text(said, "level")?.into(),
                    message: message.into(),
                    rendered: text(said, "rendered").unwrap_or(message).into(),
                    is_placeless: elements(said, "spans").is_empty(),
                }))
            }
            _ => None,
        }
    }
}

impl Artifact {
    /// The package's name, by its id: behind the source and `#` comes `name@version`, or the version alone where the
    /// source's last folder has the name.
    pub(crate) fn package_name(&self) -> &str {
        let (source, tail) = self.package.rsplit_once('#').unwrap_or((&self.package, ""));
        match tail.split_once('@') {
            Some((name, _)) => name,
            None => {
                let path = source.split('?').next().unwrap_or(source);
                path.rsplit('/').next().unwrap_or(path)
            }
        }
    }

    /// The dep-info files of rustc: beside a library its own; a build script has its folder for itself.
    pub(crate) fn dep_info(&self) -> Vec<PathBuf> {
        let beside = self.beside("d").filter(|path| path.is_file());
        let folder = self.file.as_deref().and_then(Path::parent).filter(|_| self.is_script);
        let files = folder
            .and_then(|folder| fs::read_dir(folder).ok())
            .into_iter()
            .flatten();
        let files = files.flatten().map(|entry| entry.path());
        let of_script = files.filter(|path| path.extension().is_some_and(|extension| extension == "d"));
        beside.into_iter().chain(of_script).collect()
    }

    /// What rustc left beside the library: `deps/libNAME-HASH.rlib` has `deps/NAME-HASH.d`.
    pub(crate) fn beside(&self, extension: &str) -> Option<PathBuf> {
        let file: &Path = self.file.as_deref()?;
        let stem = file.file_stem()?.to_str()?;
        let name = stem.strip_prefix("lib").unwrap_or(stem);
        Some(file.with_file_name(format!("{name}.{extension}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_read_and_the_rest_left_out() {
        let printed = br#"{"reason":"build-finished","success":true}
   Compiling k v0.1.0
{"reason":"compiler-artifact","package_id":"path+file:///k#0.1.0","manifest_path":"/k/Cargo.toml","target":{"name":"k"},"filenames":["/t/deps/libk-1.rlib","/t/deps/libk-1.rmeta"],"fresh":true}
{"reason":"build-script-executed","package_id":"path+file:///k#0.1.0","out_dir":"/t/out"}
{"reason":"compiler-message","message":{"message":"no","level":"error","spans":[],"rendered":null}}
"#;
        let messages = Message::parse_all(printed);
        let [
            Message::Artifact(artifact),
            Message::Script { package, out_dir },
            Message::Diagnostic(said),
        ] = &messages[..]
        else {
            panic!("{} messages", messages.len());
        };
        assert_eq!((artifact.target.as_str(), artifact.fresh), ("k", true));
        assert_eq!(artifact.package_name(), "k");
        assert_eq!(artifact.beside("s").unwrap(), Path::new("/t/deps/k-1.s"));
        assert_eq!((package, out_dir.as_path()), (&artifact.package, Path::new("/t/out")));
        assert_eq!((said.level.as_str(), said.rendered.as_str()), ("error", "no"));
        assert!(said.is_placeless);
    }

    #[test]
    fn packages_are_named_by_their_ids() {
        for (id, name) in [
            (
                "registry+https://github.com/rust-lang/crates.io-index#half@2.7.1",
                "half",
            ),
            ("path+file:///w/kernels-gpu#0.1.0", "kernels-gpu"),
            ("path+file:///w/gpu#kernels-gpu@0.1.0", "kernels-gpu"),
            ("git+https://example.org/a/half?branch=a/b#2.7.1", "half"),
            ("git+https://example.org/a/halves#half@2.7.1", "half"),
        ] {
            let artifact = Artifact {
                package: id.into(),
                manifest: PathBuf::new(),
                target: String::new(),
                file: None,
                is_script: false,
                fresh: true,
            };
            assert_eq!(artifact.package_name(), name, "{id}");
        }
    }
}
