//! Shapes that a command line names.

/// The shapes `MxNxK` that these words name and that are not among the listed ones.
pub fn unlisted(words: &[String], listed: &[[usize; 3]]) -> Vec<[usize; 3]> {
    let shape = |word: &str| -> Option<[usize; 3]> {
        let sizes: Vec<_> = word.split('x').map(|size| size.parse().ok()).collect::<Option<_>>()?;
        sizes.try_into().ok()
    };
    let named = words.iter().flat_map(|word| word.split(',')).filter_map(shape);
    named.filter(|shape| !listed.contains(shape)).collect()
}
