//! Rates beside the peers', as bars, from the tables of `BENCHMARKS.md`, whose rows the benches print.

use super::Picture;
use super::canvas::{Canvas, Rect};
use super::tables::rows;
use crate::Result;

/// A case of a table, and its columns that are rates in one unit: ours, then the peers'.
struct Case {
    section: &'static str,
    /// The cell of the column `case`.
    case: &'static str,
    /// What the picture calls it.
    title: &'static str,
    unit: &'static str,
    columns: &'static [&'static str],
}

/// Rates of attention: ours stands under the unit's name.
const ATTENTION: &[&str] = &["TFLOP/s", "cuDNN", "flash", "FA3"];
/// The same of decoding.
const DECODE: &[&str] = &["GB/s", "cuDNN", "flash", "FA3"];

const CASES: [Case; 6] = [
    Case {
        section: "GEMM",
        case: "f16 8192x8192x8192 NT",
        title: "GEMM, f16, 8192 x 8192 x 8192",
        unit: "TFLOP/s",
        columns: &["TFLOP/s", "cuBLAS", "best of its 8"],
    },
    Case {
        section: "GEMM",
        case: "f16 16x4096x4096 NT",
        title: "GEMM, f16, 16 x 4096 x 4096",
        unit: "TFLOP/s",
        columns: &["TFLOP/s", "cuBLAS", "best of its 8"],
    },
    Case {
        section: "Attention",
        case: "bf16 b4 s4096 h16 d128 full",
        title: "attention, bf16, 4096 tokens, d 128",
        unit: "TFLOP/s",
        columns: ATTENTION,
    },
    Case {
        section: "Attention",
        case: "bf16 b4 s4096 h16 d128 causal",
        title: "the same, causal",
        unit: "TFLOP/s",
        columns: ATTENTION,
    },
    Case {
        section: "Attention",
        case: "bf16 decode b16 kv8192 h32/8 d128",
        title: "decoding of 16 sequences of 8192 keys",
        unit: "GB/s",
        columns: DECODE,
    },
    Case {
        section: "Convolution",
        case: "f16 n32 28x28 256->256 3x3 s1",
        title: "convolution, f16, 28 x 28, 256 channels",
        unit: "TFLOP/s",
        columns: &["TFLOP/s", "cuDNN"],
    },
];

const BAR: f32 = 15.0;
const WIDTH: f32 = 280.0;
/// Where bars begin, behind their names.
const LEFT: f32 = 84.0;
/// Of a case with its title, and of a column of cases.
const STEP: [f32; 2] = [110.0, 460.0];

/// The rates of some cases. Fails where a table has no such row or column.
pub fn bars(benchmarks: &str) -> Result<Picture> {
    let mut canvas = Canvas::new("Rates on an H200 beside the peers'");
    canvas.text(
        0.0,
        10.0,
        12.0,
        "NVIDIA H200, each case in one run with its peers (BENCHMARKS.md); longer is faster",
    );
    for (i, case) in CASES.iter().enumerate() {
        let rates = rates(benchmarks, case)?;
        let most = rates.iter().map(|&(_, rate)| rate).fold(0.0, f32::max);
        let (left, top) = ((i % 2) as f32 * STEP[1], 40.0 + (i / 2) as f32 * STEP[0]);
        canvas.text(left, top, 12.0, &format!("{}, {}", case.title, case.unit));
        for (row, (name, rate)) in rates.into_iter().enumerate() {
            let (y, width) = (top + 8.0 + row as f32 * (BAR + 3.0), WIDTH * rate / most);
            let (name, color) = if row == 0 { ("tilewright", "#d9660b") } else { (name, "#9ecae9") };
            canvas.text(left, y + 11.0, 11.0, name);
            canvas.fill(Rect { x: left + LEFT, y, width, height: BAR }, color);
            canvas.text(left + LEFT + width + 5.0, y + 11.0, 11.0, &format!("{rate}"));
        }
    }
    Ok(Picture { name: "pictures/peers.svg", svg: canvas.finish() })
}

/// The names of a case's columns and what stands in them. A peer that did not compute it is left out.
fn rates(benchmarks: &str, case: &Case) -> Result<Vec<(&'static str, f32)>> {
    let missing = |what: &str| format!("BENCHMARKS.md, {}, {}: there is no {what}", case.section, case.case);
    let rows = rows(benchmarks, case.section);
    let row =
        rows.iter().find(|row| row.cell("case") == Some(case.case)).ok_or_else(|| missing("such row"))?;
    let mut rates = Vec::new();
    for &column in case.columns {
        row.cell(column).ok_or_else(|| missing(column))?;
        rates.extend(row.number(column).map(|rate| (column, rate)));
    }
    if rates.len() > 1 { Ok(rates) } else { Err(missing("rate beside a peer's").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_row() {
        let table = "## Other\n| case | TFLOP/s | cuBLAS |\n| a | 9 | 9 |\n## GEMM\n\n| case | ms | TFLOP/s | cuBLAS | best |\n| --- |\n\
                     | a | 1 | **2.5** | 3 | |\n";
        let case = |case, columns| Case { section: "GEMM", case, title: "", unit: "", columns };
        let of = |case: &Case| rates(table, case).map_err(|error| error.to_string());
        assert_eq!(
            of(&case("a", &["TFLOP/s", "cuBLAS", "best"])),
            Ok(vec![("TFLOP/s", 2.5), ("cuBLAS", 3.0)])
        );
        assert_eq!(of(&case("b", &["TFLOP/s"])), Err("BENCHMARKS.md, GEMM, b: there is no such row".into()));
        assert_eq!(of(&case("a", &["ns"])), Err("BENCHMARKS.md, GEMM, a: there is no ns".into()));
        assert_eq!(
            of(&case("a", &["TFLOP/s"])),
            Err("BENCHMARKS.md, GEMM, a: there is no rate beside a peer's".into())
        );
    }
}
