//! Conversion of typed options to [`Settings`]: defaults, refusals and warnings.

use std::time::Duration;

use getopt::Exit;
use model::{Group, Limit, Plan, Transport};

use super::send_mode::send_mode;
use super::settings::{
    Bounceback, ClientSettings, Direction, OutputSettings, PermitKey, Role, ServerSettings,
    Settings,
};
use super::table::{ClientOnlyWarning, Typed, TypedRole};
use super::usage;
use super::value::RateSetting;
use crate::flow::flow_plan;
use crate::wire::flags;

/// Returns the settings of typed options, or stock's error for options that contradict each other.
pub(super) fn settings(mut typed: Typed) -> Result<Settings, Exit> {
    let Some(role) = typed.role.take() else {
        return Err(Exit::stderr(usage::SHORT, 1));
    };
    let transport = if typed.udp {
        Transport::Udp
    } else {
        Transport::Tcp
    };
    if typed.udp && typed.permit_key.is_some() {
        return error("ERROR: Option of --permit-key not supported with UDP");
    }
    let length =
        typed
            .length
            .unwrap_or(match (typed.bounceback, typed.udp, is_v6(&typed, &role)) {
                (Some(_), ..) => 100,
                (_, false, _) => 128 << 10,
                (_, true, false) => 1470,
                (_, true, true) => 1450,
            });
    if typed.udp && length > 65_507 {
        return error("iperf: -l: a datagram has at most 65507 bytes");
    }
    let role = match role {
        TypedRole::Client(host) => Role::Client(Box::new(client_settings(
            &mut typed, &host, transport, length,
        )?)),
        TypedRole::Server => Role::Server(server_settings(&mut typed)?),
    };
    let rate = rate(&typed, length)?;
    let is_client = matches!(role, Role::Client(_));
    let is_bounceback = typed.bounceback.is_some();
    let implies_enhanced = is_bounceback
        || typed.isochronous.is_some()
        || typed.burst_period.is_some()
        || typed.send_mode.prefetch.is_some()
        || typed.start_time.at.is_some()
        || (typed.trip_times && typed.direction.sends_from_server());
    let interval = typed
        .interval
        .or(is_bounceback.then_some(Duration::from_secs(1)));
    Ok(Settings {
        ports: typed.ports,
        transport,
        bind: typed.bind,
        v6: typed.v6,
        socket: typed.socket,
        length,
        rate,
        permit_key: typed.permit_key,
        compatible: typed.compatible,
        real_time: typed.real_time,
        output: OutputSettings {
            enhanced: typed.enhanced
                || typed.bins.is_some()
                || typed.reports_bursts
                || (is_client && implies_enhanced),
            format: typed.format,
            interval,
            csv: typed.csv,
            hide_ips: typed.hide_ips,
            sum_only: typed.sum_only,
            sums_by_destination: typed.sum_by_destination,
            single_udp: typed.single_udp,
            bins: typed.bins,
            reports_bursts: typed.reports_bursts,
            print_mss: typed.print_mss,
            exclude: typed.exclude,
            path: typed.output,
        },
        notices: typed.notices,
        role,
    })
}

/// Whether the options select IPv6.
fn is_v6(typed: &Typed, role: &TypedRole) -> bool {
    let has_v6_host = matches!(role, TypedRole::Client(host) if host.contains(':'));
    has_v6_host || (typed.v6 && matches!(role, TypedRole::Client(_)))
}

/// Returns the rate in bits of payload per second, or `None` for no limit.
///
/// The default is 1048576 bit/s for UDP and no limit for TCP.
fn rate(typed: &Typed, length: u32) -> Result<Option<f64>, Exit> {
    const UDP_DEFAULT: f64 = 1_048_576.0;
    let bits = f64::from(length) * 8.0;
    match (typed.rate, typed.udp) {
        (None, true) => Ok(Some(UDP_DEFAULT)),
        (None, false) => Ok(None),
        (Some(RateSetting::Datagrams(_)), false) => {
            error("ERROR: units of pps not supported with TCP")
        }
        (Some(RateSetting::Datagrams(count)), true) => {
            Ok(Some(count * bits).filter(|rate| *rate > 0.0))
        }
        (Some(RateSetting::Varying { mean, .. }), _) => Ok(Some(mean)),
        (Some(RateSetting::Bits(rate)), false) if rate > 0.0 && rate / 8.0 < f64::from(length) => {
            let max_length = (rate / 8.0) as u64;
            error(format!(
                "ERROR: option -b and -l of {length} are incompatible, consider setting -l to {max_length} or lower"
            ))
        }
        (Some(RateSetting::Bits(rate)), true)
            if (0.0..bits / 60.0).contains(&rate) && rate > 0.0 =>
        {
            error(format!(
                "ERROR: IPG delay target of {:.1} secs too large (max value is 60 secs): -b {rate} with -l {length}",
                bits / rate
            ))
        }
        (Some(RateSetting::Bits(rate)), _) => Ok(Some(rate).filter(|rate| *rate > 0.0)),
    }
}

fn client_settings(
    typed: &mut Typed,
    host: &str,
    transport: Transport,
    length: u32,
) -> Result<ClientSettings, Exit> {
    check_client(typed, host)?;
    let rate = rate(typed, length)?;
    let mode = send_mode(typed, length)?;
    let limit = match (typed.bytes, typed.time) {
        (Some(bytes), _) => Limit::Bytes(bytes),
        (None, Some(None)) => Limit::Unlimited,
        (None, Some(Some(time))) => Limit::Time(time),
        // The file limits the test.
        (None, None) if mode.input.is_some() => Limit::Unlimited,
        (None, None) => Limit::Time(Duration::from_secs(10)),
    };
    let device_of = |text: &str| text.split_once('%').map(|(_, device)| device.to_owned());
    let bind_device = typed.bind.as_deref().and_then(device_of);
    typed.socket.device = device_of(host).or(bind_device);
    let mut forward = flow_plan(transport, length, rate, limit, &typed.socket);
    forward.local.measure_cpu = true;
    let mut reverse = forward.clone().reversed();
    // The server paces this direction.
    reverse.local.pacing = None;
    let flows = match typed.direction {
        Direction::Forward => vec![forward],
        Direction::Reverse => vec![reverse],
        _ => vec![forward, reverse],
    };
    let group = |flow| Group {
        peers: vec![host.to_owned()],
        ..Group::with_flows(typed.flows, flow)
    };
    let plan = Plan {
        name: name(typed),
        groups: flows.into_iter().map(group).collect(),
        sampling: typed.interval,
        ..Plan::default()
    };
    Ok(ClientSettings {
        host: host.to_owned(),
        plan,
        send_mode: mode,
        request_flags: typed.request_flags,
        start_time: typed.start_time,
        congestion_load: congestion_load(typed, host)?.map(Box::new),
        connect_only: typed.connect_only,
        increments: typed.increments,
        direction: typed.direction,
        has_length: typed.length.is_some(),
        listen_port: typed.listen_port.unwrap_or(typed.ports.0),
        requested_rate: match typed.rate {
            // The stock client sends the bare number here.
            Some(RateSetting::Datagrams(count)) if typed.direction == Direction::Forward => {
                count as u64
            }
            Some(_) => rate.unwrap_or(0.0) as u64,
            None if typed.udp => rate.unwrap_or(0.0) as u64,
            None => 0,
        },
        peer_detect: typed.peer_detect,
        no_udp_fin: typed.no_udp_fin,
        trip_times: typed.trip_times,
        bounceback: typed.bounceback.map(|burst| Bounceback {
            burst,
            period: typed.bounce_period,
            hold: typed.bounce_hold,
            quick_ack: typed.bounce_quick_ack,
        }),
        retries: typed.connect_retries,
        starts_together: typed.starts_together,
        json: typed.json,
        html: typed.html.take(),
        strict: typed.strict,
    })
}

/// Refuses options that a client does not have, and adds warnings.
fn check_client(typed: &mut Typed, host: &str) -> Result<(), Exit> {
    if typed.daemon {
        return error("Iperf client cannot be run as a daemon");
    }
    if typed.permit_key == Some(PermitKey::Any) {
        return error("ERROR: option of --permit-key requires a value on the client");
    }
    if typed.compatible
        && let Some(option) = needs_header(typed)
    {
        return error(format!(
            "ERROR: compatibility mode not supported with the requested with options: {option} needs the header that -C leaves out"
        ));
    }
    if typed.udp && typed.peer_detect {
        return error("ERROR: option of -X or --peer-detect not supported with -u UDP");
    }
    if !typed.udp && typed.no_udp_fin {
        return error("ERROR: option --no-udp-fin requires -u UDP");
    }
    if typed.json && (typed.csv || typed.output.is_some()) {
        return error(
            "iperf: --json: it replaces all text output; it cannot be combined with -y or -o",
        );
    }
    if typed.bounceback.is_some() && typed.udp {
        return error("iperf: --bounceback: it needs TCP; it cannot be combined with -u");
    }
    if typed.bounceback.is_some() && typed.direction != Direction::Forward {
        return error(
            "iperf: --bounceback: it cannot be combined with -R, --full-duplex, -d or -r",
        );
    }
    if typed.congestion_load.is_some() && typed.bounceback.is_none() {
        return error("iperf: --bounceback-congest: it needs --bounceback");
    }
    if typed.bounceback.is_some() && typed.bounce_delay.is_some() {
        typed.start_time.delay = typed.bounce_delay;
    }
    if typed.send_mode.near_congestion.is_some() && typed.udp {
        return error("ERROR: option of --near-congestion not supported with -u UDP");
    }
    let has_rate = match typed.rate {
        Some(RateSetting::Bits(rate)) => rate > 0.0,
        other => other.is_some(),
    };
    if typed.send_mode.near_congestion.is_some() && has_rate {
        return error(
            "ERROR: option of --near-congestion and -b rate limited are mutually exclusive",
        );
    }
    if typed.connect_only.is_some() && typed.udp {
        return error("ERROR: option of --connect-only not supported with -u UDP");
    }
    if typed.request_flags & flags::upper::QUICK_ACK != 0 && typed.udp {
        let line = "WARN: setting of option --tcp-quickack is not supported with -u UDP";
        typed.notices.push(line.to_owned());
        typed.request_flags &= !flags::upper::QUICK_ACK;
    }
    if typed.request_flags & flags::upper::L2_LENGTH != 0 && !typed.udp {
        return error("iperf: --l2checks: it needs -u");
    }
    if typed.increments.source && typed.bind.is_none() {
        return error("ERROR: option of --incr-srcip requires -B bind option to be set");
    }
    if typed.increments.source_port && !typed.bind.as_deref().is_some_and(|bind| bind.contains(':'))
    {
        let line = "WARN: option of --incr-srcport requires -B bind option w/port to be set";
        typed.notices.push(line.to_owned());
    }
    if typed.tos_override.is_some() {
        let line = "WARN: option of --tos-override not supported on the client";
        typed.notices.push(line.to_owned());
    }
    if typed.source.is_some() {
        let line = "WARNING: option -H is not valid for client mode";
        typed.notices.push(line.to_owned());
    }
    if typed.sum_by_destination {
        let line = "WARN: option of --sum-dstip not supported on the client";
        typed.notices.push(line.to_owned());
    }
    let is_multicast = is_group(host);
    if is_multicast && typed.direction != Direction::Forward {
        return error("iperf: a multicast group cannot send: remove -R, --full-duplex, -d or -r");
    }
    if is_multicast && !typed.udp {
        return error("Multicast requires -u option  failed");
    }
    let (first, last) = typed.ports;
    let ports = u32::from(last - first) + 1;
    if first != last && typed.flows != ports {
        let line = format!("WARNING: port-range and -P mismatch (adjusting -P to {ports})");
        typed.notices.push(line);
        typed.flows = ports;
    }
    if typed.time == Some(None) && typed.bytes.is_none() {
        typed.notices.push(
            "WARNING: client will send traffic forever or until an external signal (e.g. SIGINT or SIGTERM) occurs to stop it".to_owned(),
        );
    }
    Ok(())
}

/// Returns the first option that a client can request only in its header.
fn needs_header(typed: &Typed) -> Option<&'static str> {
    match typed.direction {
        Direction::Forward => typed.peer_detect.then_some("-X"),
        Direction::Reverse => Some("-R"),
        Direction::FullDuplex => Some("--full-duplex"),
        Direction::Dual => Some("-d"),
        Direction::TradeOff => Some("-r"),
    }
}

/// Returns the settings of a second client, which loads the path during a bounceback test.
fn congestion_load(typed: &mut Typed, host: &str) -> Result<Option<Settings>, Exit> {
    let Some((direction, flows)) = typed.congestion_load.take() else {
        return Ok(None);
    };
    let load = Typed {
        role: Some(TypedRole::Client(host.to_owned())),
        ports: typed.ports,
        time: typed.time,
        bytes: typed.bytes,
        interval: typed.interval.or(Some(Duration::from_secs(1))),
        length: typed.length,
        rate: typed.rate,
        socket: typed.socket.clone(),
        bind: typed.bind.clone(),
        v6: typed.v6,
        flows,
        direction,
        enhanced: true,
        request_flags: flags::upper::QUICK_ACK,
        ..Typed::default()
    };
    settings(load).map(Some)
}

/// Whether an address, with or without `%device`, is a multicast group.
fn is_group(address: &str) -> bool {
    let (address, _) = address.split_once('%').unwrap_or((address, ""));
    let ip = address.parse::<std::net::IpAddr>();
    ip.is_ok_and(|ip| ip.is_multicast())
}

fn name(typed: &Typed) -> String {
    let transport = if typed.udp { "UDP" } else { "TCP" };
    let direction = match typed.direction {
        Direction::Forward if typed.bounceback.is_some() => " --bounceback",
        Direction::Forward => "",
        Direction::Reverse => " -R",
        Direction::FullDuplex => " --full-duplex",
        Direction::Dual => " -d",
        Direction::TradeOff => " -r",
    };
    format!("{transport}{direction}")
}

/// Generates a key in stock's format: the time, and 16 random letters and digits.
fn generate_key() -> String {
    use rand::TryRngCore;
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let mut bytes = [0; 16];
    rand::rngs::OsRng
        .try_fill_bytes(&mut bytes)
        .expect("the system has random numbers");
    let letters = bytes.map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()]));
    let letters: String = letters.iter().collect();
    format!("{}.{:06}-{letters}", now.as_secs(), now.subsec_micros())
}

fn server_settings(typed: &mut Typed) -> Result<ServerSettings, Exit> {
    if typed.bounceback.is_some() {
        return error("ERROR: setting of option --bounce-back is not supported on the server");
    }
    if typed.json || typed.html.is_some() || typed.strict {
        return error("iperf: --json, --html, --strict: these are client options");
    }
    let group = typed.bind.as_deref().is_some_and(is_group);
    if group && !typed.udp {
        return error("Multicast requires -u option  failed");
    }
    if typed.source.is_some() && !group {
        return error("iperf: -H: it needs a multicast group: -B GROUP");
    }
    if typed.permit_key == Some(PermitKey::Any) {
        typed.permit_key = Some(PermitKey::Key(generate_key()));
    }
    if let Some((_, device)) = typed.bind.as_deref().and_then(|bind| bind.split_once('%')) {
        typed.socket.device = Some(device.to_owned());
    }
    for (name, wrong) in &typed.client_only {
        typed.notices.push(match wrong {
            ClientOnlyWarning::NotValid => {
                format!("WARNING: option {name} is not valid for server mode")
            }
            ClientOnlyWarning::NotSupported => {
                format!("WARN: option of {name} is not supported on the server")
            }
            ClientOnlyWarning::SettingNotSupported => {
                format!("WARN: setting of option {name} is not supported on the server")
            }
        });
    }
    Ok(ServerSettings {
        config: typed.server.clone(),
        time: typed.time.flatten(),
        daemon: typed.daemon,
        tos_override: typed.tos_override,
        source: typed.source.take(),
        key_timeout: typed.permit_key_timeout,
    })
}

/// Returns an exit that prints a line on standard error, with code 1.
pub(super) fn error<T>(line: impl std::fmt::Display) -> Result<T, Exit> {
    Err(Exit::stderr(format!("{line}\n"), 1))
}
