//! What do steps cost on this machine?

use simjoin_plan::Units;

/// The units of this machine.
pub(crate) fn units() -> Units {
    Units::default()
}
