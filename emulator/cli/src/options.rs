//! The words of the command.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tilewright_emulator::{Arch, Limits};

use crate::words::extents;

/// Runs kernels of PTX files on the CPU, and says what they do wrong.
#[derive(Parser)]
#[command(name = "tilewright-emulator", version, after_help = EXITS)]
pub struct Options {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Runs a kernel, checks what it does, and compares what it leaves in memory.
    #[command(after_help = EXITS)]
    Run(Box<Run>),
    /// Lists the kernels of a PTX file with what they take.
    List {
        /// The PTX.
        file: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

const EXITS: &str = "Exit codes: 0 all is well; 1 the kernel did something wrong, or its results differ; 2 the command or a file \
                     that it names cannot be used.";

/// How a kernel is run.
#[derive(Args)]
pub struct Run {
    /// The PTX.
    pub file: PathBuf,
    /// The kernel; it can be left out where the file has one.
    #[arg(long)]
    pub kernel: Option<String>,
    /// CTAs of the grid.
    #[arg(long, value_name = "X[,Y,Z]", value_parser = extents, default_value = "1")]
    pub grid: [u32; 3],
    /// Threads of a CTA.
    #[arg(long, value_name = "X[,Y,Z]", value_parser = extents)]
    pub block: [u32; 3],
    /// CTAs of a cluster; as many as the kernel requires or, if it requires none, 1, unless said otherwise.
    #[arg(long, value_name = "X[,Y,Z]", value_parser = extents)]
    pub cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub shared: u32,
    /// The device.
    #[arg(long, value_enum, default_value_t = Device::Sm90a)]
    pub arch: Device,
    /// An argument, in the kernel's order.
    #[arg(long = "arg", value_name = "[NAME=]ARGUMENT", long_help = ARGUMENT)]
    pub arguments: Vec<String>,
    /// A buffer that is no argument, for @NAME and tensormap.
    #[arg(long = "buffer", value_name = "NAME=BUFFER")]
    pub buffers: Vec<String>,
    /// Writes a buffer to a file when the kernel has ended: as .npy if the file's name ends so, else its bytes.
    #[arg(long, value_name = "NAME=PATH")]
    pub out: Vec<String>,
    /// Compares a buffer with a file: each element may differ by ATOL and RTOL times the expected one, 0 unless said otherwise.
    #[arg(long, value_name = "NAME=PATH[:RTOL[:ATOL]]")]
    pub expect: Vec<String>,
    /// Runs warps in the random order of this seed instead of the fixed order.
    #[arg(long, value_name = "SEED", conflicts_with = "seeds")]
    pub schedule: Option<u64>,
    /// Runs in the fixed order, then in the random orders of the seeds from A up to, without, B. Each run must leave the same bytes in
    /// the buffers that --out and --expect name, or in all if they name none; those with --expect are compared with that alone.
    #[arg(long, value_name = "A..B")]
    pub seeds: Option<String>,
    /// What a run may take, of instructions, time and memory: `time=60s,memory=4GiB,instructions=1000000`.
    #[arg(long, value_name = "NAME=N,…")]
    pub limits: Option<Limits>,
    /// Leaves out the checks of order: for races, and for shared memory that nobody wrote.
    #[arg(long)]
    pub no_checks: bool,
    /// Prints the report as JSON.
    #[arg(long)]
    pub json: bool,
}

const ARGUMENT: &str = "An argument, in the kernel's order; NAME, else its number from 0, is what --out and --expect call it.

  TYPE:VALUE                       a number: i32:5, f16:1.5, u64:0x100
  null                             a null pointer
  bytes:HEX                        a structure by value, its bytes in order
  struct:PART,PART,…               a structure of numbers, nulls, bytes and places, laid out as C does
  zeros:TYPE:COUNT                 the address of a buffer of zeros; COUNT is 4096, or 32x128
  empty:TYPE:COUNT                 … of memory that nobody wrote
  fill:TYPE:COUNT:VALUE            … of one value
  random:TYPE:COUNT[:SEED]         … of normal numbers, mean 0 and variance 1; all values for integer types
  uniform:TYPE:COUNT:LOW:HIGH[:SEED]  … of numbers between these
  range:TYPE:COUNT[:START[:STEP]]  … of 0, 1, 2, …
  file:[TYPE:]PATH                 … of an .npy file, converted to TYPE; or of a file's bytes, elements of TYPE, else u8
  @NAME[+BYTES]                    an address in another argument's buffer, or in one of --buffer
  tensormap:NAME:BOX[:SWIZZLE]     a tensor map by value, of another buffer; BOX is 64x32, SWIZZLE 32B, 64B or 128B

  TYPE is i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32 or f64. The seed is the argument's number unless said otherwise.";

/// The device that runs the kernel.
#[derive(Clone, Copy, ValueEnum)]
pub enum Device {
    /// Ampere.
    #[value(name = "sm_80")]
    Sm80,
    /// Hopper, which runs sm_80 too.
    #[value(name = "sm_90a")]
    Sm90a,
}

impl From<Device> for Arch {
    fn from(device: Device) -> Self {
        match device {
            Device::Sm80 => Arch::Sm80,
            Device::Sm90a => Arch::Sm90a,
        }
    }
}
