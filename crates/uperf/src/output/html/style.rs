//! How the page looks, in light and dark.

pub(super) const SHEET: &str = "
:root{color-scheme:light dark;--page:#f9f9f7;--paper:#fcfcfb;--ink:#0b0b0b;--soft:#52514e;--muted:#6f6d68;
--grid:#e1e0d9;--axis:#c3c2b7;--c0:#2a78d6;--c1:#1baf7a;--c2:#eda100;--c3:#008300;--c4:#4a3aa7;--c5:#e34948}
@media (prefers-color-scheme:dark){:root{--page:#0d0d0d;--paper:#1a1a19;--ink:#fff;--soft:#c3c2b7;
--muted:#9a9892;--grid:#2c2c2a;--axis:#4a4a46;--c0:#3987e5;--c1:#199e70;--c2:#c98500;--c3:#008300;
--c4:#9085e9;--c5:#e66767}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1000px;margin:0 auto;padding:24px 16px 64px}
h1{font-size:24px;margin:0;overflow-wrap:anywhere}h2{font-size:16px;margin:0 0 12px}
h3{font-size:14px;margin:12px 0 4px;color:var(--soft)}
.soft,code{color:var(--soft);overflow-wrap:anywhere}
section,.tile{background:var(--paper);border:1px solid var(--grid);border-radius:8px}
section{padding:16px;margin-top:16px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(200px,1fr));gap:16px}
.tile{padding:12px 16px;display:flex;flex-direction:column}.tile b{font-size:26px;font-weight:600}
.failed{color:var(--c5);font-weight:600}
.tile span{color:var(--soft)}small{color:var(--muted)}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:4px 10px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}
th{color:var(--muted);font-weight:500;font-size:13px}
td.text,th.text{text-align:left;white-space:normal;overflow-wrap:anywhere}
td.bar{width:120px}td.bar svg{width:100px;height:8px;display:block;fill:var(--c0)}
tr:last-child td{border-bottom:0}
pre{margin:0;overflow-x:auto;font-size:13px;white-space:pre-wrap;overflow-wrap:anywhere}
summary{cursor:pointer;color:var(--soft)}
.plot{width:100%;min-width:640px;display:block}
.plot text{font-size:12px;fill:var(--muted)}.plot .end{text-anchor:end}.plot .middle{text-anchor:middle}
.plot .grid{stroke:var(--grid)}.plot .mark{stroke:var(--axis);stroke-dasharray:3 3}
.plot .line{fill:none;stroke-width:2;stroke-linejoin:round}.plot .hint{fill:transparent}
.plot .hint:hover{fill:var(--axis);fill-opacity:.3}
.plot circle{stroke:var(--paper);stroke-width:2}
.line.c0{stroke:var(--c0)}.line.c1{stroke:var(--c1)}.line.c2{stroke:var(--c2)}.line.c3{stroke:var(--c3)}
.line.c4{stroke:var(--c4)}.line.c5{stroke:var(--c5)}.line.c6{stroke:var(--muted)}
circle.c0{fill:var(--c0)}circle.c1{fill:var(--c1)}circle.c2{fill:var(--c2)}circle.c3{fill:var(--c3)}
circle.c4{fill:var(--c4)}circle.c5{fill:var(--c5)}circle.c6{fill:var(--muted)}
.legend span{margin-right:16px;color:var(--soft)}
.legend i{display:inline-block;width:10px;height:10px;border-radius:5px;margin-right:6px}
i.c0{background:var(--c0)}i.c1{background:var(--c1)}i.c2{background:var(--c2)}i.c3{background:var(--c3)}
i.c4{background:var(--c4)}i.c5{background:var(--c5)}i.c6{background:var(--muted)}
";
