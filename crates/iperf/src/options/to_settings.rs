//! Conversion of given options to [`Settings`]: defaults, refusals and warnings.

use std::time::Duration;

use getopt::Exit;
use model::{Group, IoMethod, Limit, Plan, Transport};

use super::send_mode::{SendMode, send_mode};
use super::settings::{
    Bounceback, ClientSettings, ConnectRetry, Direction, OutputSettings, PacingSteps, PermitKey,
    Role, ServerSettings, Settings,
};
use super::table::{ClientOnlyWarning, GivenOptions, GivenRole};
use super::usage;
use super::value::RateSetting;
use crate::flow::flow_plan;
use crate::timing::HistogramBins;
use crate::wire::flags;

/// Returns the settings of given options, or stock's error for options that contradict each other.
pub(super) fn settings(mut given: GivenOptions) -> Result<Settings, Exit> {
    let Some(role) = given.role.take() else {
        return Err(Exit::stderr(usage::SHORT, 1));
    };
    let transport = if given.udp {
        Transport::Udp
    } else {
        Transport::Tcp
    };
    if given.udp && given.tx_delay.take().is_some() {
        let line = "WARN: setting of option --tcp-tx-delay is not supported with -u UDP";
        given.notices.push(line.to_owned());
        given.enhanced = true;
    }
    if given.udp && given.permit_key.is_some() {
        return error("ERROR: Option of --permit-key not supported with UDP");
    }
    let length =
        given
            .length
            .unwrap_or(match (given.bounceback, given.udp, is_v6(&given, &role)) {
                (Some(_), ..) => 100,
                (_, false, _) => 128 << 10,
                (_, true, false) => 1470,
                (_, true, true) => 1450,
            });
    if given.udp && length > 65_507 {
        return error("iperf: -l: a datagram has at most 65507 bytes");
    }
    let role = match role {
        GivenRole::Client(host) => Role::Client(Box::new(client_settings(
            &mut given, &host, transport, length,
        )?)),
        GivenRole::Server => Role::Server(server_settings(&mut given)?),
    };
    let rate = rate(&given, length)?;
    let is_client = matches!(role, Role::Client(_));
    let is_bounceback = given.bounceback.is_some();
    let implies_enhanced = is_bounceback
        || given.isochronous.is_some()
        || given.burst_period.is_some()
        || given.send_mode.prefetch.is_some()
        || given.start_time.at.is_some()
        || given.working_load.is_some()
        || given.pacing_step.is_some()
        || (given.trip_times && given.direction.sends_from_server())
        || (given.version.layout().timing_is_enhanced
            && !given.udp
            && (given.trip_times || given.send_mode.times_writes));
    let interval = given
        .interval
        .or(is_bounceback.then_some(Duration::from_secs(1)));
    Ok(Settings {
        ports: given.ports,
        transport,
        bind: given.bind,
        v6: given.v6,
        socket: given.socket,
        length,
        rate,
        tx_delay: given.tx_delay,
        skips_receive_copy: given.skips_receive_copy,
        permit_key: given.permit_key,
        compatible: given.compatible,
        real_time: given.real_time,
        output: OutputSettings {
            version: given.version,
            utc: given.utc,
            has_dscp_option: given.dscp,
            enhanced: given.enhanced
                || given.bins.is_some()
                || given.jitter_bins.is_some()
                || given.reports_bursts
                || given.tx_delay.is_some()
                || (is_client && implies_enhanced),
            format: given.format,
            interval,
            csv: given.csv,
            hide_ips: given.hide_ips,
            sum_only: given.sum_only,
            sums_by_destination: given.sum_by_destination,
            single_udp: given.single_udp,
            bins: given.bins.map(|bins| HistogramBins {
                count: match bins.count {
                    0 => given.version.layout().histogram_bins,
                    count => count,
                },
                ..bins
            }),
            jitter_bins: given.jitter_bins.filter(|_| !is_client),
            reports_bursts: given.reports_bursts,
            print_mss: given.print_mss,
            exclude: given.exclude,
            path: given.output,
        },
        notices: given.notices,
        role,
    })
}

/// Whether the options of a client select IPv6.
fn is_v6(given: &GivenOptions, role: &GivenRole) -> bool {
    let has_v6_host = matches!(role, GivenRole::Client(host) if host.contains(':'));
    has_v6_host || (given.v6 && matches!(role, GivenRole::Client(_)))
}

/// Returns the rate in bits of payload per second, or `None` for no limit.
///
/// The default is 1048576 bit/s for UDP and no limit for TCP.
fn rate(given: &GivenOptions, length: u32) -> Result<Option<f64>, Exit> {
    const UDP_DEFAULT: f64 = 1_048_576.0;
    let bits = f64::from(length) * 8.0;
    match (given.rate, given.udp) {
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
    given: &mut GivenOptions,
    host: &str,
    transport: Transport,
    length: u32,
) -> Result<ClientSettings, Exit> {
    check_client(given, host)?;
    let pacing_steps = pacing_steps(given)?;
    let rate = rate(given, length)?;
    let mode = send_mode(given, length)?;
    let limit = match (given.bytes, given.time) {
        (Some(bytes), _) => Limit::Bytes(bytes),
        (None, Some(None)) => Limit::Unlimited,
        (None, Some(Some(time))) => Limit::Time(time),
        // The file limits the test.
        (None, None) if mode.input.is_some() => Limit::Unlimited,
        (None, None) => Limit::Time(Duration::from_secs(10)),
    };
    let device_of = |text: &str| text.split_once('%').map(|(_, device)| device.to_owned());
    let bind_device = given.bind.as_deref().and_then(device_of);
    given.socket.device = device_of(host).or(bind_device);
    let mut forward = flow_plan(transport, length, rate, limit, &given.socket);
    forward.local.measure_cpu = true;
    let mut reverse = forward.clone().reversed();
    // The server paces this direction.
    reverse.local.pacing = None;
    if given.skips_receive_copy {
        reverse.local.io = IoMethod::Trunc;
    }
    let flows = match given.direction {
        Direction::Forward => vec![forward],
        Direction::Reverse => vec![reverse],
        _ => vec![forward, reverse],
    };
    let group = |flow| Group {
        peers: vec![host.to_owned()],
        ..Group::with_flows(given.flows, flow)
    };
    let plan = Plan {
        name: plan_name(given),
        groups: flows.into_iter().map(group).collect(),
        sampling: given.interval,
        ..Plan::default()
    };
    Ok(ClientSettings {
        host: host.to_owned(),
        plan,
        send_mode: mode,
        request_flags: given.request_flags,
        start_time: given.start_time,
        load_congestion_control: given.working_load_congestion_control.clone(),
        is_working_load: given.is_working_load,
        load_flows: given.working_load.and_then(|(_, flows)| flows),
        load: load_settings(given, host)?.map(Box::new),
        pacing_steps,
        ignores_shutdown: given.ignores_shutdown,
        syncs_transfer_id: given.syncs_transfer_id,
        connect_only: given.connect_only,
        increments: given.increments,
        direction: given.direction,
        has_length: given.length.is_some(),
        listen_port: given.listen_port.unwrap_or(given.ports.0),
        requested_rate: match given.rate {
            // The stock client sends the bare number here.
            Some(RateSetting::Datagrams(count)) if given.direction == Direction::Forward => {
                count as u64
            }
            Some(_) => rate.unwrap_or(0.0) as u64,
            None if given.udp => rate.unwrap_or(0.0) as u64,
            None => 0,
        },
        peer_detect: given.peer_detect,
        no_udp_fin: given.no_udp_fin,
        trip_times: given.trip_times,
        bounceback: given.bounceback.map(|burst| Bounceback {
            reply_bytes: given.bounce_reply.unwrap_or(length),
            burst,
            period: given.bounce_period,
            hold: given.bounce_hold,
            quick_ack: given.bounce_quick_ack,
        }),
        retry: ConnectRetry {
            count: given.connect_retries,
            time: given.retry_time.unwrap_or_default(),
            interval: given.retry_interval.unwrap_or(Duration::from_millis(200)),
        },
        starts_together: given.starts_together,
        json: given.json,
        html: given.html.take(),
        strict: given.strict,
    })
}

/// Refuses options that a client does not have, and adds warnings.
fn check_client(given: &mut GivenOptions, host: &str) -> Result<(), Exit> {
    if given.daemon {
        return error("Iperf client cannot be run as a daemon");
    }
    if given.permit_key == Some(PermitKey::Any) {
        return error("ERROR: option of --permit-key requires a value on the client");
    }
    if given.compatible
        && let Some(option) = option_that_needs_header(given)
    {
        return error(format!(
            "ERROR: compatibility mode not supported with the requested with options: {option} needs the header that -C leaves out"
        ));
    }
    if given.udp && given.peer_detect {
        return error("ERROR: option of -X or --peer-detect not supported with -u UDP");
    }
    if !given.udp && given.no_udp_fin {
        return error("ERROR: option --no-udp-fin requires -u UDP");
    }
    if given.json && (given.csv || given.output.is_some()) {
        return error(
            "iperf: --json: it replaces all text output; it cannot be combined with -y or -o",
        );
    }
    check_bounceback(given)?;
    if given.send_mode.near_congestion.is_some() && given.udp {
        return error("ERROR: option of --near-congestion not supported with -u UDP");
    }
    let has_rate = match given.rate {
        Some(RateSetting::Bits(rate)) => rate > 0.0,
        rate => rate.is_some(),
    };
    if given.send_mode.near_congestion.is_some() && has_rate {
        return error(
            "ERROR: option of --near-congestion and -b rate limited are mutually exclusive",
        );
    }
    if given.connect_only.is_some() && given.udp {
        return error("ERROR: option of --connect-only not supported with -u UDP");
    }
    if given.request_flags & flags::upper::QUICK_ACK != 0 && given.udp {
        let line = "WARN: setting of option --tcp-quickack is not supported with -u UDP";
        given.notices.push(line.to_owned());
        given.request_flags &= !flags::upper::QUICK_ACK;
    }
    if given.request_flags & flags::upper::L2_LENGTH != 0 && !given.udp {
        return error("iperf: --l2checks: it needs -u");
    }
    if given.increments.source && given.bind.is_none() {
        return error("ERROR: option of --incr-srcip requires -B bind option to be set");
    }
    complete_retry(given);
    check_tcp_options(given)?;
    warn_of_ignored_options(given);
    let is_multicast = is_group(host);
    if is_multicast && given.direction != Direction::Forward {
        return error("iperf: a multicast group cannot send: remove -R, --full-duplex, -d or -r");
    }
    if is_multicast && !given.udp {
        return error("Multicast requires -u option  failed");
    }
    let (first, last) = given.ports;
    let ports = u32::from(last - first) + 1;
    if first != last && given.flows != ports {
        let line = format!("WARNING: port-range and -P mismatch (adjusting -P to {ports})");
        given.notices.push(line);
        given.flows = ports;
    }
    if given.time == Some(None) && given.bytes.is_none() {
        given.notices.push(
            "WARNING: client will send traffic forever or until an external signal (e.g. SIGINT or SIGTERM) occurs to stop it".to_owned(),
        );
    }
    Ok(())
}

/// Refuses options that need TCP, or warns of them as stock does.
fn check_tcp_options(given: &mut GivenOptions) -> Result<(), Exit> {
    if given.ignores_shutdown && (given.udp || given.direction != Direction::Forward) {
        return error("iperf: --ignore-shutdown: it needs a TCP test in which this end sends only");
    }
    let receives = given.direction.sends_from_server();
    if given.skips_receive_copy && (given.udp || !receives || given.trip_times) {
        return error(
            "iperf: --skip-rx-copy: it needs a TCP test in which this end receives, without --trip-times",
        );
    }
    if given.syncs_transfer_id && !given.udp && given.direction == Direction::TradeOff {
        return error("iperf: --sync-transfer-id: over TCP, its header is that of -r");
    }
    if given.exchange_timeout.is_some() {
        let line = "WARN: option of --test-exchange-timeout not supported on the client";
        given.notices.push(line.to_owned());
    }
    if given.working_load.is_some() && given.congestion_load.is_some() {
        return error("iperf: --bounceback-congest: --working-load already loads the path");
    }
    if given.working_load_congestion_control.is_some() && given.working_load.is_none() {
        return error("iperf: --working-load-cca: it needs --working-load");
    }
    Ok(())
}

/// Completes one of the two options of connect attempts by the other, with stock's warning.
fn complete_retry(given: &mut GivenOptions) {
    let (missing, text) = match (given.retry_time, given.retry_interval) {
        (Some(_), None) => ("timer", "one second"),
        (None, Some(_)) => ("time", "ten seconds"),
        _ => return,
    };
    given.retry_time.get_or_insert(Duration::from_secs(10));
    given.retry_interval.get_or_insert(Duration::from_secs(1));
    given.notices.push(format!(
        "WARN: companion option of --connect-retry-{missing} not set - setting to default value of {text}"
    ));
}

/// Refuses options that contradict `--bounceback` or need it.
fn check_bounceback(given: &mut GivenOptions) -> Result<(), Exit> {
    if given.bounceback.is_some() && given.udp {
        return error("iperf: --bounceback: it needs TCP; it cannot be combined with -u");
    }
    if given.bounceback.is_some() && given.direction != Direction::Forward {
        return error(
            "iperf: --bounceback: it cannot be combined with -R, --full-duplex, -d or -r",
        );
    }
    if given.congestion_load.is_some() && given.bounceback.is_none() {
        return error("iperf: --bounceback-congest: it needs --bounceback");
    }
    if given.bounce_reply.is_some() && given.bounceback.is_none() {
        return error("iperf: --bounceback-reply: it needs --bounceback");
    }
    if given.bounceback.is_some() && given.bounce_delay.is_some() {
        given.start_time.delay = given.bounce_delay;
    }
    Ok(())
}

/// Adds stock's warnings of options that have no effect at a client.
fn warn_of_ignored_options(given: &mut GivenOptions) {
    if given.increments.source_port && !given.bind.as_deref().is_some_and(|bind| bind.contains(':'))
    {
        let line = "WARN: option of --incr-srcport requires -B bind option w/port to be set";
        given.notices.push(line.to_owned());
    }
    if given.tos_override.is_some() {
        let line = "WARN: option of --tos-override not supported on the client";
        given.notices.push(line.to_owned());
    }
    if given.source.is_some() {
        let line = "WARNING: option -H is not valid for client mode";
        given.notices.push(line.to_owned());
    }
    if given.jitter_bins.is_some() {
        let line = "WARN: option of --jitter-histogram not supported on the client";
        given.notices.push(line.to_owned());
    }
    if given.sum_by_destination {
        let line = "WARN: option of --sum-dstip not supported on the client";
        given.notices.push(line.to_owned());
    }
}

/// Returns the first option that a client can request only in its header.
fn option_that_needs_header(given: &GivenOptions) -> Option<&'static str> {
    match given.direction {
        Direction::Forward => given.peer_detect.then_some("-X"),
        Direction::Reverse => Some("-R"),
        Direction::FullDuplex => Some("--full-duplex"),
        Direction::Dual => Some("-d"),
        Direction::TradeOff => Some("-r"),
    }
}

/// Returns the steps of `--fq-rate-step`. Also sets the rate at which the sockets begin.
fn pacing_steps(given: &mut GivenOptions) -> Result<Option<PacingSteps>, Exit> {
    let Some(step) = given.pacing_step else {
        if given.pacing_step_interval.is_some() {
            return error("iperf: --fq-rate-step-interval: it needs --fq-rate-step");
        }
        return Ok(None);
    };
    if given.direction == Direction::Reverse || given.bounceback.is_some() {
        return error("iperf: --fq-rate-step: it needs a test in which this end sends a stream");
    }
    Ok(Some(PacingSteps {
        first: *given.socket.max_pacing_bytes_per_second.get_or_insert(step),
        step,
        interval: given.pacing_step_interval.unwrap_or(Duration::from_secs(1)),
    }))
}

/// Returns the settings of a second client, which loads the path during the test.
fn load_settings(given: &mut GivenOptions, host: &str) -> Result<Option<Settings>, Exit> {
    let working_load = given.working_load;
    let working_flows = working_load.map(|(direction, flows)| (direction, flows.unwrap_or(1)));
    let Some((direction, flows)) = working_flows.or(given.congestion_load) else {
        return Ok(None);
    };
    let mut socket = given.socket.clone();
    let mut send_mode = SendMode::default();
    if working_load.is_some() {
        send_mode.prefetch = Some(WORKING_LOAD_PREFETCH);
        socket
            .congestion_control
            .clone_from(&given.working_load_congestion_control);
    }
    let quick_ack = if given.bounceback.is_some() {
        flags::upper::QUICK_ACK
    } else {
        0
    };
    let (rate, length) = if given.udp {
        (None, None)
    } else {
        (given.rate, given.length)
    };
    let load = GivenOptions {
        role: Some(GivenRole::Client(host.to_owned())),
        ports: given.ports,
        time: given.time,
        bytes: given.bytes,
        interval: given.interval.or(Some(Duration::from_secs(1))),
        length,
        rate,
        socket,
        send_mode,
        version: given.version,
        utc: given.utc,
        is_working_load: working_load.is_some(),
        bind: given.bind.clone(),
        v6: given.v6,
        flows,
        direction,
        enhanced: true,
        request_flags: quick_ack,
        ..GivenOptions::default()
    };
    settings(load).map(Some)
}

/// The maximum of unsent bytes in the sockets of `--working-load`.
const WORKING_LOAD_PREFETCH: u32 = 256 << 10;

/// Whether an address, with or without `%device`, is a multicast group.
fn is_group(address: &str) -> bool {
    let (address, _) = address.split_once('%').unwrap_or((address, ""));
    let ip = address.parse::<std::net::IpAddr>();
    ip.is_ok_and(|ip| ip.is_multicast())
}

fn plan_name(given: &GivenOptions) -> String {
    let transport = if given.udp { "UDP" } else { "TCP" };
    let direction = match given.direction {
        Direction::Forward if given.bounceback.is_some() => " --bounceback",
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

fn server_settings(given: &mut GivenOptions) -> Result<ServerSettings, Exit> {
    if given.bounceback.is_some() {
        return error("ERROR: setting of option --bounce-back is not supported on the server");
    }
    if given.json || given.html.is_some() || given.strict {
        return error("iperf: --json, --html, --strict: these are client options");
    }
    let is_multicast = given.bind.as_deref().is_some_and(is_group);
    if is_multicast && !given.udp {
        return error("Multicast requires -u option  failed");
    }
    if given.source.is_some() && !is_multicast {
        return error("iperf: -H: it needs a multicast group: -B GROUP");
    }
    if given.udp && (given.skips_receive_copy || given.exchange_timeout.is_some()) {
        return error("iperf: --skip-rx-copy, --test-exchange-timeout: they need TCP");
    }
    if given.permit_key == Some(PermitKey::Any) {
        given.permit_key = Some(PermitKey::Key(generate_key()));
    }
    if let Some((_, device)) = given.bind.as_deref().and_then(|bind| bind.split_once('%')) {
        given.socket.device = Some(device.to_owned());
    }
    for (name, warning) in &given.client_only {
        given.notices.push(match warning {
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
        config: given.server.clone(),
        time: given.time.flatten(),
        exchange_timeout: given.exchange_timeout,
        daemon: given.daemon,
        tos_override: given.tos_override,
        source: given.source.take(),
        key_timeout: given.permit_key_timeout,
    })
}

/// Returns an exit that prints a line on standard error, with code 1.
pub(super) fn error<T>(line: impl std::fmt::Display) -> Result<T, Exit> {
    Err(Exit::stderr(format!("{line}\n"), 1))
}
