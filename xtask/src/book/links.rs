//! The links of a page of Markdown, and where they lead.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// A link or a picture.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    /// The whole of it in the text, a picture's mark of exclamation too.
    pub span: Range<usize>,
    /// What is shown.
    pub label: Range<usize>,
    /// Where it leads.
    pub target: Range<usize>,
}

/// The links of a page, outside of its code.
pub fn links(page: &str) -> Vec<Link> {
    let text = without_code(page);
    let bytes = text.as_bytes();
    let (mut open, mut links) = (Vec::new(), Vec::new());
    for at in 0..bytes.len() {
        match bytes[at] {
            b'[' => open.push(at),
            b']' => {
                let Some(label) = open.pop() else { continue };
                if bytes.get(at + 1) != Some(&b'(') {
                    continue;
                }
                let Some(len) = text[at + 2..].find(')') else { continue };
                let picture = label > 0 && bytes[label - 1] == b'!';
                links.push(Link {
                    span: label - usize::from(picture)..at + 3 + len,
                    label: label + 1..at,
                    target: at + 2..at + 2 + len,
                });
            }
            _ => {}
        }
    }
    links
}

/// The page with spaces for blocks and spans of code: everything else stays where it is.
fn without_code(page: &str) -> String {
    let mut text: Vec<u8> = page.bytes().collect();
    let (mut at, mut fenced, mut blocks) = (0, false, Vec::new());
    for line in page.split_inclusive('\n') {
        let fence = line.trim_start().starts_with("```");
        if fence || fenced || line.starts_with("    ") {
            blocks.push(at..at + line.len());
        }
        fenced ^= fence;
        at += line.len();
    }
    let blank = |text: &mut Vec<u8>, range: Range<usize>| {
        text[range].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    };
    for block in blocks {
        blank(&mut text, block);
    }
    // Spans of code do not nest, and end by the paragraph's end at the latest.
    let mut at = 0;
    while let Some(start) = text[at..].iter().position(|byte| *byte == b'`').map(|start| at + start) {
        let ticks = text[start..].iter().take_while(|byte| **byte == b'`').count();
        let rest = &text[start + ticks..];
        let paragraph = rest.windows(2).position(|pair| pair == b"\n\n").unwrap_or(rest.len());
        let end = rest[..paragraph].windows(ticks).position(|run| run.iter().all(|byte| *byte == b'`'));
        at = end.map_or(start + ticks, |end| start + 2 * ticks + end);
        if end.is_some() {
            blank(&mut text, start..at);
        }
    }
    // Whole characters were replaced: what is left is UTF-8.
    String::from_utf8(text).unwrap_or_default()
}

/// The names of a page's headings, as sites make anchors of them: in small letters, without punctuation, a hyphen for each space.
pub fn anchors(page: &str) -> Vec<String> {
    let mut seen = BTreeMap::<String, usize>::new();
    let (mut fenced, mut anchors) = (false, Vec::new());
    for line in page.lines() {
        fenced ^= line.starts_with("```");
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        if fenced || !(1..=6).contains(&level) || line.as_bytes().get(level) != Some(&b' ') {
            continue;
        }
        let kept =
            line[level..].trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let name: String =
            kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
        let count = seen.entry(name.clone()).or_default();
        anchors.push(if *count == 0 { name } else { format!("{name}-{count}") });
        *count += 1;
    }
    anchors
}

/// Whether a target is on another site.
pub fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// Where a page's target is, as a path from where the page's is from, and the anchor behind it.
pub fn resolve<'t>(page: &Path, target: &'t str) -> (PathBuf, Option<&'t str>) {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    if file.is_empty() {
        return (page.to_path_buf(), anchor);
    }
    let mut path = page.parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    (path, anchor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let page = "See [a `[b]` page](a.md#x), ![picture](p.svg) and [`c`](../c).\n`[no](n.md)`\n```\n[no](n.md)\n```\n[two\nlines](d.md)";
        let found: Vec<_> =
            links(page).into_iter().map(|link| (&page[link.span], &page[link.target])).collect();
        let expected = [
            ("[a `[b]` page](a.md#x)", "a.md#x"),
            ("![picture](p.svg)", "p.svg"),
            ("[`c`](../c)", "../c"),
            ("[two\nlines](d.md)", "d.md"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn anchors_are_those_of_sites() {
        let page = "# How it is `measured`, and why\n## 9. Functions\n```sh\n# no heading\n```\n## 9. Functions\n#no\n";
        assert_eq!(anchors(page), ["how-it-is-measured-and-why", "9-functions", "9-functions-1"]);
    }

    #[test]
    fn targets_are_from_the_page() {
        let of = |target| resolve(Path::new("docs/a.md"), target);
        assert_eq!(of("b.md#c"), (PathBuf::from("docs/b.md"), Some("c")));
        assert_eq!(of("../README.md"), (PathBuf::from("README.md"), None));
        assert_eq!(of("#c"), (PathBuf::from("docs/a.md"), Some("c")));
    }
}
