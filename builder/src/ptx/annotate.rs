//! Launch bounds and parameter alignment: what rustc cannot write.

use std::borrow::Cow;

use super::inlined::NAMES;
use super::labels::renumbered;
use crate::Arch;
use crate::kernel::Declared;

/// The alignment that tensor maps in the argument block need.
const PARAMETER_ALIGN: &str = ".align 64";

/// One kernel's module: the header for `arch`, what the kernel uses, the kernel with its bounds, and the source files
/// that they name.
pub(crate) fn annotate<'a>(
    arch: Arch,
    version: (u32, u32),
    used: impl Iterator<Item = Cow<'a, str>>,
    entry: &str,
    declared: &Declared,
    files: &[&str],
) -> String {
    let (major, minor) = version.max(arch.ptx_version());
    let mut text = format!(".version {major}.{minor}\n.target {}\n.address_size 64\n\n", arch.target());
    for item in used {
        text.push_str(&item);
        text.push('\n');
    }
    let body = entry.find('{').unwrap_or(entry.len());
    let (signature, body) = entry.split_at(body);
    text.push_str(&aligned(signature));
    text.push_str(&bounds(declared));
    text.push_str(body);
    text.push('\n');
    if text.contains("inlined_at") {
        text.push_str(NAMES);
        text.push('\n');
    }
    for file in files {
        text.push_str(file);
        text.push('\n');
    }
    renumbered(&text)
}

/// The performance directives of the kernel.
fn bounds(declared: &Declared) -> String {
    let Declared { threads, min_ctas, cluster: [x, y, z], .. } = declared;
    let mut text = format!(".maxntid {threads}, 1, 1\n.minnctapersm {min_ctas}\n");
    if [x, y, z] != [&1, &1, &1] {
        text.push_str(&format!(".reqnctapercluster {x}, {y}, {z}\n"));
    }
    text
}

/// The signature with its first parameter aligned for tensor maps.
fn aligned(signature: &str) -> String {
    let Some(at) = signature.find(".align ") else { return signature.to_owned() };
    let (before, rest) = signature.split_at(at);
    let digits = rest[".align ".len()..].find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    format!("{before}{PARAMETER_ALIGN}{}", &rest[".align ".len() + digits..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = ".visible .entry k(\n\t.param .align 16 .b8 k_param_0[256]\n)\n{\n\tret;\n}";

    fn declared(cluster: [u32; 3]) -> Declared {
        Declared { threads: 384, min_ctas: 1, cluster, shared_bytes: 0, local: false }
    }

    #[test]
    fn bounds_stand_before_the_body() {
        let text = annotate(
            Arch::Sm90a,
            (8, 0),
            [Cow::Borrowed(".global .b8 g;")].into_iter(),
            ENTRY,
            &declared([2, 1, 1]),
            &[".file 1 \"a.rs\""],
        );
        let expected = "\
.version 8.1
.target sm_90a
.address_size 64

.global .b8 g;
.visible .entry k(
	.param .align 64 .b8 k_param_0[256]
)
.maxntid 384, 1, 1
.minnctapersm 1
.reqnctapercluster 2, 1, 1
{
	ret;
}
.file 1 \"a.rs\"
";
        assert_eq!(text, expected);
    }

    #[test]
    fn one_cta_is_no_cluster_and_newer_ptx_stays() {
        let text = annotate(Arch::Sm80, (8, 7), [].into_iter(), ENTRY, &declared([1, 1, 1]), &[]);
        assert!(!text.contains("cluster"));
        assert!(text.starts_with(".version 8.7\n.target sm_80\n"));
    }
}
