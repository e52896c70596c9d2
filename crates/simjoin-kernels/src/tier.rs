//! Which vector instructions may a kernel use?
//!
//! Every kernel has one implementation per [`Tier`]. The best tier of the processor is found
//! once; `SIMJOIN_SIMD` (`scalar`, `avx2`, `avx512`, `neon`) selects another one, for tests and
//! comparisons. All tiers give the same result.

use std::fmt;
use std::sync::OnceLock;

/// A set of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// No vector instructions.
    Scalar,
    /// x86-64 with AVX2, FMA and POPCNT: 256 bits.
    Avx2,
    /// x86-64 with AVX-512 F, BW, VL and VPOPCNTDQ: 512 bits.
    Avx512,
    /// AArch64: 128 bits.
    Neon,
}

impl Tier {
    const ALL: [Tier; 4] = [Tier::Scalar, Tier::Avx2, Tier::Avx512, Tier::Neon];

    /// Returns the name used in `SIMJOIN_SIMD` and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Scalar => "scalar",
            Tier::Avx2 => "avx2",
            Tier::Avx512 => "avx512",
            Tier::Neon => "neon",
        }
    }

    /// Returns whether this processor has the instructions.
    pub fn is_available(self) -> bool {
        match self {
            Tier::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => {
                std::arch::is_x86_feature_detected!("avx2")
                    && std::arch::is_x86_feature_detected!("fma")
                    && std::arch::is_x86_feature_detected!("popcnt")
            }
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => {
                Tier::Avx2.is_available()
                    && std::arch::is_x86_feature_detected!("avx512f")
                    && std::arch::is_x86_feature_detected!("avx512bw")
                    && std::arch::is_x86_feature_detected!("avx512vl")
                    && std::arch::is_x86_feature_detected!("avx512vpopcntdq")
            }
            #[cfg(target_arch = "aarch64")]
            Tier::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    /// Returns the tiers of this processor, the widest last.
    pub fn available() -> Vec<Tier> {
        Tier::ALL.into_iter().filter(|tier| tier.is_available()).collect()
    }

    /// Returns the default tier of the kernels: the one in `SIMJOIN_SIMD` if the processor has it,
    /// otherwise the widest one. The result is computed once.
    pub fn best() -> Tier {
        static BEST: OnceLock<Tier> = OnceLock::new();
        *BEST.get_or_init(|| Tier::asked_for().unwrap_or_else(|_| Tier::widest()))
    }

    /// Returns the tier in `SIMJOIN_SIMD`, or a message about a value that cannot be used.
    pub fn asked_for() -> Result<Tier, String> {
        let Ok(name) = std::env::var("SIMJOIN_SIMD") else { return Ok(Tier::widest()) };
        let names = || Tier::available().iter().map(|t| t.name()).collect::<Vec<_>>().join(", ");
        match Tier::ALL.into_iter().find(|tier| tier.name() == name) {
            Some(tier) if tier.is_available() => Ok(tier),
            _ => Err(format!("SIMJOIN_SIMD={name:?}: this processor has {}", names())),
        }
    }

    fn widest() -> Tier {
        Tier::available().pop().unwrap_or(Tier::Scalar)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
