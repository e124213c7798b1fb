//! rustc's errors in short: each once, in a few lines.
//!
//! An error in a tile's shape is found at each of the bounds that need it, and rustc tells of each, with lists of the shapes that there
//! are and the chain of bounds. What the author needs is the first line, the place, and the notes of the trait.

use serde::Deserialize;

/// The most lines of an error, without its cure.
const LINES: usize = 14;
/// Lines that an expression may have.
const NEAR: usize = 8;
/// How parts of an error begin that say nothing more to the author.
const LEFT_OUT: [&str; 6] = [
    "the following other types implement trait",
    "required by a bound in",
    "required for ",
    "the full name for the type has been written",
    "the full type name has been written",
    "consider using `--verbose`",
];

/// The cure where a policy is a parameter, so that nothing tells its layouts.
const LAYOUTS: &str = "   = help: where a policy is generic, say how its operands lie: `P: Gemm<…, A = Swizzle<128>>`, or `B = …`, for each \
                       product that reads the tile";

/// A line of `cargo --message-format=json`.
#[derive(Deserialize)]
struct Line {
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    message: String,
    code: Option<Code>,
    level: String,
    spans: Vec<Span>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: usize,
    is_primary: bool,
}

impl Message {
    /// The file and the line that it is about.
    fn place(&self) -> Option<(&str, usize)> {
        let primary = self.spans.iter().find(|span| span.is_primary)?;
        Some((primary.file_name.as_str(), primary.line_start))
    }

    /// Whether it says the same of the same expression, or nearly so: of an argument and of the call that it is for.
    fn repeats(&self, other: &Self) -> bool {
        let near = match (self.place(), other.place()) {
            (Some((file, line)), Some((of, at))) => file == of && line.abs_diff(at) <= NEAR,
            _ => false,
        };
        near && known(&self.message) == known(&other.message)
    }

    fn is(&self, code: &str) -> bool {
        self.code.as_ref().is_some_and(|of| of.code == code)
    }
}

/// The errors among cargo's messages; `None` if there are none.
pub(crate) fn shortened(messages: &str) -> Option<String> {
    let lines = messages.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()?.message);
    let counts = |message: &Message| message.message.starts_with("aborting due to");
    let errors: Vec<_> =
        lines.filter(|message| message.level.starts_with("error") && !counts(message)).collect();
    let mut told: Vec<&Message> = Vec::new();
    for error in &errors {
        // A method that is missing because of a bound that is an error itself.
        let follows = error.is("E0599")
            && error.message.contains("trait bounds were not satisfied")
            && errors.iter().any(|other| other.is("E0277") && other.place() == error.place());
        if !follows && !told.iter().any(|other| error.repeats(other)) {
            told.push(error);
        }
    }
    let texts: Vec<_> = told
        .iter()
        .map(|error| {
            let text = short(error.rendered.as_deref().unwrap_or(&error.message));
            if error.message.starts_with("type mismatch") && error.message.contains(" as Gemm<") {
                format!("{text}\n{LAYOUTS}")
            } else {
                text
            }
        })
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// The message without what rustc has not inferred yet: the same error with more of it known is no other.
fn known(message: &str) -> Vec<&str> {
    message
        .split(' ')
        .filter(|word| !word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_'))
        .collect()
}

/// The parts of an error that help, as many as there is room for.
fn short(rendered: &str) -> String {
    let mut lines = Vec::new();
    let mut kept = true;
    for line in rendered.lines() {
        let text = line.trim_start().trim_start_matches("= ");
        let begins = (line != text && line.trim_start().starts_with("= ") || !line.starts_with(' '))
            && (text.starts_with("note: ") || text.starts_with("help: "));
        if begins {
            let said = &text["note: ".len()..];
            let implemented = said.starts_with("the trait `") && said.contains("` is implemented for `");
            kept = !implemented && !LEFT_OUT.iter().any(|part| said.starts_with(part));
        }
        if kept && !line.trim().is_empty() {
            lines.push(line);
        }
    }
    // The place is in the first of them, and what helps most often in the last.
    let beyond = lines.len().saturating_sub(LINES);
    if beyond > 0 {
        let notes = lines
            .iter()
            .rposition(|line| !line.trim_start().starts_with("= "))
            .map_or(0, |at| lines.len() - 1 - at);
        let first = LINES.saturating_sub(notes.min(LINES / 2));
        let last = lines.len() - (LINES - first);
        lines.drain(first..last);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(code: &str, message: &str, line: usize, rendered: &str) -> String {
        let spans =
            [json!({ "file_name": "src/lib.rs", "line_start": line, "is_primary": true, "column_start": 1 })];
        let message = json!({ "message": message, "code": { "code": code, "explanation": null }, "level": "error", "spans": spans, "rendered": rendered });
        json!({ "reason": "compiler-message", "message": message }).to_string()
    }

    const SHAPE: &str = "\
error[E0277]: policy `Warpgroups<2, 1>` cannot compute a 128 x 12 x 64 tile of `f16`
   --> src/lib.rs:9:43
    |
  9 |     let _ = gemm(FullRow::<2>::default(), a, b, acc);
    |             ----                          ^ no instruction shape covers this tile
    |
    = help: the trait `Gemm<f16, 128, 12, 64, _>` is not implemented for `Warpgroups<2, 1>`
    = note: each warpgroup takes blocks of 64 rows and 8 to 256 columns
    = help: the following other types implement trait `Gemm<T, M, N, K, S>`:
              `Warpgroups<WM, 1>` implements `Gemm<T, M, 104, K, S>`
            and 56 others
    = note: required for `Src<'_, Shared<f16>>` to implement `MatA<Warpgroups<2, 1>>`
note: required by a bound in `gemm`
   --> src/gemm.rs:324:8
    |
324 |     A: MatA<P, T, M, N, K, S>,
    |        ^^^^^^^^^^^^^^^^^^^^^^ required by this bound in `gemm`
    = note: the full name for the type has been written to 'a.txt'
    = note: consider using `--verbose` to print the full type name to the console

";

    #[test]
    fn an_error_is_told_once_and_in_short() {
        let text = "policy `Warpgroups<2, 1>` cannot compute a 128 x 12 x 64 tile of `f16`";
        let unknown = text.replace("12", "_");
        let missing = "the function `load` exists, but its trait bounds were not satisfied";
        let messages = [
            message("E0277", text, 9, SHAPE),
            message("E0277", &unknown, 12, SHAPE),
            message("E0599", missing, 9, missing),
            r#"{"reason":"compiler-artifact","package_id":"a"}"#.to_owned(),
            "no message".to_owned(),
        ];
        let expected = SHAPE.lines().take(8).collect::<Vec<_>>().join("\n");
        assert_eq!(shortened(&messages.join("\n")), Some(expected));
    }

    #[test]
    fn other_errors_stay() {
        let messages = [
            message("E0277", "a", 1, "error: a\n --> src/lib.rs:1:1\n\nerror"),
            message("E0277", "a", 20, "error: a of line 20"),
            message("E0599", "no method `b`", 20, "error: no method `b`"),
        ];
        let expected = "error: a\n --> src/lib.rs:1:1\nerror\n\nerror: a of line 20\n\nerror: no method `b`";
        assert_eq!(shortened(&messages.join("\n")).as_deref(), Some(expected));
        assert_eq!(shortened(r#"{"reason":"build-finished","success":false}"#), None);
    }

    #[test]
    fn conflicts_of_generic_policies_have_a_cure() {
        let text = "type mismatch resolving `<P as Gemm<f16, 128, 128, 64>>::A == L`";
        let shown = shortened(&message("E0271", text, 3, "error: …")).unwrap();
        assert!(shown.starts_with("error: …\n   = help: where a policy is generic"), "{shown}");
    }

    #[test]
    fn long_errors_keep_their_begin_and_their_notes() {
        let long = format!("error: long\n{}  = note: the cure", "  | code\n".repeat(40));
        let text = short(&long);
        assert_eq!(text.lines().count(), LINES);
        assert!(text.starts_with("error: long\n") && text.ends_with("\n  = note: the cure"), "{text}");
    }
}
