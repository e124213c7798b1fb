//! Shapes that a command line names.

/// The shapes of so many sizes, such as `MxNxK`, that these words name and that are not among the listed ones.
pub fn unlisted<const N: usize>(words: &[String], listed: &[[usize; N]]) -> Vec<[usize; N]> {
    let shape = |word: &str| -> Option<[usize; N]> {
        let sizes: Vec<_> = word.split('x').map(|size| size.parse().ok()).collect::<Option<_>>()?;
        sizes.try_into().ok()
    };
    let named = words.iter().flat_map(|word| word.split(',')).filter_map(shape);
    named.filter(|shape| !listed.contains(shape)).collect()
}
