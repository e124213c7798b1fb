//! A PTX module taken apart into its top-level items, and put together again for one kernel.

use std::collections::HashSet;
use std::iter::Peekable;

use tilewright_ptx::error::Error;
use tilewright_ptx::lexer::{Lexer, Placed, Token};

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
    /// The words that may be names of items.
    mentioned: HashSet<&'a str>,
}

/// A module's items, in their order.
#[derive(Debug)]
pub(crate) struct Module<'a> {
    items: Vec<Item<'a>>,
    /// Source files, each with its number: `.file 3 "src/lib.rs"`.
    files: Vec<(u64, &'a str)>,
}

impl<'a> Module<'a> {
    /// Takes the text apart. Comments between items and the module's directives are left out.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let (mut items, mut files) = (Vec::new(), Vec::new());
        let comment =
            |token: &Result<Placed, Error>| matches!(token, Ok(Placed { token: Token::Comment(_), .. }));
        let mut tokens = Lexer::new(text).filter(|token| !comment(token)).peekable();
        while let Some(first) = tokens.next().transpose().map_err(|error| error.to_string())? {
            let (words, end) = statement(first, &mut tokens).map_err(|error| error.to_string())?;
            let text = &text[first.start..end];
            match words[..] {
                [Token::Word(".file"), Token::Integer(number), ..] => files.push((number, text)),
                [Token::Word(word), ..] if is_directive(word) || matches!(word, ".section" | ".alias") => {}
                _ => items.push(item(&words, text)?),
            }
        }
        Ok(Self { items, files })
    }

    /// The kernels.
    pub fn entries(&self) -> impl Iterator<Item = &Item<'a>> {
        self.items.iter().filter(|item| item.kind == Kind::Entry)
    }

    /// The source files that the `.loc`s of these texts name.
    pub fn files_of(&self, texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let mut used = HashSet::new();
        for line in texts.flat_map(str::lines).filter(|line| line.trim_start().starts_with(".loc")) {
            let words: Vec<_> = Lexer::new(line).flatten().map(|placed| placed.token).collect();
            used.extend(words.windows(2).filter_map(|pair| match *pair {
                // What code is inlined at may have no location of its own.
                [Token::Word(".loc" | "inlined_at"), Token::Integer(number)] => Some(number),
                _ => None,
            }));
        }
        self.files.iter().filter(|(number, _)| used.contains(number)).map(|&(_, text)| text).collect()
    }

    /// What `entry` uses, however indirectly, in the module's order; without `entry` itself.
    pub fn used_by(&self, entry: &Item<'a>) -> Vec<&Item<'a>> {
        let mut used = vec![false; self.items.len()];
        let mut to_read = vec![entry];
        while let Some(item) = to_read.pop() {
            // A function may be declared first and defined later under the same name.
            for (used, other) in used.iter_mut().zip(&self.items) {
                if other.kind != Kind::Entry && !*used && item.mentioned.contains(other.name) {
                    *used = true;
                    to_read.push(other);
                }
            }
        }
        self.items.iter().zip(used).filter_map(|(item, used)| used.then_some(item)).collect()
    }
}

fn is_directive(word: &str) -> bool {
    matches!(word, ".version" | ".target" | ".address_size" | ".file" | ".pragma")
}

/// The tokens of a statement, and where it ends: a directive of the module with its line, a function or a section of debug
/// information with its body, anything else with its semicolon.
fn statement<'a>(
    first: Placed<'a>,
    tokens: &mut Peekable<impl Iterator<Item = Result<Placed<'a>, Error>>>,
) -> Result<(Vec<Token<'a>>, usize), Error> {
    let directive = matches!(first.token, Token::Word(word) if is_directive(word));
    let (mut all, mut end) = (Vec::new(), first.end);
    let (mut depth, mut has_body) = (0_u32, false);
    let mut next = Some(first);
    while let Some(Placed { token, end: last, .. }) = next {
        all.push(token);
        end = last;
        let ends = match token {
            Token::Word(".entry" | ".func" | ".section") => {
                has_body = true;
                false
            }
            Token::Mark('{') => {
                depth += 1;
                false
            }
            Token::Mark('}') => {
                depth = depth.saturating_sub(1);
                has_body
            }
            token => token == Token::Mark(';'),
        };
        if ends && depth == 0 {
            break;
        }
        let same_line = |next: &Result<Placed, Error>| matches!(next, Ok(next) if next.line == first.line);
        next = tokens.next_if(|next| !directive || same_line(next)).transpose()?;
    }
    Ok((all, end))
}

/// The item of these words.
fn item<'a>(words: &[Token<'a>], text: &'a str) -> Result<Item<'a>, String> {
    let begin = words.iter().position(|word| matches!(word, Token::Word(".entry" | ".func")));
    let (kind, name) = match begin.map(|begin| words[begin..].split_at(1)) {
        Some(([Token::Word(".entry")], rest)) => (Kind::Entry, rest.first()),
        Some((_, rest)) => {
            let kind = if text.ends_with('}') { Kind::Function } else { Kind::Declaration };
            // The return value's parameter comes before the name.
            let result = rest.iter().position(|word| *word == Token::Mark(')'));
            let result = result.filter(|_| rest.first() == Some(&Token::Mark('(')));
            (kind, rest.get(result.map_or(0, |result| result + 1)))
        }
        // `.visible .global .align 16 .b8 name[64] = {…};`
        None => {
            let head = words.iter().take_while(|word| !matches!(word, Token::Mark('=' | '[' | ';')));
            (Kind::Variable, head.last())
        }
    };
    match name {
        Some(Token::Word(name)) if !name.starts_with('.') => {
            let mentioned = words.iter().filter_map(|word| match *word {
                Token::Word(word) if !word.starts_with('%') && !word.contains('.') => Some(word),
                _ => None,
            });
            Ok(Item { kind, name, text, mentioned: mentioned.collect() })
        }
        _ => Err(format!("unknown PTX: {}", text.lines().next().unwrap_or(""))),
    }
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
