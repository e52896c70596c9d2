//! Which GPUs are there?

use crate::speak::note;
use simjoin::engine::{Error, LeftOut, Machine, Processor, Result, Subject, names};
use simjoin_io::STANDARD_OUTPUT;
use std::io::Write;

/// Lists the devices on standard output. If there are none, prints the reason to standard error; that is not an error.
pub fn run() -> Result<()> {
    let mut text = String::from("device\tname\tmemory\tcapability\tdriver\ttechniques\n");
    // A simulated device replaces the real ones.
    let simulated = Machine::from_environment()?.simulated_device();
    if let Some(what) = &simulated {
        text += &format!("simulated\t{what}\t-\t-\t-\tgpu-bitmap, gpu-prefix\n");
    }
    let found = if simulated.is_some() { Ok(&[][..]) } else { simjoin::engine::devices() };
    let devices = match found {
        Err(Error::Unavailable(why)) => {
            note(format_args!("no GPU was found: {why}"));
            &[]
        }
        found => found?,
    };
    let techniques: Vec<&str> = names(Subject::Sets, Processor::Device).collect();
    for device in devices {
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
            techniques.join(", "),
        );
    }
    if !devices.is_empty() {
        for LeftOut { ordinal, name, why } in simjoin::engine::left_out() {
            note(format_args!("device {ordinal} ({name}) is not used: {why}"));
        }
        if let Err(why) = simjoin::engine::compiler() {
            note(format_args!("no device is used: {why}"));
        }
    }
    let out = std::io::stdout().write_all(text.as_bytes());
    out.map_err(|error| Error::io(STANDARD_OUTPUT, error))
}
