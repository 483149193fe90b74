//! Model and frequency of the first CPU, from proc_cpuinfo(5). Each architecture uses other keys.

use std::sync::OnceLock;

use crate::kernel_file::{read_positive, read_text};

/// Returns the CPU's model name.
pub fn cpu_model() -> Option<String> {
    parse_model(cpuinfo())
}

/// Returns the CPU's frequency in MHz: the current one if the kernel controls it, else the one in
/// /proc/cpuinfo when this program first read that file.
pub fn cpu_mhz() -> Option<u32> {
    read_positive("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
        .and_then(|khz| u32::try_from(khz / 1000).ok())
        .filter(|mhz| *mhz > 0)
        .or_else(|| parse_mhz(cpuinfo()))
}

/// Returns whether the CPU has the flag of a virtual machine; `None` if this architecture has no
/// flags.
pub fn is_virtual_guest() -> Option<bool> {
    let flags = find_value(cpuinfo(), &["flags"])?;
    Some(
        flags
            .split_ascii_whitespace()
            .any(|flag| flag == "hypervisor"),
    )
}

/// Reads /proc/cpuinfo once: some kernels query the frequency of every CPU, which is slow on large
/// hosts.
fn cpuinfo() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| read_text("/proc/cpuinfo").unwrap_or_default())
}

fn parse_model(cpuinfo: &str) -> Option<String> {
    // The keys of x86 and LoongArch, MIPS, POWER, RISC-V, and old ARM. A 64-bit ARM CPU has only
    // numbers.
    let keys = ["model name", "cpu model", "cpu", "uarch", "Processor"];
    find_value(cpuinfo, &keys).map(str::to_owned).or_else(|| {
        let implementer = find_value(cpuinfo, &["CPU implementer"])?;
        let part = find_value(cpuinfo, &["CPU part"])?;
        Some(format!("ARM implementer {implementer} part {part}"))
    })
}

fn parse_mhz(cpuinfo: &str) -> Option<u32> {
    let text = find_value(cpuinfo, &["cpu MHz", "CPU MHz", "clock", "cpu MHz static"])?;
    let mhz: f64 = text.trim_end_matches("MHz").parse().ok()?;
    (mhz >= 1.0).then_some(mhz.round() as u32)
}

/// Returns the first non-empty value of the first key that has one.
fn find_value<'a>(cpuinfo: &'a str, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|wanted_key| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            let value = value.trim();
            (key.trim() == *wanted_key && !value.is_empty()).then_some(value)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_and_frequency_are_parsed() {
        for (cpuinfo, name, frequency) in [
            (
                "processor\t: 0\nmodel\t\t: 2\nmodel name\t: Example 9000\ncpu MHz\t\t: 2596.122\n",
                Some("Example 9000"),
                Some(2596),
            ),
            (
                "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
                Some("ARM implementer 0x41 part 0xd0c"),
                None,
            ),
            (
                "system type\t\t: MediaTek MT7621 ver:1 eco:3\ncpu model\t\t: MIPS 1004Kc V2.15\n",
                Some("MIPS 1004Kc V2.15"),
                None,
            ),
            (
                "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 2300.000000MHz\n",
                Some("POWER9, altivec supported"),
                Some(2300),
            ),
            (
                "processor\t: 0\nmodel name\t: \ncpu MHz\t: 0.000\n",
                None,
                None,
            ),
            ("", None, None),
            ("0\n", None, None),
            ("cpu MHz\t: unknown\nmodel name", None, None),
        ] {
            assert_eq!(parse_model(cpuinfo).as_deref(), name, "{cpuinfo}");
            assert_eq!(parse_mhz(cpuinfo), frequency, "{cpuinfo}");
        }
    }
}
