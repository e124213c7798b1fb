//! Names in PTX that the compiler makes up. They say nothing of the code, and change when it moves to another crate.

use std::collections::HashMap;

/// How such names begin: mangled functions and statics (in both manglings), constants without a name, tables of a `match`.
const MADE_UP: [&str; 5] = ["_R", "_ZN", "anon_$_", "alloc_", "switch_$_table_$_"];
/// How the label of a block begins, before the number of the function in its module.
const BLOCK: &str = "$L__BB";
/// How the comment on a call begins, before the number of the call in its module.
const CALL: &str = "// callseq ";

/// The text with such names numbered by their first appearance, and without the numbers that depend on the module around.
pub fn normalised(text: &str) -> String {
    let mut numbers = HashMap::new();
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let (code, comment) = line.split_at(line.find(CALL).unwrap_or(line.len()));
        let mut rest = code;
        while !rest.is_empty() {
            let (between, after) = rest.split_at(rest.find(is_word).unwrap_or(rest.len()));
            let (word, after) = after.split_at(after.find(|c| !is_word(c)).unwrap_or(after.len()));
            out.push_str(between);
            if MADE_UP.iter().any(|begin| word.starts_with(begin)) {
                let next = numbers.len();
                out.push_str(&format!("name{}", numbers.entry(word).or_insert(next)));
            } else if let Some((_, block)) = word.strip_prefix(BLOCK).and_then(|label| label.split_once('_'))
            {
                out.push_str(BLOCK);
                out.push_str(block);
            } else {
                out.push_str(word);
            }
            rest = after;
        }
        if !comment.is_empty() {
            out.push_str(CALL.trim_end());
        }
        out.push('\n');
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}
