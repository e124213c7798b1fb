//! Lists of the blocks of keys that each query sees.

use tilewright_attention::{Cache, Selected};
use tilewright_device::tile::division::Division;

use super::Attention;
use super::cache::int;
use super::problem::Size;
use crate::ops::Indices;
use crate::ops::frame::of_shape;
use crate::tensor::Untyped;
use crate::{Error, Result};

impl<'a> Attention<'a> {
    /// Which blocks of keys each query sees, one list for the heads that share a KV head: the selection branch of native sparse attention (NSA; Yuan et al.
    /// 2025, section 3.3), in prompts and in decoding. Keys lie in blocks of `keys`, a multiple of 64; the last one may be short. Query i of a KV head's
    /// heads sees the keys of the blocks `lists`\[batch, KV head, i, ..\] and no others; a mask and sinks apply on top, so that with
    /// [`causal`](Self::causal) each query sees the keys of its blocks up to its own position.
    ///
    /// | numbers | shape, or one that broadcasts to it |
    /// | --- | --- |
    /// | `lists` | \[batch, KV heads, queries, blocks of a list\] |
    ///
    /// Numbers are of `i32`, `u32` or `i64`, as [`TopK`](crate::ops::TopK) and frameworks give them. Strides are any. Lists are read when the kernel runs. A list has its blocks in any order, each once: keys that are listed twice count twice. A number that
    /// names no block of keys, as -1, is passed over, and so are blocks that the mask hides from the query, which are not read. A query that sees no key has an O of 0 and a
    /// log-sum-exp of -inf, or of its head's [sink](Self::sinks).
    ///
    /// The kernels are those of flash-decoding, whose tiles are the heads that share a KV head, of one query: the more these are, up to 64, the fewer of its
    /// products are in vain. With few queries [`splits`](Self::splits) divide the lists. Keys may have [`lengths`](Self::lengths) and lie in the pages of a
    /// [`block_table`](Self::block_table). There are neither gradients nor a [`softcap`](Self::softcap), slopes of [ALiBi](Self::alibi_slopes), a
    /// [`bias`](Self::bias), keys of 8 bits, [`packed`](Self::packed) sequences and [`block_lists`](Self::block_lists). D and DV are at most 256.
    ///
    /// ```no_run
    /// use tilewright::ops::Attention;
    /// use tilewright::{Device, Tensor, bf16};
    ///
    /// # fn main() -> tilewright::Result<()> {
    /// let device = Device::default()?;
    /// // 16 heads share a head of keys and values.
    /// let q = Tensor::<bf16>::zeros(&device, &[1, 32, 256, 128])?;
    /// let k = Tensor::<bf16>::zeros(&device, &[1, 2, 256, 128])?;
    /// let mut o = Tensor::<bf16>::zeros(&device, &[1, 32, 256, 128])?;
    /// // Every query sees the first block of 64 keys and its own, which are the same for the first 64.
    /// let lists = (0..256).flat_map(|i| [i / 64, if i < 64 { -1 } else { 0 }]);
    /// let lists = Tensor::<i32>::from_slice(&device, &lists.collect::<Vec<_>>(), &[256, 2])?;
    /// let (stream, k) = (device.default_stream(), k.view());
    /// let mut attention = Attention::new().causal().selected_blocks(lists.view(), 64);
    /// attention.run(&stream, &q.view(), &k, &k, &mut o.view_mut())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn selected_blocks(mut self, lists: impl Into<Indices<'a>>, keys: usize) -> Self {
        self.options.selected_keys = keys;
        Attention { selected: Some(lists.into()), ..self }
    }
}

/// What the keys of a block are a multiple of.
const UNIT: usize = 64;

/// What kernels are told of lists of blocks of `keys`, given the sizes of the sequences and the cache that these lie in.
pub(super) fn argument(lists: &Untyped, keys: usize, size: &Size, cache: Cache) -> Result<Selected> {
    if keys == 0 || !keys.is_multiple_of(UNIT) || i32::try_from(keys).is_err() {
        let allowed = format!("a multiple of {UNIT}, from {UNIT} on and below 2^31");
        return Err(Error::argument("keys", format!("{keys}"), allowed));
    }
    let shape = lists.layout.shape();
    let &Size { batch, kv_heads, queries, keys: all, .. } = size;
    let Some(&most) = shape.last() else {
        return Err(Error::argument("selected_blocks", of_shape(shape), "of 1 to 4 dimensions"));
    };
    // What lies behind the keys is walked over for nothing.
    let key_block = keys.min(all.max(1).next_multiple_of(UNIT));
    int("k", all.saturating_add(2 * key_block))?;
    let to = [batch, kv_heads, queries, most];
    let lists = lists.broadcast(&to).map_err(|_| {
        let what = "batch, KV heads, queries and blocks of a list";
        let allowed = format!("one that broadcasts to {to:?}: {what}");
        Error::argument("selected_blocks", of_shape(shape), allowed)
    })?;
    if i32::try_from(most.saturating_mul(key_block)).is_err() {
        let allowed = format!("of fewer than 2^31 keys in a list, each of blocks of {key_block}");
        return Err(Error::argument("selected_blocks", of_shape(shape), allowed));
    }
    let strides = lists.layout.strides();
    let bytes = |dim: usize| strides[dim].saturating_mul(lists.dtype.bytes()) as u64;
    Ok(Selected {
        cache,
        lists: lists.address,
        of_lists: [0, 1, 2, 3].map(bytes),
        most: most as u32,
        key_blocks: all.div_ceil(key_block) as u32,
        // Without queries nothing is launched.
        by_queries: Division::by(cache.queries.max(1).cast_unsigned()),
        key_block: Division::by(key_block as u32),
    })
}
