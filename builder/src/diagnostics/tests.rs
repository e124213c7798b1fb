//! Errors as cargo passes them on, and what is shown of them.

use serde_json::{Value, json};

use super::*;

/// An error at a line of src/lib.rs: its text, the label, notes and helps.
fn error(code: &str, message: &str, line: usize, label: &str, children: &[(&str, &str)]) -> Value {
    let source = json!({ "text": "    gemm(p, a, b, acc);", "highlight_start": 13, "highlight_end": 14 });
    let span = json!({
        "file_name": "src/lib.rs", "line_start": line, "column_start": 13, "is_primary": true, "label": label, "text": [source]
    });
    let children =
        children.iter().map(|(level, message)| json!({ "level": level, "message": message, "spans": [] }));
    json!({
        "message": message, "code": { "code": code, "explanation": null }, "level": "error", "spans": [span],
        "children": children.collect::<Vec<_>>(), "rendered": format!("error[{code}]: {message}\n --> src/lib.rs:{line}:13\n\n")
    })
}

/// What is shown of these messages.
fn shown(messages: &[Value]) -> String {
    let line = |message: &Value| json!({ "reason": "compiler-message", "message": message }).to_string();
    let mut lines: Vec<_> = messages.iter().map(line).collect();
    lines.push(r#"{"reason":"compiler-artifact","package_id":"a"}"#.to_owned());
    lines.push("no message".to_owned());
    errors(&lines.join("\n")).unwrap_or_default()
}

fn shape(columns: &str, line: usize) -> Value {
    let message = format!("policy `Warpgroups<2, 1>` cannot compute a 128 x {columns} x 64 tile of `f16`");
    let missing =
        format!("the trait `Gemm<f16, 128, {columns}, 64, _>` is not implemented for `Warpgroups<2, 1>`");
    let children = [
        ("help", missing.as_str()),
        ("note", "each warpgroup takes blocks of 64 rows and 8 to 256 columns"),
        (
            "help",
            "the following other types implement trait `Gemm<T, M, N, K, S>`:\n  `A`\n  `B`\nand 56 others",
        ),
        ("help", "the trait `MatA<P, T, M, N, K, S>` is implemented for `Src<'_, Shared<T, M, K, L, O>>`"),
        ("note", "required for `Src<'_, Shared<f16>>` to implement `MatA<Warpgroups<2, 1>>`"),
        ("note", "required by a bound in `gemm`"),
        ("note", "the full name for the type has been written to 'a.txt'"),
        ("note", "consider using `--verbose` to print the full type name to the console"),
    ];
    error("E0277", &message, line, "no instruction shape covers this tile", &children)
}

#[test]
fn an_error_is_told_once_and_in_short() {
    let bounds = "the following trait bounds were not satisfied:\n`Warpgroups<2, 1>: Gemm<f16, 128, 12, 64, _>`\nwhich is …";
    let missing = "the function `load` exists, but its trait bounds were not satisfied";
    let messages = [
        shape("_", 12),
        shape("12", 9),
        shape("12", 90),
        error("E0599", missing, 30, "", &[("note", bounds)]),
        error("E0599", missing, 9, "", &[]),
    ];
    let expected = "\
error[E0277]: policy `Warpgroups<2, 1>` cannot compute a 128 x 12 x 64 tile of `f16`
 --> src/lib.rs:9:13
9 |     gemm(p, a, b, acc);
  |             ^ no instruction shape covers this tile
  = note: each warpgroup takes blocks of 64 rows and 8 to 256 columns
  = note: the same at src/lib.rs:12, 90";
    assert_eq!(shown(&messages), expected);
}

#[test]
fn what_is_known_in_full_is_told() {
    let text = shown(&[shape("_", 9), shape("12", 9)]);
    assert!(
        text.starts_with("error[E0277]: policy `Warpgroups<2, 1>` cannot compute a 128 x 12 x 64 tile"),
        "{text}"
    );
    assert!(!text.contains("the same"), "{text}");
}

#[test]
fn another_shape_is_another_error_however_near() {
    let text = shown(&[shape("12", 9), shape("20", 10)]);
    assert!(text.contains("128 x 12 x 64") && text.contains("128 x 20 x 64"), "{text}");
    let text = shown(&[shape("_", 9), shape("12", 9), shape("20", 10)]);
    assert!(text.contains("128 x 12 x 64") && text.contains("128 x 20 x 64"), "{text}");
}

#[test]
fn other_errors_stay() {
    let messages = [
        error("E0308", "mismatched types", 1, "expected `u32`", &[]),
        error("E0308", "mismatched types", 20, "expected `f32`", &[]),
        error("E0599", "no method `b`", 20, "", &[]),
    ];
    let expected = "\
error[E0308]: mismatched types
 --> src/lib.rs:1:13
error[E0308]: mismatched types
 --> src/lib.rs:20:13
error[E0599]: no method `b`
 --> src/lib.rs:20:13";
    assert_eq!(shown(&messages), expected);
    assert_eq!(shown(&[]), "");
}

#[test]
fn many_errors_have_a_line_each() {
    let messages: Vec<_> = (0..20).map(|i| shape(&(8 * i + 4).to_string(), i + 1)).collect();
    let text = shown(&messages);
    let last = text.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("error[E0277]: policy")
            && last.ends_with("128 x 156 x 64 tile of `f16` (src/lib.rs:20:13)"),
        "{text}"
    );
    assert!(text.lines().count() <= LINES + 20, "{text}");
}

#[test]
fn conflicts_of_generic_policies_have_a_cure() {
    let cure = |resolving: &str| {
        let message = format!("type mismatch resolving `{resolving}`");
        shown(&[error(
            "E0271",
            &message,
            3,
            "expected `64`, found `128`",
            &[("note", "required for `A` to implement `B`")],
        )])
    };
    let text = cure("<P as Gemm<f16, 128, 128, 64>>::A == Swizzle<64>");
    assert!(
        text.ends_with("each product that reads the tile: `P: Gemm<f16, 128, 128, 64, A = Swizzle<64>>`"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 5, "{text}");
    let text = cure("<P as Gemm<f16, 128, 128, 64>>::A == <P as Gemm<f16, 128, 64, 64>>::B");
    let bounds =
        "`P: Gemm<f16, 128, 128, 64, A = Swizzle<128>>, P: Gemm<f16, 128, 64, 64, B = Swizzle<128>>`";
    assert!(text.ends_with(bounds), "{text}");
    // A policy that is known has its layouts.
    let text = cure("<Warpgroups<2, 1> as Gemm<f16, 128, 128, 64>>::A == Swizzle<64>");
    assert!(!text.contains("where clause"), "{text}");
}

#[test]
fn long_errors_keep_their_begin_and_their_notes() {
    let mut long = error("E0502", "borrowed", 1, "", &[]);
    long["rendered"] = json!(format!("error: long\n{}  = note: the cure", "  | code\n".repeat(40)));
    let text = shown(&[long]);
    assert_eq!(text.lines().count(), LINES);
    assert!(text.starts_with("error: long\n") && text.ends_with("\n  = note: the cure"), "{text}");
}

#[test]
fn errors_of_macros_are_where_they_are_called() {
    let mut inside = shape("12", 700);
    let call = json!({
        "file_name": "src/own.rs", "line_start": 4, "column_start": 5, "is_primary": false, "label": null,
        "text": [{ "text": "    tile!(12);", "highlight_start": 5, "highlight_end": 14 }]
    });
    inside["spans"][0]["expansion"] = json!({ "span": call, "macro_decl_name": "tile!" });
    let text = shown(&[inside]);
    assert!(
        text.contains("\n --> src/own.rs:4:5\n4 |     tile!(12);\n  |     ^^^^^^^^^ no instruction"),
        "{text}"
    );
}

#[test]
fn assertions_of_the_library_are_told_by_their_text_and_place() {
    let assertion = |label: &str| {
        let mut error =
            error("E0080", "evaluation panicked: rows are whole", 62, label, &[("note", "inside `x`")]);
        error["spans"][0]["file_name"] = json!("/device/src/tile/memory/shared.rs");
        shown(&[error])
    };
    let of_closure = assertion(
        "evaluation of `tilewright_device::tile::pipeline::run::<{closure@src/lib.rs:14:9: 14:15}>::{constant#0}` failed here",
    );
    assert_eq!(of_closure, "error[E0080]: rows are whole\n --> src/lib.rs:14:9");
    let of_type = assertion(
        "evaluation of `tilewright_device::tile::Shared::<tilewright_device::f16, 96>::WHOLE` failed here",
    );
    assert_eq!(of_type, "error[E0080]: rows are whole\n  = note: in `Shared::<f16, 96>::WHOLE`");
}

#[test]
fn warnings_of_code_for_the_gpu_alone_are_told_once() {
    let warning = |message: &str, line: usize, package: &str| {
        let mut warning = error("unused_variables", message, line, "", &[]);
        warning["level"] = json!("warning");
        json!({ "reason": "compiler-message", "manifest_path": package, "message": warning }).to_string()
    };
    let messages = [
        warning("unused variable: `x`", 3, "/k/Cargo.toml"),
        warning("unused variable: `x`", 3, "/k/Cargo.toml"),
        warning("unused variable: `y`", 1, "/k/Cargo.toml"),
        warning("unused variable: `z`", 3, "/other/Cargo.toml"),
    ];
    let source = "fn a() {}\n#[cfg(target_arch = \"nvptx64\")]\nfn b() {}\n";
    let told = warnings(&messages.join("\n"), Path::new("/k/Cargo.toml"), |path| {
        assert_eq!(path, Path::new("src/lib.rs"));
        source.to_owned()
    });
    assert_eq!(told, ["unused variable: `x` (src/lib.rs:3:13)"]);
}
