//! `cargo xtask book`: the pages that docs/SUMMARY.md lists, as a book; and whether the links of all pages lead somewhere.

mod links;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{Done, cargo, root, run, say, target};
use links::{anchors, is_elsewhere, links, resolve};

/// The version of mdBook that renders it.
const MDBOOK: &str = "0.5.4";

/// Checks links, and renders the book in the target folder.
pub fn book() -> Done {
    let folder = checked()?;
    render(&mdbook()?, &folder)
}

/// Checks links and that all pages are there, and renders the book where mdBook is.
pub fn book_if_there() -> Done {
    let folder = checked()?;
    match installed()? {
        Some(program) => render(&program, &folder),
        None => {
            say(&format!(
                "the book is not rendered: mdBook {MDBOOK} is not there, `cargo xtask book` compiles it"
            ));
            Ok(())
        }
    }
}

/// The folder of the book's pages, whose links lead somewhere.
fn checked() -> Result<PathBuf, String> {
    check_links()?;
    let folder = target()?.join("book");
    assemble(&folder)?;
    Ok(folder)
}

fn render(program: &Path, folder: &Path) -> Done {
    run(Command::new(program).arg("build").arg(folder))?;
    say(&format!("the book is {}", folder.join("html/index.html").display()));
    Ok(())
}

/// mdBook of this version, in the target folder or the path.
fn installed() -> Result<Option<PathBuf>, String> {
    let program = program()?;
    let version =
        |program: &Path| Command::new(program).arg("--version").output().ok().map(|output| output.stdout);
    let right = |found: Vec<u8>| String::from_utf8_lossy(&found).trim() == format!("mdbook v{MDBOOK}");
    let mut there = [program, PathBuf::from("mdbook")].into_iter();
    Ok(there.find(|program| version(program).is_some_and(right)))
}

/// Where it is compiled into.
fn program() -> Result<PathBuf, String> {
    Ok(target()?.join("tools/bin").join(format!("mdbook{}", std::env::consts::EXE_SUFFIX)))
}

/// mdBook, compiled into the target folder if it is not there: without search and server.
fn mdbook() -> Result<PathBuf, String> {
    if let Some(there) = installed()? {
        return Ok(there);
    }
    let tools = target()?.join("tools");
    // A book is rendered in a second by unoptimised code, which compiles in a third of the time.
    let mut install =
        cargo(&["install", "mdbook", "--version", MDBOOK, "--locked", "--no-default-features", "--debug"]);
    run(install
        .args(["--quiet", "--force", "--root"])
        .arg(&tools)
        .arg("--target-dir")
        .arg(tools.join("build")))?;
    program()
}

/// Copies the pages of the book, and what else lies in docs/, to where mdBook reads them: each where it is in the project, so that links
/// between them stay. Those to anything else become the path's name.
fn assemble(folder: &Path) -> Done {
    let (root, source) = (root(), folder.join("src"));
    if source.exists() {
        fs::remove_dir_all(&source).map_err(|error| format!("{}: {error}", source.display()))?;
    }
    let summary = read(&root.join("docs/SUMMARY.md"))?;
    let pages = pages(&summary);
    for path in files(&root.join("docs"))? {
        let path = path.strip_prefix(&root).unwrap_or(&path).to_path_buf();
        if path.extension().is_some_and(|extension| extension == "md")
            && path != Path::new("docs/SUMMARY.md")
            && !pages.contains(&path)
        {
            return Err(format!("{} is not in docs/SUMMARY.md", path.display()));
        }
        if path.extension().is_some_and(|extension| extension == "svg") {
            write(&source.join(&path), &read(&root.join(&path))?)?;
        }
    }
    for page in &pages {
        let kept = rewritten(&read(&root.join(page))?, |target| change(page, target, &pages));
        write(&source.join(place(page)), &kept)?;
    }
    // mdBook reads the summary at the top of all pages.
    let path = Path::new("docs/SUMMARY.md");
    let listed = rewritten(&summary, |target| Change::Lead(slashed(&place(&resolve(path, target).0))));
    write(&source.join("SUMMARY.md"), &listed)?;
    write(&folder.join("book.toml"), &read(&root.join("docs/book.toml"))?)
}

/// The pages that a summary lists, from the project's folder.
fn pages(summary: &str) -> Vec<PathBuf> {
    let of = |link: links::Link| resolve(Path::new("docs/SUMMARY.md"), &summary[link.target]).0;
    links(summary).into_iter().map(of).collect()
}

/// Where a page is in the book: as the project's, but that mdBook wants another name for what sites show first.
fn place(page: &Path) -> PathBuf {
    if page.ends_with("README.md") { page.with_file_name("index.md") } else { page.to_path_buf() }
}

fn slashed(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// What becomes of a link.
#[derive(Debug, PartialEq)]
enum Change {
    Keep,
    /// It leads here.
    Lead(String),
    /// It is a path's name.
    Name(PathBuf),
}

/// What becomes of a page's link in the book of these pages.
fn change(page: &Path, target: &str, pages: &[PathBuf]) -> Change {
    let (path, anchor) = resolve(page, target);
    if is_elsewhere(target) || path == page || path.extension().is_some_and(|extension| extension == "svg") {
        return Change::Keep;
    }
    if !pages.contains(&path) {
        return Change::Name(path);
    }
    // From the page's folder up to the top of all pages, and down.
    let up = "../".repeat(page.components().count() - 1);
    let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
    Change::Lead(format!("{up}{}{anchor}", slashed(&place(&path))))
}

/// The page with its links changed.
fn rewritten(page: &str, change: impl Fn(&str) -> Change) -> String {
    let mut text = page.to_owned();
    for link in links(page).into_iter().rev() {
        match change(&page[link.target.clone()]) {
            Change::Keep => {}
            Change::Lead(target) => text.replace_range(link.target, &target),
            Change::Name(path) => {
                let (label, path) = (&page[link.label], slashed(&path));
                let named = label.trim_matches('`') == path;
                text.replace_range(
                    link.span,
                    &if named { format!("`{path}`") } else { format!("{label} (`{path}`)") },
                );
            }
        }
    }
    text
}

/// Checks that what the pages of the project lead to is there, headings too.
pub fn check_links() -> Done {
    let root = root();
    let mut wrong = Vec::new();
    for file in
        files(&root)?.into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "md"))
    {
        let page = file.strip_prefix(&root).unwrap_or(&file);
        let text = read(&file)?;
        for link in links(&text) {
            let target = &text[link.target];
            if is_elsewhere(target) {
                continue;
            }
            let (path, anchor) = resolve(page, target);
            let there = root.join(&path);
            let found = match anchor {
                Some(anchor) if there.is_file() => anchors(&read(&there)?).iter().any(|name| name == anchor),
                _ => there.exists(),
            };
            if !found {
                wrong.push(format!("{}: nothing is at {target}", page.display()));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The files of a folder and those in it, but what is built or hidden.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut all = Vec::new();
    for entry in folder.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || name == "target" || path.is_symlink() {
            continue;
        }
        if path.is_dir() { all.extend(files(&path)?) } else { all.push(path) }
    }
    all.sort();
    Ok(all)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Done {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    fs::write(path, text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_somewhere() {
        assert_eq!(check_links(), Ok(()));
    }

    #[test]
    fn links_lead_to_pages_of_the_book_or_are_names() {
        let pages = ["docs/a.md", "docs/b.md", "adapters/x/README.md"].map(PathBuf::from);
        let page = "[b](b.md#c), [x](../adapters/x/README.md), [`x/y.rs`](../x/y.rs), [the ladder](../ladder), [up](#up).";
        let kept = rewritten(page, |target| change(Path::new("docs/a.md"), target, &pages));
        let expected =
            "[b](../docs/b.md#c), [x](../adapters/x/index.md), `x/y.rs`, the ladder (`ladder`), [up](#up).";
        assert_eq!(kept, expected);
    }

    #[test]
    fn the_summary_lists_pages() {
        let listed = pages("# T\n\n- [a](a.md)\n  - [b](../B.md)\n");
        assert_eq!(listed, [PathBuf::from("docs/a.md"), PathBuf::from("B.md")]);
    }
}
