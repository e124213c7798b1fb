//! How narrow weights lie in global memory: in the order in which the lanes of a warpgroup consume them.
//!
//! The weights W \[N, K\] of a product are the operand of the tensor cores that comes from registers, with N along the
//! instruction's rows. Blocks of 64 rows and 64 of depth lie one after the other, \[N / 64\]\[K / 64\]; N and K are padded. A
//! lane's 32 values of a block are neighbours: it reads them with one access, or two where values have 8 bits.
//!
//! docs/quantized-weights.md of the crate `tilewright` specifies the format that is built of these blocks.

/// Rows of a block, along N.
pub const ROWS: u32 = 64;
/// Depth of a block, along K.
pub const DEPTH: u32 = 64;
/// Lanes that share a block: those of a warpgroup, or of four warps that take 16 rows each.
pub const LANES: u32 = 128;
/// Values of a block that one lane holds.
pub const VALUES: u32 = ROWS * DEPTH / LANES;

/// Bytes of one access.
const ACCESS: u32 = 16;

/// What the tensor core's operand registers hold: the element type of the activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Two 16-bit elements a register: `wgmma.m64nNk16` and `mma.m16n8k16` of f16 and bf16. A block is 4 steps.
    B16,
    /// Four 8-bit elements a register: `wgmma.m64nNk32` and `mma.m16n8k32` of s8. A block is 2 steps.
    B8,
}

impl Order {
    /// Elements of a register.
    pub const fn elements(self) -> u32 {
        match self {
            Order::B16 => 2,
            Order::B8 => 4,
        }
    }

    /// Instructions along a block's depth.
    pub const fn steps(self) -> u32 {
        VALUES / (4 * self.elements())
    }

    /// The (row, k) in the block of a lane's value `i`: of the element `i % elements` of register `i / elements % 4` of the
    /// step after that (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16" and "m64nNk32", matrix A).
    #[inline(always)]
    pub const fn coord(self, lane: u32, i: u32) -> (u32, u32) {
        let elements = self.elements();
        let (step, register, e) = (i / elements / 4, i / elements % 4, i % elements);
        let row = lane / 32 * 16 + lane % 32 / 4 + register % 2 * 8;
        let k = (step * 8 + register / 2 * 4 + lane % 4) * elements + e;
        (row, k)
    }

    /// The (lane, value) that holds (row, k): the inverse of [`coord`](Self::coord).
    #[inline(always)]
    pub const fn owner(self, row: u32, k: u32) -> (u32, u32) {
        let elements = self.elements();
        let (quad, e) = (k / elements, k % elements);
        let register = row / 8 % 2 + quad / 4 % 2 * 2;
        (row / 16 * 32 + row % 8 * 4 + quad % 4, (quad / 8 * 4 + register) * elements + e)
    }
}

/// The layout of a block of values of 1, 2, 4 or 8 bits.
///
/// The values of a register stand as far apart in a word as its elements do, 16 or 8 bits, so that one shift and one mask
/// take a whole register out of the word; the values of the next register stand next to them. Only 8-bit values
/// for registers of two are not apart: they stand one after the other, as conversions of pairs take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packed {
    order: Order,
    bits: u32,
}

impl Packed {
    /// The layout of values of `bits` bits; `None` unless that is 1, 2, 4 or 8.
    pub const fn new(order: Order, bits: u32) -> Option<Self> {
        match bits {
            1 | 2 | 4 | 8 => Some(Packed { order, bits }),
            _ => None,
        }
    }

    /// The order.
    pub const fn order(self) -> Order {
        self.order
    }
    /// Bits of a value.
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// Bytes of a block.
    pub const fn block_bytes(self) -> u32 {
        LANES * self.lane_bytes()
    }
    /// Bytes of a block that one lane reads.
    pub const fn lane_bytes(self) -> u32 {
        VALUES * self.bits / 8
    }
    /// Bytes that a lane reads with one access.
    pub const fn access_bytes(self) -> u32 {
        if self.lane_bytes() < ACCESS { self.lane_bytes() } else { ACCESS }
    }

    /// Whether the values of a register stand apart, rather than one after the other.
    const fn apart(self) -> bool {
        self.bits < 8 || matches!(self.order, Order::B8)
    }

    /// The bit of a lane's bytes from which its value `i` stands.
    #[inline(always)]
    pub const fn bit(self, i: u32) -> u32 {
        let (elements, bits) = (self.order.elements(), self.bits);
        let (register, e) = (i / elements, i % elements);
        if self.apart() {
            let in_word = 32 / elements / bits;
            register / in_word * 32 + register % in_word * bits + e * (32 / elements)
        } else {
            i * bits
        }
    }

    /// The value that stands from `bit` of a lane's bytes: the inverse of [`bit`](Self::bit).
    #[inline(always)]
    pub const fn value(self, bit: u32) -> u32 {
        let (elements, bits) = (self.order.elements(), self.bits);
        if self.apart() {
            let in_word = 32 / elements / bits;
            let register = bit / 32 * in_word + bit % (32 / elements) / bits;
            register * elements + bit % 32 / (32 / elements)
        } else {
            bit / bits
        }
    }

    /// The bit of the block at which bit `bit` of a lane's bytes lies: lanes are neighbours in each access.
    #[inline(always)]
    pub const fn place(self, lane: u32, bit: u32) -> u32 {
        let access = self.access_bytes() * 8;
        (bit / access * LANES + lane) * access + bit % access
    }

    /// The (lane, bit of its bytes) at bit `place` of the block: the inverse of [`place`](Self::place).
    #[inline(always)]
    pub const fn lane(self, place: u32) -> (u32, u32) {
        let access = self.access_bytes() * 8;
        let (piece, bit) = (place / access, place % access);
        (piece % LANES, piece / LANES * access + bit)
    }

    /// The bit of the block from which the value of (row, k) stands.
    #[inline(always)]
    pub const fn offset(self, row: u32, k: u32) -> u32 {
        let (lane, i) = self.order.owner(row, k);
        self.place(lane, self.bit(i))
    }

    /// The (row, k) whose value stands from bit `offset` of the block: the inverse of [`offset`](Self::offset).
    #[inline(always)]
    pub const fn position(self, offset: u32) -> (u32, u32) {
        let (lane, bit) = self.lane(offset);
        self.order.coord(lane, self.value(bit))
    }
}
