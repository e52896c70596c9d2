//! Which GPUs are there?

use simjoin::{Error, Result};
use std::io::Write;

/// Lists the devices on standard output.
pub fn run() -> Result<()> {
    let mut text = String::from("device\tname\tmemory\tcapability\tdriver\ttechniques\n");
    // It takes the place of those that are there.
    let simulated = simjoin::simulated_gpu()?;
    if let Some(what) = &simulated {
        text += &format!("simulated\t{what}\t-\t-\t-\tgpu-bitmap, gpu-prefix\n");
    }
    for device in if simulated.is_some() { &[] } else { simjoin::devices()? } {
        let info = &device.info;
        let gib = info.memory as f64 / (1u64 << 30) as f64;
        text += &format!(
            "{}\t{}\t{gib:.1} GiB\t{}.{}\tCUDA {}.{}\t{}\n",
            info.ordinal,
            info.name,
            info.capability.0,
            info.capability.1,
            info.driver.0,
            info.driver.1,
            simjoin::GPU_TECHNIQUES.join(", "),
        );
    }
    let out = std::io::stdout().write_all(text.as_bytes());
    out.map_err(|error| Error::io("standard output", error))
}
