//! One attention's result, from those over parts of its keys.

use std::fmt;
use std::sync::LazyLock;

use tilewright_attention::{KERNELS, MergeStatesArgs, STATES, StatesKernel};
use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernel::Listed;
use tilewright_device::tile::division::Division;

use crate::ops::HalfElement;
use crate::ops::frame::{
    Candidate, Choice, Cycles, Named, Operands, Plan, Rated, Rejection, Table, check, explained, of_shape,
};
use crate::tensor::Untyped;
use crate::{
    AnyFunction, Arch, DType, Device, Error, KernelSet, Launch, Result, Stream, TensorView, TensorViewMut,
};

/// One compiled kernel.
type Compiled = Listed<StatesKernel>;

/// A kernel that could merge attentions, or why it could not.
pub type AttentionMergeCandidate = Candidate<Compiled>;

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(STATES.iter().map(|kernel| (kernel.element, *kernel))));

/// The result of an attention over some keys: O, \[batch, heads, queries, DV\], and its log-sum-exp, \[batch, heads, queries\].
pub type AttentionState<'v, 'm, T> = (&'v TensorView<'m, T>, &'v TensorView<'m, f32>);

/// The attention of queries over all keys, from its results over two parts of these: see [`AttentionMerge`].
pub fn merge_attention<T: HalfElement>(
    stream: &Stream,
    parts: [AttentionState<'_, '_, T>; 2],
    o: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    AttentionMerge::new().run(stream, parts, o)
}

/// The attention of queries over all keys, from its results over two parts of these (Milakov & Gimelshein 2018): O = Σ exp(LSEᵢ - LSE) Oᵢ, where LSE = log Σ exp(LSEᵢ).
///
/// | tensor | shape |
/// | --- | --- |
/// | O of each part, `T` | \[batch, heads, queries, DV\] |
/// | log-sum-exp of each part, f32 | \[batch, heads, queries\] |
/// | O, `T` | \[batch, heads, queries, DV\] |
/// | log-sum-exp, f32, optional | \[batch, heads, queries\] |
///
/// - `T` is f16 or bf16. Strides and DV are any; rows that are contiguous and aligned to 16 bytes are read and stored in vectors. Sums are of f32, O is rounded to nearest even.
/// - The parts have no key in common, and each log-sum-exp is what [`Attention::lse`](super::Attention::lse) gives. [Sinks](super::Attention::sinks) belong to one of them.
/// - A part whose log-sum-exp of a row is -inf saw no key there, and gives nothing to it but its O, 0 times. A row of two such parts is 0, its log-sum-exp -inf. One of NaN or +inf makes the row NaN.
/// - More than two parts are merged two by two, in any order. Parts are rounded to `T` before: the result differs from that of one attention by about as much again.
///
/// This is how a prompt that many sequences begin with is attended to once ("cascade"): one attention of all their queries over its keys, without a mask, one of each sequence's
/// queries over its own, and a merge.
///
/// A call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph).
///
/// ```
/// use tilewright::ops::{Attention, AttentionMerge};
/// use tilewright::{Device, Tensor, bf16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let stream = device.default_stream();
/// // One query of each of 4 sequences and 2 heads; 32 keys that all share, and 16 of each one's own.
/// let q = Tensor::<bf16>::zeros(&device, &[4, 2, 1, 64])?;
/// let shared = Tensor::<bf16>::zeros(&device, &[1, 2, 32, 64])?;
/// let own = Tensor::<bf16>::zeros(&device, &[4, 2, 16, 64])?;
/// let zeros = || Tensor::<bf16>::zeros(&device, &[4, 2, 1, 64]);
/// let (mut prefix, mut suffix, mut o) = (zeros()?, zeros()?, zeros()?);
/// let logs = || Tensor::<f32>::zeros(&device, &[4, 2, 1]);
/// let (mut prefix_lse, mut suffix_lse) = (logs()?, logs()?);
/// // All queries of a head are those of one sequence: [1, heads, 4, 64].
/// Attention::new().lse(&mut prefix_lse.view_mut().transpose(0, 2)?).run(
///     &stream,
///     &q.view().transpose(0, 2)?,
///     &shared.view(),
///     &shared.view(),
///     &mut prefix.view_mut().transpose(0, 2)?,
/// )?;
/// let own = own.view();
/// let own_lse = &mut suffix_lse.view_mut();
/// Attention::new().lse(own_lse).run(&stream, &q.view(), &own, &own, &mut suffix.view_mut())?;
/// let (prefix, suffix) = ((&prefix.view(), &prefix_lse.view()), (&suffix.view(), &suffix_lse.view()));
/// AttentionMerge::new().run(&stream, [prefix, suffix], &mut o.view_mut())?;
/// # Ok(())
/// # }
/// ```
pub struct AttentionMerge<'a> {
    lse: Option<TensorViewMut<'a, f32>>,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl Default for AttentionMerge<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> AttentionMerge<'a> {
    /// O alone.
    pub fn new() -> Self {
        AttentionMerge { lse: None, kernel: None, overlap: true }
    }
    /// Where to write the natural logarithm of each row's sum of exponentials over all keys, \[batch, heads, queries\].
    pub fn lse(self, lse: &'a mut TensorViewMut<'_, f32>) -> Self {
        AttentionMerge { lse: Some(lse.reborrow()), ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        AttentionMerge { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        AttentionMerge { overlap, ..self }
    }

    /// Every compiled kernel for this type, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates<T: HalfElement>(
        &self,
        parts: [AttentionState<'_, '_, T>; 2],
        o: &TensorViewMut<'_, T>,
    ) -> Result<Vec<AttentionMergeCandidate>> {
        Ok(Problem::new(parts, o, self.lse.as_ref())?.candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times. The tensors, that of [`lse`](Self::lse) too, may be
    /// [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn plan<T: HalfElement>(
        &self,
        [first, second]: [AttentionState<'_, '_, T>; 2],
        o: &TensorViewMut<'_, T>,
    ) -> Result<AttentionMergePlan> {
        let lse = self.lse.as_ref();
        let operands = Operands::new(o.device(), named([first, second], o, lse));
        let (parts, logs) =
            ([first.0.planned(0), second.0.planned(1)], [first.1.planned(2), second.1.planned(3)]);
        let states = [(&parts[0], &logs[0]), (&parts[1], &logs[1])];
        let problem = Problem::new(states, &o.planned(4), lse.map(|lse| lse.planned(5)).as_ref())?;
        let choice = problem.choose(self.kernel)?;
        let function = o.device().listed(&KERNELS, choice.descriptor())?;
        Ok(AttentionMergePlan { choice, operands, problem, function, overlap: self.overlap })
    }

    /// Queues it on `stream`: [`plan`](Self::plan), and [`AttentionMergePlan::run`].
    ///
    /// Fails when shapes do not fit, a view lies on another device, or what is written overlaps another tensor.
    pub fn run<T: HalfElement>(
        &mut self,
        stream: &Stream,
        parts: [AttentionState<'_, '_, T>; 2],
        o: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.plan(parts, o)?.run(stream, parts, o, self.lse.as_mut())
    }
}

/// The tensors of a call, in the order of a plan's.
fn named<'v, T: HalfElement>(
    [first, second]: [AttentionState<'v, '_, T>; 2],
    o: &'v TensorViewMut<'_, T>,
    lse: Option<&'v TensorViewMut<'_, f32>>,
) -> [Option<Named<'v>>; 6] {
    [
        Some(Named::read("parts[0].0", first.0)),
        Some(Named::read("parts[1].0", second.0)),
        Some(Named::read("parts[0].1", first.1)),
        Some(Named::read("parts[1].1", second.1)),
        Some(Named::written("o", o)),
        lse.map(|lse| Named::written("lse", lse)),
    ]
}

/// What is asked for, checked.
#[derive(Clone, Debug)]
struct Problem {
    device: Device,
    element: DType,
    /// O of the parts, and of all.
    o: [Untyped; 3],
    /// Their log-sum-exps, \[batch, heads, queries, 1\]; the last without rows where it is not wanted.
    lse: [Untyped; 3],
    /// Sequences, heads, queries.
    shape: [usize; 3],
}

impl Problem {
    fn new<T: HalfElement>(
        parts: [AttentionState<'_, '_, T>; 2],
        o: &TensorViewMut<'_, T>,
        lse: Option<&TensorViewMut<'_, f32>>,
    ) -> Result<Self> {
        let &[batch, heads, queries, _] = o.shape() else {
            return Err(Error::argument("o", of_shape(o.shape()), "of shape [batch, heads, queries, DV]"));
        };
        let shape = [batch, heads, queries];
        let expect = |name: &'static str, found: &[usize], of: &[usize]| {
            let wrong = || Error::argument(name, of_shape(found), format!("{}, as `o`", of_shape(of)));
            if found == of { Ok(()) } else { Err(wrong()) }
        };
        let [(first, first_lse), (second, second_lse)] = parts;
        expect("parts[0].0", first.shape(), o.shape())?;
        expect("parts[1].0", second.shape(), o.shape())?;
        expect("parts[0].1", first_lse.shape(), &shape)?;
        expect("parts[1].1", second_lse.shape(), &shape)?;
        lse.map_or(Ok(()), |lse| expect("lse", lse.shape(), &shape))?;
        check(o.device(), named(parts, o, lse).into_iter().flatten())?;
        let column = |of: Untyped| Ok::<_, Error>(Untyped { layout: of.layout.insert(3)?, ..of });
        let all = o.untyped();
        let none = || {
            let layout = all.layout.narrow(2, 0, 0)?.0.narrow(3, 0, 0)?.0;
            Ok(Untyped { dtype: DType::F32, layout, ..all })
        };
        let lse = lse.map_or_else(none, |lse| column(lse.untyped()))?;
        Ok(Problem {
            device: o.device().clone(),
            element: T::DTYPE,
            lse: [column(first_lse.untyped())?, column(second_lse.untyped())?, lse],
            o: [first.untyped(), second.untyped(), all],
            shape,
        })
    }

    fn rows(&self) -> usize {
        self.shape.iter().product()
    }
}

impl Rated for StatesKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &KERNELS;

    fn size(&self) -> [u32; 3] {
        [self.tile[0], self.tile[1], 0]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, columns] = self.tile;
        write!(f, "{rows} rows a CTA, {columns} columns at a time")
    }
}

impl Choice for Problem {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        TABLE.kernels(&self.element.name())
    }
    fn what(&self) -> String {
        self.element.name().to_owned()
    }
    /// There is one for each architecture.
    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        // Rows of the last CTA that are not there are counted too.
        if self.rows() >= (1 << 31) - 65536 {
            return Err(Rejection::Because("it merges fewer than 2^31 - 65536 rows"));
        }
        Ok(Cycles(Cycles::of_launch(kernel.arch)))
    }
}

/// The kernel that merges attentions, why it was chosen, and all that its launch needs but memory.
///
/// It is made once from shapes, strides and alignments, by [`AttentionMerge::plan`], and runs many times, on any stream, from any thread. It derefs to
/// the [`Plan`] that explains the choice of its kernel.
#[derive(Clone, Debug)]
pub struct AttentionMergePlan {
    choice: Plan<Compiled>,
    operands: Operands,
    problem: Problem,
    function: AnyFunction,
    overlap: bool,
}

impl AttentionMergePlan {
    /// Queues it on `stream`; `lse` is given where the plan was made with it.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, is missing or too
    /// many, or what is written overlaps another tensor; the error names it.
    pub fn run<T: HalfElement>(
        &self,
        stream: &Stream,
        parts: [AttentionState<'_, '_, T>; 2],
        o: &mut TensorViewMut<'_, T>,
        lse: Option<&mut TensorViewMut<'_, f32>>,
    ) -> Result<()> {
        let places = self.operands.places(stream, named(parts, o, lse.as_deref()), None)?;
        let rows = self.problem.rows() as u32;
        if rows == 0 {
            return Ok(());
        }
        let backend = self.problem.device.backend();
        let arg = |of: &Untyped| -> Result<GlobalAbi<(), 4>> { places.of(of).arg(backend, true, 0) };
        let ([o_first, o_second, o], [lse_first, lse_second, lse]) = (&self.problem.o, &self.problem.lse);
        let [_, heads, queries] = self.problem.shape.map(|size| size as u32);
        let args = MergeStatesArgs {
            o_first: arg(o_first)?,
            o_second: arg(o_second)?,
            lse_first: arg(lse_first)?,
            lse_second: arg(lse_second)?,
            o: arg(o)?,
            lse: arg(lse)?,
            by_queries: Division::by(queries),
            by_heads: Division::by(heads),
            rows,
        };
        let kernel = self.choice.descriptor();
        let pdl = self.overlap && kernel.arch == Arch::Sm90a;
        let launch = Launch::grid([rows.div_ceil(kernel.tile[0]), 1, 1]).pdl(pdl);
        // SAFETY: the arguments are those of `merge_states`. The tensors are borrowed by the caller, those that are written exclusively and apart from all others, and
        // the kernel keeps to their shapes. Programmatic launch only moves what precedes its wait for the preceding grid.
        unsafe { self.function.launch_block(stream, &launch, &args) }
    }
}

explained!(AttentionMergePlan, Compiled);
