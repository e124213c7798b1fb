//! Lists of the blocks of keys that blocks of queries see.

use tilewright_attention::{Keys, Listed};
use tilewright_device::tile::division::Division;

use super::cache::int;
use super::problem::Size;
use crate::ops::frame::of_shape;
use crate::tensor::Untyped;
use crate::{Error, Result};

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
