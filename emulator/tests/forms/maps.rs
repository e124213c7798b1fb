//! Tensor maps: those in im2col mode, and those that kernels change.

use tilewright_emulator::{
    Arch, DataType, Emulator, Fault, Fill, Im2col, Launch, Module, Swizzle, TensorMap,
};

/// Channels, width, height and images of the tensor.
const SHAPE: [u64; 4] = [16, 7, 5, 3];

fn map(address: u64) -> TensorMap {
    TensorMap {
        data: DataType::U16,
        rank: 4,
        address,
        shape: [SHAPE[0], SHAPE[1], SHAPE[2], SHAPE[3], 1],
        strides: [32, 32 * 7, 32 * 7 * 5, 0],
        tile: [16, 4, 2, 1, 0],
        steps: [1; 5],
        swizzle: Swizzle::None,
        fill: Fill::Zero,
        im2col: None,
    }
}

/// The element at a place, 0 outside.
fn element(at: [i64; 4]) -> u32 {
    match at.iter().zip(SHAPE).all(|(&at, extent)| (0..extent as i64).contains(&at)) {
        true => (1 + at[0] + 16 * (at[1] + 7 * (at[2] + 5 * at[3]))) as u32,
        false => 0,
    }
}

const HEAD: &str = ".version 8.6\n.target sm_90a\n.address_size 64\n\
    .visible .entry k(.param .u64 out, .param .u64 tensor, .param .u64 own, .param .align 64 .b8 map[128])\n{\n\
    .reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<16>;\n.reg .b32 %t;\n.reg .b64 %d<8>;\n.reg .b64 %out, %tensor, %own, %map;\n\
    .shared .align 128 .b8 buffer[4096];\n.shared .align 128 .b8 copy[128];\n.shared .align 8 .b64 bar;\n\
    ld.param.u64 %out, [out];\nld.param.u64 %tensor, [tensor];\nld.param.u64 %own, [own];\n\
    mov.b64 %map, map;\ncvta.param.u64 %map, %map;\nmov.u32 %t, %tid.x;\n\
    setp.ne.u32 %p0, %t, 0;\n@%p0 bra READY;\nmbarrier.init.shared.b64 [bar], 1;\nREADY: bar.sync 0;\n";

/// What a warp does when a copy of so many bytes has come.
fn tail(bytes: usize) -> String {
    format!(
        "mov.u32 %r0, 0;\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;\n@!%p1 bra WAIT;\n\
         LOOP: add.u32 %r1, %r0, %t;\nmov.u32 %r2, buffer;\nmad.lo.u32 %r2, %r1, 2, %r2;\nld.shared.u16 %r3, [%r2];\n\
         mad.wide.u32 %d0, %r1, 4, %out;\nst.global.u32 [%d0], %r3;\nadd.u32 %r0, %r0, 32;\n\
         setp.lt.u32 %p1, %r0, {};\n@%p1 bra LOOP;\n",
        bytes / 2
    )
}

/// One lane's copy of so many bytes by an instruction.
fn copied(bytes: usize, copy: &str) -> String {
    format!(
        "@%p0 bra COPIED;\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], {bytes};\n{copy}\nCOPIED:\n{}",
        tail(bytes)
    )
}

/// Runs a kernel of one warp; gives so many words.
fn run(body: &str, encoded: impl Fn(u64) -> TensorMap, words: usize) -> Result<Vec<u32>, Fault> {
    let text = format!("{HEAD}{body}\nret;\n}}\n");
    let module = Module::load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let emulator = Emulator::new(Arch::Sm90a);
    let [out, tensor, own] =
        [4096, 2 * 16 * 7 * 5 * 3, 128].map(|bytes| emulator.allocate(bytes).expect("it is little"));
    let elements: Vec<u8> = (1..=16 * 7 * 5 * 3u16).flat_map(u16::to_le_bytes).collect();
    emulator.write(tensor, &elements).expect("just allocated");
    let words_of = |map: TensorMap| -> Vec<u8> {
        map.encode().expect("allowed").iter().flat_map(|word| word.to_le_bytes()).collect()
    };
    emulator.write(own, &words_of(encoded(tensor))).expect("just allocated");
    let mut parameters: Vec<u8> = [out, tensor, own].iter().flat_map(|at| at.to_le_bytes()).collect();
    parameters.resize(parameters.len().next_multiple_of(64), 0);
    parameters.extend(words_of(encoded(tensor)));
    let launch = Launch { threads: [32, 1, 1], ..Launch::default() };
    emulator.launch(&module.kernel("k").expect("it is called so"), &launch, &parameters)?;
    let mut bytes = vec![0; 4 * words];
    emulator.read(out, &mut bytes).expect("just allocated");
    Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

/// A convolution's window of 3 x 3, with one row and column of padding, and steps of pixels.
fn window(address: u64, steps: [u32; 2], pixels: u32) -> TensorMap {
    TensorMap {
        tile: [8, pixels, 0, 0, 0],
        steps: [1, steps[0], steps[1], 1, 1],
        im2col: Some(Im2col { lower: [-1, -1, 0], upper: [-1, -1, 0] }),
        ..map(address)
    }
}

/// What a load in im2col mode gives: pixel after pixel of the output, whose first one is at the corner.
fn expected(steps: [i64; 2], pixels: usize, first: [i64; 4], offsets: [i64; 2]) -> Vec<u32> {
    // The corners are -1 and the last pixel but one: so many steps between them.
    let (w, h): (Vec<i64>, Vec<i64>) =
        ((-1..=5).step_by(steps[0] as usize).collect(), (-1..=3).step_by(steps[1] as usize).collect());
    let all = (0..9).flat_map(|n| {
        h.iter().flat_map({
            let w = &w;
            move |&h| w.iter().map(move |&w| [w, h, n])
        })
    });
    let from = all.skip_while(|&at| at != [first[1], first[2], first[3]]).take(pixels);
    from.flat_map(|[w, h, n]| (0..8).map(move |c| element([first[0] + c, w + offsets[0], h + offsets[1], n])))
        .collect()
}

#[test]
fn windows_are_copied_pixel_by_pixel() {
    for (steps, first, offsets) in [
        ([1, 1], [0, -1, -1, 0], [0, 0]),
        ([1, 1], [8, 3, 2, 0], [2, 1]),
        ([1, 1], [0, 5, 3, 1], [1, 2]),
        ([2, 2], [0, -1, -1, 0], [1, 1]),
        ([2, 1], [8, 3, 3, 2], [2, 2]),
    ] {
        let [c, w, h, n] = first;
        let copy = format!(
            "mov.u32 %r4, {c};\nmov.u32 %r5, {w};\nmov.u32 %r6, {h};\nmov.u32 %r7, {n};\nmov.u16 %h1, {};\nmov.u16 %h2, {};\n\
             cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes \
             [buffer], [%map, {{%r4, %r5, %r6, %r7}}], [bar], {{%h1, %h2}};",
            offsets[0], offsets[1]
        );
        let pixels = 48;
        let found =
            run(&copied(16 * pixels, &copy), |at| window(at, steps.map(|step| step as u32), 48), 8 * pixels);
        let found = found.unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(found, expected(steps, pixels, first, offsets), "{steps:?} {first:?} {offsets:?}");
    }
}

#[test]
fn modes_and_corners_are_checked() {
    let load = |mode: &str, w: i32, tail: &str| {
        format!(
            "mov.u32 %r4, 0;\nmov.u32 %r5, {w};\nmov.u32 %r6, 0;\nmov.u32 %r7, 0;\nmov.u16 %h1, 0;\n\
             cp.async.bulk.tensor.4d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes \
             [buffer], [%map, {{%r4, %r5, %r6, %r7}}], [bar]{tail};"
        )
    };
    let accused = |body: &str, pixels: bool| {
        let map = |at| if pixels { window(at, [1, 1], 8) } else { map(at) };
        run(&copied(128, body), map, 1).expect_err("the kernel is faulty").to_string()
    };
    let tiled = accused(&load("", 0, ""), true);
    assert!(tiled.contains("a copy in tiled mode with a tensor map in im2col mode"), "{tiled}");
    let windows = accused(&load(".im2col", 0, ", {%h1, %h1}"), false);
    assert!(windows.contains("a copy in im2col mode with a tensor map in tiled mode"), "{windows}");
    let outside = accused(&load(".im2col", 6, ", {%h1, %h1}"), true);
    assert!(outside.contains("begins at pixel 6, outside of the box from -1 to 5"), "{outside}");
    let far = load(".im2col", 0, ", {%h1, %h1}").replace("mov.u16 %h1, 0;", "mov.u16 %h1, 256;");
    let far = accused(&far, true);
    assert!(far.contains("an offset of 256 in im2col mode: of 4 dimensions it is at most 255"), "{far}");
    let refused = |map: TensorMap| map.encode().expect_err("refused").to_string();
    assert!(
        refused(TensorMap { tile: [8, 1025, 0, 0, 0], ..window(0, [1, 1], 8) })
            .contains("pixels in im2col mode was 1025")
    );
    let far = Im2col { lower: [-129, 0, 0], upper: [0; 3] };
    assert!(refused(TensorMap { im2col: Some(far), ..window(0, [1, 1], 8) }).contains("corner was -129"));
    let crossed = Im2col { lower: [0; 3], upper: [-7, 0, 0] };
    assert!(
        refused(TensorMap { im2col: Some(crossed), ..window(0, [1, 1], 8) }).contains("corners was (0, -1)")
    );
    let decoded = TensorMap::decode(&window(64, [2, 1], 9).encode().expect("allowed"));
    assert_eq!(decoded.map(|map| map.im2col), Ok(window(64, [2, 1], 9).im2col));
}

#[test]
fn pixels_are_stored_where_loads_take_them() {
    let store = "mad.lo.u32 %r1, %t, 16, 0;\nmov.u32 %r2, buffer;\nadd.u32 %r2, %r1, %r2;\nmov.b32 %r3, 0x00070007;\n\
        st.shared.v4.b32 [%r2], {%r3, %r3, %r3, %r3};\nfence.proxy.async.shared::cta;\nbar.sync 0;\n@%p0 bra DONE;\n\
        mov.u32 %r4, 0;\nmov.u32 %r5, 5;\nmov.u32 %r6, -1;\nmov.u32 %r7, 0;\n\
        cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%map, {%r4, %r5, %r6, %r7}], [buffer];\n\
        cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n\
        ld.global.u16 %r3, [%tensor];\nst.global.u32 [%out], %r3;\nld.global.u16 %r3, [%tensor+32];\nst.global.u32 [%out+4], %r3;\n\
        ld.global.u16 %r3, [%tensor+192];\nst.global.u32 [%out+8], %r3;\nDONE:";
    // Pixel (5, -1) and (-1, 0) are outside, (0, 0) to (5, 0) follow, then (-1, 1) again.
    let found = run(store, |at| window(at, [1, 1], 9), 3).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(found, [7, 7, 1 + 16 * 6]);
}

/// The map that is the kernel's own is moved two pixels and one row, as CUTLASS does it: changed in shared memory, copied back.
const CHANGE: &str = "setp.lt.u32 %p1, %t, 32;\nmul.wide.u32 %d1, %t, 4;\nadd.u64 %d2, %own, %d1;\nld.global.u32 %r1, [%d2];\n\
    mov.u32 %r2, copy;\nmad.lo.u32 %r2, %t, 4, %r2;\nst.shared.u32 [%r2], %r1;\n⟦bar.warp.sync -1;⟧\n@%p0 bra CHANGED;\n\
    add.u64 %d3, %tensor, 288;\nmov.b64 %d4, copy;\ncvta.shared.u64 %d4, %d4;\nmov.u32 %r2, 4;\nmov.u64 %d5, 256;\n\
    tensormap.replace.tile.global_address.shared::cta.b1024.b64 [copy], %d3;\n\
    tensormap.replace.tile.rank.b1024.b32 [%d4], 1;\n\
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [copy], 1, %r2;\n\
    tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [copy], 0, %d5;\n\
    tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [copy], 1, 6;\n\
    tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [copy], 1, 1;\n\
    tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [copy], 1;\n\
    tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [copy], 1;\n\
    tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [copy], 0;\n\
    tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [copy], 0;\nCHANGED: bar.warp.sync -1;\n";

const LOAD: &str = "mov.u32 %r4, 0;\nmov.u32 %r5, 1;\n\
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [buffer], [%own, {%r4, %r5}], [bar];";

#[test]
fn maps_are_changed_in_shared_memory() {
    let right = format!(
        "{}tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%own], [copy], 128;\n\
         fence.proxy.tensormap::generic.acquire.gpu [%own], 128;\n{}",
        CHANGE.replace(['⟦', '⟧'], ""),
        copied(192, LOAD)
    );
    let found = run(&right, map, 96).unwrap_or_else(|fault| panic!("{fault}"));
    // Rows 1 to 6 of four, eight elements apart; with a swizzle of 32 bytes, whose pieces change places from row 4 on.
    for (i, &word) in (0..).zip(&found) {
        let swapped = if i / 64 % 2 != 0 { 8 } else { 0 };
        let (row, column) = (i / 16, (i % 16) ^ swapped);
        let inside = row + 1 < 4;
        let expected = if inside { 1 + 144 + 128 * (row + 1) + column } else { 0 };
        assert_eq!(word, expected, "{i}");
    }
    // Without the barrier lane 0 changes what others may not have written.
    let (before, rest) = CHANGE.split_once('⟦').expect("a part in brackets");
    let wrong = format!("{before}{}", rest.split_once('⟧').expect("it ends").1);
    let race = run(&format!("{wrong}{}", copied(192, LOAD)), map, 1).expect_err("a race").to_string();
    assert!(race.contains("tensormap.replace"), "{race}");
}

#[test]
fn maps_in_global_memory_take_a_fence() {
    let change = "@%p0 bra SET;\nadd.u64 %d3, %tensor, 32;\ntensormap.replace.tile.global_address.global.b1024.b64 [%own], %d3;\n\
        ⟦fence.proxy.tensormap::generic.release.gpu;\nfence.proxy.tensormap::generic.acquire.gpu [%own], 128;\n⟧SET:\n";
    let copy = "mov.u32 %r4, 0;\nmov.u32 %r5, 0;\ncp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes \
        [buffer], [%own, {%r4, %r5, %r5, %r5}], [bar];";
    let right = format!("{}{}", change.replace(['⟦', '⟧'], ""), copied(256, copy));
    let found = run(&right, map, 128).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(found[..65], [(17..81).collect::<Vec<u32>>(), vec![17 + 112]].concat());
    let (before, rest) = change.split_once('⟦').expect("a part in brackets");
    let wrong = format!("{before}{}{}", rest.split_once('⟧').expect("it ends").1, copied(256, copy));
    let unfenced = run(&wrong, map, 1).expect_err("a fence is missing").to_string();
    assert!(unfenced.contains("fence.proxy"), "{unfenced}");
    let no_map = run(
        "@%p0 exit;\nst.shared.u64 [copy], 0;\ntensormap.replace.tile.global_address.global.b1024.b64 [%tensor+128], 0;",
        map,
        1,
    );
    assert!(no_map.expect_err("no map").to_string().contains("that of a map which this crate encoded"));
}
