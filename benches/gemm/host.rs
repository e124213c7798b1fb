//! What it costs beside the kernel's run: a launch, the first use of a kernel, and bytes in the program.

use std::process::Command;
use std::time::Instant;

use tilewright::ops::{Gemm, GemmViews, kernels};
use tilewright::{Arch, DType, Device, KernelEntry, Stream, Tensor, f16};
use tilewright_gemm::{GEMM, KERNELS};
use tilewright_support::Result;
use tilewright_support::cublas::{self, CublasLt};
use tilewright_support::timing::host_us;

/// The argument that makes this program load the kernel named next, and print how long that took.
pub const LOAD: &str = "--load";

/// Prints the costs.
pub fn costs(device: &Device, cublas: Option<&CublasLt>) -> Result<()> {
    println!("\n| cost | |\n| --- | ---: |");
    launches(device, cublas)?;
    loads(device)?;
    sizes();
    Ok(())
}

/// Host time of calls that queue a short product.
fn launches(device: &Device, cublas: Option<&CublasLt>) -> Result<()> {
    const SIZE: usize = 1024;
    let new = || Tensor::<f16>::zeros(device, &[SIZE, SIZE]);
    let (a, b, mut c) = (new()?, new()?, new()?);
    let addresses = [&a, &b, &c].map(Tensor::address);
    let (a, b, mut c) = (a.view(), b.view().transpose(0, 1)?, c.view_mut());
    let stream = Stream::new(device)?;
    let line = |what: &str, us: f64| println!("| host time of {what} | {us:.2} µs |");

    let name = Gemm::new().plan(&a, &b, &c)?.kernel().name();
    Gemm::new().run(&stream, &a, &b, &mut c)?;
    let chosen = host_us(&stream, || Gemm::new().run(&stream, &a, &b, &mut c))?;
    line("`ops::Gemm::run`", chosen);
    let named = host_us(&stream, || Gemm::new().kernel(name).run(&stream, &a, &b, &mut c))?;
    line("`ops::Gemm::run` with the kernel named", named);
    let plan = Gemm::new().plan(&a, &b, &c)?;
    let planned = host_us(&stream, || plan.run(&stream, &a, &b, &mut c, &GemmViews::default()))?;
    line("`ops::GemmPlan::run`", planned);
    let (row, mut out) = (a.clone().narrow(0, 0, 1)?, c.reborrow().narrow(0, 0, 1)?);
    line("`ops::Gemm::run` of one row", host_us(&stream, || Gemm::new().run(&stream, &row, &b, &mut out))?);
    let plan = Gemm::new().plan(&row, &b, &out)?;
    let planned = host_us(&stream, || plan.run(&stream, &row, &b, &mut out, &GemmViews::default()))?;
    line("`ops::GemmPlan::run` of one row", planned);
    if let Some(library) = cublas {
        let (input, output, m, n, k) = (DType::F16, DType::F16, SIZE, SIZE, SIZE);
        let (a_transposed, b_transposed, batch) = (false, true, 1);
        let problem = cublas::Gemm { input, output, m, n, k, a_transposed, b_transposed, batch };
        let plan = library.plan(&problem, 1)?;
        let [a, b, c] = addresses;
        // SAFETY: the matrices are as the problem says, and all work is queued on one stream.
        let launch = || unsafe { plan.run(&stream, 0, a, b, c) };
        launch()?;
        line("`cublasLtMatmul`", host_us(&stream, launch)?);
    }
    Ok(())
}

/// Time of the first use of kernels, when the driver compiles them and when its cache has them.
fn loads(device: &Device) -> Result<()> {
    let runs = |entry: &&'static KernelEntry| device.runs(entry.arch) && entry.name.starts_with("gemm_");
    let mut entries: Vec<_> = kernels().filter(runs).collect();
    entries.sort_by_key(|entry| entry.ptx_bytes);
    let (Some(middle), Some(largest)) = (entries.get(entries.len() / 2), entries.last()) else {
        return Ok(());
    };
    let cache = std::env::temp_dir().join(format!("tilewright-bench-{}", std::process::id()));
    std::fs::create_dir_all(&cache)?;
    for (what, entry) in [("median", middle), ("largest", largest)] {
        let what = format!("`{}`, the {what} with {} kB of PTX", entry.name, entry.ptx_bytes / 1000);
        for how in ["compiled by the driver", "from the driver's cache"] {
            let mut program = Command::new(std::env::current_exe()?);
            let output = program.args([LOAD, entry.name]).env("CUDA_CACHE_PATH", &cache).output()?;
            let (ms, error) = (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr));
            let ms: f64 = ms.trim().parse().map_err(|_| format!("loading {}: {error}", entry.name))?;
            println!("| first use of {what}, {how} | {ms:.1} ms |");
        }
    }
    // What the driver leaves there is small, and in the folder of temporary files.
    let _ = std::fs::remove_dir_all(cache);
    Ok(())
}

/// Bytes in the program.
fn sizes() {
    for arch in [Arch::Sm80, Arch::Sm90a] {
        let entries = || kernels().filter(|entry| entry.arch == arch);
        let kilobytes = |size: fn(&KernelEntry) -> usize| entries().map(size).sum::<usize>() / 1000;
        let (ptx, embedded) = (kilobytes(|entry| entry.ptx_bytes), kilobytes(|entry| entry.ptx.len()));
        let (count, target) = (entries().count(), arch.target());
        println!("| {count} kernels for {target}, PTX | {ptx} kB |");
        println!("| {count} kernels for {target}, embedded | {embedded} kB |");
    }
}

/// Loads a kernel by its name, and prints the milliseconds.
pub fn load(device: &Device, name: &str) -> Result<()> {
    let kernel = GEMM.iter().find(|kernel| kernel.name == name).ok_or_else(|| format!("no kernel {name}"))?;
    let start = Instant::now();
    device.listed(&KERNELS, kernel)?;
    println!("{}", start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}
