//! What `list` says of a file.

use serde_json::json;

use crate::command::{command, corpus};

#[test]
fn kernels_are_listed() {
    let done = command(&format!("list {}", corpus("cuda/reduce.90.ptx")));
    assert_eq!(done.code, 0);
    let lines: Vec<Vec<&str>> = done.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["block_sums", "(sm_90)"]);
    assert_eq!(lines[3], ["argument", "2", "4", "bytes,", "`block_sums_param_2`"]);
    assert!(lines.iter().any(|line| line[..] == ["maximum", "(sm_90)"]), "{}", done.out);
    assert!(done.out.contains("shared memory  128 bytes"), "{}", done.out);
}

#[test]
fn kernels_are_listed_as_json() {
    let (report, code) = crate::command::json(&format!("list {}", corpus("cuda/reduce.90.ptx")));
    assert_eq!((code, &report["target"]), (0, &json!("sm_90")));
    let kernel = &report["kernels"][0];
    assert_eq!(
        (&kernel["name"], &kernel["shared"], &kernel["local"]),
        (&json!("block_sums"), &json!(128), &json!(0))
    );
    assert_eq!(kernel["parameters"][2], json!({ "name": "block_sums_param_2", "bytes": 4, "align": 4 }));
    assert!(kernel["registers"]["b32"].as_u64().unwrap() > 0 && kernel["threads"].is_null());
}

#[test]
fn what_is_no_ptx_is_not_listed() {
    let done = command(&format!("list {}", corpus("cuda/reduce.cu")));
    assert_eq!((done.code, done.out.as_str()), (2, ""));
    assert!(done.error.contains("reduce.cu: PTX line 2: "), "{}", done.error);
}
