//! Rectangles and words, as SVG.

use std::collections::BTreeMap;
use std::fmt::Write;

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    pub x: f32,
    pub y: f32,
    pub width: f32,
    pub height: f32,
}

/// A picture in the making, as large as what is drawn.
pub struct Canvas {
    title: String,
    body: String,
    /// The lowest point on the right.
    end: [f32; 2],
}

/// Space around the drawing.
const MARGIN: f32 = 8.0;

impl Canvas {
    pub fn new(title: &str) -> Self {
        Canvas { title: title.to_owned(), body: String::new(), end: [0.0; 2] }
    }

    fn reach(&mut self, x: f32, y: f32) {
        self.end = [self.end[0].max(x), self.end[1].max(y)];
    }

    /// Cells of this size in rows and columns; neighbours of one colour become one rectangle.
    pub fn grid(
        &mut self,
        [left, top]: [f32; 2],
        [width, height]: [f32; 2],
        [rows, cols]: [usize; 2],
        color: impl Fn(u32, u32) -> &'static str,
    ) {
        let mut paths = BTreeMap::<&str, String>::new();
        // Runs of the rows above that still grow: first column, columns, colour, first row.
        let mut open: Vec<(usize, usize, &str, usize)> = Vec::new();
        for row in 0..=rows {
            let mut runs: Vec<(usize, usize, &str, usize)> = Vec::new();
            for col in 0..if row < rows { cols } else { 0 } {
                let color = color(row as u32, col as u32);
                match runs.last_mut() {
                    Some(run) if run.2 == color => run.1 += 1,
                    _ => runs.push((col, 1, color, row)),
                }
            }
            for run in &mut runs {
                if let Some(above) =
                    open.iter().find(|above| (above.0, above.1, above.2) == (run.0, run.1, run.2))
                {
                    run.3 = above.3;
                }
            }
            for &(col, count, color, first) in open.iter().filter(|above| !runs.contains(above)) {
                let (x, y) = (left + col as f32 * width, top + first as f32 * height);
                let (w, h) = (count as f32 * width, (row - first) as f32 * height);
                // Writing to a string does not fail.
                let _ = write!(paths.entry(color).or_default(), "M{x} {y}h{w}v{h}h-{w}z");
            }
            open = runs;
        }
        for (color, path) in paths {
            let _ = writeln!(self.body, r#"<path fill="{color}" d="{path}"/>"#);
        }
        self.reach(left + cols as f32 * width, top + rows as f32 * height);
    }

    /// A rectangle in a colour.
    pub fn fill(&mut self, Rect { x, y, width, height }: Rect, color: &str) {
        let _ = writeln!(self.body, r#"<path fill="{color}" d="M{x} {y}h{width}v{height}h-{width}z"/>"#);
        self.reach(x + width, y + height);
    }

    /// A line from point to point.
    pub fn line(&mut self, [x, y]: [f32; 2], [to_x, to_y]: [f32; 2], color: &str) {
        let _ = writeln!(self.body, r#"<path stroke="{color}" d="M{x} {y}L{to_x} {to_y}"/>"#);
        self.reach(x.max(to_x), y.max(to_y));
    }

    /// A point.
    pub fn dot(&mut self, [x, y]: [f32; 2], color: &str) {
        let _ =
            writeln!(self.body, r#"<circle fill="{color}" fill-opacity=".7" cx="{x}" cy="{y}" r="3.5"/>"#);
        self.reach(x + 4.0, y + 4.0);
    }

    /// The outline of a rectangle.
    pub fn frame(&mut self, Rect { x, y, width, height }: Rect) {
        let _ = writeln!(
            self.body,
            r#"<path fill="none" stroke="black" stroke-width=".8" d="M{x} {y}h{width}v{height}h-{width}z"/>"#
        );
        self.reach(x + width, y + height);
    }

    /// Words that begin here.
    pub fn text(&mut self, x: f32, y: f32, size: f32, words: &str) {
        self.words(x, y, size, "start", words);
        self.reach(x + size * 0.56 * words.chars().count() as f32, y + size * 0.3);
    }

    /// Words around here.
    pub fn label(&mut self, x: f32, y: f32, size: f32, words: &str) {
        self.words(x, y, size, "middle", words);
    }

    fn words(&mut self, x: f32, y: f32, size: f32, anchor: &str, words: &str) {
        let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = writeln!(
            self.body,
            r#"<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}">{words}</text>"#
        );
    }

    /// The picture.
    pub fn finish(self) -> String {
        let [width, height] = self.end.map(|end| end + 2.0 * MARGIN);
        let title = self.title.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-{MARGIN} -{MARGIN} {width} {height}\" \
             font-family=\"sans-serif\">\n<title>{title}</title>\n\
             <path fill=\"white\" d=\"M-{MARGIN} -{MARGIN}h{width}v{height}h-{width}z\"/>\n{}</svg>\n",
            self.body
        )
    }
}
