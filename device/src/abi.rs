//! What crosses from the host to a kernel: plain data with one layout on both sides.

use core::fmt::Debug;
use core::marker::PhantomData;

/// A tensor map of the TMA unit (`CUtensorMap`), opaque: 128 bytes, aligned to 64.
///
/// PTX ISA, "Tensor-map"; filled by the driver's `cuTensorMapEncodeTiled`.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap(pub [u64; 16]);

impl TensorMap {
    /// A map that no kernel may use: for tensors that TMA cannot address.
    pub const NONE: Self = Self([0; 16]);
}

/// A strided tensor of `RANK` dimensions in global memory, as the host passes it.
///
/// The kernel sees it as [`Global`](crate::tile::Global) or [`GlobalMut`](crate::tile::GlobalMut).
#[repr(C, align(64))]
#[derive(Debug)]
pub struct GlobalAbi<T, const RANK: usize> {
    /// How TMA addresses the tensor; [`TensorMap::NONE`] unless `tma` is 1.
    pub map: TensorMap,
    /// Address of the element at index 0 in every dimension.
    pub address: u64,
    /// Distance between neighbours in each dimension, in elements.
    pub strides: [u64; RANK],
    /// The L2 cache policy that TMA loads with: such as [`EVICT_FIRST`](crate::arch::tma::EVICT_FIRST).
    pub policy: u64,
    /// Elements in each dimension; the last two are rows and columns.
    pub shape: [u32; RANK],
    /// Bytes to which the address and every stride but the unit one are aligned: 16, 8, 4 or 2.
    pub align: u32,
    /// 1 when `map` may be used.
    pub tma: u32,
    /// The element type.
    pub element: PhantomData<T>,
}

impl<T, const RANK: usize> GlobalAbi<T, RANK> {
    /// Elements in each dimension.
    pub const fn shape(&self) -> [u32; RANK] {
        self.shape
    }
    /// Rows of each of its matrices.
    pub const fn rows(&self) -> u32 {
        self.shape[RANK - 2]
    }
    /// Columns of each of its matrices.
    pub const fn cols(&self) -> u32 {
        self.shape[RANK - 1]
    }
}

/// A strided tensor of `RANK` dimensions in global memory that no kernel addresses by TMA: a [`GlobalAbi`] without its map, a third as large.
///
/// The kernel takes it as [`Unmapped`](crate::tile::Unmapped) or [`UnmappedMut`](crate::tile::UnmappedMut).
#[repr(C)]
#[derive(Debug)]
pub struct StridedAbi<T, const RANK: usize> {
    /// Address of the element at index 0 in every dimension.
    pub address: u64,
    /// Distance between neighbours in each dimension, in elements.
    pub strides: [u64; RANK],
    /// The L2 cache policy, as a [`GlobalAbi`]'s.
    pub policy: u64,
    /// Elements in each dimension; the last two are rows and columns.
    pub shape: [u32; RANK],
    /// Bytes to which the address and every stride but the unit one are aligned: 16, 8, 4 or 2.
    pub align: u32,
    /// The element type.
    pub element: PhantomData<T>,
}

impl<T, const RANK: usize> StridedAbi<T, RANK> {
    /// Elements in each dimension.
    pub const fn shape(&self) -> [u32; RANK] {
        self.shape
    }
    /// Rows of each of its matrices.
    pub const fn rows(&self) -> u32 {
        self.shape[RANK - 2]
    }
    /// Columns of each of its matrices.
    pub const fn cols(&self) -> u32 {
        self.shape[RANK - 1]
    }
}

impl<T, const RANK: usize> From<GlobalAbi<T, RANK>> for StridedAbi<T, RANK> {
    fn from(of: GlobalAbi<T, RANK>) -> Self {
        let GlobalAbi { address, strides, policy, shape, align, element, .. } = of;
        StridedAbi { address, strides, policy, shape, align, element }
    }
}

impl<T, const RANK: usize> Clone for StridedAbi<T, RANK> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const RANK: usize> Copy for StridedAbi<T, RANK> {}

impl<T, const RANK: usize> Clone for GlobalAbi<T, RANK> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const RANK: usize> Copy for GlobalAbi<T, RANK> {}

/// `N` times 16 bytes: how an entry point declares its arguments' size.
///
/// rustc 1.96 crashes on by-value kernel parameters aligned to 64 bytes, so entries take this
/// and the builder raises the parameter's alignment in the PTX.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Blob<const N: usize>(pub [u128; N]);

/// A value that a kernel takes as an argument: its host form, and how the kernel reads it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kernel's parameter",
    note = "parameters are numbers, `Global`, `GlobalMut` and other types of `tile`, and plain data of your own: `impl PassedAsIs for T {{}}`"
)]
pub trait KernelArg: Sized {
    /// The plain data that the host writes into the parameter block.
    type Abi: Copy;

    /// Reads the argument in the kernel.
    ///
    /// # Safety
    /// `at` points to an initialised `Abi` in the kernel's parameter space, which outlives the kernel.
    unsafe fn load(at: *const Self::Abi) -> Self;

    /// Reads the argument, which lies in the parameter block at `block`.
    ///
    /// # Safety
    /// As for [`load`](Self::load); `at` lies in the block.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn load_in(at: *const Self::Abi, _block: *const u8) -> Self {
        // SAFETY: passed on.
        unsafe { Self::load(at) }
    }
}

/// What the host must know to make the [`GlobalAbi`] of a kernel's tensor argument.
pub trait GlobalArg<const RANK: usize>: KernelArg<Abi = GlobalAbi<Self::Element, RANK>> {
    /// The element type.
    type Element;
    /// True when the last dimension is the contiguous one, false when the last but one is.
    const ROW_MAJOR: bool;
    /// Rows of the TMA box: its extent along the last-two dimension that is not contiguous.
    ///
    /// The box's extent along the contiguous dimension is [`SWIZZLE_BYTES`] of elements, and 1 in
    /// the leading dimensions but the innermost. The map's dimensions are ordered as TMA wants them: the
    /// contiguous one first, then the other of the last two, then the leading ones from the inner to the outer.
    const BOX_ROWS: u32;
    /// The TMA box's extent along the innermost of the leading dimensions.
    const BOX_PLANES: u32 = 1;
}

/// The swizzle, and with it the width of every TMA box, in bytes (`CU_TENSOR_MAP_SWIZZLE_128B`).
pub const SWIZZLE_BYTES: u32 = 128;

/// A parameter that the host passes as it is: plain data, with one layout on both sides.
///
/// ```
/// use tilewright_device::abi::PassedAsIs;
///
/// /// Where a kernel begins, and how far it goes.
/// #[derive(Clone, Copy)]
/// #[repr(C)]
/// pub struct Span {
///     pub first: u32,
///     pub count: u32,
/// }
/// impl PassedAsIs for Span {}
/// ```
pub trait PassedAsIs: Copy {}

#[diagnostic::do_not_recommend]
impl<T: PassedAsIs> KernelArg for T {
    type Abi = T;
    #[inline(always)]
    unsafe fn load(at: *const T) -> T {
        // SAFETY: the caller passes an initialised parameter.
        unsafe { *at }
    }
}

/// A parameter of numbers alone.
///
/// # Safety
/// A kernel that is a safe function is sound whatever the value is: it holds no addresses that safe functions follow.
pub unsafe trait Plain: PassedAsIs + Debug {}

macro_rules! numbers {
    ($($t:ty)*) => { $(
        impl PassedAsIs for $t {}
        // SAFETY: a number.
        unsafe impl Plain for $t {}
    )* };
}
numbers!(u8 u16 u32 u64 i8 i16 i32 i64 f32);
