//! The CPU's vector instructions, where it has those of x86-64-v3: AVX2, FMA and what came with them.
//!
//! The crate is compiled for every x86-64, of which the first have SSE2 alone. What runs for all lanes of a warp is compiled
//! twice, and chosen when the program runs. Both give the same results: every operation is fixed to the bit.

/// Whether the CPU has them.
#[inline(always)]
pub(crate) fn available() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        static AVAILABLE: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
            is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt")
        });
        *AVAILABLE
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// A function that is compiled twice. What it calls is so too where it is inlined.
macro_rules! twice {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            if $crate::wide::available() {
                #[target_feature(enable = "avx2,bmi1,bmi2,f16c,fma,lzcnt,popcnt")]
                fn wide($($arg: $ty),*) $(-> $ret)? $body
                // SAFETY: the CPU has these instructions.
                return unsafe { wide($($arg),*) };
            }
            $body
        }
    };
}
pub(crate) use twice;

/// A pointer to a function that is compiled twice, which may have type parameters: to the better one.
macro_rules! pointer {
    ([$($T:ident),*] fn($($arg:ident: $ty:ty),*) -> $ret:ty, where [$($bounds:tt)*] $body:block) => {{
        #[inline(always)]
        fn plain<$($T: Copy),*>($($arg: $ty),*) -> $ret where $($bounds)* $body
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,bmi1,bmi2,f16c,fma,lzcnt,popcnt")]
        fn wide<$($T: Copy),*>() -> fn($($ty),*) -> $ret where $($bounds)* {
            |$($arg),*| plain($($arg),*)
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the CPU has these instructions.
        let pointer = if $crate::wide::available() { unsafe { wide() } } else { plain };
        #[cfg(not(target_arch = "x86_64"))]
        let pointer = {
            // The type parameters have names here alone.
            fn only<$($T: Copy),*>() -> fn($($ty),*) -> $ret where $($bounds)* {
                plain
            }
            only()
        };
        pointer
    }};
}
pub(crate) use pointer;
