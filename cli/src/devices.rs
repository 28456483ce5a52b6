// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith devices`: what there is to run on.

use std::fmt::Display;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use warpsmith::{Device, Dim3, Properties};

use crate::session::{Session, print};

/// Prints the properties of all devices, or of the one that `--device` names.
pub fn run(session: &Session) -> anyhow::Result<()> {
    let devices = match session.device_name() {
        "auto" => Device::list()?,
        _ => vec![session.open_device()?.properties().clone()],
    };
    if session.json() {
        let devices: Vec<Value> = devices.iter().map(to_json).collect();
        return print(&format!("{}\n", json!({ "devices": devices })));
    }
    let tables: Vec<String> = devices
        .iter()
        .map(|device| format!("{}\n", table(device).trim_fmt()))
        .collect();
    print(&tables.join("\n"))
}

fn table(device: &Properties) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for (name, value) in rows(device) {
        table.add_row([name.to_string(), value]);
    }
    if let Some(column) = table.column_mut(0) {
        column.set_padding((0, 2)).set_cell_alignment(CellAlignment::Left);
    }
    table
}

/// The properties that the device has, with their names, as `deviceQuery` groups them.
fn rows(device: &Properties) -> Vec<(&'static str, String)> {
    let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let mhz = |khz: u32| format!("{} MHz", khz / 1000);
    let threads = |dim: Dim3| format!("{} × {} × {}", dim.x, dim.y, dim.z);
    let pci = |(domain, bus, device): (u32, u32, u32)| format!("{domain:04x}:{bus:02x}:{device:02x}");
    let rows = [
        ("device", Some(device.id.clone())),
        ("name", Some(device.name.clone())),
        ("compute capability", device.compute_capability.map(version)),
        ("CUDA version of the driver", device.driver_version.map(version)),
        ("global memory", Some(bytes(device.total_memory))),
        ("multiprocessors", shown(Some(device.multiprocessors))),
        ("clock", device.clock_khz.map(mhz)),
        ("memory clock", device.memory_clock_khz.map(mhz)),
        ("memory bus", device.memory_bus_bits.map(|bits| format!("{bits} bits"))),
        ("L2 cache", device.l2_cache.map(|size| bytes(size.into()))),
        ("constant memory", device.constant_memory.map(|size| bytes(size.into()))),
        (
            "shared memory per block",
            Some(bytes(device.shared_memory_per_block.into())),
        ),
        (
            "shared memory per block, opt-in",
            Some(bytes(device.shared_memory_per_block_optin.into())),
        ),
        (
            "shared memory per multiprocessor",
            device.shared_memory_per_multiprocessor.map(|size| bytes(size.into())),
        ),
        ("registers per block", shown(device.registers_per_block)),
        ("warp size", shown(Some(device.warp_size))),
        (
            "threads per multiprocessor",
            shown(Some(device.max_threads_per_multiprocessor)),
        ),
        ("threads per block", shown(Some(device.max_threads_per_block))),
        ("largest block", Some(threads(device.max_block))),
        ("largest grid", Some(threads(device.max_grid))),
        ("copy engines", shown(device.copy_engines)),
        ("ECC", device.ecc.map(|on| if on { "on" } else { "off" }.to_string())),
        ("PCI", device.pci.map(pci)),
    ];
    rows.into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

fn shown(value: Option<impl Display>) -> Option<String> {
    value.map(|value| value.to_string())
}

/// Bytes in the largest binary unit that gives at least 1.
fn bytes(bytes: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|&(unit, _)| bytes >= unit) {
        Some((unit, name)) => {
            let value = format!("{:.1}", bytes as f64 / unit as f64);
            format!("{} {name}", value.strip_suffix(".0").unwrap_or(&value))
        }
        None => format!("{bytes} bytes"),
    }
}

/// The properties under the names of [`Properties`]; `null` where the device does not have one.
fn to_json(device: &Properties) -> Value {
    let dim = |dim: Dim3| [dim.x, dim.y, dim.z];
    json!({
        "id": device.id,
        "name": device.name,
        "compute_capability": device.compute_capability,
        "driver_version": device.driver_version,
        "total_memory": device.total_memory,
        "multiprocessors": device.multiprocessors,
        "warp_size": device.warp_size,
        "max_threads_per_block": device.max_threads_per_block,
        "max_threads_per_multiprocessor": device.max_threads_per_multiprocessor,
        "max_block": dim(device.max_block),
        "max_grid": dim(device.max_grid),
        "registers_per_block": device.registers_per_block,
        "shared_memory_per_block": device.shared_memory_per_block,
        "shared_memory_per_block_optin": device.shared_memory_per_block_optin,
        "shared_memory_per_multiprocessor": device.shared_memory_per_multiprocessor,
        "constant_memory": device.constant_memory,
        "l2_cache": device.l2_cache,
        "clock_khz": device.clock_khz,
        "memory_clock_khz": device.memory_clock_khz,
        "memory_bus_bits": device.memory_bus_bits,
        "copy_engines": device.copy_engines,
        "ecc": device.ecc,
        "pci": device.pci,
    })
}
