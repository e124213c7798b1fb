//! The pictures of `docs/`: where the elements of tiles lie, drawn from the layouts' own functions, and rates beside the peers'.

mod bars;
mod canvas;
mod layouts;
mod mla;
mod roofline;
mod tables;

use std::any::type_name;

use tilewright_device::layout::{FragmentLayout, Registers, SharedLayout};

use crate::Result;
use canvas::{Canvas, Rect};

/// A picture.
#[derive(Debug)]
pub struct Picture {
    /// The file's name, from `docs/`.
    pub name: &'static str,
    /// What is in it.
    pub svg: String,
}

/// All of them; rates are those of the tables of `BENCHMARKS.md`, which this is the text of.
pub fn all(benchmarks: &str) -> Result<Vec<Picture>> {
    let layouts = mla::mla().into_iter().chain(layouts::layouts());
    Ok(layouts.chain([bars::bars(benchmarks)?, roofline::roofline(benchmarks)?]).collect())
}

/// A layout's name without the paths of the types in it.
fn name_of<L>() -> String {
    let name = type_name::<L>();
    let mut short = String::new();
    for part in name.split_inclusive(['<', '>', ',', ' ']) {
        short.push_str(part.rsplit("::").next().unwrap_or(part));
    }
    short
}

/// Colours of warps: a hue for each warpgroup, a shade for each of its warps.
fn of_warp(warp: u32) -> &'static str {
    const COLORS: [[&str; 4]; 3] = [
        ["#9ecae9", "#6aaed6", "#4292c6", "#2171b5"],
        ["#fdc793", "#fda55f", "#f3822f", "#d9660b"],
        ["#a8dca2", "#7cc77c", "#4fae60", "#2c8f4a"],
    ];
    COLORS[warp as usize / 4 % 3][warp as usize % 4]
}

/// Colours of the eight groups of four banks.
const BANKS: [&str; 8] =
    ["#fde725", "#b5de2b", "#6ece58", "#35b779", "#1f9e89", "#31688e", "#443983", "#440154"];

/// The elements of a fragment in the colours of the warps that hold them, those of `thread` framed and, in cells that are
/// large enough, numbered by register. Gives where the drawing ends.
fn fragment<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    canvas: &mut Canvas,
    [left, top]: [f32; 2],
    [width, height]: [f32; 2],
    thread: u32,
) -> [f32; 2] {
    canvas.grid([left, top], [width, height], [M, N], |row, col| of_warp(L::owner(row, col).0 / 32));
    for i in 0..<L::Regs<f32> as Registers<f32>>::LEN {
        let (row, col) = L::coord(thread, i);
        let (x, y) = (left + col as f32 * width, top + row as f32 * height);
        canvas.frame(Rect { x, y, width, height });
        if width >= 9.0 {
            canvas.label(x + width / 2.0, y + height / 2.0 + 2.5, 7.0, &i.to_string());
        }
    }
    [left + width * N as f32, top + height * M as f32]
}

/// The pieces of 16 bytes of a shared tile of `rows` lines of `line` bytes, in the colours of the banks in which they lie.
fn pieces<L: SharedLayout>(
    canvas: &mut Canvas,
    [left, top]: [f32; 2],
    [width, height]: [f32; 2],
    [rows, line]: [u32; 2],
) -> [f32; 2] {
    let shape = [rows as usize, line as usize / 16];
    canvas.grid([left, top], [width, height], shape, |row, piece| {
        BANKS[L::offset(rows, line, row, piece * 16) as usize / 16 % 8]
    });
    [left + width * shape[1] as f32, top + height * rows as f32]
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn what_the_documentation_shows_is_what_the_layouts_and_the_tables_say() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let benchmarks = fs::read_to_string(root.join("BENCHMARKS.md")).unwrap();
        for Picture { name, svg } in all(&benchmarks).unwrap() {
            let kept = fs::read_to_string(root.join("docs").join(name)).unwrap_or_default();
            let draw = "cargo run --release --no-default-features --example pictures";
            assert!(kept == svg, "docs/{name} is not up to date: {draw}");
        }
    }

    #[test]
    fn names_have_no_paths() {
        assert_eq!(name_of::<Option<std::vec::Vec<u8>>>(), "Option<Vec<u8>>");
    }

    #[test]
    fn neighbours_of_a_colour_are_one_rectangle() {
        let mut canvas = Canvas::new("two halves");
        canvas.grid([0.0, 0.0], [1.0, 1.0], [4, 6], |_, col| if col < 3 { "#111" } else { "#222" });
        let svg = canvas.finish();
        assert!(svg.contains(r##"<path fill="#111" d="M0 0h3v4h-3z"/>"##), "{svg}");
        assert!(svg.contains(r##"<path fill="#222" d="M3 0h3v4h-3z"/>"##), "{svg}");
    }
}
