//! Labels of a kernel's blocks, which LLVM numbers by the functions of the whole module.
//!
//! A kernel's text is to be the same whatever other kernels its crate has: what has not changed is not assembled again.

use std::collections::HashMap;

/// How the label of a block begins: `$L__BB7_3` is block 3 of function 7.
const BLOCK: &str = "$L__BB";

/// The text with its functions numbered from 0 in the order in which their blocks are named.
pub(super) fn renumbered(text: &str) -> String {
    let mut numbers = HashMap::new();
    let mut renumbered = String::with_capacity(text.len());
    let mut parts = text.split(BLOCK);
    renumbered.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        let (function, rest) = part.split_at(end);
        let next = numbers.len();
        let number = numbers.entry(function).or_insert(next);
        renumbered.push_str(&format!("{BLOCK}{number}{rest}"));
    }
    renumbered
}

#[cfg(test)]
mod tests {
    use super::renumbered;

    #[test]
    fn functions_are_numbered_as_they_come() {
        let text = "bra $L__BB12_3;\n$L__BB12_3:\nbra.uni $L__BB7_1;\n$L__BB7_1:\nbra $L__BB12_4;\nret;";
        let expected = "bra $L__BB0_3;\n$L__BB0_3:\nbra.uni $L__BB1_1;\n$L__BB1_1:\nbra $L__BB0_4;\nret;";
        assert_eq!(renumbered(text), expected);
        assert_eq!(renumbered("ret;"), "ret;");
    }
}
