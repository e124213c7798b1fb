//! What kernels leave in memory: written to files, compared with them.

use serde_json::json;

use crate::command::{command, corpus, file, json, kernel, scratch};

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

#[test]
fn a_triton_kernel_computes_what_is_expected() {
    let (rows, width) = (4, 300);
    let x: Vec<f32> = (0..rows * width).map(|i| (i * 7919 % 1000) as f32 / 100.0 - 5.0).collect();
    let y: Vec<f32> = x
        .chunks(width)
        .flat_map(|row| {
            let total: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
            row.iter().map(move |x| (f64::from(*x).exp() / total) as f32)
        })
        .collect();
    let (input, expected) = (file("softmax.x", &bytes(&x)), file("softmax.y", &bytes(&y)));
    let out = scratch("softmax.npy");
    let launch = format!(
        "run {} --grid {rows} --block 128 --shared 2048 --arg file:f32:{input} --arg y=empty:f32:{rows}x{width} \
         --arg i32:{width} --arg null --arg null --seeds 0..2 --out y={}",
        corpus("triton/softmax.90.ptx"),
        out.display()
    );
    let (report, code) = json(&format!("{launch} --expect y={expected}:1e-5"));
    assert_eq!((code, &report["ok"]), (0, &json!(true)), "{report}");
    let result = &report["runs"][2]["results"][0];
    assert_eq!(
        (&result["name"], &result["type"], &result["shape"]),
        (&json!("y"), &json!("f32"), &json!([4, 300]))
    );
    assert_eq!(result, &report["runs"][0]["results"][0], "the same digest in each order");

    // Rounded otherwise by the last bit somewhere.
    let exact = command(&format!("{launch} --expect y={expected}"));
    assert_eq!(exact.code, 1, "{}", exact.out);
    assert!(exact.out.contains("no fault, and results differ\n  y differs from"), "{}", exact.out);

    // What was written is read again.
    let again = launch.replace("--arg y=empty:f32:4x300", &format!("--arg y=file:{}", out.display()));
    let again = command(&format!("{again} --expect y={}", out.display()));
    assert_eq!(again.code, 0, "{}{}", again.out, again.error);
}

#[test]
fn numbers_structures_and_places_are_passed() {
    // Turns groups of four by a structure of four factors.
    let scale: String =
        [2f32, 4.0, 8.0, 16.0].iter().flat_map(|x| x.to_le_bytes()).map(|x| format!("{x:02x}")).collect();
    let expected: Vec<f32> =
        (0..128).map(|i| (i / 4 * 4 + 3 - i % 4) as f32 * [2.0, 4.0, 8.0, 16.0][i % 4]).collect();
    let expected = file("turn.y", &bytes(&expected));
    for scale in [format!("bytes:{scale}"), "struct:f32:2,f32:4,f32:8,f32:16".to_owned()] {
        let done = command(&format!(
            "run {} --kernel turn --block 32 --arg range:f32:128 --arg y=zeros:f32:128 --arg {scale} --expect y={expected}",
            corpus("cuda/transpose.90.ptx")
        ));
        assert_eq!(done.code, 0, "{}{}", done.out, done.error);
    }

    let copy = kernel("copy", "ld.global.u32 %r1, [%mine+128];\nst.global.u32 [%mine], %r1;");
    let whole = file("whole", &[7u32, 8].iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
    // Two warps are one apart: what the first reads the second writes.
    let one = command(&format!("run {copy} --block 2 --arg x=range:u32:64:-25 --expect x={whole}"));
    assert!(one.error.contains("`-25`"), "{}", one.error);
    let some = format!("run {copy} --block 2 --arg y=range:u32:34:7 --out y={}", scratch("y.bin").display());
    assert_eq!(command(&some).code, 0);
    let left = std::fs::read(scratch("y.bin")).unwrap();
    assert_eq!(left.len(), 4 * 34);
    assert_eq!(left[..8], [39, 0, 0, 0, 40, 0, 0, 0]);
}

#[test]
fn an_argument_lies_in_another() {
    let text = std::fs::read_to_string(corpus("cuda/reduce.90.ptx")).unwrap();
    let maximum = file("maximum.ptx", text.as_bytes());
    let expected = file("maximum.y", &[5i32.to_le_bytes(), 95i32.to_le_bytes()].concat());
    let done = command(&format!(
        "run {maximum} --kernel maximum --block 32 --arg range:i32:91:5 --arg @y+4 --arg y=i32:91"
    ));
    assert!(done.error.contains("there is no buffer `y`; there are: 0"), "{}", done.error);
    // The result lies behind what the kernel does not touch. Its fourth argument is none.
    let done = command(&format!(
        "run {maximum} --kernel maximum --block 32 --arg x=range:i32:91:5 --arg @x+364 --arg i32:91"
    ));
    assert!(done.code == 1 && done.out.contains("out of bounds"), "{}{}", done.out, done.error);
    let done = command(&format!(
        "run {maximum} --kernel maximum --block 32 --arg y=file:i32:{expected} --arg @y+4 --arg i32:1 --expect y={expected}"
    ));
    assert_eq!(done.code, 0, "{}{}", done.out, done.error);
}

#[test]
fn tensor_maps_are_made_of_buffers() {
    // Copies the box at column 8, row 2 of a tensor.
    let text = ".version 8.3\n.target sm_90a\n.address_size 64\n\
        .visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)\n{\n\
        .reg .pred %p;\n.reg .b32 %t, %x, %y, %v;\n.reg .b64 %map, %out;\n\
        .shared .align 128 .b8 tile[128];\n.shared .align 8 .b64 bar;\n\
        ld.param.u64 %out, [out];\nmov.b64 %map, map;\ncvta.param.u64 %map, %map;\nmov.u32 %t, %tid.x;\n\
        setp.ne.u32 %p, %t, 0;\n@%p bra COPIED;\nmov.u32 %x, 8;\nmov.u32 %y, 2;\n\
        mbarrier.init.shared.b64 [bar], 1;\nfence.mbarrier_init.release.cluster;\n\
        mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;\n\
        cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%map, {%x, %y}], [bar];\n\
        COPIED: bar.sync 0;\n\
        WAIT: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;\n@!%p bra WAIT;\n\
        mov.u32 %x, tile;\nmad.lo.u32 %x, %t, 4, %x;\nld.shared.u32 %v, [%x];\n\
        mad.wide.u32 %out, %t, 4, %out;\nst.global.u32 [%out], %v;\nret;\n}\n";
    let ptx = file("tensor.ptx", text.as_bytes());
    let expected: Vec<u8> = (0..32).flat_map(|i: u32| ((2 + i / 8) * 16 + 8 + i % 8).to_le_bytes()).collect();
    let expected = file("tensor.y", &expected);
    let run = |map: &str| {
        command(&format!(
            "run {ptx} --block 32 --arg tensormap:{map} --arg y=empty:u32:4x8 --buffer x=range:u32:8x16 \
             --expect y={expected}"
        ))
    };
    let done = run("x:4x8");
    assert_eq!(done.code, 0, "{}{}", done.out, done.error);
    // A box of as many bytes.
    let done = run("x:8x4");
    assert!(done.out.contains("differs from"), "{}{}", done.out, done.error);
    for (map, says) in [
        ("z:4x8", "there is no buffer `z`; there are: y, x"),
        ("x:4", "the box was of 1 dimensions, of a buffer of 2"),
        ("x:4x512", "a tensor map's box was 512"),
    ] {
        let done = run(map);
        assert!(done.code == 2 && done.error.contains(says), "{}{}", done.out, done.error);
    }
}

#[test]
fn clusters_are_as_large_as_the_kernel_requires() {
    let text = ".version 8.3\n.target sm_90a\n.address_size 64\n\
        .visible .entry k() .explicitcluster .reqnctapercluster 2, 1, 1\n{\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\nret;\n}\n";
    let ptx = file("cluster.ptx", text.as_bytes());
    let (report, code) = json(&format!("run {ptx} --grid 4 --block 32"));
    assert_eq!((code, &report["cluster"]), (0, &json!([2, 1, 1])), "{report}");
    let done = command(&format!("run {ptx} --grid 4 --block 32 --cluster 4"));
    assert!(
        done.code == 1 && done.out.contains("the kernel requires [2, 1, 1]"),
        "{}{}",
        done.out,
        done.error
    );
}
