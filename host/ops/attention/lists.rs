//! Lists of the blocks of keys that blocks of queries see.

use tilewright_attention::{Keys, Listed};
use tilewright_device::tile::division::Division;

use super::Attention;
use super::cache::int;
use super::problem::Size;
use crate::ops::Indices;
use crate::ops::frame::of_shape;
use crate::tensor::Untyped;
use crate::{Error, Result};

impl<'a> Attention<'a> {
    /// Which blocks of keys queries see: block-sparse attention (Dao et al. 2022, section 3.3; in the form of FlexAttention's `BlockMask`, Dong et al.
    /// 2024). Queries and keys lie in `blocks` of so many each, multiples of 64; the last ones may be short. The queries of block i see the keys of the blocks
    /// `lists`\[batch, head, i, ..`counts`\[batch, head, i\]\] and no others; a mask and sinks apply on top.
    ///
    /// | numbers | shape, or one that broadcasts to it |
    /// | --- | --- |
    /// | `lists` | \[batch, heads, blocks of queries, most\] |
    /// | `counts` | \[batch, heads, blocks of queries\] |
    ///
    /// Strides are any. Both are read when the kernel runs. A list has its blocks in any order, each once: keys that are listed twice count twice. A number that
    /// names no block of keys is passed over; counts below 0 are taken as 0, and those beyond the room of a list as all of it. What lies behind
    /// them is not used.
    ///
    /// With a [`workspace`](Self::workspace) SMs that are done take the next tile of a queue; without one each takes its share of tiles as if all lists were as long. Results
    /// are the same bits.
    ///
    /// Blocks of 128 queries and keys, or multiples, are the fastest. What is listed is loaded and multiplied even where the mask hides it, so that lists of
    /// a causal attention leave out the blocks behind the diagonal. There are neither gradients nor a [`softcap`](Self::softcap), slopes of
    /// [ALiBi](Self::alibi_slopes), a [`bias`](Self::bias), [`lengths`](Self::lengths), a [`block_table`](Self::block_table), keys of 8 bits,
    /// [`packed`](Self::packed) sequences and [`splits`](Self::splits).
    ///
    /// ```no_run
    /// use tilewright::ops::Attention;
    /// use tilewright::{Device, Tensor, bf16};
    ///
    /// # fn main() -> tilewright::Result<()> {
    /// let device = Device::default()?;
    /// let x = Tensor::<bf16>::zeros(&device, &[2, 32, 512, 128])?;
    /// let mut o = Tensor::<bf16>::zeros(&device, &[2, 32, 512, 128])?;
    /// // All sequences and heads share the lists: a block of 128 queries sees the first block of keys and its own.
    /// let lists = Tensor::<i32>::from_slice(&device, &[0, 0, 0, 1, 0, 2, 0, 3], &[4, 2])?;
    /// let counts = Tensor::<i32>::from_slice(&device, &[1, 2, 2, 2], &[4])?;
    /// Attention::new().causal().block_lists(&lists.view(), &counts.view(), [128, 128]).run(
    ///     &device.default_stream(),
    ///     &x.view(),
    ///     &x.view(),
    ///     &x.view(),
    ///     &mut o.view_mut(),
    /// )?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn block_lists(
        mut self,
        lists: impl Into<Indices<'a>>,
        counts: impl Into<Indices<'a>>,
        blocks: [usize; 2],
    ) -> Self {
        self.options.blocks = blocks;
        Attention { lists: Some([lists.into(), counts.into()]), ..self }
    }
}

/// What blocks' queries and keys are multiples of.
const UNIT: usize = 64;
/// The most keys of a kernel's block.
const WIDEST: usize = 128;

/// Lists, how many numbers of each count, and how many queries and keys a block has.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    pub(super) lists: Untyped,
    pub(super) counts: Untyped,
    pub(super) blocks: [usize; 2],
}

impl Lists {
    /// What kernels are told, given the sizes of the sequences and which keys queries see of those that are listed.
    pub(super) fn argument(&self, size: &Size, keys: Keys) -> Result<Listed> {
        let Lists { lists, counts, blocks } = self;
        let wrong = || {
            let allowed =
                format!("multiples of {UNIT}, from {UNIT} on and below 2^31, of queries and of keys");
            Error::argument("blocks", format!("{blocks:?}"), allowed)
        };
        let block = |rows: usize| match u32::try_from(rows) {
            Ok(block) if block.cast_signed() > 0 && rows.is_multiple_of(UNIT) => Ok(block),
            _ => Err(wrong()),
        };
        let [query_block, _] = [block(blocks[0])?, block(blocks[1])?];
        // What lies behind the keys is walked over for nothing.
        let key_block = blocks[1].min(size.keys.max(1).next_multiple_of(WIDEST));
        let key_blocks = size.keys.div_ceil(key_block);
        int("k", size.keys.saturating_add(2 * key_block))?;
        let rows = [size.batch, size.heads, size.queries.div_ceil(blocks[0])];
        let shape = lists.layout.shape();
        let most = shape.last().copied().unwrap_or(0);
        let stretched = |name: &'static str, of: &Untyped, to: &[usize], what: &str| {
            of.broadcast(to).map_err(|_| {
                let allowed = format!("one that broadcasts to {to:?}: batch, heads, blocks of queries{what}");
                Error::argument(name, of_shape(of.layout.shape()), allowed)
            })
        };
        let [batch, heads, along] = rows;
        let lists = match shape {
            [] => Err(Error::argument("block_lists", of_shape(shape), "of 1 to 4 dimensions")),
            _ => stretched("block_lists", lists, &[batch, heads, along, most], " and numbers of a list"),
        }?;
        let counts = stretched("block_counts", counts, &rows, "")?;
        let all = most.saturating_mul(key_block);
        if i32::try_from(all).is_err() {
            let allowed = format!("of fewer than 2^31 keys in a list, each of blocks of {key_block}");
            return Err(Error::argument("block_lists", of_shape(shape), allowed));
        }
        let bytes =
            |of: &Untyped, dim: usize| of.layout.strides()[dim].saturating_mul(of.dtype.bytes()) as u64;
        Ok(Listed {
            keys,
            lists: lists.address,
            counts: counts.address,
            of_lists: [0, 1, 2, 3].map(|dim| bytes(&lists, dim)),
            of_counts: [0, 1, 2].map(|dim| bytes(&counts, dim)),
            most: most as u32,
            key_blocks: key_blocks as u32,
            query_block: Division::by(query_block),
            key_block: Division::by(key_block as u32),
        })
    }
}
