//! Which numbers decide how CPU and devices share a join?

/// Every tunable of the sharing between CPU and devices. They were measured on an H200 with 16 cores
/// (`benchmarks/recorded/2026-11-19-hybrid.md` and the records before it) unless said otherwise.
pub(crate) struct Tuning;

impl Tuning {
    /// A join is worth waking up a device or measuring the machine if it takes longer than this many seconds.
    pub(crate) const WORTH_A_LOOK: f64 = 0.6;
    /// A join whose exact counts promise fewer seconds than this is the CPU's, whatever devices there are.
    pub(crate) const NEGLIGIBLE: f64 = 0.05e-3;
    /// Samples are not drawn for a join that a device surely does in fewer seconds than this.
    pub(crate) const NO_SAMPLES: f64 = 0.75e-3;
    /// A join is shared only if the better processor alone takes longer than this many seconds.
    pub(crate) const SHORTEST: f64 = 1.5e-3;
    /// Sharing costs this many seconds for beginning and ending two processors.
    pub(crate) const TOGETHER: f64 = 0.2e-3;
    /// A join is shared only if that takes less than this part of the time of the better processor alone.
    pub(crate) const WORTHWHILE: f64 = 0.95;
    /// A join is shared only if at least this many pairs were sampled: fewer say little about its parts.
    pub(crate) const ENOUGH_SAMPLES: usize = 800;
    /// Each processor takes this many times as long while the other one works.
    pub(crate) const FRICTION: f64 = 1.1;
    /// A processor's part smaller than this is not worth a start.
    pub(crate) const LEAST_PART: f64 = 0.02;
    /// This part of each processor's work is queued for the one that is done first.
    pub(crate) const QUEUED: f64 = 0.25;
    /// Work is queued only if sharing takes longer than this many seconds, and if a start costs less than a tenth of it.
    pub(crate) const QUEUED_FROM: f64 = 0.03;
    /// A worker takes half of its fair share if that is worth at least this many start-up costs.
    pub(crate) const WORTH_STARTS: f64 = 1.5;
    /// Threads that attend to devices while those of the CPU work.
    pub(crate) const ATTENDANTS: usize = 3;
    /// Threads that send rows to a device.
    pub(crate) const SENDERS: usize = 8;
    /// Threads of the CPU rest while more tokens than this are sent.
    pub(crate) const MANY_TOKENS: u64 = 4 << 20;
}
