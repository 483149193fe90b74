//! The first CPU, as proc_cpuinfo(5) has it: each architecture has words of its own.

use std::fs;
use std::sync::OnceLock;

/// Its model name.
pub fn cpu_model() -> Option<String> {
    model(cpuinfo())
}

/// Its frequency in MHz: now where the kernel governs it, else when this program first looked.
pub fn cpu_mhz() -> Option<u32> {
    let governed = super::read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq");
    governed
        .and_then(|khz| khz.parse::<u32>().ok())
        .map(|khz| khz / 1000)
        .or_else(|| mhz(cpuinfo()))
}

/// Whether the CPU says that a hypervisor runs this system; `None` where it has no such flag.
pub fn virtual_guest() -> Option<bool> {
    let flags = value(cpuinfo(), &["flags"])?;
    Some(
        flags
            .split_ascii_whitespace()
            .any(|flag| flag == "hypervisor"),
    )
}

/// Read once: some kernels ask every CPU for its frequency, which takes long where there are many.
fn cpuinfo() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

fn model(cpuinfo: &str) -> Option<String> {
    // x86 and LoongArch, MIPS, POWER, RISC-V, old ARM; a 64-bit ARM has numbers only.
    let named = ["model name", "cpu model", "cpu", "uarch", "Processor"];
    value(cpuinfo, &named).map(str::to_owned).or_else(|| {
        let implementer = value(cpuinfo, &["CPU implementer"])?;
        let part = value(cpuinfo, &["CPU part"])?;
        Some(format!("ARM implementer {implementer} part {part}"))
    })
}

fn mhz(cpuinfo: &str) -> Option<u32> {
    let text = value(cpuinfo, &["cpu MHz", "CPU MHz", "clock", "cpu MHz static"])?;
    let mhz: f64 = text.trim_end_matches("MHz").parse().ok()?;
    (mhz >= 1.0).then_some(mhz.round() as u32)
}

/// The first value of the first of these keys that has one.
fn value<'a>(cpuinfo: &'a str, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|wanted| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            let value = value.trim();
            (key.trim() == *wanted && !value.is_empty()).then_some(value)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines() {
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
        ] {
            assert_eq!(model(cpuinfo).as_deref(), name, "{cpuinfo}");
            assert_eq!(mhz(cpuinfo), frequency, "{cpuinfo}");
        }
    }
}
