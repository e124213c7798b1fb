//! The compiled kernels of 8-bit floats: which one is chosen, and how they are launched.

use std::fmt;
use std::sync::LazyLock;

use tilewright_attention::scaled::{
    SCALED, SCALED_VALUES, ScaledAttentionArgs, ScaledKernel, Scales, TransposeValuesArgs, VALUES_TILE,
    Values,
};
use tilewright_attention::{KERNELS, TileOrder};
use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernel::Listed;
use tilewright_device::tile::division::Division;

use super::problem::Problem;
use crate::ops::attention::choose::of_four_tiles;
use crate::ops::attention::order::tiles;
use crate::ops::attention::problem::Size;
use crate::ops::attention::table::{BOX, too_many_tiles};
use crate::ops::frame::{Choice, Cycles, Rated, Rejection, Table, expect_mapped};
use crate::{AnyFunction, DType, Device, Error, KernelSet, Launch, Result, Stream};

/// One compiled kernel.
pub type Compiled = Listed<ScaledKernel>;

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(SCALED.iter().map(|kernel| (kernel.output, *kernel))));

impl Rated for ScaledKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &KERNELS;

    fn size(&self) -> [u32; 3] {
        [self.tile[0], self.tile[1], 0]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScaledKernel { tile: [m, n], columns: [d, dv], .. } = self;
        write!(f, "tiles of {m} queries, blocks of {n} keys, head dimensions up to {d} and {dv}")
    }
}

impl Choice for Problem {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        TABLE.kernels(&self.o.dtype.name())
    }
    fn what(&self) -> String {
        format!("e4m3 -> {}", self.o.dtype)
    }
    /// The constants are of an H200: of both products' steps 8192 take a cycle, of exponentials 16, most of which hide under the products; a tile's load and
    /// epilogue take some 2000 cycles.
    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        let Size { batch, heads, queries, columns, .. } = self.size;
        let what = ["a head dimension of Q and K", "a head dimension of V"];
        let sizes = columns.into_iter().zip(kernel.columns).zip(what);
        if let Some(((_, most), what)) =
            sizes.into_iter().find(|((columns, most), _)| *columns > *most as usize)
        {
            return Err(Rejection::AtMost { what, most });
        }
        let [[m, n], [d, of_values]] = [kernel.tile, kernel.columns].map(|pair| pair.map(u64::from));
        let along = (queries as u64).div_ceil(m);
        let tiles = (batch as u64).saturating_mul(heads as u64).saturating_mul(along);
        let waves = tiles.div_ceil(u64::from(self.device.sm_count()).max(1));
        let four_tiles = of_four_tiles(along, |m| u64::from(blocks(kernel, self, m)));
        let block = m * n * (d + of_values) / 8192 + m * n / 16;
        let cycles = waves.saturating_mul(four_tiles.saturating_mul(block) / 4 + 2000);
        Ok(Cycles(cycles.saturating_add(2 * Cycles::of_launch(kernel.arch))))
    }
}

fn blocks(kernel: &ScaledKernel, problem: &Problem, m: u32) -> u32 {
    (kernel.blocks)(&problem.keys, m).all().len() as u32
}

/// Both kernels, loaded, and the order of the tiles.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    kernel: Compiled,
    function: AnyFunction,
    order: TileOrder,
    ctas: u32,
    transpose: AnyFunction,
    /// Tiles of V that a CTA transposes.
    transpose_tiles: u32,
}

impl Loaded {
    pub(super) fn new(problem: &Problem, kernel: &Compiled) -> Result<Self> {
        let transpose = SCALED_VALUES.iter().find(|values| values.arch == kernel.arch);
        let transpose = transpose.ok_or_else(|| Error::KernelMissing {
            kernel: kernel.name,
            arch: kernel.arch,
            reason: "the set has no kernel that transposes V".to_owned(),
        })?;
        let Problem { device, size, keys, .. } = problem;
        let function = device.listed(&KERNELS, kernel)?;
        let ctas = function.resident_ctas().max(1);
        let order = tiles(size, kernel.tile, keys, ctas, |m| blocks(kernel, problem, m));
        let of_q = [size.batch, size.heads, size.queries, size.columns[0]];
        let order = order.ok_or_else(|| too_many_tiles(&of_q, kernel.tile[0]))?;
        Ok(Loaded {
            kernel: *kernel,
            function,
            order,
            ctas: ctas.min(order.total()).max(1),
            transpose: device.listed(&KERNELS, transpose)?,
            transpose_tiles: transpose.warps,
        })
    }

    /// Transposes V into the workspace, and attends.
    pub(super) fn run(
        &self,
        problem: &Problem,
        stream: &Stream,
        overlap: bool,
        workspace: u64,
    ) -> Result<()> {
        if problem.size.keys > 0 {
            self.transpose(problem, stream, overlap, workspace)?;
        }
        self.attend(problem, stream, overlap, workspace)
    }

    fn transpose(&self, problem: &Problem, stream: &Stream, overlap: bool, workspace: u64) -> Result<()> {
        let Size { kv_heads, keys, columns: [_, dv], .. } = problem.size;
        let v = &problem.inputs[2];
        let [of_keys, of_columns] = VALUES_TILE;
        // There are fewer than 2^28.
        let tiles = problem.value_tiles().unwrap_or(0);
        let values = Values {
            from: v.address,
            strides: [0, 1, 2].map(|dim| (v.layout.strides()[dim] * DType::F16.bytes()) as u64),
            to: workspace,
            by_columns: Division::by((dv as u32).div_ceil(of_columns)),
            by_keys: Division::by((keys as u32).div_ceil(of_keys)),
            by_heads: Division::by(kv_heads as u32),
            keys: keys as u32,
            columns: dv as u32,
            tiles,
            padding: 0,
        };
        let launch = Launch::grid([tiles.div_ceil(self.transpose_tiles), 1, 1]).pdl(overlap);
        // SAFETY: the arguments are those of `transpose_values`. V is borrowed by the caller and has contiguous columns at multiples of 16 bytes; the workspace, which
        // the caller has alone, is as large as all of its lines. It waits for the preceding grid before it reads or writes.
        unsafe { self.transpose.launch_block(stream, &launch, &TransposeValuesArgs { values }) }
    }

    fn attend(&self, problem: &Problem, stream: &Stream, overlap: bool, workspace: u64) -> Result<()> {
        let Problem {
            device, inputs: [q, k, _], o, lse, size, keys, scale, scales: [of_q, of_k, of_v], ..
        } = problem;
        let (kernel, backend) = (&self.kernel, device.backend());
        let q: GlobalAbi<(), 4> = q.streamed(backend, BOX)?;
        let k: GlobalAbi<(), 4> = k.streamed(backend, kernel.tile[1])?;
        let v: GlobalAbi<(), 4> = problem.transposed(workspace)?.streamed(backend, kernel.columns[1])?;
        if size.keys > 0 {
            expect_mapped(kernel.name, kernel.arch, [q.tma, k.tma, v.tma])?;
        }
        let args = ScaledAttentionArgs {
            q,
            k,
            v,
            o: o.streamed::<(), 4>(backend, BOX)?,
            lse: lse.arg::<(), 4>(backend, true, 0)?,
            order: self.order,
            keys: *keys,
            scale: *scale,
            scales: Scales { q: *of_q, k: *of_k, v: *of_v },
        };
        let launch = Launch::grid([self.ctas, 1, 1]).pdl(overlap);
        // SAFETY: the arguments are those of `scaled_attention`. The views that the tensors come from are borrowed by the caller, o and lse exclusively, and
        // reach no further than their shapes, which the kernel keeps to; V was transposed into the workspace before. Programmatic launch only moves what precedes its wait
        // for the preceding grid.
        unsafe { self.function.launch_block(stream, &launch, &args) }
    }
}
