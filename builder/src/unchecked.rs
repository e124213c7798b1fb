//! What a build without `ptxas` says: that checks are left out. One crate says it for all that share a target folder.

use std::fs;
use std::path::Path;

use crate::files::{make_folder, write};
use crate::{BuildError, Ptxas};

/// What goes unchecked.
const NOTICE: &str = "there is no ptxas, so that nobody checks whether kernels assemble, spill registers or serialise wgmma. `cargo xtask setup` \
                      in a checkout of tilewright fetches one; TILEWRIGHT_PTXAS names one, CUDA_HOME the toolkit that has it";

/// The notice, if the build that writes to `out` is the one to give it.
pub(crate) fn notice(
    shared: &Path,
    out: &Path,
    ptxas: Option<&Ptxas>,
) -> Result<Option<&'static str>, BuildError> {
    // Cargo shows the warnings of each build script at every build: the first to come takes it on for all, until it is gone.
    let taken = shared.join("unchecked");
    if ptxas.is_some() {
        // It does no harm if it stays.
        let _ = fs::remove_file(&taken);
        return Ok(None);
    }
    let own = out.display().to_string();
    let by = fs::read_to_string(&taken).unwrap_or_default();
    if by != own && Path::new(&by).is_dir() {
        return Ok(None);
    }
    make_folder(shared)?;
    write(&taken, own.as_bytes())?;
    Ok(Some(NOTICE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_build_says_it_for_all() {
        let shared =
            std::env::temp_dir().join(format!("tilewright-builder-unchecked-{}", std::process::id()));
        let [first, second] = ["first", "second"].map(|name| shared.join(name));
        fs::create_dir_all(&first).unwrap();
        fs::create_dir_all(&second).unwrap();
        let says = |out: &Path, ptxas: Option<&Ptxas>| notice(&shared, out, ptxas).unwrap().is_some();
        assert!(says(&first, None));
        assert!(!says(&second, None) && says(&first, None), "the same one again, as cargo repeats it");
        fs::remove_dir_all(&first).unwrap();
        assert!(says(&second, None), "the first is gone");
        let ptxas = Ptxas { path: "ptxas".into(), version: String::new() };
        assert!(!says(&second, Some(&ptxas)));
        fs::create_dir_all(&first).unwrap();
        assert!(says(&first, None), "ptxas came and went");
        let _ = fs::remove_dir_all(&shared);
    }
}
