"use strict";
// Draws each plot of the page from the JSON beside it.
(() => {
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const digits = value => {
    const size = Math.abs(value);
    return value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
  };
  const scaled = (value, step, units) => {
    let at = 0;
    while (at + 1 < units.length && Math.abs(value) >= step * 0.9995) {
      value /= step;
      at++;
    }
    return digits(value) + " " + units[at];
  };
  // 1.00 k is 1 k beside a line of the grid.
  const short = text => text.replace(/\.?0+ /, m => (m.includes(".") ? " " : m));
  const rate = unit => value =>
    value == null ? "–" : value === 0 ? "0 " + unit : scaled(value, 1000, ["", "k", "M", "G", "T", "P"].map(p => p + unit));
  const time = value => (value == null ? "–" : value === 0 ? "0 s" : scaled(value, 1000, ["ns", "µs", "ms", "s"]));
  const seconds = value => (value == null ? "–" : +value.toFixed(3) + " s");
  // x is 1 / (1 - share): 10 is 90 %, 100 is 99 %.
  const percent = value => (value == null ? "–" : +(100 - 100 / value).toPrecision(8) + " %");

  function draw(host, plot) {
    const isRate = plot.kind === "rate";
    const x = isRate ? seconds : percent;
    const y = isRate ? rate(plot.unit) : time;
    const isDecade = value => Number.isInteger(+Math.log10(value).toFixed(9));
    const decades = (_, values) => values.map(value => (isDecade(value) ? value : null));
    const axis = (label, format, filter, more) => ({
      label,
      labelFont: "13px system-ui, sans-serif",
      font: "12px system-ui, sans-serif",
      stroke: colour("soft"),
      grid: { stroke: colour("grid"), width: 1, ...(filter && { filter }) },
      ticks: { stroke: colour("axis"), width: 1, ...(filter && { filter }) },
      values: (_, ticks) => ticks.map(tick => (tick == null ? "" : short(format(tick)))),
      ...more,
    });
    const line = (name, at) => ({
      label: name,
      stroke: colour("c" + (at % 8)),
      dash: at < 8 ? [] : [6, 4],
      width: 2,
      spanGaps: !isRate,
      points: { show: !isRate && plot.lines.length < 4 },
      paths: isRate ? uPlot.paths.stepped({ align: -1 }) : null,
      value: (_, value) => y(value),
    });
    const data = uPlot.join(plot.lines.map(each => [each.x, each.y]));
    const options = {
      width: host.clientWidth,
      height: 300,
      padding: [12, 32, 0, 0],
      scales: {
        x: { time: false, distr: isRate ? 1 : 3 },
        y: isRate ? { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } : { distr: 3 },
      },
      axes: [
        axis(isRate ? "time" : "share of times that are not longer", x, isRate ? undefined : decades, { space: 60 }),
        axis(plot.label, y, isRate ? undefined : decades, { size: 96, labelSize: 22 }),
      ],
      series: [{ label: isRate ? "time" : "share", value: (_, value) => x(value) }, ...plot.lines.map((each, at) => line(each.name, at))],
      cursor: { drag: { x: true, y: false } },
    };
    return new uPlot(options, data, host);
  }

  const plots = [...document.querySelectorAll(".plot")].map(host => ({
    host,
    plot: JSON.parse(host.querySelector("script").textContent),
    drawn: null,
  }));
  const drawAll = () =>
    plots.forEach(each => {
      each.drawn?.destroy();
      each.drawn = draw(each.host, each.plot);
    });
  drawAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  addEventListener("resize", () => plots.forEach(each => each.drawn.setSize({ width: each.host.clientWidth, height: 300 })));
})();
