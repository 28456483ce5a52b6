// SPDX-License-Identifier: MIT OR Apache-2.0
//! Linking at the level of PTX: what a unit declares `.extern`, taken from the unit that defines it.
//!
//! A module's own unit is that of its first entry, or of its function. Of what comes from another unit, the names that are local to that unit
//! get a suffix: two units may use one name for different things. PTX wants names declared before their use, so a module
//! of several units has all declarations first, then all variables, then all functions. Source lines (`.loc`) are left out of it, as each unit numbers files by itself.
//! Names that no unit defines (`__assertfail`, `vprintf`) stay declared; the driver has them.

use super::constants::keep;
use super::item::{Item, ItemKind};
use super::lexer::{Lexer, TokenKind};
use super::note::Note;
use super::reduction::reduce;
use crate::NvvmArch;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An item: the number of its unit, and its own in that.
pub(super) type Place = (usize, usize);

/// The rank of functions and entries among what a module has.
const CODE: u8 = 2;

/// Several texts, taken apart.
pub(super) struct Units<'a> {
    units: Vec<Unit<'a>>,
    /// Where the names are defined that other units can use.
    exports: HashMap<&'a str, Vec<Place>>,
}

struct Unit<'a> {
    text: &'a str,
    items: Vec<Item<'a>>,
    by_name: HashMap<&'a str, Vec<usize>>,
    /// Lines of the whole text above this one.
    above: usize,
}

impl<'a> Units<'a> {
    /// Of the units' texts, their items and the number of lines above each.
    pub(super) fn new(units: Vec<(&'a str, Vec<Item<'a>>, usize)>) -> Self {
        let mut exports: HashMap<&str, Vec<Place>> = HashMap::new();
        let units = units.into_iter().enumerate().map(|(number, (text, items, above))| {
            let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
            for (index, item) in items.iter().enumerate() {
                for &name in &item.names {
                    by_name.entry(name).or_default().push(index);
                    let is_first = exports.get(name).is_none_or(|places| places[0].0 == number);
                    if is_export(item) && is_first {
                        exports.entry(name).or_default().push((number, index));
                    }
                }
            }
            Unit {
                text,
                items,
                by_name,
                above,
            }
        });
        let units = units.collect();
        Self { units, exports }
    }

    /// Every item with its place.
    pub(super) fn items(&self) -> impl Iterator<Item = (Place, &Item<'a>)> {
        let of = |(number, unit): (usize, &'_ Unit<'a>)| (number, unit.items.len());
        let places = self.units.iter().enumerate().map(of);
        let places = places.flat_map(|(number, count)| (0..count).map(move |index| (number, index)));
        places.map(|place| (place, self.item(place)))
    }

    fn item(&self, (unit, index): Place) -> &Item<'a> {
        &self.units[unit].items[index]
    }

    /// The line of an item in the whole text.
    pub(super) fn line(&self, place: Place) -> usize {
        self.units[place.0].above + self.item(place).line
    }

    /// The name of a unit's first entry, by which units have the same order whatever rustc calls them.
    pub(super) fn first_entry(&self, unit: usize) -> Option<&'a str> {
        let is_entry = |item: &&Item| matches!(item.kind, ItemKind::Entry { .. });
        self.units[unit].items.iter().find(is_entry).map(|item| item.names[0])
    }

    /// The text of the module with the entries, or the function, at `roots`, of which there is at least one.
    pub(super) fn link(&self, roots: &[Place], entries: &BTreeMap<Place, &Note>) -> String {
        let own = roots[0].0;
        let Reached {
            kept,
            units,
            prototypes,
        } = self.reach(roots);
        let of = |unit: usize| kept.range((unit, 0)..(unit + 1, 0)).copied();
        let (header, items): (Vec<_>, Vec<_>) = of(own).partition(|&place| self.item(place).kind == ItemKind::Global);
        let mut module = String::new();
        let arch = roots.iter().find_map(|place| entries[place].arch);
        for place in header {
            module.extend([&for_arch(self.text(place).trim_end(), arch), "\n"]);
        }
        module.extend(prototypes.into_values());
        let imported = units.iter().enumerate().skip(1).rev();
        let imported = imported.flat_map(|(number, &unit)| of(unit).map(move |place| (number, place)));
        let mut items: Vec<(usize, Place)> = imported.chain(items.into_iter().map(|place| (0, place))).collect();
        if units.len() > 1 {
            items.sort_by_key(|&(_, place)| self.rank(place));
        }
        for (number, place) in items {
            let text = match (self.item(place).kind, entries.get(&place)) {
                (ItemKind::Entry { body }, Some(note)) => self.entry(place, body, note),
                _ => self.text(place).trim_end().to_owned(),
            };
            let text = self.improved(place, reduce(&text), number);
            match number {
                0 => module.push_str(&text),
                number => self.import(place.0, &text, number, &mut module),
            }
            module.push('\n');
        }
        module
    }

    /// What a module keeps: the global items of its own unit, its entries, and all that these use.
    fn reach(&self, roots: &[Place]) -> Reached {
        let own = roots[0].0;
        let is_global = |(_, item): &(usize, &Item)| item.kind == ItemKind::Global;
        let globals = self.units[own].items.iter().enumerate().filter(is_global);
        let mut reached = Reached {
            kept: globals.map(|(index, _)| (own, index)).collect(),
            units: vec![own],
            prototypes: BTreeMap::new(),
        };
        let mut pending = roots.to_vec();
        while let Some(place) = pending.pop() {
            if !reached.kept.insert(place) {
                continue;
            }
            let unit = place.0;
            if !reached.units.contains(&unit) {
                reached.units.push(unit);
            }
            for &word in &self.item(place).words {
                let here = self.units[unit].by_name.get(word);
                let Some(exported) = self.exports.get(word) else {
                    pending.extend(here.into_iter().flatten().map(|&index| (unit, index)));
                    continue;
                };
                for declared in here.into_iter().flatten().map(|&index| (unit, index)) {
                    if !is_extern(self.item(declared)) {
                        pending.push(declared);
                    } else if self.item(declared).words.get(1) == Some(&".func") {
                        let linkage = self.item(exported[0]).words[0];
                        let prototype = self.text(declared).trim_end().replacen(".extern", linkage, 1);
                        reached.prototypes.entry(word.to_owned()).or_insert(prototype + "\n");
                    }
                }
                if here.is_none_or(|here| here.iter().all(|&index| is_extern(&self.units[unit].items[index]))) {
                    pending.extend(exported);
                }
            }
        }
        reached
    }

    /// What stands first in a module of several units: what functions are called like, then variables, then functions.
    fn rank(&self, place: Place) -> u8 {
        let words = &self.item(place).words;
        let is = |directive| words.iter().take(2).any(|word| *word == directive);
        match self.text(place).trim_end().ends_with(';') {
            true if is(".func") => 0,
            _ if is(".func") || is(".entry") || is(".alias") => CODE,
            _ => 1,
        }
    }

    fn text(&self, place: Place) -> &'a str {
        let item = self.item(place);
        &self.units[place.0].text[item.start..item.end]
    }

    /// An entry, launch bounds put before its body, which begins there.
    fn entry(&self, place: Place, body: usize, note: &Note) -> String {
        let (text, item) = (self.units[place.0].text, self.item(place));
        [
            &note.align_tensor_maps(text[item.start..body].trim_end()),
            "\n",
            &note.directives(),
            &text[body..item.end],
        ]
        .concat()
    }

    /// The text of a function or an entry with its constants where instructions take them from. Where units have functions of one
    /// name, their constants have the units' numbers.
    fn improved<'t>(&self, place: Place, text: Cow<'t, str>, number: usize) -> Cow<'t, str> {
        if self.rank(place) != CODE {
            return text;
        }
        let name = self.item(place).names[0];
        keep(&text, &format!("{name}_constants{number}")).into()
    }

    /// Writes an item of another unit than the module's own.
    fn import(&self, unit: usize, text: &str, number: usize, module: &mut String) {
        let unit = &self.units[unit];
        let is_local = |word: &str| {
            let defined = |&index: &usize| !is_extern(&unit.items[index]) && !is_export(&unit.items[index]);
            unit.by_name.get(word).is_some_and(|items| items.iter().all(defined))
        };
        let mut lexer = Lexer::new(text);
        let mut written = 0;
        // The item was read before, token for token.
        while let Ok(Some(token)) = lexer.next() {
            let word = &text[token.start..token.end];
            if token.kind != TokenKind::Word {
                continue;
            }
            if word == ".loc" {
                module.push_str(&text[written..token.start]);
                written = lexer.skip_line();
            } else if is_local(word) {
                module.push_str(&text[written..token.end]);
                module.push_str(&format!("_u{number}"));
                written = token.end;
            }
        }
        module.push_str(&text[written..]);
    }
}

/// A line of the header, of a module for that architecture. What the architecture alone has is assembly in Rust, which
/// passes through the compiler unread: so one run of it serves kernels of all architectures.
fn for_arch(line: &str, arch: Option<NvvmArch>) -> Cow<'_, str> {
    match arch {
        Some(arch) if line.starts_with(".target") => format!(".target {arch}").into(),
        Some(arch) if line.starts_with(".version") => format!(".version {}", arch.ptx_version()).into(),
        _ => line.into(),
    }
}

/// What a module keeps.
struct Reached {
    kept: BTreeSet<Place>,
    /// The units that it is from, in the order in which they were found, the module's own first.
    units: Vec<usize>,
    /// How functions are called that one unit has from another, by name.
    prototypes: BTreeMap<String, String>,
}

/// Whether other units can use the item. They can use shared memory without a declaration: it is declared by assembly
/// in Rust (`shared_array!`, the launch's dynamic shared memory), which is in one unit, and used by more of it, which
/// goes where it is inlined.
fn is_export(item: &Item) -> bool {
    matches!(
        item.words[..],
        [".visible" | ".weak" | ".common" | ".shared", ..] | [".extern", ".shared", ..]
    )
}

/// Whether the item only says that some other unit has it.
fn is_extern(item: &Item) -> bool {
    item.words[0] == ".extern" && !is_export(item)
}

#[cfg(test)]
mod tests {
    use super::super::{join, split};
    use crate::NvvmArch;

    const HEADER: &str = ".version 7.0\n.target sm_80\n.address_size 64\n";

    fn module(units: &[&str]) -> String {
        let text = join(units.iter().map(|unit| format!("{HEADER}{unit}")));
        let mut modules = split(&text).unwrap();
        let module = modules.remove("m").unwrap();
        module.text.strip_prefix(HEADER).unwrap().to_owned()
    }

    #[test]
    fn what_is_declared_comes_from_the_unit_that_defines_it() {
        let text = module(&[
            "//cuda_builder entry=a module=m signature=1\n",
            ".extern .func f();\n.extern .func __assertfail();\n.global .u32 x = 1;\n\
             .visible .entry a() { call f, (); ld.u32 x; call __assertfail, (); }",
            ".extern .global .u32 table[2];\n.global .u32 x = 2;\n.func g() {\n.loc 1 2 3\nret; }\n\
             .visible .func f() { ld.u32 table; ld.u32 [x+4]; call g, (); }\n.visible .func other() { }",
            ".visible .global .u32 table[2] = {1, 2};\n.visible .global .u32 unused;",
        ]);
        let expected = "\
            .visible .func f();\n.extern .func __assertfail();\n\
            .visible .global .u32 table[2] = {1, 2};\n.global .u32 x_u1 = 2;\n.global .u32 x = 1;\n\
            .func g_u1() {\n\nret; }\n\
            .visible .func f() { ld.u32 table; ld.u32 [x_u1+4]; call g_u1, (); }\n\
            .visible .entry a()\n{ call f, (); ld.u32 x; call __assertfail, (); }\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn shared_memory_is_of_every_unit() {
        let text = module(&[
            "//cuda_builder entry=a module=m signature=1\n.visible .entry a() { mov.u32 %r1, sh; mov.u32 %r2, dynamic; }",
            ".shared .align 16 .b8 sh[64];\n.shared .align 16 .b8 other[64];\n.extern .shared .b8 dynamic[];",
        ]);
        assert_eq!(
            text,
            ".shared .align 16 .b8 sh[64];\n.extern .shared .b8 dynamic[];\n.visible .entry a()\n{ mov.u32 %r1, sh; mov.u32 %r2, dynamic; }\n"
        );
    }

    #[test]
    fn an_entry_of_an_architecture_has_a_module_for_that() {
        let text = format!(
            "{HEADER}//cuda_builder entry=a module=m signature=1 arch=sm_90a\n\
             //cuda_builder entry=b module=n signature=2\n.visible .entry a() {{ }}\n.visible .entry b() {{ }}\n"
        );
        let modules = split(&text).unwrap();
        let header = ".version 8.0\n.target sm_90a\n.address_size 64\n";
        assert_eq!(modules["m"].text, format!("{header}.visible .entry a()\n{{ }}\n"));
        assert_eq!(modules["m"].arch(), Some(NvvmArch::Compute90a));
        assert!(modules["n"].text.starts_with(HEADER));
        assert_eq!(modules["n"].arch(), Some(NvvmArch::Compute80));
    }

    #[test]
    fn a_unit_defines_what_it_declares_first() {
        let text = module(&[
            "//cuda_builder entry=a module=m signature=1\n.extern .func f();\n.visible .entry a() { call f, (); }",
            ".visible .func f();\n.visible .func g() { call f, (); }\n.visible .func f() { call g, (); }",
            ".weak .func f() { trap; }",
        ]);
        let expected = "\
            .visible .func f();\n.visible .func f();\n.visible .func g() { call f, (); }\n.visible .func f() { call g, (); }\n\
            .visible .entry a()\n{ call f, (); }\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_two_units_share_is_declared_before_both() {
        let text = module(&[
            "//cuda_builder entry=a module=m signature=1\n.extern .func f();\n.extern .func g();\n\
             .visible .entry a() { call f, (); call g, (); }",
            ".extern .func g();\n.visible .func f() { call g, (); }",
            ".extern .func f();\n.weak .func g() { call f, (); }",
        ]);
        let (declarations, bodies) = text.split_at(text.find('{').unwrap());
        for declaration in [".visible .func f();\n", ".weak .func g();\n"] {
            assert!(declarations.contains(declaration), "{text}");
        }
        assert_eq!(
            (bodies.matches('{').count(), text.matches(".extern").count()),
            (3, 0),
            "{text}"
        );
    }

    #[test]
    fn entries_of_a_module_stand_in_one_order_whatever_the_order_of_their_units() {
        let units = [
            "//cuda_builder entry=a module=m signature=1\n.visible .entry a() { }",
            "//cuda_builder entry=b module=m signature=2\n.visible .entry b() { }",
        ];
        let text = module(&units);
        assert_eq!(text, ".visible .entry b()\n{ }\n.visible .entry a()\n{ }\n");
        assert_eq!(module(&[units[1], units[0]]), text);
    }
}
