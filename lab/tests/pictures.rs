// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guide's pictures are what the experiments draw of the numbers in its pages.

use std::fs;
use std::path::Path;

use warpsmith_lab::find;
use warpsmith_lab::report::Table;

/// `OVERWRITE=1` draws them anew.
#[test]
fn the_guide_has_what_is_drawn_of_its_numbers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/src/measured");
    let pages = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> = pages
        .filter(|path| path.extension().is_some_and(|it| it == "md"))
        .collect();
    pages.sort();
    assert!(!pages.is_empty());
    for page in pages {
        let name = page.file_stem().unwrap().to_str().unwrap();
        let experiment = find(name).unwrap_or_else(|| panic!("{name} is no experiment"));
        let text = fs::read_to_string(&page).unwrap();
        let first = text.lines().next().unwrap_or_default();
        let device = first.strip_prefix(&format!("Measured by `warpsmith lab {name}` on one "));
        let device = device.and_then(|rest| rest.strip_suffix(':'));
        let device = device.unwrap_or_else(|| panic!("{name}: {first:?} does not say by what it was measured"));
        let plot = experiment.plot(&Table::of_page(&text));
        let drawn = plot.svg(&format!("{name} on {device}")).unwrap();
        let picture = page.with_extension("svg");
        if std::env::var_os("OVERWRITE").is_some() {
            fs::write(&picture, &drawn).unwrap();
        }
        let found = fs::read_to_string(&picture).unwrap_or_default();
        assert!(
            found == drawn,
            "{name}.svg is not what is drawn of {name}.md: OVERWRITE=1 draws it anew"
        );
    }
}
