//! Draws the pictures of `docs/`: where elements lie, by the layouts' own functions, and rates beside the peers', from the tables of `BENCHMARKS.md`.

use std::fs;
use std::path::Path;

use tilewright_support::{Result, pictures};

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let benchmarks = fs::read_to_string(root.join("BENCHMARKS.md"))?;
    for picture in pictures::all(&benchmarks)? {
        let file = root.join("docs").join(picture.name);
        fs::create_dir_all(file.parent().unwrap_or(root))?;
        fs::write(file, &picture.svg)?;
        println!("docs/{}: {} bytes", picture.name, picture.svg.len());
    }
    Ok(())
}
