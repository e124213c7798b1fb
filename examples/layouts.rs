//! Draws where the elements of the MLA kernel's tiles lie, in the layouts that type inference gives them: `docs/mla/*.svg`.

use std::fs;
use std::path::Path;

use tilewright_support::{Result, pictures};

fn main() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/mla");
    fs::create_dir_all(&folder)?;
    for picture in pictures::mla() {
        fs::write(folder.join(picture.name), &picture.svg)?;
        println!("docs/mla/{}: {} bytes", picture.name, picture.svg.len());
    }
    Ok(())
}
