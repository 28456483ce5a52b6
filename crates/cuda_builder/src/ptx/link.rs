// SPDX-License-Identifier: MIT OR Apache-2.0
//! Linking at the level of PTX: what a unit declares `.extern`, taken from the unit that defines it.
//!
//! A module's own unit is that of its first entry. What comes from another unit stands before the module's own items,
//! as PTX wants names declared before their use, and its names that are local to that unit get a suffix: two units may
//! use one name for different things. Source lines (`.loc`) are left out of it, as each unit numbers files by itself.
//! Names that no unit defines (`__assertfail`, `vprintf`) stay declared; the driver has them.

use super::item::{Item, ItemKind};
use super::lexer::{Lexer, TokenKind};
use super::note::Note;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An item: the number of its unit, and its own in that.
pub(super) type Place = (usize, usize);

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

    /// The text of the module with the entries at `roots`, of which there is at least one.
    pub(super) fn link(&self, roots: &[Place], entries: &BTreeMap<Place, &Note>) -> String {
        let own = roots[0].0;
        let (kept, order) = self.reach(roots);
        let kept_of = |unit: usize| kept.range((unit, 0)..(unit + 1, 0)).copied();
        let (header, items): (Vec<_>, Vec<_>) =
            kept_of(own).partition(|&place| self.item(place).kind == ItemKind::Global);
        let mut module = String::new();
        for place in header {
            module.extend([self.text(place).trim_end(), "\n"]);
        }
        // A unit uses units that were found after it.
        for (number, &unit) in order.iter().enumerate().skip(1).rev() {
            for place in kept_of(unit) {
                self.import(place, number, entries.get(&place).copied(), &mut module);
            }
        }
        for place in items {
            match entries.get(&place) {
                Some(note) => module += &self.entry(place, note),
                None => module.push_str(self.text(place).trim_end()),
            }
            module.push('\n');
        }
        module
    }

    /// What a module keeps: the global items of its own unit, its entries, and all that these use; and the units that
    /// these are in, in the order in which they are found.
    fn reach(&self, roots: &[Place]) -> (BTreeSet<Place>, Vec<usize>) {
        let own = roots[0].0;
        let is_global = |(_, item): &(usize, &Item)| item.kind == ItemKind::Global;
        let globals = self.units[own].items.iter().enumerate().filter(is_global);
        let mut kept: BTreeSet<Place> = globals.map(|(index, _)| (own, index)).collect();
        let mut order = vec![own];
        let mut pending = roots.to_vec();
        while let Some(place) = pending.pop() {
            if !kept.insert(place) {
                continue;
            }
            let unit = place.0;
            if !order.contains(&unit) {
                order.push(unit);
            }
            for &word in &self.item(place).words {
                let here = self.units[unit].by_name.get(word);
                match (self.exports.get(word), here) {
                    (Some(exported), None) => pending.extend(exported),
                    (exported, Some(here)) => pending.extend(here.iter().flat_map(|&index| match exported {
                        Some(exported) if is_extern(&self.units[unit].items[index]) => exported.clone(),
                        _ => vec![(unit, index)],
                    })),
                    (None, None) => {}
                }
            }
        }
        (kept, order)
    }

    fn text(&self, place: Place) -> &'a str {
        let item = self.item(place);
        &self.units[place.0].text[item.start..item.end]
    }

    /// An entry, launch bounds put before its body.
    fn entry(&self, place: Place, note: &Note) -> String {
        let (text, item) = (self.units[place.0].text, self.item(place));
        let ItemKind::Entry { body } = item.kind else {
            unreachable!("notes are matched with entries alone");
        };
        [
            text[item.start..body].trim_end(),
            "\n",
            &note.directives(),
            &text[body..item.end],
        ]
        .concat()
    }

    /// Writes an item of another unit than the module's own.
    fn import(&self, place: Place, number: usize, note: Option<&Note>, module: &mut String) {
        let unit = &self.units[place.0];
        let text = match note {
            Some(note) => self.entry(place, note),
            None => self.text(place).trim_end().to_owned(),
        };
        let is_local = |word: &str| {
            let defined = |&index: &usize| !is_extern(&unit.items[index]) && !is_export(&unit.items[index]);
            unit.by_name.get(word).is_some_and(|items| items.iter().all(defined))
        };
        let mut lexer = Lexer::new(&text);
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
        module.extend([&text[written..], "\n"]);
    }
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
            .visible .global .u32 table[2] = {1, 2};\n\
            .global .u32 x_u1 = 2;\n.func g_u1() {\n\nret; }\n\
            .visible .func f() { ld.u32 table; ld.u32 [x_u1+4]; call g_u1, (); }\n\
            .extern .func __assertfail();\n.global .u32 x = 1;\n\
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
    fn a_unit_defines_what_it_declares_first() {
        let text = module(&[
            "//cuda_builder entry=a module=m signature=1\n.extern .func f();\n.visible .entry a() { call f, (); }",
            ".visible .func f();\n.visible .func g() { call f, (); }\n.visible .func f() { call g, (); }",
            ".weak .func f() { trap; }",
        ]);
        let expected = "\
            .visible .func f();\n.visible .func g() { call f, (); }\n.visible .func f() { call g, (); }\n\
            .visible .entry a()\n{ call f, (); }\n";
        assert_eq!(text, expected);
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
