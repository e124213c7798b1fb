//! An operator's kernels, by what they are chosen by first.

use std::collections::HashMap;
use std::hash::Hash;

/// Kernels by their kind: element types, format, whatever only some of them can ever serve.
pub struct Table<Q, K>(HashMap<Q, Vec<K>>);

impl<Q: Eq + Hash, K> Table<Q, K> {
    /// The table of these kernels, each with its kind.
    pub fn new(kernels: impl IntoIterator<Item = (Q, K)>) -> Self {
        let mut table: HashMap<Q, Vec<K>> = HashMap::new();
        for (kind, kernel) in kernels {
            table.entry(kind).or_default().push(kernel);
        }
        Table(table)
    }

    /// The kernels of a kind.
    pub fn kernels(&self, kind: &Q) -> &[K] {
        self.0.get(kind).map_or(&[], Vec::as_slice)
    }

    /// What there are kernels for.
    pub fn kinds(&self) -> impl Iterator<Item = &Q> {
        self.0.keys()
    }
}
