// SPDX-License-Identifier: MIT OR Apache-2.0
//! PTX texts with every entry of a crate, split into modules.
//!
//! rustc compiles all entries of a kernels crate at once, in several units; the driver should load no more than what
//! a program uses. Each entry carries a note, in whatever unit, that names its module. A module gets the header of its
//! first entry's unit, its entries with their launch bounds, and exactly those other items (functions,
//! variables, shared arrays, declarations, aliases) that its entries reach, all in their original
//! order. What its unit declares `.extern` and another unit defines comes from there ([`link`]). The text is read once;
//! a module costs a walk over what it reaches.
//!
//! A function with a note is a root as an entry is. Since the host wants the text of one function, and functions of a module
//! are alike, such a module is a list of texts, one for each function: below a line `//cuda_builder function=NAME` a PTX text
//! of its own, with header, function and what it reaches. They are packed together, in which what they share counts once.
//!
//! Atomics whose result nobody wants become reductions on the way ([`reduction`]), and the constants of f64 go to constant memory
//! ([`constants`]).
//!
//! Names match by spelling alone, whatever the scope: a local that is spelled like a global brings
//! that global along, which costs a few bytes and changes nothing.

mod constants;
mod item;
mod lexer;
mod link;
mod note;
mod reduction;

use crate::{NvvmArch, parallel};
use item::{ItemKind, Parsed};
use link::{Place, Units};
use note::Note;
use std::collections::{BTreeMap, HashMap};

/// The line above each unit of a text that has several.
const UNIT: &str = "//cuda_builder_unit\n";

/// How the line above each function's text begins, in a module of functions. The host finds functions by it.
const FUNCTION: &str = "//cuda_builder function=";

/// Why a text cannot be split.
#[derive(Debug, PartialEq)]
pub(crate) struct PtxError {
    /// Whether the notes are at fault, rather than the text.
    pub(crate) in_note: bool,
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// What is wrong there.
    pub(crate) reason: String,
}

impl PtxError {
    fn malformed(line: usize, reason: impl Into<String>) -> Self {
        Self {
            in_note: false,
            line,
            reason: reason.into(),
        }
    }

    fn note(line: usize, reason: impl Into<String>) -> Self {
        Self {
            in_note: true,
            ..Self::malformed(line, reason)
        }
    }
}

/// One module of a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Module {
    /// The names and signatures of its entries or functions, in the order of the text.
    pub(crate) entries: Vec<(String, u64)>,
    /// Its PTX text.
    pub(crate) text: String,
}

impl Module {
    /// The architecture that its text names.
    pub(crate) fn arch(&self) -> Option<NvvmArch> {
        let target = self.text.lines().find_map(|line| line.strip_prefix(".target"))?;
        NvvmArch::from_target_cpu(target.split(',').next()?.trim())
    }
}

/// One text of several units.
pub(crate) fn join(units: impl IntoIterator<Item = String>) -> String {
    let mut text = String::new();
    for unit in units {
        text.extend([UNIT, &unit]);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

/// Splits `text` into its modules, by their names. Empty where the text has no entries.
pub(crate) fn split(text: &str) -> Result<BTreeMap<&str, Module>, PtxError> {
    let parsed = parallel::map(text.split(UNIT).collect(), |unit| (unit, parse_unit(unit)));
    let mut notes = Vec::new();
    let mut units = Vec::new();
    let mut line = 0;
    for (unit, parsed) in parsed {
        let parsed = parsed.map_err(|error| PtxError {
            line: error.line + line,
            ..error
        })?;
        notes.extend(parsed.notes.into_iter().map(|note| note.below(line)));
        units.push((unit, parsed.items, line));
        line += unit.matches('\n').count() + 1;
    }
    let units = Units::new(units);
    let entries = match_notes(&units, &notes)?;

    let mut modules: BTreeMap<&str, Vec<(&str, Place)>> = BTreeMap::new();
    for (&place, note) in &entries {
        modules.entry(note.module).or_default().push((note.name, place));
    }
    for (module, roots) in &modules {
        check_module(module, roots.iter().map(|(_, place)| entries[place]))?;
    }
    let modules = parallel::map(modules.into_iter().collect(), |(module, mut roots)| {
        // In the order of the text within a unit; rustc's order of units says nothing.
        roots.sort_by_key(|&(name, (unit, index))| (units.first_entry(unit), index, name));
        let is_function = |&(_, place): &(_, Place)| entries[&place].is_function;
        let text = match roots.iter().any(is_function) {
            true => {
                // No entry's name tells apart units that have functions alone.
                roots.sort();
                let texts = roots.iter().map(|(name, place)| {
                    let text = units.link(&[*place], &entries);
                    format!("{FUNCTION}{name}\n{text}")
                });
                texts.collect()
            }
            false => {
                let places: Vec<Place> = roots.iter().map(|(_, place)| *place).collect();
                units.link(&places, &entries)
            }
        };
        let signed = |(name, place): &(&str, Place)| ((*name).to_owned(), entries[place].signature);
        let entries = roots.iter().map(signed).collect();
        (module, Module { entries, text })
    });
    Ok(modules.into_iter().collect())
}

/// The items and notes of a unit, whose text has a header if there are any.
fn parse_unit(text: &str) -> Result<Parsed<'_>, PtxError> {
    let parsed = item::parse(text)?;
    if !parsed.items.is_empty() || !parsed.notes.is_empty() {
        check_header(text, &parsed)?;
    }
    Ok(parsed)
}

/// What is in a module is for one architecture, and of one kind.
fn check_module<'a>(module: &str, notes: impl Iterator<Item = &'a Note<'a>> + Clone) -> Result<(), PtxError> {
    let Some(first) = notes.clone().next() else {
        return Ok(());
    };
    let error = |reason: String| Err(PtxError::note(first.line, reason));
    if notes.clone().any(|note| note.is_function != first.is_function) {
        return error(format!("module `{module}` has entries and functions"));
    }
    if notes.clone().any(|note| note.arch != first.arch) {
        return error(format!(
            "the entries of module `{module}` are for several architectures"
        ));
    }
    Ok(())
}

/// A unit has the directives that a module begins with.
fn check_header(text: &str, parsed: &Parsed) -> Result<(), PtxError> {
    for directive in [".version", ".target", ".address_size"] {
        if !parsed
            .items
            .iter()
            .any(|item| text[item.start..].starts_with(directive))
        {
            let reason = format!("there is no `{directive}` directive");
            return Err(PtxError::malformed(1, reason));
        }
    }
    Ok(())
}

/// The note of each entry, and of each function that has one, by its place. An entry without a note is an error, and so is a
/// note of what is not there.
fn match_notes<'n, 'a>(units: &Units<'a>, notes: &'n [Note<'a>]) -> Result<BTreeMap<Place, &'n Note<'a>>, PtxError> {
    let mut by_name = HashMap::new();
    for note in notes {
        if by_name.insert(note.name, note).is_some() {
            let reason = format!("{} `{}` has two notes", note.what(), note.name);
            return Err(PtxError::note(note.line, reason));
        }
    }
    let mut noted = BTreeMap::new();
    for (place, item) in units.items() {
        let is_function = match item.kind {
            ItemKind::Entry { .. } => false,
            ItemKind::Function => true,
            ItemKind::Global | ItemKind::Other => continue,
        };
        let name = item.names[0];
        let note = by_name.get(name).filter(|note| note.is_function == is_function);
        if let Some(note) = note {
            noted.insert(place, *note);
            by_name.remove(name);
        } else if !is_function {
            let reason = format!("entry `{name}` has no note: was it made by `#[kernel]`?");
            return Err(PtxError::note(units.line(place), reason));
        }
    }
    match notes.iter().find(|note| by_name.contains_key(note.name)) {
        None => Ok(noted),
        Some(note) => {
            let reason = format!("there is no {} `{}`", note.what(), note.name);
            Err(PtxError::note(note.line, reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = ".version 7.0\n.target sm_80\n.address_size 64\n";

    fn with_header(text: &str) -> String {
        format!("{HEADER}{text}")
    }

    #[test]
    fn a_module_has_what_its_entries_reach_and_nothing_else() {
        let text = with_header(
            "//cuda_builder entry=a module=m1 signature=1 max_threads=256 min_blocks=2\n\
             //cuda_builder entry=b module=m2 signature=2\n\
             .shared .align 16 .b8 sh_a[64];\n\
             .shared .align 16 .b8 sh_b[64];\n\
             // .globl a\n\
             .func deep();\n\
             .extern .func trap_report(.param .b64 p);\n\
             .global .align 8 .u64 table[2] = {generic(text), 0};\n\
             .global .align 1 .b8 text[3] = {65, 66, 0};\n\
             .visible .entry a(\n.param .u64 a_0\n)\n{\nmov.u32 %r1, sh_a;\n}\n\
             .visible .entry b()\n{\nld.global.u32 %r1, [sh_b+4];\ncall.uni deep, ();\n}\n\
             .func deep()\n{\nmov.u64 %rd1, table;\n}\n",
        );
        let modules = split(&text).unwrap();
        assert_eq!(modules.keys().copied().collect::<Vec<_>>(), ["m1", "m2"]);
        let expected = "\
            .shared .align 16 .b8 sh_a[64];\n\
            .visible .entry a(\n.param .u64 a_0\n)\n.maxntid 256, 1, 1\n.minnctapersm 2\n\
            {\nmov.u32 %r1, sh_a;\n}\n";
        assert_eq!(modules["m1"].text, with_header(expected));
        assert_eq!(modules["m1"].entries, [("a".to_owned(), 1)]);
        let expected = "\
            .shared .align 16 .b8 sh_b[64];\n\
            .func deep();\n\
            .global .align 8 .u64 table[2] = {generic(text), 0};\n\
            .global .align 1 .b8 text[3] = {65, 66, 0};\n\
            .visible .entry b()\n{\nld.global.u32 %r1, [sh_b+4];\ncall.uni deep, ();\n}\n\
            .func deep()\n{\nmov.u64 %rd1, table;\n}\n";
        assert_eq!(modules["m2"].text, with_header(expected));
    }

    #[test]
    fn recursion_and_aliases_end() {
        let text = with_header(
            "//cuda_builder entry=a module=m signature=3\n\
             .func even();\n.func odd() { call even, (); }\n.func even() { call odd, (); }\n\
             .func other();\n.alias other, odd;\n\
             .visible .entry a() { call other, (); }\n",
        );
        let module = &split(&text).unwrap()["m"].text;
        assert_eq!(module.matches(".func").count(), 4);
        assert!(module.contains(".alias other, odd;"));
    }

    #[test]
    fn of_the_debug_information_line_tables_stay() {
        let text = with_header(
            "//cuda_builder entry=a module=m signature=4\n\
             .visible .entry a() {\n$L__func_begin0:\n.loc 1 20 0\n\
             .loc 1 5 31, function_name $L__info_string0, inlined_at 1 20 0\nret;\n}\n\
             .section .debug_info { .b64 $L__func_begin0 }\n\
             .section .debug_str { $L__info_string0: .b8 97, 0 }\n\
             .section\t.debug_macinfo\t{\t}\n\
             .file\t1 \"./k/src/lib.rs\"\n",
        );
        let module = &split(&text).unwrap()["m"].text;
        assert!(module.contains(".file\t1 \"./k/src/lib.rs\"\n"));
        assert!(module.contains(".section .debug_str"));
        assert!(!module.contains(".debug_info") && !module.contains(".debug_macinfo"));
    }

    /// Of functions, each has a text of its own in its module, with what it reaches and nothing else.
    #[test]
    fn a_module_of_functions_is_a_text_for_each() {
        let units = [
            "//cuda_builder function=g_f64 module=g signature=2\n//cuda_builder function=g_f32 module=g signature=1\n\
             .global .u32 table[1] = {7};\n.extern .func deep();\n\
             .visible .func  (.param .b64 func_retval0) g_f64(\n.param .b64 g_f64_param_0\n)\n{\nld.u32 table;\n}\n\
             .visible .func  (.param .b32 func_retval0) g_f32()\n{\ncall deep, ();\n}\n",
            "//cuda_builder entry=a module=a signature=3\n.visible .entry a() { }\n.visible .func deep() { }\n",
        ];
        let text = join(units.map(with_header));
        let modules = split(&text).unwrap();
        assert_eq!(modules.keys().copied().collect::<Vec<_>>(), ["a", "g"]);
        let expected = format!(
            "//cuda_builder function=g_f32\n{HEADER}.visible .func deep();\n\
             .visible .func deep() {{ }}\n.visible .func  (.param .b32 func_retval0) g_f32()\n{{\ncall deep, ();\n}}\n\
             //cuda_builder function=g_f64\n{HEADER}.global .u32 table[1] = {{7}};\n\
             .visible .func  (.param .b64 func_retval0) g_f64(\n.param .b64 g_f64_param_0\n)\n{{\nld.u32 table;\n}}\n"
        );
        assert_eq!(modules["g"].text, expected);
        assert_eq!(modules["g"].entries, [("g_f32".to_owned(), 1), ("g_f64".to_owned(), 2)]);
        assert_eq!(modules["g"].arch(), Some(NvvmArch::Compute80));
        // rustc's order of units says nothing.
        let text = join([units[1], units[0]].map(with_header));
        assert_eq!(split(&text).unwrap(), modules);
    }

    #[test]
    fn a_text_without_entries_has_no_modules() {
        assert!(split(&with_header(".func f() { }")).unwrap().is_empty());
    }

    #[test]
    fn entries_and_notes_come_in_pairs() {
        for (text, line, reason) in [
            (".entry a() { }", 4, "entry `a` has no note"),
            ("\n//cuda_builder entry=a module=m signature=5", 5, "no entry `a`"),
            (
                "//cuda_builder entry=a module=m signature=6\n//cuda_builder entry=a module=n signature=7\n.entry a() { }",
                5,
                "entry `a` has two notes",
            ),
            ("//cuda_builder function=f module=m signature=1", 4, "no function `f`"),
            (
                "//cuda_builder function=f module=m signature=1\n.visible .func f();\n.func g() { }",
                4,
                "no function `f`",
            ),
            (
                "//cuda_builder function=a module=m signature=1\n.entry a() { }",
                5,
                "entry `a` has no note",
            ),
            (
                "//cuda_builder entry=f module=m signature=1\n.visible .func f() { }",
                4,
                "no entry `f`",
            ),
            (
                "//cuda_builder entry=a module=m signature=1\n//cuda_builder function=a module=n signature=1\n.entry a() { }",
                5,
                "function `a` has two notes",
            ),
            (
                "//cuda_builder entry=a module=m signature=1\n//cuda_builder function=f module=m signature=1\n\
                 .entry a() { }\n.visible .func f() { }",
                4,
                "module `m` has entries and functions",
            ),
        ] {
            let text = with_header(text);
            let error = split(&text).unwrap_err();
            assert!(error.in_note && error.line == line, "{error:?}");
            assert!(error.reason.contains(reason), "{error:?}");
        }
    }

    /// Pieces of PTX's grammar and of the notes', which get further than random characters.
    const PIECES: [&str; 33] = [
        "//cuda_builder ",
        "entry=",
        "function=",
        "module=",
        "max_threads=",
        "min_blocks=",
        "a",
        "b",
        "m-1",
        "64",
        "=",
        " ",
        "\n",
        "\t",
        ".visible ",
        ".entry ",
        ".func ",
        ".global ",
        ".shared ",
        ".file ",
        ".section ",
        ".loc ",
        ".alias ",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ";",
        "\"",
        "/* ",
        "é",
    ];

    proptest! {
        /// Any text is split or refused, at a line that it has; what comes out splits again, to itself.
        #[test]
        fn any_text_is_split_or_refused(
            head in prop::bool::ANY,
            pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..60),
        ) {
            let text = [if head { HEADER } else { "" }, &pieces.concat()].concat();
            match split(&text) {
                Ok(modules) => {
                    for module in modules.values() {
                        let functions = module.text.starts_with(FUNCTION);
                        prop_assert!(functions || module.text.starts_with(".version"));
                        let root = [".entry", ".func"][usize::from(functions)];
                        prop_assert!(module.text.contains(root));
                    }
                }
                Err(error) => prop_assert!((1..=text.lines().count() + 1).contains(&error.line), "{error:?}"),
            }
        }

        /// Entries that use what other items define: each module has exactly what its entry reaches.
        #[test]
        fn modules_are_closed_and_minimal(uses in prop::collection::vec(prop::collection::vec(0usize..8, 0..4), 8)) {
            let names: Vec<String> = (0..8).map(|i| format!("f{i}")).collect();
            let mut text = String::from(HEADER);
            for (name, used) in names.iter().zip(&uses) {
                let calls: String = used.iter().map(|&i| format!("call f{i}, ();\n")).collect();
                text += &format!(".func {name}()\n{{\n{calls}}}\n");
            }
            for i in 0..8 {
                text += &format!("//cuda_builder entry=e{i} module=m{i} signature={i}\n.entry e{i}() {{ call f{i}, (); }}\n");
            }
            let modules = split(&text).unwrap();
            for i in 0..8 {
                let mut reached = vec![i];
                let mut next = 0;
                while let Some(&at) = reached.get(next) {
                    reached.extend(uses[at].iter().filter(|used| !reached.contains(used)).collect::<BTreeSet<_>>());
                    next += 1;
                }
                for (j, name) in names.iter().enumerate() {
                    let defined = modules[&*format!("m{i}")].text.contains(&format!(".func {name}()"));
                    prop_assert_eq!(defined, reached.contains(&j), "m{} and {}", i, name);
                }
            }
        }
    }

    #[test]
    fn a_header_is_required() {
        let error = split(".version 7.0\n.address_size 64\n").unwrap_err();
        assert_eq!(error, PtxError::malformed(1, "there is no `.target` directive"));
        let text = join([with_header(".entry a() { }"), ".version 7.0\n.address_size 64\n".into()]);
        let error = split(&text).unwrap_err();
        assert_eq!(error, PtxError::malformed(7, "there is no `.target` directive"));
    }
}
