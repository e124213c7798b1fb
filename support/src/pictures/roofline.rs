//! The tables of `BENCHMARKS.md` under the roofline of the card that they were measured on.
//!
//! Williams, Waterman, Patterson: "Roofline: an insightful visual performance model for multicore architectures", 2009.

use super::Picture;
use super::canvas::Canvas;
use super::tables::{Row, rows};
use crate::Result;

/// An H200 by its data sheet: TFLOP/s of f16 without sparsity, and TB/s of its memory.
const PEAK: f32 = 989.0;
const MEMORY: f32 = 4.8;

/// Sections whose tables have operations and bytes, and their colours.
const SECTIONS: [(&str, &str); 5] = [
    ("GEMM", "#d9660b"),
    ("MLA decode", "#2171b5"),
    ("Convolution", "#2c8f4a"),
    ("Linear attention", "#8856a7"),
    ("Mamba-2", "#b8860b"),
];

/// Operations a byte, and TFLOP/s: where the axes begin and end.
const X: [f32; 2] = [4.0, 8192.0];
const Y: [f32; 2] = [8.0, 1200.0];
const SIZE: [f32; 2] = [640.0, 360.0];
const ORIGIN: [f32; 2] = [44.0, 40.0];

/// Where a point is in the picture; both axes are logarithmic.
fn place([x, y]: [f32; 2]) -> [f32; 2] {
    let along = |value: f32, [first, last]: [f32; 2]| (value / first).ln() / (last / first).ln();
    [ORIGIN[0] + SIZE[0] * along(x, X), ORIGIN[1] + SIZE[1] * (1.0 - along(y, Y))]
}

/// A point for each row that has operations and bytes. Fails where a section has none.
pub fn roofline(benchmarks: &str) -> Result<Picture> {
    let mut canvas = Canvas::new("The tables under the H200's roofline");
    canvas.text(0.0, 10.0, 12.0, "Cases of BENCHMARKS.md that count operations and bytes, under an H200's roofline: 989 TFLOP/s, 4.8 TB/s");
    canvas.text(0.0, 30.0, 10.0, "TFLOP/s");
    for y in [10.0, 30.0, 100.0, 300.0, 1000.0] {
        let [left, at] = place([X[0], y]);
        canvas.line([left, at], [left + SIZE[0], at], "#dddddd");
        canvas.text(ORIGIN[0] - 34.0, at + 4.0, 10.0, &format!("{y}"));
    }
    for x in (2..=13).map(|power| (1 << power) as f32) {
        let [at, bottom] = place([x, Y[0]]);
        canvas.label(at, bottom + 14.0, 10.0, &format!("{x}"));
    }
    let corner = place([PEAK / MEMORY, PEAK]);
    canvas.line(place([X[0], MEMORY * X[0]]), corner, "black");
    canvas.line(corner, place([X[1], PEAK]), "black");
    canvas.text(
        ORIGIN[0] + SIZE[0] - 250.0,
        place([X[0], Y[0]])[1] + 30.0,
        10.0,
        "operations for each byte that has to be moved",
    );
    for (i, (section, color)) in SECTIONS.into_iter().enumerate() {
        let points: Vec<[f32; 2]> = rows(benchmarks, section).iter().filter_map(point).collect();
        if points.is_empty() {
            return Err(format!("BENCHMARKS.md, {section}: no row has operations and bytes").into());
        }
        for point in points {
            canvas.dot(place(point), color);
        }
        let at = [ORIGIN[0] + SIZE[0] + 24.0, 60.0 + 20.0 * i as f32];
        canvas.dot(at, color);
        canvas.text(at[0] + 10.0, at[1] + 4.0, 11.0, section);
    }
    Ok(Picture { name: "pictures/roofline.svg", svg: canvas.finish() })
}

/// Operations a byte, and TFLOP/s. GEMM's rows of many operations say no bytes: these are those of the shape.
fn point(row: &Row<'_>) -> Option<[f32; 2]> {
    let rate = row.number("TFLOP/s")?;
    let intensity = match row.number("GB/s") {
        Some(bytes) => 1e3 * rate / bytes,
        None => of_shape(row.cell("case")?)?,
    };
    ((X[0]..X[1]).contains(&intensity) && (Y[0]..Y[1]).contains(&rate)).then_some([intensity, rate])
}

/// Operations a byte of a product of matrices of f32 or of 16 bits, whose case says so and `M x N x K` in one word.
fn of_shape(case: &str) -> Option<f32> {
    let shape = case.split(' ').find_map(|word| {
        let sizes: Vec<f32> = word.split('x').map(str::parse).collect::<Result<_, _>>().ok()?;
        <[f32; 3]>::try_from(sizes).ok()
    });
    let [m, n, k] = shape?;
    let width = if case.starts_with("f32 ") { 4.0 } else { 2.0 };
    Some(2.0 * m * n * k / (width * (m * n + n * k + m * k)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_of_the_rate_and_the_bytes() {
        let page = "## GEMM\n| case | TFLOP/s | GB/s |\n| --- | --- | --- |\n| f16 64x64x64 NT | 32 | |\n| f16 16x16x16 NT | 64 | 2000 |\n| f32 96x96x96 NT | 32 | |\n| copy | 1 | 2 |\n";
        let points: Vec<_> = rows(page, "GEMM").iter().filter_map(point).collect();
        assert_eq!(points, [[64.0 / 3.0, 32.0], [32.0, 64.0], [16.0, 32.0]]);
    }
}
