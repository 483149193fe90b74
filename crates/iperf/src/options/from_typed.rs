//! Typed options → [`Settings`]: defaults, refusals and warnings.

use std::time::Duration;

use getopt::Exit;
use model::{Group, Limit, Plan, Transport};

use super::settings::{Bounceback, Client, Direction, PermitKey, Print, Role, Serve, Settings};
use super::shape::shape;
use super::table::{Role as TypedRole, Typed, Wrong};
use super::usage;
use super::value::Rate;
use crate::flow::flow;
use crate::wire::flags;

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
        TypedRole::Client(host) => {
            Role::Client(Box::new(client(&mut typed, &host, transport, length)?))
        }
        TypedRole::Server => Role::Server(serve(&mut typed)?),
    };
    let rate = rate(&typed, length)?;
    let is_client = matches!(role, Role::Client(_));
    let bounces = typed.bounceback.is_some();
    let implied = bounces
        || typed.isochronous.is_some()
        || typed.burst_period.is_some()
        || typed.shape.prefetch.is_some()
        || typed.begin.at.is_some()
        || (typed.trip_times && typed.direction.sends_from_server());
    let interval = typed.interval.or(bounces.then_some(Duration::from_secs(1)));
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
        print: Print {
            enhanced: typed.enhanced
                || typed.bins.is_some()
                || typed.by_frames
                || (is_client && implied),
            format: typed.format,
            interval,
            csv: typed.csv,
            hide_ips: typed.hide_ips,
            sum_only: typed.sum_only,
            sums_by_destination: typed.sum_by_destination,
            single: typed.single,
            bins: typed.bins,
            by_frames: typed.by_frames,
            segment: typed.print_segment,
            exclude: typed.exclude,
            file: typed.output,
        },
        notices: typed.notices,
        role,
    })
}

/// Whether the options select IPv6.
fn is_v6(typed: &Typed, role: &TypedRole) -> bool {
    let names_v6 = matches!(role, TypedRole::Client(host) if host.contains(':'));
    names_v6 || (typed.v6 && matches!(role, TypedRole::Client(_)))
}

/// UDP's default is a rate; TCP's is none.
fn rate(typed: &Typed, length: u32) -> Result<Option<f64>, Exit> {
    const UDP_DEFAULT: f64 = 1_048_576.0;
    let bits = f64::from(length) * 8.0;
    match (typed.rate, typed.udp) {
        (None, true) => Ok(Some(UDP_DEFAULT)),
        (None, false) => Ok(None),
        (Some(Rate::Datagrams(_)), false) => error("ERROR: units of pps not supported with TCP"),
        (Some(Rate::Datagrams(count)), true) => Ok(Some(count * bits).filter(|rate| *rate > 0.0)),
        (Some(Rate::Varying { mean, .. }), _) => Ok(Some(mean)),
        (Some(Rate::Bits(rate)), false) if rate > 0.0 && rate / 8.0 < f64::from(length) => {
            let most = (rate / 8.0) as u64;
            error(format!(
                "ERROR: option -b and -l of {length} are incompatible, consider setting -l to {most} or lower"
            ))
        }
        (Some(Rate::Bits(rate)), true) if (0.0..bits / 60.0).contains(&rate) && rate > 0.0 => {
            error(format!(
                "ERROR: IPG delay target of {:.1} secs too large (max value is 60 secs): -b {rate} with -l {length}",
                bits / rate
            ))
        }
        (Some(Rate::Bits(rate)), _) => Ok(Some(rate).filter(|rate| *rate > 0.0)),
    }
}

fn client(
    typed: &mut Typed,
    host: &str,
    transport: Transport,
    length: u32,
) -> Result<Client, Exit> {
    check_client(typed, host)?;
    let rate = rate(typed, length)?;
    let shape = shape(typed, length)?;
    let limit = match (typed.bytes, typed.time) {
        (Some(bytes), _) => Limit::Bytes(bytes),
        (None, Some(None)) => Limit::Unlimited,
        (None, Some(Some(time))) => Limit::Time(time),
        // A file ends.
        (None, None) if shape.input.is_some() => Limit::Unlimited,
        (None, None) => Limit::Time(Duration::from_secs(10)),
    };
    let named = |text: &str| text.split_once('%').map(|(_, device)| device.to_owned());
    let bound = typed.bind.as_deref().and_then(named);
    typed.socket.device = named(host).or(bound);
    let mut forward = flow(transport, length, rate, limit, &typed.socket);
    forward.here.measure_cpu = true;
    let mut back = forward.clone().turned();
    // The sender keeps the rate.
    back.here.pacing = None;
    let flows = match typed.direction {
        Direction::Forward => vec![forward],
        Direction::Reverse => vec![back],
        _ => vec![forward, back],
    };
    let group = |flow| Group {
        peers: vec![host.to_owned()],
        ..Group::of_flows(typed.flows, flow)
    };
    let plan = Plan {
        name: name(typed),
        groups: flows.into_iter().map(group).collect(),
        sampling: typed.interval,
        ..Plan::default()
    };
    Ok(Client {
        host: host.to_owned(),
        plan,
        shape,
        asks: typed.asks,
        begin: typed.begin,
        load: load(typed, host)?.map(Box::new),
        connect_only: typed.connect_only,
        increments: typed.increments,
        direction: typed.direction,
        has_length: typed.length.is_some(),
        listen_port: typed.listen_port.unwrap_or(typed.ports.0),
        asked_rate: match typed.rate {
            // The stock client sends the bare number here.
            Some(Rate::Datagrams(count)) if typed.direction == Direction::Forward => count as u64,
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
        together: typed.together,
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
        return error("iperf: --json: stands in the place of all text: it contradicts -y and -o");
    }
    if typed.bounceback.is_some() && typed.udp {
        return error("iperf: --bounceback: it needs TCP, without -u");
    }
    if typed.bounceback.is_some() && typed.direction != Direction::Forward {
        return error("iperf: --bounceback: not with -R, --full-duplex, -d or -r");
    }
    if typed.load.is_some() && typed.bounceback.is_none() {
        return error("iperf: --bounceback-congest: it needs --bounceback");
    }
    if typed.bounceback.is_some() && typed.bounce_delay.is_some() {
        typed.begin.delay = typed.bounce_delay;
    }
    if typed.shape.near_congestion.is_some() && typed.udp {
        return error("ERROR: option of --near-congestion not supported with -u UDP");
    }
    let has_rate = match typed.rate {
        Some(Rate::Bits(rate)) => rate > 0.0,
        other => other.is_some(),
    };
    if typed.shape.near_congestion.is_some() && has_rate {
        return error(
            "ERROR: option of --near-congestion and -b rate limited are mutually exclusive",
        );
    }
    if typed.connect_only.is_some() && typed.udp {
        return error("ERROR: option of --connect-only not supported with -u UDP");
    }
    if typed.asks & flags::upper::QUICK_ACK != 0 && typed.udp {
        let line = "WARN: setting of option --tcp-quickack is not supported with -u UDP";
        typed.notices.push(line.to_owned());
        typed.asks &= !flags::upper::QUICK_ACK;
    }
    if typed.asks & flags::upper::L2_LENGTH != 0 && !typed.udp {
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
    if typed.service_of_senders.is_some() {
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
        return error(
            "iperf: a group of receivers does not send: not with -R, --full-duplex, -d or -r",
        );
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

/// The first option that reaches the server in the header only.
fn needs_header(typed: &Typed) -> Option<&'static str> {
    match typed.direction {
        Direction::Forward => typed.peer_detect.then_some("-X"),
        Direction::Reverse => Some("-R"),
        Direction::FullDuplex => Some("--full-duplex"),
        Direction::Dual => Some("-d"),
        Direction::TradeOff => Some("-r"),
    }
}

/// The load beside a bounceback test: a client of its own.
fn load(typed: &mut Typed, host: &str) -> Result<Option<Settings>, Exit> {
    let Some((direction, flows)) = typed.load.take() else {
        return Ok(None);
    };
    let other = Typed {
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
        asks: flags::upper::QUICK_ACK,
        ..Typed::default()
    };
    settings(other).map(Some)
}

/// Whether an address, with a device or not, is a group.
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

/// A key as stock makes one: the time, and 16 letters and digits.
fn made_key() -> String {
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

fn serve(typed: &mut Typed) -> Result<Serve, Exit> {
    if typed.bounceback.is_some() {
        return error("ERROR: setting of option --bounce-back is not supported on the server");
    }
    if typed.json || typed.html.is_some() || typed.strict {
        return error("iperf: --json, --html, --strict: only a client has them");
    }
    let group = typed.bind.as_deref().is_some_and(is_group);
    if group && !typed.udp {
        return error("Multicast requires -u option  failed");
    }
    if typed.source.is_some() && !group {
        return error("iperf: -H: it needs a group to receive, -B GROUP");
    }
    if typed.permit_key == Some(PermitKey::Any) {
        typed.permit_key = Some(PermitKey::This(made_key()));
    }
    if let Some((_, device)) = typed.bind.as_deref().and_then(|bind| bind.split_once('%')) {
        typed.socket.device = Some(device.to_owned());
    }
    for (name, wrong) in &typed.of_client {
        typed.notices.push(match wrong {
            Wrong::NotValid => format!("WARNING: option {name} is not valid for server mode"),
            Wrong::NotSupported => format!("WARN: option of {name} is not supported on the server"),
            Wrong::SettingNotSupported => {
                format!("WARN: setting of option {name} is not supported on the server")
            }
        });
    }
    Ok(Serve {
        config: typed.server.clone(),
        time: typed.time.flatten(),
        daemon: typed.daemon,
        service_of_senders: typed.service_of_senders,
        source: typed.source.take(),
        key_timeout: typed.permit_key_timeout,
    })
}

/// Ends with a line of stock.
pub(super) fn error<T>(line: impl std::fmt::Display) -> Result<T, Exit> {
    Err(Exit::stderr(format!("{line}\n"), 1))
}
