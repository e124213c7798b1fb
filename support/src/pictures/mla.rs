//! The buffers of the MLA kernel, in the layouts that its policies infer.

use tilewright_device::tile::{FullCol, Gemm, Warpgroup, f16};

use super::canvas::{Canvas, Rect};
use super::{Picture, fragment, name_of, pieces};

/// Who computes the scores, and who the output: as the kernels' list has them.
type Scores = Warpgroup<2>;
type Output = FullCol<2>;

/// The products of the kernel, whose operands' layouts are asked for below.
type Layouts<P, const M: usize, const N: usize, const K: usize> =
    (<P as Gemm<f16, M, N, K>>::A, <P as Gemm<f16, M, N, K>>::B, <P as Gemm<f16, M, N, K>>::D);

/// Thread 0 of the output's first warpgroup, and of the scores'.
const THREADS: [u32; 2] = [0, 256];
/// Columns of Q in registers, and in shared memory.
const SPLIT: [u32; 2] = [496, 80];
const HEADING: f32 = 13.0;
const SMALL: f32 = 10.0;

/// A picture of each buffer of the kernel.
pub fn mla() -> Vec<Picture> {
    let all = [
        ("mla/stage.svg", stage as fn() -> String),
        ("mla/queries.svg", queries),
        ("mla/scores.svg", scores),
        ("mla/weights.svg", weights),
        ("mla/output.svg", output),
    ];
    all.map(|(name, draw)| Picture { name, svg: draw() }).into()
}

/// Q Kᵀ.
type QK = Layouts<Scores, 64, 64, 576>;
/// P V.
type PV = Layouts<Output, 64, 512, 64>;

trait Three {
    type A;
    type B;
    type D;
}
impl<A, B, D> Three for (A, B, D) {
    type A = A;
    type B = B;
    type D = D;
}

fn stage() -> String {
    type L = <QK as Three>::B;
    let mut canvas = Canvas::new("A stage of the ring: 64 keys of 576 columns");
    let heading = format!(
        "A stage: 64 keys x 576 columns, {}. A row is a key, a cell 16 bytes, a colour the four banks that hold them.",
        name_of::<L>()
    );
    canvas.text(0.0, 10.0, HEADING, &heading);
    let [right, bottom] = pieces::<L>(&mut canvas, [0.0, 44.0], [12.0, 6.0], [64, 1152]);
    for (first, last, words) in [
        (0, 512, "columns 0 to 511: V, and with the rest K; at the end of an item O is staged here"),
        (512, 576, "rope of K, then P"),
    ] {
        let (x, width) = (right * first as f32 / 576.0, right * (last - first) as f32 / 576.0);
        canvas.frame(Rect { x, y: 44.0, width, height: bottom - 44.0 });
        canvas.text(x + 2.0, 38.0, SMALL, words);
    }
    let box_bytes = 64 * 128;
    canvas.text(
        0.0,
        bottom + 14.0,
        SMALL,
        &format!("Boxes of 64 columns, {box_bytes} bytes each, lie one behind the other; in a box, 8 rows of one column of cells are in all 32 banks."),
    );
    canvas.finish()
}

fn queries() -> String {
    type A = <QK as Three>::A;
    type D = <QK as Three>::D;
    let mut canvas = Canvas::new("Q: 64 queries of 576 columns");
    canvas.text(
        0.0,
        10.0,
        HEADING,
        &format!("Q: columns 0 to {} in registers, as {}; 16 of them:", SPLIT[0] - 1, name_of::<D>()),
    );
    let [right, _] = fragment::<Scores, 64, 16>(&mut canvas, [0.0, 20.0], [14.0, 9.0], THREADS[1]);
    let words =
        ["a colour: a warp", "framed: thread 0 of the warpgroup,", "its elements in order, two a register"];
    for (line, words) in words.into_iter().enumerate() {
        canvas.text(0.0, 20.0 + 64.0 * 9.0 + 14.0 + 13.0 * line as f32, SMALL, words);
    }
    // Beside the words, which are wider than the registers.
    let left = right + 330.0;
    canvas.text(
        left,
        10.0,
        HEADING,
        &format!("the last {} columns in shared memory, {}:", SPLIT[1], name_of::<A>()),
    );
    let [_, bottom] = pieces::<A>(&mut canvas, [left, 20.0], [24.0, 9.0], [64, 2 * SPLIT[1]]);
    canvas.text(left, bottom + 14.0, SMALL, "a cell: 16 bytes; a colour: the four banks that hold them");
    canvas.finish()
}

fn scores() -> String {
    type D = <QK as Three>::D;
    let mut canvas = Canvas::new("The scores: 64 queries x 64 keys");
    canvas.text(
        0.0,
        10.0,
        HEADING,
        &format!("S = Q Kᵀ, {}: 64 queries x 64 keys in 32 registers of 128 threads", name_of::<D>()),
    );
    let [_, bottom] = fragment::<D, 64, 64>(&mut canvas, [0.0, 20.0], [12.0, 9.0], THREADS[1]);
    canvas.text(
        0.0,
        bottom + 14.0,
        SMALL,
        "a colour: a warp; numbered: the registers of the warpgroup's thread 0, which has rows 0 and 8",
    );
    canvas.finish()
}

fn weights() -> String {
    type A = <PV as Three>::A;
    let mut canvas = Canvas::new("The weights: 64 queries x 64 keys");
    canvas.text(0.0, 10.0, HEADING, &format!("P, {}: 64 queries x 64 keys", name_of::<A>()));
    let [_, bottom] = pieces::<A>(&mut canvas, [0.0, 20.0], [30.0, 8.0], [64, 128]);
    canvas.text(0.0, bottom + 14.0, SMALL, "a cell: 16 bytes, weights of 8 keys");
    canvas.text(0.0, bottom + 27.0, SMALL, "a colour: the four banks that hold them");
    canvas.finish()
}

fn output() -> String {
    type D = <PV as Three>::D;
    let mut canvas = Canvas::new("The output: 64 queries x 512 columns");
    canvas.text(
        0.0,
        10.0,
        HEADING,
        &format!("O = P V, {}: 64 queries x 512 columns in 128 registers of 256 threads", name_of::<D>()),
    );
    let [_, bottom] = fragment::<D, 64, 512>(&mut canvas, [0.0, 20.0], [2.0, 4.0], THREADS[0]);
    canvas.text(0.0, bottom + 14.0, SMALL, "blue and orange: the two warpgroups; a shade: a warp; framed: the elements of thread 0, in rows 0 and 8 as those of S");
    canvas.finish()
}
