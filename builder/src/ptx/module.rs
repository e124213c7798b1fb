//! A PTX module taken apart into its top-level items, and put together again for one kernel.

use std::collections::{HashMap, HashSet};

/// What a top-level item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A kernel.
    Entry,
    /// A function with a body.
    Function,
    /// A function without one.
    Declaration,
    /// A variable.
    Variable,
}

/// A top-level item.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    pub kind: Kind,
    pub name: &'a str,
    pub text: &'a str,
}

/// A module's items, in their order.
#[derive(Debug)]
pub(crate) struct Module<'a> {
    items: Vec<Item<'a>>,
    /// Source files, each with its number: `.file 3 "src/lib.rs"`.
    files: Vec<(&'a str, &'a str)>,
}

impl<'a> Module<'a> {
    /// Takes the text apart. What stands before the first item, comments and the module's directives, is left out.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let (mut items, mut files) = (Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(begin) = next_statement(text, at) {
            let line_end = text[begin..].find('\n').map_or(text.len(), |n| begin + n + 1);
            let mut words = text[begin..].split_ascii_whitespace();
            let word = words.next().unwrap_or("");
            if word == ".file" {
                files.push((words.next().unwrap_or(""), text[begin..line_end].trim_end()));
            }
            if matches!(word, ".version" | ".target" | ".address_size" | ".file" | ".pragma") {
                at = line_end;
                continue;
            }
            at = end_of_statement(text, begin);
            if word == ".section" || word == ".alias" {
                continue;
            }
            items.push(item(&text[begin..at])?);
        }
        Ok(Self { items, files })
    }

    /// The kernels.
    pub fn entries(&self) -> impl Iterator<Item = &Item<'a>> {
        self.items.iter().filter(|item| item.kind == Kind::Entry)
    }

    /// The source files that the `.loc`s of these texts name.
    pub fn files_of(&self, texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let location =
            |line: &'a str| line.trim_start().strip_prefix(".loc")?.split_ascii_whitespace().next();
        // `inlined_at` names a file too, which may have no location of its own.
        let caller = |line: &'a str| line.split_once("inlined_at ")?.1.split_ascii_whitespace().next();
        let lines = texts.flat_map(str::lines);
        let used: HashSet<_> = lines
            .flat_map(|line| [location(line), caller(line).filter(|_| location(line).is_some())])
            .flatten()
            .collect();
        self.files.iter().filter(|(number, _)| used.contains(number)).map(|&(_, text)| text).collect()
    }

    /// What `entry` uses, however indirectly, in the module's order; without `entry` itself.
    pub fn used_by(&self, entry: &Item<'a>) -> Vec<&Item<'a>> {
        // A function may be declared first and defined later under the same name.
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, item) in self.items.iter().enumerate().filter(|(_, item)| item.kind != Kind::Entry) {
            by_name.entry(item.name).or_default().push(index);
        }
        let mut used = HashSet::new();
        let mut to_read = vec![entry.text];
        while let Some(text) = to_read.pop() {
            for index in identifiers(text).filter_map(|word| by_name.get(word)).flatten() {
                if used.insert(*index) {
                    to_read.push(self.items[*index].text);
                }
            }
        }
        self.items
            .iter()
            .enumerate()
            .filter(|(index, _)| used.contains(index))
            .map(|(_, item)| item)
            .collect()
    }
}

/// Where the next statement begins, from `at` on; comments and space are passed over.
fn next_statement(text: &str, mut at: usize) -> Option<usize> {
    loop {
        let rest = &text[at..];
        at += rest.len() - rest.trim_start().len();
        let rest = &text[at..];
        if rest.is_empty() {
            return None;
        }
        at += match rest.strip_prefix("//").map(|_| rest.find('\n')) {
            Some(Some(newline)) => newline + 1,
            Some(None) => return None,
            None => return Some(at),
        };
    }
}

/// One past the statement's end: a `;`, or the `}` of a function's body.
fn end_of_statement(text: &str, begin: usize) -> usize {
    // A section of debug information ends as a function does.
    let function = is_function(&text[begin..]) || text[begin..].starts_with(".section");
    let mut depth = 0_u32;
    let bytes = text.as_bytes();
    let mut at = begin;
    while at < bytes.len() {
        match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at = text[at..].find('\n').map_or(bytes.len(), |n| at + n);
                continue;
            }
            b'"' => at = text[at + 1..].find('"').map_or(bytes.len(), |n| at + 1 + n),
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && function {
                    return at + 1;
                }
            }
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

fn is_function(statement: &str) -> bool {
    statement
        .split_ascii_whitespace()
        .take_while(|word| word.starts_with('.'))
        .any(|word| word == ".entry" || word == ".func")
}

/// The item whose statement this is.
fn item(text: &str) -> Result<Item<'_>, String> {
    let unknown = || format!("unknown PTX: {}", text.lines().next().unwrap_or(""));
    let mut words =
        text.split_ascii_whitespace().skip_while(|word| word.starts_with('.') && !ends_a_prefix(word));
    let (kind, name) = match words.next() {
        Some(".entry") => (Kind::Entry, words.next()),
        Some(".func") => {
            let after = text.split_once(".func").map_or("", |(_, after)| after).trim_start();
            // The return value's parameter comes before the name.
            let after = match after.strip_prefix('(') {
                Some(result) => result.split_once(')').map_or("", |(_, after)| after).trim_start(),
                None => after,
            };
            let kind = if text.ends_with('}') { Kind::Function } else { Kind::Declaration };
            (kind, after.split_ascii_whitespace().next())
        }
        _ => {
            // `.visible .global .align 16 .b8 name[64] = {…};`: the last word of what precedes the value.
            let head = text.split(['=', '[', ';']).next().unwrap_or("");
            (Kind::Variable, head.split_ascii_whitespace().last().filter(|word| !word.starts_with('.')))
        }
    };
    let name = name.and_then(|name| identifiers(name).next()).ok_or_else(unknown)?;
    Ok(Item { kind, name, text })
}

fn ends_a_prefix(word: &str) -> bool {
    word == ".entry" || word == ".func"
}

/// The words of the text that may be names.
fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$')).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
//
// Generated by LLVM NVPTX Back-End
//

.version 8.0
.target sm_90a
.address_size 64

	// begin inline asm
	.extern .shared .align 1024 .b8 tilewright_shared[];
	// end inline asm
	// .globl	first
.func  (.param .b32 func_retval0) helper
(
	.param .b64 helper_param_0
)
;
.extern .func outside
(
	.param .b64 p
);
.global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.visible .entry first(
	.param .align 16 .b8 first_param_0[256]
)
{
	// a brace in a comment: }
	{ // call
	call.uni (retval0), helper, (param0);
	}
	ret;

}
.func  (.param .b32 func_retval0) helper(
	.param .b64 helper_param_0
)
{
	mov.b64 %rd1, table;
	ret;
}
	// .globl	second
.visible .entry second(
	.param .align 16 .b8 second_param_0[16]
)
{
	mov.b32 %r1, tilewright_shared;
	ret;
}
";

    fn used<'a>(module: &Module<'a>, entry: &str) -> Vec<(Kind, &'a str)> {
        let entry = module.entries().find(|item| item.name == entry).unwrap();
        module.used_by(entry).iter().map(|item| (item.kind, item.name)).collect()
    }

    #[test]
    fn items_are_found() {
        let module = Module::parse(TEXT).unwrap();
        let names: Vec<_> = module.items.iter().map(|item| item.name).collect();
        assert_eq!(names, ["tilewright_shared", "helper", "outside", "table", "first", "helper", "second"]);
        assert!(module.items.last().unwrap().text.ends_with('}'));
        assert_eq!(module.entries().map(|item| item.name).collect::<Vec<_>>(), ["first", "second"]);
    }

    #[test]
    fn each_kernel_takes_what_it_uses() {
        let module = Module::parse(TEXT).unwrap();
        let helper = [(Kind::Declaration, "helper"), (Kind::Variable, "table"), (Kind::Function, "helper")];
        assert_eq!(used(&module, "first"), helper);
        assert_eq!(used(&module, "second"), [(Kind::Variable, "tilewright_shared")]);
    }

    #[test]
    fn kernels_take_the_source_files_that_they_name() {
        let text = "\
.visible .entry first()
{
	.loc	1 35 24
	.loc	3 50 9, function_name $L__info_string0, inlined_at 4 1 2
	ret;
}
.visible .entry second()
{
	.loc	2 35 24
	ret;
}
	.section	.debug_macinfo	{	}
	.file	1 \"a.rs\"
	.file	2 \"b.rs\"
	.file	3 \"c.rs\"
	.file	4 \"d.rs\"
";
        let module = Module::parse(text).unwrap();
        let texts: Vec<_> = module.entries().map(|entry| entry.text).collect();
        let files = |text| module.files_of(std::iter::once(text));
        assert_eq!(files(texts[0]), [".file	1 \"a.rs\"", ".file	3 \"c.rs\"", ".file	4 \"d.rs\""]);
        assert_eq!(files(texts[1]), [".file	2 \"b.rs\""]);
        assert_eq!(module.files_of([].into_iter()), [""; 0]);
    }

    #[test]
    fn what_is_not_ptx_is_named() {
        assert_eq!(Module::parse("= 3;").unwrap_err(), "unknown PTX: = 3;");
    }
}
