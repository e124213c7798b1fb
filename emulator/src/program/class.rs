//! Which class an instruction is counted in.

macro_rules! classes {
    ($($(#[$doc:meta])* $class:ident = $name:literal,)*) => {
        /// What kind of instruction it is, by its opcode.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Class { $($(#[$doc])* $class,)* }

        impl Class {
            /// Every class.
            pub const ALL: [Class; [$($name),*].len()] = [$(Class::$class),*];

            /// Its name in a few words.
            pub fn name(self) -> &'static str {
                match self { $(Class::$class => $name,)* }
            }
        }
    };
}
classes! {
    /// Arithmetic, logic, shifts and comparisons of integers.
    Integer = "integer",
    /// Arithmetic, approximations and comparisons of floating-point numbers.
    Float = "float",
    /// `cvt`.
    Conversion = "conversion",
    /// Values and addresses passed on as they are: `mov`, `selp`, `cvta`, `mapa`.
    Move = "move",
    /// Loads, stores and atomics of global memory, constants included.
    Global = "global memory",
    /// Those of shared memory, by `ldmatrix` and `stmatrix` too.
    Shared = "shared memory",
    /// Those of local memory and parameters.
    Local = "local memory, parameters",
    /// Those whose address is generic.
    Generic = "generic memory",
    /// Asynchronous copies: `cp.async`, `cp.async.bulk`, `st.async`.
    Copy = "asynchronous copies",
    /// `mma` and `wgmma.mma_async`.
    Tensor = "tensor core",
    /// Between the lanes of a warp: `shfl`, `vote`, `match`, `redux`, `elect`, `movmatrix`.
    Warp = "between lanes",
    /// Barriers of all kinds, fences, and waits for asynchronous work.
    Synchronisation = "synchronisation",
    /// Branches, calls and ends.
    Control = "control",
    /// What is none of these: `setmaxnreg`, hints.
    Other = "other",
}

impl Class {
    /// The class of an instruction whose opcode this is, with its modifiers.
    pub(crate) fn of(opcode: &str) -> Self {
        let mut parts = opcode.split('.');
        let name = parts.next().unwrap_or("");
        let has = |modifier: &str| opcode.split('.').skip(1).any(|part| part == modifier);
        match name {
            "mov" | "selp" | "slct" | "cvta" | "mapa" | "isspacep" | "getctarank" => Class::Move,
            "cvt" => Class::Conversion,
            "st" if has("async") => Class::Copy,
            "ld" | "ldu" | "st" | "atom" | "red" => space(parts),
            "ldmatrix" | "stmatrix" => Class::Shared,
            "cp" if ["commit_group", "wait_group", "wait_all", "arrive"].iter().any(|part| has(part)) => {
                Class::Synchronisation
            }
            "tensormap" => Class::Copy,
            "cp" => Class::Copy,
            "mma" => Class::Tensor,
            "wmma" if has("mma") => Class::Tensor,
            "wmma" => space(parts),
            "wgmma" if has("mma_async") => Class::Tensor,
            "bar" | "barrier" | "mbarrier" | "fence" | "membar" | "wgmma" | "griddepcontrol"
            | "nanosleep" => Class::Synchronisation,
            "shfl" | "vote" | "match" | "redux" | "elect" | "activemask" | "movmatrix" => Class::Warp,
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" => Class::Control,
            "setmaxnreg" | "prefetch" | "prefetchu" | "applypriority" | "discard" | "pmevent" => Class::Other,
            _ if opcode.split('.').skip(1).any(is_float) => Class::Float,
            _ => Class::Integer,
        }
    }
}

/// The class of the first space that the modifiers name.
fn space<'m>(modifiers: impl Iterator<Item = &'m str>) -> Class {
    let mut named = modifiers.filter_map(|modifier| match modifier.split("::").next() {
        Some("global" | "const") => Some(Class::Global),
        Some("shared") => Some(Class::Shared),
        Some("local" | "param") => Some(Class::Local),
        _ => None,
    });
    named.next().unwrap_or(Class::Generic)
}

fn is_float(modifier: &str) -> bool {
    matches!(modifier, "f16" | "f16x2" | "bf16" | "bf16x2" | "f32" | "f32x2" | "f64")
}

#[cfg(test)]
mod tests {
    use super::Class::{self, *};

    #[test]
    fn opcodes_have_their_classes() {
        for (opcode, class) in [
            ("add.s32", Integer),
            ("mad.wide.u32", Integer),
            ("setp.lt.u32", Integer),
            ("lop3.b32", Integer),
            ("fma.rn.f32", Float),
            ("setp.gt.and.f32", Float),
            ("ex2.approx.ftz.f32", Float),
            ("fma.rn.bf16x2", Float),
            ("cvt.rn.f16x2.f32", Conversion),
            ("mov.f32", Move),
            ("cvta.to.global.u64", Move),
            ("ld.global.nc.v4.f32", Global),
            ("st.shared::cluster.b32", Shared),
            ("ld.param.u64", Local),
            ("ld.v4.f32", Generic),
            ("atom.acq_rel.gpu.global.add.u32", Global),
            ("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32", Shared),
            ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32", Copy),
            ("cp.async.cg.shared.global", Copy),
            ("cp.async.bulk.commit_group", Synchronisation),
            ("cp.async.mbarrier.arrive.noinc.shared.b64", Synchronisation),
            ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes", Copy),
            ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", Tensor),
            ("wgmma.wait_group.sync.aligned", Synchronisation),
            ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", Tensor),
            ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", Shared),
            ("mbarrier.try_wait.parity.shared::cta.b64", Synchronisation),
            ("shfl.sync.bfly.b32", Warp),
            ("bra.uni", Control),
            ("setmaxnreg.inc.sync.aligned.u32", Other),
        ] {
            assert_eq!(Class::of(opcode), class, "{opcode}");
        }
    }
}
