//! Every compiled kernel, forced by its name: all element types, activations and operand orders, on both architectures.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Instant;

use tilewright::ops::{Activation, kernels};
use tilewright::{Device, f16};
use tilewright_support::suite::{Outcome, picked};
use tilewright_support::watched;

use crate::bias::Bias;
use crate::case::{Case, Input, Output, c_rows};
use crate::kinds::{Visitor, each};
use crate::operand::{LAYOUTS, Operand, Order, padded};
use crate::reference::Reference;

/// The GEMM kernels that the device runs, and the tests are to, but for those of gated units.
fn runnable(device: &Device) -> BTreeSet<&'static str> {
    let fits = |bytes| bytes <= device.shared_memory_per_cta();
    let entries = kernels().filter(|e| device.runs(e.arch) && fits(e.shared_bytes));
    let names = entries.map(|e| e.name).filter(|name| name.starts_with("gemm_") && !name.contains("_gated_"));
    names.filter(|name| watched::runs(name)).collect()
}

/// A problem of one kind, with padded lines.
struct Problem<'d> {
    device: &'d Device,
    layout: [Order; 2],
    size: [usize; 3],
}

impl Problem<'_> {
    fn operands<T: Input>(&self) -> tilewright::Result<[Operand<T>; 2]> {
        let [m, n, k] = self.size;
        let [a, b] = self.layout;
        Ok([
            Operand::random(self.device, 1, a.place([1, m, k], padded))?,
            Operand::random(self.device, 2, b.place([1, k, n], padded))?,
        ])
    }
}

/// Loads all kernels, on many threads at a time, each of which multiplies matrices that are smaller than any tile.
pub fn load_on_threads(device: &Device) -> Outcome {
    let begin = Instant::now();
    let mut tasks = Tasks { device, seen: BTreeSet::new(), list: Vec::new() };
    each(&mut tasks)?;
    let Tasks { seen, list, .. } = tasks;
    assert_eq!(seen, runnable(device), "every kernel can be had by some call");
    let list = Mutex::new(list.into_iter());
    let threads = std::thread::available_parallelism()?.get();
    let work = || -> Outcome {
        loop {
            let Some(task) = list.lock().expect("no thread panics here").next() else { return Ok(()) };
            task()?;
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    println!("{} kernels on {threads} threads: {:.1} s", seen.len(), begin.elapsed().as_secs_f64());
    Ok(())
}

struct Tasks<'d> {
    device: &'d Device,
    seen: BTreeSet<&'static str>,
    list: Vec<Box<dyn FnOnce() -> Outcome + Send + 'd>>,
}

impl Visitor for Tasks<'_> {
    fn visit<T: Input, U: Output>(&mut self, activation: Activation) -> Outcome {
        let device = self.device;
        for layout in LAYOUTS {
            let problem = Problem { device, layout, size: [8, 8, 8] };
            let [a, b] = problem.operands::<T>()?;
            let reference = Reference::new(a.values(), b.values(), 1, 8);
            let case = Case::<T, U>::new(&a, &b, &reference, c_rows([1, 8, 8]));
            let case = Case { activation, ..case };
            let names = case.kernels(device)?.into_iter().filter(|name| watched::runs(name));
            for name in names.filter(|name| self.seen.insert(name)).collect::<Vec<_>>() {
                let problem = Problem { device, layout, size: [8, 8, 8] };
                self.list.push(Box::new(move || {
                    let [a, b] = problem.operands::<T>()?;
                    let reference = Reference::new(a.values(), b.values(), 1, 8);
                    let case = Case::<T, U>::new(&a, &b, &reference, c_rows([1, 8, 8]));
                    Case { activation, ..case }.run(device, Some(name))
                }));
            }
        }
        Ok(())
    }
}

/// Sizes of one problem, and what is added to the product.
#[derive(Clone, Copy)]
struct Shape {
    size: [usize; 3],
    beta: f32,
    /// Of the bias, if there is one.
    bias: Option<fn([usize; 3]) -> [usize; 2]>,
}

/// Partial tiles on every side; whole tiles; lines of odd lengths; more tiles than the device takes at a time.
fn shapes(device: &Device) -> [Shape; 4] {
    let [partial, whole, odd, many] = match (device.is_emulator(), watched::is_watched()) {
        (true, _) => [[72, 200, 136], [128, 256, 448], [67, 133, 77], [130, 520, 40]],
        // Two CTAs are on an SM at most.
        (_, true) => [[72, 200, 136], [128, 256, 448], [67, 133, 77], [2000, 2312, 40]],
        _ => [[200, 328, 136], [256, 512, 256], [131, 261, 77], [2000, 2312, 328]],
    };
    [
        Shape { size: partial, beta: 0.5, bias: Some(|[_, n, _]| [1, n]) },
        Shape { size: whole, beta: 0.0, bias: None },
        Shape { size: odd, beta: 0.0, bias: Some(|[m, _, _]| [m, 1]) },
        Shape { size: many, beta: 0.0, bias: None },
    ]
}

/// Every kernel on every shape that it can compute.
pub fn each_on_every_shape(device: &Device) -> Outcome {
    let mut visitor = Shapes { device, seen: BTreeSet::new(), runs: 0 };
    each(&mut visitor)?;
    assert_eq!(visitor.seen, runnable(device));
    println!("{} kernels, {} products", visitor.seen.len(), visitor.runs);
    Ok(())
}

struct Shapes<'d> {
    device: &'d Device,
    seen: BTreeSet<&'static str>,
    runs: usize,
}

impl Visitor for Shapes<'_> {
    fn visit<T: Input, U: Output>(&mut self, activation: Activation) -> Outcome {
        for Shape { size, beta, bias } in shapes(self.device) {
            let bias = bias.map(|shape| Bias::<U>::new(self.device, &shape(size), 1)).transpose()?;
            let mut reference = None;
            for layout in LAYOUTS {
                let [m, n, k] = size;
                let [a, b] = Problem { device: self.device, layout, size }.operands::<T>()?;
                // The same for every layout.
                let reference =
                    &*reference.get_or_insert_with(|| Reference::new(a.values(), b.values(), 1, 200));
                let case = Case::<T, U> {
                    // Values of size one, where activations bend.
                    alpha: (k as f32).sqrt().recip(),
                    beta,
                    bias: bias.as_ref(),
                    activation,
                    ..Case::new(&a, &b, reference, c_rows([1, m, n]))
                };
                for name in case.kernels(self.device)?.into_iter().filter(|name| watched::runs(name)) {
                    // On the emulator every kernel at least once, and a fifth of its other shapes.
                    let of = (name, size, U::DTYPE.name(), activation.name());
                    if !self.seen.insert(name) && !picked(self.device, of, 7) {
                        continue;
                    }
                    case.run(self.device, Some(name))?;
                    self.runs += 1;
                }
            }
        }
        Ok(())
    }
}

/// Several tiles of each CTA, of which its warpgroups take every other: odd and even numbers of tiles, and of steps of them.
pub fn in_turn(device: &Device) -> Outcome {
    let (m, n) = if device.is_emulator() { (400, 520) } else { (2900, 4200) };
    let mut runs = 0;
    for (k, layout) in [200, 320].into_iter().flat_map(|k| LAYOUTS.map(|layout| (k, layout))) {
        let [a, b] = Problem { device, layout, size: [m, n, k] }.operands::<f16>()?;
        let reference = Reference::new(a.values(), b.values(), 1, 200);
        let case = Case::<f16, f16>::new(&a, &b, &reference, c_rows([1, m, n]));
        let names = case.kernels(device)?.into_iter().filter(|name| watched::runs(name));
        for name in names.filter(|name| name.ends_with("c2")) {
            case.run(device, Some(name))?;
            runs += 1;
        }
    }
    println!("{runs} products");
    Ok(())
}
