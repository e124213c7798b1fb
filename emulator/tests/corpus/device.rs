//! A device with one module, and its buffers.

use tilewright_emulator::{Arch, Emulator, Fault, Launch, Module, Schedule, TensorMap};

/// Where the PTX lies.
pub const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");

/// What a buffer holds.
pub trait Plain: Copy {
    const BYTES: usize;
    fn put(self, into: &mut Vec<u8>);
    fn get(from: &[u8]) -> Self;
}

macro_rules! plain {
    ($($ty:ty)*) => { $(
        impl Plain for $ty {
            const BYTES: usize = size_of::<$ty>();
            fn put(self, into: &mut Vec<u8>) {
                into.extend_from_slice(&self.to_le_bytes());
            }
            fn get(from: &[u8]) -> Self {
                Self::from_le_bytes(from.try_into().unwrap())
            }
        }
    )* };
}
plain!(u8 u16 u32 i32 u64 i64 f32 f64);

/// An argument of a kernel.
#[derive(Clone, Copy)]
pub enum Argument {
    Pointer(u64),
    Integer(i32),
    Long(i64),
    Map(TensorMap),
    Float(f32),
    Floats([f32; 4]),
}

/// An emulator with a module of the corpus.
pub struct Device {
    pub emulator: Emulator,
    pub module: Module,
}

impl Device {
    /// With the module of this file.
    pub fn new(file: &str) -> Self {
        let text = std::fs::read_to_string(format!("{FOLDER}/{file}")).unwrap();
        Self::of(Module::load(&text).unwrap_or_else(|error| panic!("{file}: {error}")), Schedule::Fixed)
    }

    /// With this module, whose warps run in this order.
    pub fn of(module: Module, schedule: Schedule) -> Self {
        Self { emulator: Emulator::new(Arch::Sm90a).with_schedule(schedule), module }
    }

    /// Devices with the module of this file, whose warps run in the fixed order and in random ones, for each of which it must do what it does.
    pub fn in_each_order(file: &str, run: impl Fn(&Self)) {
        for schedule in [Schedule::Fixed, Schedule::Random(1), Schedule::Random(2)] {
            run(&Self::of(Self::new(file).module, schedule));
        }
    }

    /// Memory with these values.
    pub fn buffer<T: Plain>(&self, values: &[T]) -> u64 {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| value.put(&mut bytes));
        let at = self.emulator.allocate(bytes.len() as u64).unwrap();
        self.emulator.write(at, &bytes).unwrap();
        at
    }

    pub fn read<T: Plain>(&self, at: u64, count: usize) -> Vec<T> {
        let mut bytes = vec![0; count * T::BYTES];
        self.emulator.read(at, &mut bytes).unwrap();
        bytes.chunks_exact(T::BYTES).map(T::get).collect()
    }

    pub fn launch(&self, kernel: &str, launch: Launch, arguments: &[Argument]) {
        self.try_launch(kernel, launch, arguments).unwrap_or_else(|fault| panic!("{fault}"));
    }

    /// The same, of a kernel that may be accused.
    pub fn try_launch(&self, kernel: &str, launch: Launch, arguments: &[Argument]) -> Result<(), Fault> {
        let mut block = Vec::new();
        for argument in arguments {
            let (align, bytes) = match *argument {
                Argument::Pointer(at) => (8, at.to_le_bytes().to_vec()),
                Argument::Integer(value) => (4, value.to_le_bytes().to_vec()),
                Argument::Long(value) => (8, value.to_le_bytes().to_vec()),
                Argument::Map(map) => {
                    let words = map.encode().unwrap_or_else(|error| panic!("{error}"));
                    (64, words.iter().flat_map(|word| word.to_le_bytes()).collect())
                }
                Argument::Float(value) => (4, value.to_le_bytes().to_vec()),
                Argument::Floats(values) => {
                    (16, values.iter().flat_map(|value| value.to_le_bytes()).collect())
                }
            };
            block.resize(block.len().next_multiple_of(align), 0);
            block.extend(bytes);
        }
        let kernel = self.module.kernel(kernel).unwrap_or_else(|| panic!("there is no kernel {kernel}"));
        self.emulator.launch(&kernel, &launch, &block).map(|_| ())
    }
}

/// CTAs and threads in one dimension.
pub fn grid(ctas: u32, threads: u32) -> Launch {
    Launch { grid: [ctas, 1, 1], threads: [threads, 1, 1], ..Launch::default() }
}

/// Numbers that look random, the same every time.
pub fn random(seed: u64, count: usize) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random.u64(..)).collect()
}

/// The same, between -2 and 2.
pub fn floats(seed: u64, count: usize) -> Vec<f32> {
    random(seed, count).iter().map(|x| (x >> 40) as f32 / (1 << 22) as f32 - 2.0).collect()
}

/// That two numbers differ by no more than this part of the second, or of one.
#[track_caller]
pub fn assert_close(found: f64, expected: f64, bound: f64, what: &str) {
    let error = (found - expected).abs();
    let same = found == expected || found.is_nan() && expected.is_nan();
    assert!(same || error <= bound * expected.abs().max(1.0), "{what}: {found}, not {expected}");
}
