// SPDX-License-Identifier: MIT OR Apache-2.0

//! The links of the book as it was built: to its own pages and headings, and to files of this repository.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{files, pages};

/// How links to files of this repository begin.
pub const REPOSITORY: &str = "https://github.com/warpsmith/warpsmith/";

/// The links that lead nowhere, of all pages in `book`. Addresses on other servers are not asked.
pub fn problems(repository: &Path, book: &Path) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    for path in files(book, "html")? {
        let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        let name = path.strip_prefix(book)?.to_string_lossy().into_owned();
        pages.insert(name, text);
    }
    let anchors: BTreeMap<_, _> = pages
        .iter()
        .map(|(name, text)| (name.as_str(), attributes(text, "id").collect::<BTreeSet<_>>()))
        .collect();
    let mut problems = Vec::new();
    for (name, text) in &pages {
        // That page is shown at any address, and its links begin at the server's root; the print is all pages in one, whose
        // links are those of the pages.
        if name == "404.html" || name == "print.html" {
            continue;
        }
        let links: BTreeSet<_> = ["href", "src"].iter().flat_map(|key| attributes(text, key)).collect();
        for link in links {
            let problem = match link.strip_prefix(REPOSITORY) {
                Some(place) => in_repository(repository, place),
                None => in_book(book, &anchors, name, link),
            };
            problems.extend(problem.map(|problem| format!("{name}: {link}: {problem}")));
        }
    }
    Ok(problems)
}

/// The values of the attributes `key="…"` in HTML.
fn attributes<'a>(html: &'a str, key: &str) -> impl Iterator<Item = &'a str> {
    let start = format!(" {key}=\"");
    let mut rest = html;
    std::iter::from_fn(move || {
        let (value, behind) = rest.split_once(&start)?.1.split_once('"')?;
        rest = behind;
        Some(value)
    })
}

/// What is wrong with a link from the page `page` to a page, a heading or a file of the book.
fn in_book(book: &Path, anchors: &BTreeMap<&str, BTreeSet<&str>>, page: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") || link.starts_with("data:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let file = if file.is_empty() {
        page.to_string()
    } else {
        joined(page, file)
    };
    if !book.join(&file).is_file() {
        return Some("there is no such page".into());
    }
    let has_anchor = anchor.is_empty() || anchors.get(file.as_str()).is_some_and(|there| there.contains(anchor));
    (!has_anchor).then(|| "the page has no such heading".into())
}

/// The path of `link`, which is relative to the folder of `page`.
pub fn joined(page: &str, link: &str) -> String {
    let mut parts: Vec<_> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// What is wrong with a link to `place`, such as `blob/main/README.md#limits`, in the repository.
pub fn in_repository(repository: &Path, place: &str) -> Option<String> {
    let (path, anchor) = place.split_once('#').unwrap_or((place, ""));
    let ways = ["blob/main/", "tree/main/", "edit/main/"];
    let Some(path) = ways.iter().find_map(|way| path.strip_prefix(way)) else {
        // The repository itself, its issues and so on.
        return None;
    };
    missing(&repository.join(path), anchor)
}

/// What is wrong with a link to the file or folder `path`, and in it to the heading `anchor`, unless that is empty.
pub fn missing(path: &Path, anchor: &str) -> Option<String> {
    if !path.exists() {
        return Some("there is no such file".into());
    }
    if anchor.is_empty() {
        return None;
    }
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut seen = BTreeMap::new();
    let mut anchors = pages::prose(&text).filter_map(heading).map(|heading| {
        let slug = slug(heading);
        let before = seen.entry(slug.clone()).or_insert(0);
        let anchor = numbered(slug, *before);
        *before += 1;
        anchor
    });
    (!anchors.any(|there| there == anchor)).then(|| "the file has no such heading".into())
}

/// The anchor of a heading, of which there were `before` on the page.
fn numbered(slug: String, before: usize) -> String {
    if before == 0 { slug } else { format!("{slug}-{before}") }
}

/// The text of a line of Markdown that is a heading.
fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    (text.len() < line.len()).then(|| text.strip_prefix(' ')).flatten()
}

/// A heading's anchor, as GitHub makes it.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_pages() -> Result<()> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("algorithms"))?;
        fs::write(
            folder.path().join("a.html"),
            "<h1 id=\"top\"><a href=\"algorithms/b.html#x\">",
        )?;
        let b = "<p id=\"x\"><a class=\"c\" href=\"../a.html#top\"><a href=\"../c.html\"><a href=\"#y\"><img src=\"d.svg\">";
        fs::write(folder.path().join("algorithms/b.html"), b)?;
        assert_eq!(
            problems(folder.path(), folder.path())?,
            [
                "algorithms/b.html: #y: the page has no such heading",
                "algorithms/b.html: ../c.html: there is no such page",
                "algorithms/b.html: d.svg: there is no such page",
            ]
        );
        Ok(())
    }

    #[test]
    fn links_to_the_repository() -> Result<()> {
        let folder = tempfile::tempdir()?;
        fs::write(
            folder.path().join("README.md"),
            "# It\n\n## Elements, `f32` and the like\n",
        )?;
        let problem = |place| in_repository(folder.path(), place);
        assert_eq!(problem("issues"), None);
        assert_eq!(problem("blob/main/README.md#elements-f32-and-the-like"), None);
        assert_eq!(
            problem("blob/main/README.md#limits").as_deref(),
            Some("the file has no such heading")
        );
        assert_eq!(problem("blob/main/docs.md").as_deref(), Some("there is no such file"));
        Ok(())
    }
}
