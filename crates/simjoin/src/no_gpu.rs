//! No GPU: the same functions as in `simjoin_gpu`, which say how to get one.

use simjoin_core::{Error, Result};
use simjoin_engine::{Device, DeviceIntersection};

fn unavailable<T>() -> Result<T> {
    let message = "no GPU can be used: simjoin was built without its feature `gpu`";
    Err(Error::Unavailable(message.into()))
}

pub(crate) fn gpus() -> Result<&'static dyn Device> {
    unavailable()
}

pub(crate) fn open_first() -> Result<()> {
    unavailable()
}

pub(crate) fn opened() -> bool {
    false
}

pub(crate) fn gpu_names() -> Vec<String> {
    Vec::new()
}

pub(crate) fn intersect_on_first(
    _: &[u32],
    _: &[u32],
    _: Option<&str>,
    _: bool,
) -> Result<DeviceIntersection> {
    unavailable()
}
