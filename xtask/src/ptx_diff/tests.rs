//! Comparing made-up builds.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::*;

/// A folder for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("xtask-ptx-diff-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    /// A build in it: architecture, name and PTX of each kernel.
    fn build(&self, name: &str, kernels: &[(&str, &str, &str)]) -> String {
        let build = self.0.join(name);
        let line = |&(arch, entry, _): &(&str, &str, &str)| {
            json!({
                "entry": entry, "arch": arch, "threads": 128, "min_ctas": 1, "cluster": [1, 1, 1], "shared_bytes": 0,
                "registers": null, "ptx_bytes": 1, "compressed_bytes": 1,
            })
        };
        let manifest =
            json!({ "compiler": "", "ptxas": null, "kernels": kernels.iter().map(line).collect::<Vec<_>>() });
        write(&build.join("manifest.json"), manifest.to_string().as_bytes());
        for (arch, entry, ptx) in kernels {
            let deflated = miniz_oxide::deflate::compress_to_vec(ptx.as_bytes(), 6);
            write(&build.join(arch).join(format!("{entry}.ptx.z")), &deflated);
        }
        build.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write(path: &Path, contents: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, contents).unwrap();
}

fn difference(old: &str, new: &str, renamed: bool) -> Difference {
    Difference::between(&read(old).unwrap(), &read(new).unwrap(), renamed)
}

#[test]
fn kernels_are_compared_by_architecture_and_name() {
    let folder = Folder::new("compared");
    let old = folder.build(
        "old",
        &[("sm_80", "a", "x\n"), ("sm_90a", "a", "y\n"), ("sm_80", "b", "1\n2\n3\n"), ("sm_80", "c", "")],
    );
    let new = folder.build(
        "new",
        &[("sm_80", "a", "x\n"), ("sm_90a", "a", "y\n"), ("sm_80", "b", "1\n4\n3\n5\n"), ("sm_90a", "c", "")],
    );
    let found = difference(&old, &new, false);
    let change =
        Change { kernel: "sm_80 b".into(), removed: 1, added: 2, line: 2, first: ["2".into(), "4".into()] };
    let expected = Difference {
        same: 2,
        renamed: None,
        changed: vec![change],
        gone: vec!["sm_80 c".into()],
        new: vec!["sm_90a c".into()],
    };
    assert_eq!(found, expected);
    assert_eq!(found.judge().unwrap_err(), "kernels that differ: 1, that are gone: 1");
    let text = "\
sm_80 b differs: 1 of its lines removed, 2 added, the first at line 2
  - 2
  + 4
only in the old build: sm_80 c
only in the new build: sm_90a c
2 kernels are the same to the byte; 1 differ, 1 are gone, 1 are new
";
    assert_eq!(found.to_string(), text);
}

#[test]
fn order_counts_and_so_does_the_end() {
    let change = |old, new| Change::between("k".into(), old, new).to_string();
    assert_eq!(
        change("1\n2\n", "2\n1\n"),
        "k differs in the order of its lines, the first at line 1\n  - 1\n  + 2"
    );
    assert_eq!(
        change("1\n", "1\n2\n"),
        "k differs: 0 of its lines removed, 1 added, the first at line 2\n  - \n  + 2"
    );
}

#[test]
fn new_kernels_are_no_fault() {
    let folder = Folder::new("new");
    let one = folder.build("one", &[("sm_80", "a", "x")]);
    let two = folder.build("two", &[("sm_80", "a", "x"), ("sm_80", "b", "x")]);
    assert_eq!(difference(&one, &two, false).judge(), Ok(()));
    assert!(difference(&two, &one, false).judge().is_err());
    let none = folder.build("none", &[]);
    assert!(difference(&none, &one, false).judge().unwrap_err().contains("no kernel to compare"));
}

#[test]
fn several_builds_are_compared_as_one() {
    let folder = Folder::new("several");
    let whole = folder.build("whole", &[("sm_80", "a", "x"), ("sm_80", "b", "y")]);
    let (a, b) = (folder.build("a", &[("sm_80", "a", "x")]), folder.build("b", &[("sm_80", "b", "y")]));
    let found = difference(&whole, &format!("{a},{b}"), false);
    assert_eq!(found, Difference { same: 2, ..Difference::default() });
    let error = read(&format!("{a},{whole}")).unwrap_err();
    assert!(error.starts_with("sm_80 a is in more than one of "), "{error}");
    let error = read(&format!("{a},nowhere")).unwrap_err();
    assert!(error.contains("reading nowhere/manifest.json"), "{error}");
}

/// A kernel as rustc writes it, in a crate with this hash as the function of this number.
fn kernel(hash: &str, number: u32, constant: u32) -> String {
    format!(
        "\
.global .align 4 .b8 _RNvC{hash}_7kernels5TABLE[8] = {{3, 0, 0, 0, {constant}}};
.global .align 8 .u64 switch_$_table_$__RNvC{hash}_7kernels4pick[1] = {{generic(anon_$_{hash}_$_0)}};
.func  (.param .b32 func_retval0) _RNvC{hash}_7kernels4pick(
\t.param .b32 _RNvC{hash}_7kernels4pick_param_0
)
.visible .entry gemm_sm_90(
\t.param .align 64 .b8 gemm_sm_90_param_0[16]
)
{{
\t@%p1 bra \t$L__BB{number}_12;
\tmov.b64 \t%rd1, _RNvC{hash}_7kernels5TABLE;
\t{{ // callseq {number}, 0
\tcall.uni (retval0), _RNvC{hash}_7kernels4pick, (param0);
\t}} // callseq {number}
$L__BB{number}_12:
\tret;
}}
"
    )
}

#[test]
fn a_move_to_another_crate_changes_made_up_names_alone() {
    let folder = Folder::new("move");
    let build = |name: &str, ptx: &str| folder.build(name, &[("sm_90a", "gemm_sm_90", ptx)]);
    let old = build("old", &kernel("sanIojcP8aaR", 0, 1));
    let moved = build("moved", &kernel("siWyDCEFOKMp", 31, 1));
    assert_eq!(difference(&old, &moved, false).changed.len(), 1);
    let found = difference(&old, &moved, true);
    assert_eq!(found, Difference { renamed: Some(1), ..Difference::default() });
    assert!(found.to_string().contains("1 but for names that the compiler makes up, which were normalised"));

    let changed = build("changed", &kernel("siWyDCEFOKMp", 31, 2));
    let found = difference(&old, &changed, true);
    assert_eq!((found.renamed, found.changed.len(), found.changed[0].line), (Some(0), 1, 1));
}

#[test]
fn other_names_and_who_uses_which_stay() {
    assert_eq!(names::normalised("call _RA, _RB, _RA, mine_RA;"), "call name0, name1, name0, mine_RA;\n");
    assert_ne!(names::normalised("_RA _RB _RA"), names::normalised("_RA _RB _RB"));
    assert_ne!(names::normalised("bra $L__BB1_2;"), names::normalised("bra $L__BB1_3;"));
    assert_eq!(names::normalised("\tret; // callseq 12, 0\n\tret;"), "\tret; // callseq\n\tret;\n");
}

#[test]
fn what_cannot_be_understood_is_answered_with_the_usage() {
    for arguments in [&["a"][..], &["a", "b", "c"], &["--other", "a", "b"]] {
        assert_eq!(ptx_diff(arguments).unwrap_err(), USAGE);
    }
}
