//! The command, run.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What came of it.
pub struct Done {
    pub code: i32,
    pub out: String,
    pub error: String,
}

/// Runs the command with these words, which spaces part.
pub fn command(words: &str) -> Done {
    let output = Command::new(env!("CARGO_BIN_EXE_tilewright-emulator"))
        .args(words.split_whitespace())
        .output()
        .expect("the command can be started");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("it prints text");
    Done {
        code: output.status.code().expect("it ends by itself"),
        out: text(&output.stdout),
        error: text(&output.stderr),
    }
}

/// The report of the command, as JSON, and its exit code.
pub fn json(words: &str) -> (Value, i32) {
    let Done { code, out, error } = command(&format!("{words} --json"));
    (serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out}{error}")), code)
}

/// A file of the emulator's corpus.
pub fn corpus(file: &str) -> String {
    format!("{}/../tests/corpus/{file}", env!("CARGO_MANIFEST_DIR"))
}

/// Where a test's file may be: in a folder of these tests' own, since the packages of a workspace share the one around it.
pub fn scratch(file: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulator-command");
    std::fs::create_dir_all(&folder).expect("there is room");
    folder.join(file)
}

/// A file with these bytes.
pub fn file(name: &str, bytes: &[u8]) -> String {
    let path = scratch(name);
    std::fs::write(&path, bytes).expect("there is room");
    path.display().to_string()
}

/// A file with a kernel `k` of a pointer `out`, whose thread is `%t` and whose word of `out` is at `%mine`.
pub fn kernel(name: &str, body: &str) -> String {
    let text = format!(
        ".version 8.3\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 out)\n{{\n\
         .reg .pred %p<9>;\n.reg .b32 %r<9>, %t;\n.reg .b64 %d<9>, %out, %mine;\n.shared .align 4 .b8 words[512];\n\
         ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmov.u32 %r0, words;\nmad.lo.u32 %r0, %t, 4, %r0;\n\
         mad.wide.u32 %mine, %t, 4, %out;\n{body}\nret;\n}}\n.file 1 \"kernel.cu\"\n"
    );
    file(&format!("{name}.ptx"), text.as_bytes())
}
