// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of a program, from texts that know nothing of one another, in one text.
//!
//! A text has what its function uses: tables, functions that rustc has not inlined, the machinery of panics. What several
//! texts have alike is there once; what is different under one name, in all but the first, under another name.

use std::collections::{HashMap, HashSet};

use super::addresses::addresses;
use super::body::Body;
use super::exponential::is_exponential;
use super::inline::{Callee, Inline, LABELS, meeting, rare};
use super::module::{Item, Kind, Module};
use super::writer::{REGISTERS, register_bits};
use super::{Malformed, NAME};
use crate::backend::DeviceFnInfo;

/// The most instructions of a function that is inlined. ptxas takes some 0.1 ms for each (13.5, of f64's `tanh`, `powf` and
/// `erfc`), and there are as many copies as a thread has elements, and one. Functions of f32 have up to 160, which is a
/// few hundredths of a second; those of f64 up to 700. On an H200 the sine of f64, with its reduction inlined too, took the
/// driver 475 ms, and 112 ms where it was called, which was slower by a tenth.
pub(super) const MOST_INLINED: usize = 200;

/// A compute capability, and a version of PTX.
pub(super) type Least = ((u32, u32), (u32, u32));

/// What comes ahead of the kernel.
#[derive(Debug)]
pub(super) struct Linked<'a> {
    /// Header, variables and functions.
    pub text: String,
    /// The program's functions.
    pub callees: Vec<Callee<'a>>,
}

/// Links `functions`, which have these texts, for GPUs from that compute capability on, if it is given, and in that version of
/// PTX.
pub(super) fn link<'a>(
    functions: &[&'static DeviceFnInfo],
    modules: &'a [Module<'a>],
    least: Option<Least>,
) -> Result<Linked<'a>, Malformed> {
    let mut linker = Linker {
        text: header(modules.iter(), least)?,
        ..Linker::default()
    };
    let mut callees = Vec::with_capacity(functions.len());
    for (number, (function, module)) in functions.iter().zip(modules).enumerate() {
        let callee = linker.add(number, function, module, MOST_INLINED);
        callees.push(callee.map_err(|error| error.of(function.name))?);
    }
    Ok(Linked {
        text: linker.text,
        callees,
    })
}

/// What comes ahead of a kernel that calls functions at some places and has copies of them at others.
pub(super) struct LinkedTwice<'a> {
    pub text: String,
    /// The functions, copied if they have up to so many instructions as was asked for.
    pub copied: Vec<Callee<'a>>,
    /// The functions, copied if they are [`TINY`].
    pub called: Vec<Callee<'a>>,
}

/// The most instructions of a function whose call takes as many.
const TINY: usize = 8;

/// Links `functions`, as [`link()`] does, behind all that `kernel` consists of but the kernel itself.
pub(super) fn link_twice<'a>(
    functions: &[&'static DeviceFnInfo],
    modules: &'a [Module<'a>],
    kernel: &'a Module<'a>,
    least: Option<Least>,
    most_copied: usize,
) -> Result<LinkedTwice<'a>, Malformed> {
    let mut linker = Linker {
        text: header(modules.iter().chain([kernel]), least)?,
        ..Linker::default()
    };
    for item in kernel.items.iter().filter(|item| item.kind != Kind::Kernel) {
        linker.write(item, false, kernel.text, &HashMap::new());
        linker.written.insert((item.name.to_owned(), item.kind));
        linker.items.insert(item.name.to_owned(), item);
    }
    let (mut copied, mut called) = (Vec::new(), Vec::new());
    for (number, (function, module)) in functions.iter().zip(modules).enumerate() {
        let named = |error: Malformed| error.of(function.name);
        called.push(linker.add(number, function, module, TINY).map_err(named)?);
        copied.push(linker.add(number, function, module, most_copied).map_err(named)?);
    }
    let text = linker.text;
    Ok(LinkedTwice { text, copied, called })
}

/// The instructions of the function `info` of that text.
pub(super) fn instructions(info: &DeviceFnInfo, module: &Module<'_>) -> Result<usize, Malformed> {
    let root = module.find(info.name).ok_or_else(missing)?;
    Ok(Body::parse(root, module)?.instructions())
}

fn missing() -> Malformed {
    Malformed("its text has no such function".to_owned())
}

/// The header that all texts can have.
fn header<'m, 'a: 'm>(
    modules: impl Iterator<Item = &'m Module<'a>> + Clone,
    least: Option<Least>,
) -> Result<String, Malformed> {
    let ((major, minor), version) = least.unwrap_or(((7, 5), (6, 3)));
    let (mut version, mut target) = (version, (10 * major + minor, ""));
    for module in modules.clone() {
        version = version.max(module.header.version);
        target = target.max(module.header.target);
    }
    let suffixed = modules.map(|module| module.header.target).find(|of| !of.1.is_empty());
    if let Some(only) = suffixed.filter(|only| *only != target) {
        let reason = format!(
            "device functions for sm_{}{} and for sm_{}{}",
            only.0, only.1, target.0, target.1
        );
        return Err(Malformed(reason));
    }
    let ((major, minor), (number, suffix)) = (version, target);
    Ok(format!(
        ".version {major}.{minor}\n.target sm_{number}{suffix}\n.address_size 64\n\n"
    ))
}

#[derive(Default)]
struct Linker<'a> {
    text: String,
    /// What the text has so far, by the names that it has there.
    items: HashMap<String, &'a Item<'a>>,
    written: HashSet<(String, Kind)>,
}

impl<'a> Linker<'a> {
    /// Adds what a function uses, and the function itself if it is not inlined, which has more than `most_inlined` instructions.
    fn add(
        &mut self,
        number: usize,
        info: &'static DeviceFnInfo,
        module: &'a Module<'a>,
        most_inlined: usize,
    ) -> Result<Callee<'a>, Malformed> {
        let root = module.find(info.name).ok_or_else(missing)?;
        let body = Body::parse(root, module)?;
        check_interface(&body, info)?;
        let used = reach(module, root);
        let is_inlined = body.instructions() <= most_inlined && !used.contains(root.name);
        let rare = if is_inlined { rare(&body.statements) } else { None };
        let mut kept = used;
        // What copies leave out is done by calls, as is what the kernel's own exponentials do.
        if !is_inlined || rare.is_some() || is_exponential(info) {
            kept.insert(root.name);
        }
        let renamed = self.rename(number, module, root, &kept)?;
        for item in module.items.iter().filter(|item| kept.contains(item.name)) {
            self.emit(item, root, module, &renamed)?;
        }
        let name = renamed.get(root.name).cloned().unwrap_or_else(|| root.name.to_owned());
        if is_inlined {
            let addresses = addresses(&body)?;
            return Ok(Callee::Inline(Box::new(Inline {
                meeting: meeting(&body.statements),
                rare,
                name,
                body,
                addresses,
                renamed,
                number,
            })));
        }
        Ok(Callee::Call {
            name,
            result: body.result.1,
        })
    }

    /// New names for those that stand for something else already.
    fn rename(
        &self,
        number: usize,
        module: &'a Module<'a>,
        root: &Item<'a>,
        kept: &HashSet<&'a str>,
    ) -> Result<HashMap<&'a str, String>, Malformed> {
        let mut different: HashSet<&str> = HashSet::new();
        loop {
            let before = different.len();
            for name in kept {
                let Some(item) = module.find(name) else { continue };
                let is_other = match self.items.get(*name) {
                    Some(there) => !there.words().eq(item.words()) || item.names().any(|used| different.contains(used)),
                    None => *name == NAME,
                };
                if is_other {
                    different.insert(name);
                }
            }
            if different.len() == before {
                break;
            }
        }
        let mut renamed = HashMap::new();
        for &name in &different {
            if name != root.name && module.find(name).is_some_and(|item| item.is_public) {
                return Err(Malformed(format!("another device function has another `{name}`")));
            }
            let mut new = format!("{name}_u{number}");
            while self.items.contains_key(&new) || kept.contains(new.as_str()) {
                new.push('_');
            }
            renamed.insert(name, new);
        }
        Ok(renamed)
    }

    /// Writes an item, unless it is there.
    fn emit(
        &mut self,
        item: &'a Item<'a>,
        root: &Item<'a>,
        module: &'a Module<'a>,
        renamed: &HashMap<&'a str, String>,
    ) -> Result<(), Malformed> {
        let name = renamed.get(item.name).map_or(item.name, String::as_str);
        let whole = module.find(item.name).unwrap_or(item);
        // What is defined needs no declaration any more.
        let is_there = [item.kind, whole.kind]
            .into_iter()
            .any(|kind| self.written.contains(&(name.to_owned(), kind)));
        if is_there {
            return Ok(());
        }
        self.written.insert((name.to_owned(), item.kind));
        if item.kind == Kind::Function {
            Body::check_called(item, module)?;
        }
        self.write(item, item.name == root.name, module.text, renamed);
        self.items.insert(name.to_owned(), whole);
        Ok(())
    }

    /// The item's text. Comments, and where in the source it comes from, are left out.
    fn write(&mut self, item: &Item<'_>, is_root: bool, text: &str, renamed: &HashMap<&str, String>) {
        let mut end = None;
        for (i, token) in item.tokens.iter().enumerate() {
            if is_root && i == 0 && token.text == ".visible" {
                continue;
            }
            let gap = end.map_or("", |end: usize| &text[end..token.start]);
            self.text += if gap.trim().is_empty() { gap } else { "\n\t" };
            self.text += renamed.get(token.text).map_or(token.text, String::as_str);
            end = Some(token.start + token.text.len());
        }
        self.text += "\n";
    }
}

/// The names of what `root` uses, and of what that uses.
fn reach<'a>(module: &'a Module<'a>, root: &Item<'a>) -> HashSet<&'a str> {
    let by_name = |name: &'a str| module.items.iter().filter(move |item| item.name == name);
    let body = root.tokens.iter().skip_while(|token| token.text != "{");
    let mut todo: Vec<&str> = body.filter(|token| token.is_name()).map(|token| token.text).collect();
    let mut reached = HashSet::new();
    while let Some(name) = todo.pop() {
        if by_name(name).next().is_some() && reached.insert(name) {
            todo.extend(by_name(name).flat_map(|item| item.names()).filter(|used| *used != name));
        }
    }
    reached
}

/// Whether the text takes and gives what the program thinks, and none of its names is one of the kernel's.
fn check_interface(body: &Body<'_>, info: &DeviceFnInfo) -> Result<(), Malformed> {
    let parameters = body.parameters.iter().map(|(_, bits)| *bits);
    let wanted = info.arguments.iter().map(|ty| register_bits(*ty));
    if !parameters.eq(wanted) || body.result.1 != register_bits(info.result) {
        let reason = "its text takes or gives other numbers than its declaration";
        return Err(Malformed(reason.to_owned()));
    }
    let register = body.register_names().find(|name| REGISTERS.contains(name));
    let label = LABELS.into_iter().find(|label| body.labels.contains(label));
    match register.or(label) {
        Some(name) => Err(Malformed(format!("`{name}` is a name of the kernel's"))),
        None => Ok(()),
    }
}
