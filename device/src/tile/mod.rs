//! Tiles in global memory, shared memory and registers, and what moves between them.
//!
//! Safe to use and generic over the architecture: a kernel written with this module alone compiles for
//! every [`Schedule`].
//!
//! | from, to | |
//! | --- | --- |
//! | [`Global`] to a stage of [`Shared`] | `copy(a.tile([m, k]), a_s.at(s))` where a pipeline loads: TMA or `cp.async` |
//! | the same to some rows of the stage's tile | `copy(a.tile([m, k]), a_s.at(s).rows::<H>(i))`: a tile that is put together of several |
//! | `Global` to [`Fragment`] | `Fragment::load(a.tile([m, n]))`: 16 bytes at a time where alignment and bounds allow it |
//! | `Shared` to `Fragment` | `Fragment::load(a_s.at(s))`, `Fragment::load(a_s.at(s).t())` where a pipeline computes |
//! | a transposed tile to a left operand, in matrices | `Fragment::load_matrices(a_s.at(s).t())` |
//! | `Fragment` to `Shared` | `copy(x, &mut x_s)` for a [`Scratch`] tile, which is read as `x_s.full()` |
//! | an accumulator, rounded, to a [`Scratch`] tile in matrices | `x.copy_matrices(&mut x_s)` |
//! | the same to one of two tiles in turn, while gemms read the other | `pair.put(x)`: [`ScratchPair`] |
//! | `Fragment` added to global memory by TMA, in an order of its own, and back | `room.put(x, left)`, and `room.add(…)` by a producer: [`BlockSums`], in the order of [`SumTurn`]s if there are some; [`Fragment::of_sums`] |
//! | [`Rows`] of one layout to those of another | `copy(x, &mut row_s)` for a [`RowScratch`], then [`Rows::exchanged`] |
//! | an accumulator to what is stored | `epilogue.apply(acc, [m, n])`: scales, residual, bias, activation, rounding, an [`Epilogue`] |
//! | `Fragment` to [`GlobalMut`] | `copy(x, c.tile([m, n]))`, or through staging buffers: [`Output`] |
//! | rows of `Global` that lie anywhere to a stage | `copy(a.gather(place), a_s.at(s))`: row r from `place(r)`, an index list |
//! | patches of images, for a convolution, to a stage or a fragment | `copy(x.tile(group, m, x.tap(k)), x_s.at(s))`: [`Patches`], by TMA in its im2col mode |
//! | the same to `Fragment`, to a [`Scratch`] tile | `Fragment::load(a.gather(place))`, `a_s.fetch(a.gather(place)).wait()` |
//! | rows of a length known at run time | `Fragment::load_rows(x.tile(place), outside)`, `y.store_rows(…)`; of any length, `x.fold_row_parts(…)` |
//! | rows that are longer than registers hold, or begin anywhere, read once | `cta.row_parts([x, z], order, outside)`, then `fold` and `take`: [`RowParts`] |
//! | those that begin anywhere, where all of a CTA begin alike | `cta.rows_alike([x, z], order)`, then `fold` and `store`: [`RowsAlike`] |
//! | a value for each column | [`Cols::load`], from any column on [`ColumnsFrom::load`], with [`Fragment::zip_cols`], [`Fragment::affine_cols`]; back by `copy(cols, y.tile([0, n]))`, `atomic_add` |
//! | values of rows that change from step to step | `StepRows::new(\|step\| Rows::load_or_zero(x.tile([m, step])), \|rows\| rows).take()`: a load for each row and several steps |
//! | values of rows that several warps, or CTAs of a cluster, hold | [`RowReducer`], over tiles that [`RowTile`] goes through |
//! | whole tensors, element by element | `elementwise([a, b], &mut y, \|[a, b]\| …)`: any shape, any strides, 16 bytes at a time where they lie so |
//! | `Fragment` to rows of `GlobalMut` | `copy(x, c.scatter(place))` |
//! | `Fragment` added to what others add to | `atomic_add(x, c.tile([m, n]))`, `atomic_add(x, c.scatter(place))` |
//! | `Fragment` and `Rows` to parts of rows' results | `copy(x, parts.part(first, place))`: row r to line `first + place(r)`, [`SplitParts`] |
//! | parts of rows' results to `Fragment` and `Rows` | `parts.rows(first, count, column).merge()`: split-KV |
//! | pages of `Global` to a stage | `copy(a.paged(pages, [sequence, head, block], rows), a_s.at(s))`: a block table, [`PageTable`] |
//! | the same, or rows of a matrix where there are no pages | `copy(a.paged(pages, [sequence, head, block], rows).or_rows(first), a_s.at(s))` |
//! | [`Weights`] to a stage of [`Quantized`] | `copy(w.tile([m, k]), w_s.at(s))`: narrow weights, their scales and zeros |
//! | [`Quantized`] to a left operand | `w.dequantize(w_s.at(s), part)`: each thread decodes its own registers |
//! | [`Quantized`] to left operands of gemms whose sums are scaled | `w.unscaled(w_s.at(s), block)`, with `w.factors(w_s.at(s), block)` |
//! | [`Quantized`] to a left operand of int8 | `w.integers(w_s.at(s), part)`, with `w.scales(w_s.at(s), part)` for the sums |
//!
//! What lies outside of a tensor is read as zero and not stored.
//!
//! | in registers | |
//! | --- | --- |
//! | each element | [`Fragment::map`], [`Fragment::map_indexed`]; with values of rows, of columns, of another fragment [`Fragment::zip_rows`], [`Fragment::zip_cols`], [`Fragment::zip`] |
//! | sums and products of f16, bf16 and f32 | `x * y + z`, [`Fragment::mul_add`]: [`Arithmetic`] of packed pairs |
//! | another element type | [`Fragment::to_f32`], [`Fragment::cast`]; as a left operand of bytes [`Fragment::e4m3_operand`] |
//! | reductions of rows and of columns | [`Fragment::reduce_rows`], [`RowReducer`]; [`Fragment::reduce_cols`], [`ColReducer`] |
//! | scans of rows and of columns | [`Fragment::scan_rows`], [`RowScanner`]; [`Fragment::scan_cols`], [`ColScanner`] |
//! | some rows or columns, as a fragment | [`Fragment::rows`], [`Fragment::columns`], where each thread holds those that it would of the smaller one |
//! | neighbours in a row, and elements of its halves | [`Fragment::zip_pairs`], [`Fragment::zip_halves`] |
//!
//! What the threads of a CTA write to memory by themselves they read behind [`Cta::barrier`].
//!
//! A loop over stages is [`Pipeline::run`]. One that holds stages of several rings at a time, as attention does, takes them from
//! [`Pipeline::loads`]; [`InFlight::behind`] lets a gemm run while the one before it is waited for, [`Turns`] and [`Pipeline::run_in_turn`] order
//! warpgroups, and [`OnlineSoftmax`] has the rows' statistics.
//!
//! CTAs take tiles in turn, of a [`Raster`]. Where tiles differ in how long they take, and the host does not know by how much, they come from
//! a [`TileQueue`]: who is done takes the next one, by an atomic counter, and all roles of a CTA learn of it.
//!
//! A kernel on [`Roles`] has two instances of its body, with registers of their own, for warpgroups with different things to
//! do, and tells them apart by [`Cta::in_role`].
//!
//! # What a kernel adds by itself
//!
//! A part that one kernel alone needs, a ring with an order of its own or a source of tiles that this library does not know,
//! lives in that kernel's crate. It is made of the instructions in [`arch`](crate::arch) and of these:
//!
//! | | |
//! | --- | --- |
//! | shared memory | [`Cta::reserve`], which gives addresses; [`Stages::alloc`] for rings of its own |
//! | a thread's part of a tile | [`Fragment::regs`], [`Rows::regs`] and [`Operand::regs`], where [`FragmentLayout`] says what lies |
//! | a tile in shared memory | [`Src::from_address`], [`Src::address`], [`Dst::address`], [`Ring::address`], [`RowVector::at`] |
//! | a ring's stage | [`Fill::new`] with the ticket that its copies complete on, such as an [`Arrival`]; [`Full::new`] |
//! | a state of a stage, a source or destination of copies, an argument | [`Stage`], [`CopyTo`], [`KernelArg`](crate::abi::KernelArg) |
//! | operands of `wgmma` | [`MatB::address`], [`MatD::issued`], [`SharedOperand`], [`CoreMatrices::descriptor`] |
//! | tensors | [`Global::load_box`], [`GlobalTile::lines`], [`GlobalTileMut::store_box`], [`GlobalTileMut::store_lines`] |
//! | named barriers | [`barriers`], of which [`KERNEL`](barriers::KERNEL) are the kernel's own |
//!
//! What the compiler cannot check is `unsafe`, and says what must hold.
//!
//! # What does not compile
//!
//! Safe code that compiles is not silently wrong. Types refuse most of what would be. What only the compiled kernel shows, the
//! builder refuses by the kernel's name: a ring's tile in another pipeline's stage, a stage taken by threads that only load, a
//! fragment over more threads than compute, a register or a [`Part`] that is not there. So these must be known when the kernel is
//! compiled: no ring is chosen by a number that the launch passes. What only a launch shows, traps.
//!
//! Tiles are copied into stages as the kernel's program copies them: by TMA, in pieces of 16 bytes, by elements
//! ([`Copies`](crate::kernel::Copies)). A launch refuses tensors that cannot be read so, whether or not a stage takes them. A tensor that
//! is read to fragments and rows alone may have any strides: say `Global<T, 2, RowMajor, 0>`, and a copy into a stage does not compile.
//!
//! # Glossary
//!
//! Most words are the field's: CTA, warpgroup, mainloop, epilogue, producer and consumer, ping-pong, split-K, stream-K,
//! split-KV, paged cache, preceding grid. A few are our own:
//!
//! | word | meaning |
//! | --- | --- |
//! | policy | how warps divide a tile among themselves: a type such as [`FullRow<2>`](FullRow), which names the layouts of a gemm; of f32 [`Threads`], [`KMajor`] and [`Tf32`] |
//! | schedule | which warps load, which compute, and how they wait for each other: [`WarpSpecialized`], [`Multistage`] |
//! | configuration | how many warps load and compute on [`WarpSpecialized`], and with how many registers: [`Configuration`] |
//! | collective | a CTA's threads as far as they share a tile: what a schedule is at least, [`Collective`] |
//! | stage, ring | room for the tiles of one step; as many of them as loads run ahead, [`Stages`] of one [`Pipeline`] |
//! | turn | a stage's time with those who read it, from full until it is given back: [`Turn`] |
//! | ticket | what a copy into a stage completes on |
//! | part, block | a share of a stage's depth; a share of a tile's rows |
//! | chunk, slab | 128 of the depth of narrow weights; 32 of their rows |
//! | plain weights | weights whose groups and scales allow decoding by one fused multiply-add |
//! | scratch | a tile of shared memory through which fragments change their layout |
//! | listed kernel | a row of the table that [`kernels!`](crate::kernels) makes |
//!
//! # How layouts are inferred
//!
//! The type of a tile says what it holds and how large it is. *Where* each element lies, in which thread's register or
//! at which byte of shared memory, is one more type parameter, and kernels leave it as `_`:
//!
//! ```
//! use tilewright_device::kernel;
//! use tilewright_device::tile::*;
//!
//! #[kernel(program = P)]
//! pub fn product<P: Schedule, Y: Gemm<f16, 128, 128, 64>>(
//!     mut cta: Cta<P>,
//!     a: Global<f16, 2>,
//!     b: Global<f16, 2, ColMajor>,
//!     mut c: GlobalMut<f32, 2>,
//! ) {
//!     let stages = cta.stages::<3>();
//!     let a_s = stages.alloc::<Shared<f16, 128, 64, _, _>>(&mut cta);
//!     let b_s = stages.alloc::<Shared<f16, 64, 128, _, _>>(&mut cta);
//!     let mut pipe = cta.pipeline(stages);
//!     let acc = pipe.run(
//!         0..a.cols().div_ceil(64),
//!         Fragment::<f32, 128, 128, _>::zero(),
//!         |s, k| {
//!             copy(a.tile([block_x(), k]), a_s.at(s));
//!             copy(b.tile([k, block_y()]), b_s.at(s));
//!         },
//!         |acc, s, _| gemm(Y::default(), a_s.at(s), b_s.at(s), acc),
//!     );
//!     copy(acc, c.tile([block_x(), block_y()]));
//! }
//! # fn main() {}
//! ```
//!
//! There is no pass that computes layouts. The signatures of the operations equate them, and rustc's type
//! inference carries them forwards and backwards through the kernel:
//!
//! - [`gemm`] of a policy `Y` wants its operands laid out as [`Gemm::A`] and [`Gemm::B`] and its accumulator as [`Gemm::D`],
//!   which the policy names for the element type and the shape. So the first `_` of `a_s` and `b_s` is the widest swizzle
//!   that a depth of 64 fills, [`Swizzle<128>`](Swizzle), and that of the accumulator is how the instructions of the policy
//!   leave it in registers: with `Y =` [`FullRow<2>`](FullRow) two warpgroups hold 64 rows each, with
//!   [`warp::Square<2, 2>`](warp::Square) four warps a quarter each.
//! - [`copy`] keeps the order of the tensor, whose type says which dimension is contiguous. So the second `_` of `a_s` is
//!   [`RowMajor`], that of `b_s` [`ColMajor`]; the gemm takes either.
//! - [`map`](Fragment::map), [`zip`](Fragment::zip), [`cast`](Fragment::cast) and row reductions keep the layout of their
//!   fragment. A fragment that becomes the left operand of another gemm has to be laid out as [`GemmRegisters::R`].
//! - Copies between fragments and memory take any layout, and so tell nothing about it.
//!
//! ## When layouts conflict
//!
//! Two operations that want one tile in two layouts do not compile. The error is at the second, and names both:
//!
//! ```compile_fail
//! # use tilewright_device::tile::*;
//! # type A<'s> = Src<'s, Shared<f16, 128, 64, Swizzle<128>>>;
//! # type B<'s> = Src<'s, Shared<f16, 64, 128, Swizzle<128>, ColMajor>>;
//! # fn kernel(a: A, b: B, a2: A, b2: B) {
//! let acc = gemm(FullRow::<2>::default(), a, b, Fragment::<f32, 128, 128, _>::zero()).wait();
//! let acc = gemm(FullRow::<1>::default(), a2, b2, acc).wait();
//! # }
//! ```
//!
//! ```text
//! error[E0271]: type mismatch resolving `<Fragment<f32, 128, 128, Warpgroups<2, 1>> as MatD<128, 128>>::Layout == Warpgroups<1, 1>`
//! ```
//!
//! Here the two gemms divide the accumulator among different numbers of warpgroups: give both the same policy. A shape that the
//! hardware has no instructions for is an error of its own, ``policy `Warpgroups<2, 1>` cannot compute a 128 x 12 x 64 tile of
//! `f16` ``, with what would fit. Two layouts that are both wanted meet in shared memory: copy the one fragment to a [`Scratch`]
//! tile and load the other from it.
//!
//! ## When nothing says a layout, or one is wanted
//!
//! Where no operation fixes a layout, rustc asks for it (`type annotations needed`). Write it in place of the `_`:
//!
//! - a fragment that meets no gemm: [`Striped<W>`](Striped), rows shared out among `W` warps; [`Spread`], rows that lie over several
//!   warps or the CTA; [`Threads<TY, TX, RUN>`](Threads), a grid of threads;
//! - a stage that is only loaded into fragments: what TMA writes, [`Swizzle<128>`](Swizzle);
//! - a [`Scratch`] tile between two fragments: [`Padded`], or a swizzle that its lines fill.
//!
//! An annotation is possible everywhere, and is checked like any other: `Shared<f16, 128, 64, Swizzle<128>, RowMajor>` in the
//! kernel above changes nothing, `Swizzle<64>` does not compile. All layouts are plain functions from places to threads and
//! registers, or to bytes: [`FragmentLayout::coord`], [`SharedLayout::offset`].

mod copy;
mod cta;
mod epilogue;
mod fragment;
mod memory;
mod mma;
mod pipeline;
mod prelude;
mod quantized;
mod roles;
mod scheduler;
mod softmax;

pub use cta::barriers;
#[doc(hidden)]
pub use memory::division;
pub use prelude::*;
