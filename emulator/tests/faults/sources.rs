//! Faults name the line of the source code.

use super::kernel::{accused, threads};

/// The source lines of a fault in this body, after declarations of files.
fn lines(body: &str) -> Vec<String> {
    let fault = accused(body, &threads(32));
    fault.source.iter().map(ToString::to_string).collect()
}

const FAULT: &str = "st.global.u32 [%out+2], 1;";

/// Ends the kernel, so that files can be declared behind it, as compilers do.
fn files(body: &str) -> String {
    format!(
        "{body}\nret;\n}}\n.file 1 \"src/kernel.rs\"\n.file 2 \"src/tile/copy.rs\", 1700000000, 4711\n\
         .visible .entry other()\n{{"
    )
}

#[test]
fn the_line_of_the_last_location() {
    let body =
        |after: &str| files(&format!(".loc 1 10 5\nadd.u32 %r1, %t, 1;\n.loc 2 120 9\n{FAULT}\n{after}"));
    assert_eq!(lines(&body("")), ["src/tile/copy.rs:120"]);
    assert_eq!(lines(&body(".loc 1 11 5")), ["src/tile/copy.rs:120"]);
    let shown = accused(&body(""), &threads(32)).to_string();
    assert!(shown.ends_with(": st.global.u32 [%out+2], 1;, from src/tile/copy.rs:120"), "{shown}");
}

#[test]
fn no_line_without_a_location() {
    assert_eq!(lines(FAULT), [""; 0]);
    // Of no line of the source, and of a file that is not named.
    assert_eq!(lines(&files(&format!(".loc 2 0 0\n{FAULT}"))), [""; 0]);
    assert_eq!(lines(&files(&format!(".loc 3 8 1\n{FAULT}"))), [""; 0]);
    // A location does not hold in the next kernel.
    let first = format!(
        ".loc 1 10 5\nret;\n}}\n.visible .entry other(.param .u64 out)\n{{\n.reg .b64 %out;\n{FAULT}"
    );
    let module = format!(
        ".version 8.3\n.target sm_90a\n.address_size 64\n.file 1 \"a.rs\"\n.visible .entry k()\n{{\n{first}\nret;\n}}"
    );
    let module = tilewright_emulator::Module::load(&module.replace("%out+2", "2")).expect("valid");
    let other = module.kernel("other").expect("it is called so");
    let fault = tilewright_emulator::Emulator::new(tilewright_emulator::Arch::Sm90a)
        .launch(&other, &threads(32), &[0; 8])
        .expect_err("faulty");
    assert_eq!(*fault.source, []);
}

#[test]
fn where_the_line_is_inlined() {
    // The place that it is inlined at is in inlined code itself.
    let body = format!(
        ".loc 1 30 9\nadd.u32 %r1, %t, 1;\n\
         .loc 2 60 13, function_name $L__info_string0, inlined_at 1 30 9\nadd.u32 %r1, %t, 2;\n\
         .loc 2 120 9, function_name $L__info_string0+15, inlined_at 2 60 13\n{FAULT}"
    );
    assert_eq!(lines(&files(&body)), ["src/tile/copy.rs:120", "src/tile/copy.rs:60", "src/kernel.rs:30"]);
    // One that no other location names.
    let body = format!(".loc 2 120 9, function_name $L__info_string0, inlined_at 1 31 2\n{FAULT}");
    assert_eq!(lines(&files(&body)), ["src/tile/copy.rs:120", "src/kernel.rs:31"]);
    // Recursion at one place ends.
    let body = format!(".loc 2 120 9, function_name $L__info_string0, inlined_at 2 120 9\n{FAULT}");
    assert_eq!(lines(&files(&body)).len(), 2);
}
