//! What the GEMM kernels ask of the machine, as the emulator counts it: operands without bank conflicts, loads without
//! wasted sectors, pipelines as deep as they are long. Where a kernel does worse, the figure is here, with its reason.

use std::sync::LazyLock;

use tilewright::ops::{FloatElement, Gemm, GemmCandidate, GemmInput};
use tilewright::profile::Counters;
use tilewright::{Device, Tensor, TensorView, f16};

/// Rows and columns of C: whole tiles of every kernel but one, whose last tile is cut off.
const SIZE: usize = 256;
/// The kernel that loads any strides, element by element.
const BY_ELEMENTS: &str = "64x64x32s3";

/// A kernel, and what one product counted.
struct Counted {
    kernel: GemmCandidate,
    depth: usize,
    /// Whether A and B lie transposed: along M, and along K.
    transposed: [bool; 2],
    output_bytes: usize,
    counters: Counters,
}

impl Counted {
    fn by_elements(&self) -> bool {
        self.kernel.name().contains(BY_ELEMENTS)
    }

    /// Computes the transposed product in tiles of few columns, and stores C from registers.
    fn stores_registers(&self) -> bool {
        self.kernel.name().contains("_swap_") && self.kernel.tile()[1] <= 64
    }

    /// Tiles along M and N.
    fn tiles(&self) -> [usize; 2] {
        let [m, n, _] = self.kernel.tile().map(|extent| extent as usize);
        [SIZE.div_ceil(m), SIZE.div_ceil(n)]
    }
}

/// Every kernel of f16 without an activation, for outputs of f16 and of f32.
static ALL: LazyLock<Vec<Counted>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for transposed in [[false, true], [false, false], [true, false], [true, true]] {
        all.extend(all_kernels::<f16, f16>(transposed));
        all.extend(all_kernels::<f16, f32>(transposed));
    }
    all
});

/// Runs every kernel for these types and operand orders, with one step more than its pipeline has stages.
fn all_kernels<T: GemmInput, U: FloatElement>(transposed: [bool; 2]) -> Vec<Counted> {
    let any_depth = 128;
    let candidates = Operands::<T>::new(any_depth, transposed).candidates::<U>();
    let possible = candidates.into_iter().filter(|kernel| kernel.rejection().is_none());
    let count = |kernel: GemmCandidate| {
        let depth = (kernel.tile()[2] * kernel.split() * (kernel.stages() + 1)) as usize;
        let counters = Operands::<T>::new(depth, transposed).count::<U>(kernel.name());
        Counted { kernel, depth, transposed, output_bytes: size_of::<U>(), counters }
    };
    possible.map(count).collect()
}

/// A and B of a product.
struct Operands<T: GemmInput> {
    device: Device,
    transposed: [bool; 2],
    tensors: [Tensor<T>; 2],
}

impl<T: GemmInput> Operands<T> {
    fn new(depth: usize, transposed: [bool; 2]) -> Self {
        let device = Device::emulator();
        let shapes = [
            if transposed[0] { [depth, SIZE] } else { [SIZE, depth] },
            if transposed[1] { [SIZE, depth] } else { [depth, SIZE] },
        ];
        let tensors = shapes.map(|shape| Tensor::zeros(&device, &shape).unwrap());
        Self { device, transposed, tensors }
    }

    fn views(&self) -> [TensorView<'_, T>; 2] {
        [0, 1].map(|i| {
            let view = self.tensors[i].view();
            if self.transposed[i] { view.transpose(0, 1).unwrap() } else { view }
        })
    }

    fn candidates<U: FloatElement>(&self) -> Vec<GemmCandidate> {
        let mut c = Tensor::zeros(&self.device, &[SIZE, SIZE]).unwrap();
        let [a, b] = self.views();
        Gemm::<U>::new().candidates(&a, &b, &c.view_mut()).unwrap()
    }

    /// What one product with the kernel of this name counts.
    fn count<U: FloatElement>(&self, kernel: &str) -> Counters {
        let mut c = Tensor::<U>::zeros(&self.device, &[SIZE, SIZE]).unwrap();
        let [a, b] = self.views();
        self.device.reset_profile();
        Gemm::new().kernel(kernel).run(&self.device.default_stream(), &a, &b, &mut c.view_mut()).unwrap();
        match &self.device.profile().unwrap()[..] {
            [profile] if profile.name == kernel && profile.launches == 1 => profile.counters,
            other => panic!("{kernel} ran, and {other:?} were counted"),
        }
    }
}

/// Asserts something of every kernel.
fn each<V: PartialEq + std::fmt::Debug>(found: impl Fn(&Counted) -> V, expected: impl Fn(&Counted) -> V) {
    let wrong: Vec<String> = ALL
        .iter()
        .map(|counted| (counted, found(counted), expected(counted)))
        .filter(|(_, found, expected)| found != expected)
        .map(|(Counted { kernel, transposed, counters, .. }, found, expected)| {
            format!("{} with {transposed:?}: {found:?}, expected {expected:?}\n{counters}", kernel.name())
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tensor_cores_compute_the_product_and_nothing_else() {
    each(
        |of| of.counters.tensor_operations,
        |of| {
            let ([m, n, _], tiles) = (of.kernel.tile().map(|extent| extent as usize), of.tiles());
            2 * (tiles[0] * m * tiles[1] * n * of.depth) as u64
        },
    );
}

#[test]
fn operands_have_no_bank_conflicts() {
    each(
        |Counted { counters: Counters { shared, .. }, .. }| {
            let operands = [shared.ldmatrix, shared.wgmma];
            let others = [shared.stmatrix, shared.bulk_writes, shared.bulk_reads];
            let read = operands.iter().any(|traffic| traffic.requests > 0);
            (read, operands.map(|traffic| traffic.conflicts), others.map(|traffic| traffic.conflicts))
        },
        |_| (true, [0; 2], [0; 3]),
    );
}

/// A line of 64 bytes along M or N is half of the banks, and the eight lanes of a phase write two that begin at the same one.
#[test]
fn copies_have_bank_conflicts_in_lines_of_64_bytes_alone() {
    each(
        |of| of.counters.shared.copies.conflicts,
        |of| {
            let [m, n, k] = of.kernel.tile().map(u64::from);
            let copies = of.counters.shared.copies;
            let [a, b] = [of.transposed[0], !of.transposed[1]];
            let lines = if k == 32 { u64::from(a) * m + u64::from(b) * n } else { 0 };
            (copies.wavefronts - copies.conflicts) * lines / (m + n)
        },
    );
}

/// Pairs of f32 of two rows fall into the same banks of a staging buffer. The kernel that loads by elements stages 16-bit
/// lines of 64 bytes in 128, of which two rows have the same banks when they are read.
#[test]
fn staged_tiles_have_bank_conflicts_where_their_lines_do_not_suit_them() {
    each(
        |of| [of.counters.shared.loads, of.counters.shared.stores].map(|traffic| traffic.conflicts),
        |of| {
            let staged = (SIZE * SIZE * of.output_bytes / 128) as u64;
            match of.output_bytes {
                _ if of.stores_registers() => [0, 0],
                4 => [0, staged],
                _ if of.by_elements() => [staged, 0],
                _ => [0, 0],
            }
        },
    );
}

/// By elements, neighbouring lanes take neighbours along M and N, which are in different sectors where the operands lie along K.
#[test]
fn loads_are_coalesced() {
    each(
        |of| {
            let read = of.counters.global.read();
            (read.bytes, read.sectors)
        },
        |of| {
            let bytes = (of.depth * SIZE * of.tiles().iter().sum::<usize>() * size_of::<f16>()) as u64;
            let times = match of.transposed {
                _ if !of.by_elements() => 2,
                [false, true] => 16,
                [true, false] => 4,
                _ => 10,
            };
            (bytes, bytes * times / 64)
        },
    );
}

/// Narrow tiles of the transposed product are stored from registers, eight elements of a line by an instruction.
#[test]
fn stores_are_coalesced() {
    each(
        |of| {
            let written = of.counters.global.written();
            (written.bytes, written.sectors)
        },
        |of| {
            let bytes = (SIZE * SIZE * of.output_bytes) as u64;
            (bytes, if of.stores_registers() { (SIZE * SIZE / 8) as u64 } else { bytes / 32 })
        },
    );
}

/// What is loaded by elements is not loaded asynchronously.
#[test]
fn pipelines_are_as_deep_as_they_are_long() {
    each(|of| of.counters.live_stages, |of| if of.by_elements() { 0 } else { of.kernel.stages().into() });
}
