//! The tables of `BENCHMARKS.md`.

/// A row, by its columns' names.
pub struct Row<'t> {
    header: Vec<&'t str>,
    cells: Vec<&'t str>,
}

impl<'t> Row<'t> {
    /// The cell of a column, if the table has it.
    pub fn cell(&self, column: &str) -> Option<&'t str> {
        let at = self.header.iter().position(|name| *name == column)?;
        Some(self.cells.get(at).copied().unwrap_or_default())
    }

    /// The number in a column.
    pub fn number(&self, column: &str) -> Option<f32> {
        self.cell(column)?.parse().ok()
    }
}

/// The rows of a section's tables that have a column `case`.
pub fn rows<'t>(benchmarks: &'t str, section: &str) -> Vec<Row<'t>> {
    let heading = format!("## {section}");
    let lines = benchmarks.lines().skip_while(|line| *line != heading).skip(1);
    let (mut header, mut rows) = (Vec::new(), Vec::new());
    for line in lines.take_while(|line| !line.starts_with("## ")) {
        let Some(line) = line.strip_prefix('|') else {
            header.clear();
            continue;
        };
        let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('*')).collect();
        match cells.first() {
            Some(&"case") => header = cells,
            Some(first) if !header.is_empty() && !first.starts_with("---") => {
                rows.push(Row { header: header.clone(), cells });
            }
            _ => {}
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_section() {
        let page = "## Other\n| case | TFLOP/s |\n| --- | ---: |\n| a | 9 |\n\n## GEMM\n\n| cost | |\n| --- | --- |\n| b | 1 |\n\n| case | ms | TFLOP/s | cuBLAS |\n\
                    | --- | ---: | ---: | ---: |\n| a | 1 | **2.5** | |\n";
        let found = rows(page, "GEMM");
        assert_eq!(found.len(), 1);
        let row = &found[0];
        assert_eq!((row.cell("case"), row.number("TFLOP/s")), (Some("a"), Some(2.5)));
        assert_eq!((row.cell("cuBLAS"), row.number("cuBLAS"), row.cell("ns")), (Some(""), None, None));
    }
}
