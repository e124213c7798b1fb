//! Kernels that compile and would be silently wrong.

use std::path::Path;

use tilewright_builder::{Arch, BuildError, KernelBuilder};

/// What each kernel of `refused/` is refused for.
const REASONS: [(&str, &str); 16] = [
    ("bf16_added_before_hopper", "bf16 are added atomically from Hopper on"),
    ("bytes_copied_as_a_fragment", "numbers of 8 bits are stored by `Output::store_each` alone"),
    ("bytes_stored_by_columns", "numbers of 8 bits are stored by `Output::store_each` alone"),
    ("bytes_stored_by_warpgroups", "numbers of 8 bits are stored by `Output::store_each` alone"),
    ("bytes_stored_by_warps", "numbers of 8 bits are stored by `Output::store_each` alone"),
    ("columns_of_other_warps", "rows or columns are cut out of a fragment that other threads would hold"),
    ("doubled_by_half", "it converts f32 to bf16 in software"),
    ("part_beyond_the_depth", "a part is asked for of a tile that has not as many"),
    ("policy_of_more_warps_than_compute", "a fragment lies over more threads than compute"),
    ("register_not_known", "a register of a fragment is taken by a number that is not known"),
    ("ring_of_another_pipeline", "a ring's tile is asked for in a stage of another pipeline"),
    ("rows_of_more_warps_than_the_program", "a fragment lies over more threads than compute"),
    ("rows_of_more_warps_than_threads", "a fragment lies over more threads than compute"),
    ("widened_by_half", "it converts f16 to f32 in software"),
    ("stage_taken_by_the_producer", "threads that only load take a stage"),
    ("zeros_in_a_ring_of_other_stages", "by stages that it was not allocated of"),
];

#[test]
fn what_would_be_silently_wrong_is_refused_by_name() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("built/refused");
    std::fs::create_dir_all(&out).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/refused");
    let builder = KernelBuilder::new(folder).arch(Arch::Sm80).arch(Arch::Sm90a).out_dir(out);
    let complaints = match builder.build() {
        Err(BuildError::Kernels { complaints, .. }) => complaints,
        other => panic!("should be refused: {other:?}"),
    };
    for (kernel, reason) in REASONS {
        let of_kernel: Vec<_> = complaints.iter().filter(|complaint| complaint.kernel == kernel).collect();
        assert!(
            of_kernel.iter().any(|complaint| complaint.problem.contains(reason)),
            "{kernel}: {of_kernel:?}"
        );
    }
    let named = |name: &str| REASONS.iter().any(|(kernel, _)| *kernel == name);
    assert!(complaints.iter().all(|complaint| named(&complaint.kernel)), "{complaints:?}");
}
