//! Which numbers decide how CPU and devices share a join?

/// The tunables of the sharing between CPU and devices. `benchmarks/recorded/2026-11-19-hybrid-queue.md` shows what they
/// achieve on an H200 with 16 cores. The earlier records of `hybrid` led to most of them; the sizes of chunks
/// (`LEAST_SHARE` and below) were set with simulated devices (`2026-11-19-split.md`).
pub(crate) struct Tuning;

impl Tuning {
    /// A join is worth waking up a device or measuring the machine if it takes longer than this many seconds.
    pub(crate) const WORTH_A_LOOK: f64 = 0.6;
    /// A join that the CPU is assumed to do in fewer seconds than this goes to the CPU.
    pub(crate) const NEGLIGIBLE: f64 = 0.05e-3;
    /// A processor is surely faster if it is assumed to be so by this factor.
    pub(crate) const SURELY_SOONER: f64 = 1.1;
    /// A join that a device is sure to do in fewer seconds than this is not sampled.
    pub(crate) const NO_SAMPLES: f64 = 0.75e-3;
    /// A join is shared only if the better processor alone takes longer than this many seconds.
    pub(crate) const SHORTEST: f64 = 0.1;
    /// Starting and stopping a second processor costs this many seconds.
    pub(crate) const TOGETHER: f64 = 0.2e-3;
    /// A join is shared only if that takes less than this fraction of the faster processor's time alone.
    pub(crate) const WORTHWHILE: f64 = 0.9;
    /// Each processor is slower by this factor while the other one works.
    pub(crate) const FRICTION: f64 = 1.1;
    /// A processor whose fair share of what is left is below this fraction takes nothing more.
    pub(crate) const LEAST_SHARE: f64 = 0.05;
    /// The start of a chunk is taken to cost at least this fraction of the whole join, so that chunks stay large enough.
    pub(crate) const LEAST_START: f64 = 0.05;
    /// Planning and starting a chunk takes at least this many seconds.
    pub(crate) const CHUNK: f64 = 1e-3;
    /// A processor takes half of its fair share if that is worth at least this many start-up costs.
    pub(crate) const WORTH_STARTS: f64 = 1.5;
    /// A chunk that is estimated to take this many times the seconds that it should take is halved.
    pub(crate) const TOO_LONG: f64 = 1.5;
    /// The number of threads that serve devices while the CPU works too.
    pub(crate) const ATTENDANTS: usize = 3;
    /// The number of threads that send rows to a device.
    pub(crate) const SENDERS: usize = 8;
}
