//! Which lines of a source the host's rustc does not see.

/// What a condition names that holds on the GPU alone.
const DEVICE: [&str; 3] = ["nvptx64", "tilewright_sm", "tilewright_debug"];

/// Whether a line, counted from 1, belongs to an item that is for the GPU alone: behind `#[cfg(target_arch = "nvptx64")]` or what implies it.
///
/// Items are followed by their braces, so that one with braces in its texts may end too early or late. A whole module that its parent
/// leaves out is not known here.
pub fn is_device_only(source: &str, line: usize) -> bool {
    let lines: Vec<_> = source.lines().collect();
    let begins = |at: usize, mark: &str| {
        lines[at].trim_start().strip_prefix(mark).is_some_and(|condition| {
            DEVICE.iter().any(|name| condition.contains(name)) && !condition.contains("not(")
        })
    };
    (0..lines.len()).any(|at| {
        begins(at, "#![cfg(")
            || (at < line && begins(at, "#[cfg(") && line <= at + 1 + length(&lines[at + 1..]))
    })
}

/// How many lines an item has, up to the brace or the semicolon that ends it.
fn length(lines: &[&str]) -> usize {
    let mut depth = 0_i32;
    for (at, line) in lines.iter().enumerate() {
        if line.trim_start().starts_with("#[") || line.trim_start().starts_with("//") {
            continue;
        }
        for letter in line.chars() {
            match letter {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => depth -= 1,
                _ => {}
            }
            if depth <= 0 && matches!(letter, '}' | ';') {
                return at + 1;
            }
        }
    }
    lines.len()
}

#[cfg(test)]
mod tests {
    use super::is_device_only;

    const SOURCE: &str = "\
fn both() {}

#[cfg(target_arch = \"nvptx64\")]
#[inline]
fn device(x: [u32; 2]) {
    if x[0] > 0 {
        call();
    }
}
#[cfg(not(target_arch = \"nvptx64\"))]
fn host() {}
#[cfg(tilewright_sm = \"90\")]
use a::{b, c};
fn both_again() {}
";

    #[test]
    fn items_of_the_gpu_are_known_by_their_condition() {
        let found: Vec<_> =
            (1..=SOURCE.lines().count()).filter(|&line| is_device_only(SOURCE, line)).collect();
        assert_eq!(found, [3, 4, 5, 6, 7, 8, 9, 12, 13]);
        let whole = format!("#![cfg(target_arch = \"nvptx64\")]\n{SOURCE}");
        assert!((1..10).all(|line| is_device_only(&whole, line)));
        assert!(!is_device_only("", 1));
    }
}
