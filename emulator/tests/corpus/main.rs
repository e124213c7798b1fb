//! PTX that nvcc and Triton made of small kernels, run and compared with what the kernels compute.
//!
//! The sources lie beside the PTX; `README.md` says how that was made of them.

mod arithmetic;
mod atomics;
mod attention;
mod barriers;
mod bulk;
mod clusters;
mod cub;
mod device;
mod functions;
mod grids;
mod halves;
mod locks;
mod pipelines;
mod rows;
mod scans;
mod shared;
mod sorts;
mod sums;
mod triton;
mod triton_formats;
mod triton_products;
mod triton_rows;
mod triton_scans;
mod warps;

use std::path::Path;

use device::FOLDER;
use tilewright_emulator::Module;

#[test]
fn everything_loads() {
    let mut count = 0;
    for folder in ["cuda", "triton"] {
        for file in std::fs::read_dir(Path::new(FOLDER).join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "ptx") {
                let text = std::fs::read_to_string(&path).unwrap();
                let module =
                    Module::load(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                assert!(module.kernels().count() > 0, "{} has no kernel", path.display());
                count += 1;
            }
        }
    }
    assert!(count >= 21, "{count} files");
}
