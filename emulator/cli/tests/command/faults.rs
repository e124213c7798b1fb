//! Faulty kernels are reported, as text and as JSON; the same kernels, corrected, are not.

use serde_json::{Value, json};

use crate::command::{command, kernel};

const LAUNCH: &str = "--block 64 --arg out=zeros:u32:64";

/// Runs a faulty kernel, once with its report as text and once as JSON, and then its corrected twin: the fault.
fn pair(name: &str, body: impl Fn(&str) -> String, faulty: &str, corrected: &str, words: &str) -> Value {
    let run = |text: &str| {
        format!("run {} {LAUNCH} {words}", kernel(&format!("{name}_{}", text.len()), &body(text)))
    };
    let text = command(&run(faulty));
    assert_eq!((text.code, text.error.as_str()), (1, ""), "{}", text.out);
    let (report, code) = crate::command::json(&run(faulty));
    assert_eq!((code, &report["ok"]), (1, &json!(false)));
    let fault = report["runs"][0]["fault"].clone();
    let (message, kind) = (fault["message"].as_str().unwrap(), fault["kind"].as_str().unwrap());
    let expected = format!(" s: {kind}\n{message}: kernel k");
    assert!(text.out.contains(&expected), "{expected} in {}", text.out);

    let text = command(&run(corrected));
    assert_eq!((text.code, text.error.as_str()), (0, ""), "{}", text.out);
    assert!(text.out.contains(" s: no fault\n"), "{}", text.out);
    let (report, code) = crate::command::json(&run(corrected));
    assert_eq!((code, &report["ok"], &report["runs"][0]["fault"]), (0, &json!(true), &Value::Null));
    fault
}

#[test]
fn a_missing_barrier() {
    let exchange = |barrier: &str| {
        format!(
            "st.shared.u32 [%r0], %t;\n{barrier}\n.loc 1 7 3\nxor.b32 %r1, %r0, 128;\nld.shared.u32 %r2, [%r1];\n\
             st.global.u32 [%mine], %r2;"
        )
    };
    let fault = pair("barrier", exchange, "", "bar.sync 0;", "");
    assert_eq!(fault["kind"], "race");
    assert_eq!((&fault["kernel"], &fault["cta"]), (&json!("k"), &json!([0, 0, 0])));
    assert!(fault["thread"].is_u64() && fault["ptx_line"].is_u64());
    assert!(fault["message"].as_str().unwrap().starts_with("race: 4 bytes of shared memory"), "{fault}");
    // What the check of order finds is not found without it.
    let body = exchange("");
    let unchecked = command(&format!("run {} {LAUNCH} --no-checks", kernel("unchecked", &body)));
    assert_eq!(unchecked.code, 0, "{}", unchecked.out);
}

#[test]
fn an_address_with_its_place() {
    let store = |beyond: &str| format!(".loc 1 42 5\nst.global.u32 [%mine+{beyond}], %t;");
    let fault = pair("bounds", store, "64", "0", "");
    assert_eq!((&fault["kind"], &fault["thread"]), (&json!("address"), &json!(48)));
    assert_eq!(fault["source"], json!([{ "file": "kernel.cu", "line": 42 }]));
    assert_eq!(fault["instruction"], "st.global.u32 [%mine+64], %t;");
    // Where the buffers were, by name.
    let words = format!("run {} {LAUNCH}", kernel("bounds_where", &store("64")));
    let (text, (report, _)) = (command(&words).out, crate::command::json(&words));
    let places = &report["runs"][0]["buffers"];
    let (from, to) = (places[0]["from"].as_u64().unwrap(), places[0]["to"].as_u64().unwrap());
    assert_eq!((&places[0]["name"], to - from), (&json!("out"), 256));
    assert!(text.contains(&format!("\n  out: {from:#x} to {to:#x}\n")), "{text}");
    assert!(fault["message"].as_str().unwrap().contains(&format!("{from:#x} to {to:#x}")), "{fault}");
    assert!(fault["message"].as_str().unwrap().contains("out of bounds"), "{fault}");
}

#[test]
fn every_kind_has_its_name() {
    for (kind, body, faulty, corrected) in [
        ("misaligned", "st.global.u32 [%mine#], %t;", "+2", ""),
        ("uninitialized", "# st.global.u32 [%mine], %r5;", "", "mov.u32 %r5, 1;"),
        ("trap", "@!%p1 bra END; #; END:", "trap", "ret"),
        ("deadlock", "setp.lt.u32 %p2, %t, 32;\n@%p2 bra END;\nbar.sync 1, #; END:", "64", "32"),
        ("misuse", "bar.sync 1, #;", "63", "64"),
    ] {
        let body = format!("setp.eq.u32 %p1, %t, 5;\n{body}");
        let fault = pair(kind, |text| body.replace('#', text), faulty, corrected, "");
        assert_eq!(fault["kind"], kind, "{fault}");
    }
    // Of launches, not of kernels.
    let good = kernel("launch", "");
    let (report, code) = crate::command::json(&format!("run {good} --block 2048 --arg zeros:u32:1"));
    assert_eq!((code, &report["runs"][0]["fault"]["kind"]), (1, &json!("launch")));
    assert_eq!(report["runs"][0]["fault"]["cta"], Value::Null);
}

#[test]
fn loops_without_end_end_at_their_limit() {
    // Of steps of two the count never is five.
    let count = |step: &str| {
        format!("mov.u32 %r1, 0;\nMORE: add.u32 %r1, %r1, {step};\nsetp.ne.u32 %p1, %r1, 5;\n@%p1 bra MORE;")
    };
    let fault = pair("endless", count, "0x2", "1", "--limits instructions=20000");
    assert_eq!(fault["kind"], "limit", "{fault}");
}

#[test]
fn a_random_order_finds_what_the_fixed_one_does_not() {
    // The numbers that an atomic operation gives out depend on the order of warps; their sum does not.
    let count = |store: &str| {
        format!(
            "mov.u32 %r2, words;\nsetp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.u32 [%r2], 0;\nbar.sync 0;\n\
             atom.shared.add.u32 %r1, [%r2], 1;\n{store}"
        )
    };
    let run = |name: &str, store: &str, words: &str| {
        crate::command::json(&format!("run {} {LAUNCH} {words}", kernel(name, &count(store))))
    };
    let ticket = "st.global.u32 [%mine], %r1;";
    assert_eq!(run("ticket", ticket, "").1, 0);
    let (report, code) = run("ticket", ticket, "--seeds 0..64");
    assert_eq!(code, 1);
    let last = report["runs"].as_array().unwrap().last().unwrap();
    let difference = &last["differences"][0];
    assert_eq!(
        (&difference["name"], &difference["with"]),
        (&json!("out"), &json!("the run in the fixed order"))
    );
    assert!(difference["count"].as_u64().unwrap() >= 2 && difference["of"] == 64, "{difference}");
    let (report, code) = run("total", "red.global.add.u32 [%out], %r1;", "--seeds 0..5");
    assert_eq!((code, report["runs"].as_array().unwrap().len()), (0, 6));
}
