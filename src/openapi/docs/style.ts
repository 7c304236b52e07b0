/**
 * How the page looks: one style sheet, with no font, image or address from elsewhere. Colours of both modes keep a contrast of
 * 4.5 : 1 or more (WCAG 2.2, AA). The classes are short, for they are written hundreds of times.
 *
 *   op operation   b body of it   d documentation   y try it   m method   s summary   l lock   f fields   t type   k facts
 *   r answer   c2 c4 ... status   e example   a access   v for screen readers   j with JavaScript only
 */

/** Colours by name; the light one, the dark one. */
const COLOURS: Readonly<Record<string, readonly [light: string, dark: string]>> = {
  bg: ['#ffffff', '#0d1117'],
  side: ['#f6f7f9', '#131820'],
  card: ['#ffffff', '#0d1117'],
  field: ['#ffffff', '#0d1117'],
  hover: ['#f1f3f6', '#1a212b'],
  line: ['#dfe3e8', '#2a323d'],
  edge: ['#868f9c', '#6d7887'],
  text: ['#171b22', '#e6eaf0'],
  soft: ['#555e6c', '#9ea9b8'],
  accent: ['#0a5bc4', '#6cb2ff'],
  on: ['#ffffff', '#08131f'],
  code: ['#f1f3f6', '#1a212b'],
  get: ['#0f6b3c', '#5fd394'],
  post: ['#0a5bc4', '#6cb2ff'],
  put: ['#8a4b00', '#f0b15c'],
  patch: ['#6b3fb8', '#c3a5ff'],
  delete: ['#b3202c', '#ff8d8d'],
  good: ['#0f6b3c', '#5fd394'],
  warn: ['#8a4b00', '#f0b15c'],
  bad: ['#b3202c', '#ff8d8d'],
  string: ['#0f6b3c', '#7fd6a4'],
  number: ['#8a4b00', '#f0b15c'],
  key: ['#0a4fae', '#8cc3ff'],
};

function colours(mode: 0 | 1): string {
  return `color-scheme:${mode === 0 ? 'light' : 'dark'};${Object.entries(COLOURS)
    .map(([name, values]) => `--${name}:${values[mode]}`)
    .join(';')}`;
}

const RULES: string = `
*{box-sizing:border-box}
html{scroll-padding-top:4.5rem;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--text);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
h1,h2,h3,h4,p,ul,dl,dd,pre,figure{margin:0;padding:0}
h1{font-size:1.75rem;line-height:1.2;letter-spacing:-.02em;overflow-wrap:anywhere}
h2{font-size:1.25rem;letter-spacing:-.01em;overflow-wrap:anywhere}
h3{font-size:inherit;font-weight:500}
h4{font-size:.8125rem;font-weight:650;margin:1.5rem 0 .5rem;padding-bottom:.375rem;border-bottom:1px solid var(--line)}
code,pre,textarea.c,.m{font-family:ui-monospace,"SF Mono",SFMono-Regular,Menlo,Consolas,"Liberation Mono","DejaVu Sans Mono",monospace;font-size:.8125rem}
code{overflow-wrap:anywhere}
a{color:var(--accent);text-underline-offset:.15em}
p code,li p code{background:var(--code);padding:.1em .3em;border-radius:.25rem}
pre{background:var(--code);padding:.75rem .875rem;border-radius:.5rem;overflow:auto;max-height:26rem;line-height:1.5;tab-size:2}
pre.w{white-space:pre-wrap;overflow-wrap:anywhere}
s{text-decoration:none;color:var(--warn);font-size:.75rem;font-weight:600}
em{font-style:normal;color:var(--bad);font-size:.75rem;font-weight:600}
small{font-size:.75rem;color:var(--soft);margin-left:.35em}
summary{cursor:pointer}
button,input,select,textarea{font:inherit;color:inherit}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
[hidden]{display:none!important}
html:not(.js) .j{display:none}
.v{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.skip{position:absolute;left:-999rem;z-index:9;background:var(--accent);color:var(--on);padding:.5rem 1rem;border-radius:.375rem}
.skip:focus{left:1rem;top:.5rem}

.top{position:sticky;top:0;z-index:3;display:flex;align-items:center;gap:.75rem;height:3.5rem;padding:0 1.25rem;background:var(--bg);border-bottom:1px solid var(--line)}
.brand{font-weight:650;color:var(--text);text-decoration:none;white-space:nowrap;overflow:hidden;text-overflow:ellipsis;flex:0 1 auto;min-width:0}
.search{position:relative;flex:1 1 20rem;max-width:34rem;margin:0 auto}
.search input{width:100%;height:2.25rem;padding:0 2.5rem 0 .875rem;border:1px solid var(--edge);border-radius:.5rem;background:var(--field)}
.search input::placeholder{color:var(--soft);opacity:1}
.search kbd{position:absolute;right:.5rem;top:.4375rem;border:1px solid var(--line);border-radius:.25rem;padding:0 .4375rem;font:inherit;font-size:.8125rem;line-height:1.25rem;color:var(--soft);background:var(--side)}
.search input:focus+kbd,.search input:not(:placeholder-shown)+kbd{display:none}
.button{display:inline-flex;align-items:center;gap:.4rem;height:2.25rem;padding:0 .875rem;border:1px solid var(--line);border-radius:.5rem;background:var(--bg);cursor:pointer;white-space:nowrap;font-weight:550;font-size:.875rem}
.button:hover{background:var(--hover)}
.button.main{background:var(--accent);border-color:var(--accent);color:var(--on)}
.button.main:hover{filter:brightness(1.1)}
.button.icon{width:2.25rem;padding:0;justify-content:center}
.button.small{height:1.75rem;padding:0 .625rem;font-size:.8125rem}
.theme::before{content:"";width:.875rem;height:.875rem;border-radius:50%;border:1.5px solid currentColor;background:linear-gradient(90deg,currentColor 50%,transparent 50%)}
.menu{display:none}

.shell{display:grid;grid-template-columns:18rem minmax(0,1fr)}
nav{position:sticky;top:3.5rem;height:calc(100vh - 3.5rem);height:calc(100dvh - 3.5rem);overflow-y:auto;padding:1rem .75rem 3rem;border-right:1px solid var(--line);background:var(--side);font-size:.8125rem;scrollbar-width:thin}
nav ul{list-style:none}
nav summary,nav .h{display:block;padding:.5rem .5rem .375rem;font-weight:650;color:var(--text);text-decoration:none;list-style:none;border-radius:.375rem;overflow-wrap:anywhere}
nav summary::-webkit-details-marker{display:none}
nav summary::before{content:"";display:inline-block;width:.35rem;height:.35rem;margin:0 .6rem .12rem .15rem;border:solid var(--soft);border-width:0 1.5px 1.5px 0;transform:rotate(-45deg)}
nav details[open]>summary::before{transform:rotate(45deg)}
nav summary:hover,nav a:hover{background:var(--hover)}
nav li a{display:flex;gap:.5rem;align-items:baseline;padding:.25rem .5rem;border-radius:.375rem;color:var(--text);text-decoration:none;line-height:1.4}
nav li a span{overflow-wrap:anywhere;min-width:0}
nav li a.here{background:var(--hover);box-shadow:inset 2px 0 var(--accent)}
nav .m{flex:none;width:2.375rem;font-size:.625rem;background:none;padding:0;text-align:left;min-width:0}

main{min-width:0;max-width:84rem;padding:2.25rem clamp(1rem,3.5vw,3rem) 6rem}
main:focus{outline:none}
.intro{max-width:46rem;margin-bottom:2.5rem}
.intro .lead{font-size:1.0625rem;margin-top:.5rem}
.intro h1 small{font-size:.8125rem;font-weight:550;letter-spacing:0;vertical-align:middle;padding:.2rem .5rem;border:1px solid var(--line);border-radius:1rem;margin-left:.5rem;overflow-wrap:anywhere}
.intro p,.about p,.d>p,.about ul,.d>ul:not(.f){margin-top:.625rem}
.intro ul,.about ul,.d>ul:not(.f){padding-left:1.25rem}
.intro .facts{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;color:var(--soft);font-size:.875rem;margin-top:1rem}
section{margin-bottom:2.5rem}
.about{max-width:46rem;color:var(--soft)}
.list{margin-top:.875rem;border:1px solid var(--line);border-radius:.75rem;background:var(--card);overflow:clip;container-type:inline-size}
.none{padding:1rem 0;color:var(--soft)}

.m{display:inline-block;min-width:4rem;padding:.0625rem .5rem;border-radius:.375rem;text-align:center;font-size:.6875rem;font-weight:700;letter-spacing:.02em;line-height:1.375rem;color:var(--c,var(--soft));background:color-mix(in srgb,var(--c,var(--soft)) 11%,var(--bg))}
.get{--c:var(--get)}.post{--c:var(--post)}.put{--c:var(--put)}.patch{--c:var(--patch)}.delete{--c:var(--delete)}
.many .op,.many .sc{content-visibility:auto;contain-intrinsic-size:auto 3rem}
.op{border-bottom:1px solid var(--line)}
.op:last-child{border-bottom:0}
.many .op[open],.many .sc[open]{content-visibility:visible}
.op>summary,.sc>summary{display:flex;flex-wrap:wrap;align-items:center;gap:.25rem .75rem;padding:.75rem 1rem;list-style:none}
.op>summary::-webkit-details-marker,.sc>summary::-webkit-details-marker{display:none}
.op>summary:hover,.sc>summary:hover{background:var(--hover)}
.op>summary:focus-visible,.sc>summary:focus-visible{outline-offset:-3px;border-radius:.375rem}
.op[open]{box-shadow:inset 3px 0 var(--c,var(--soft))}
.op[open]>summary{background:var(--side);border-bottom:1px solid var(--line)}
.op h3{display:flex;align-items:baseline;gap:.75rem;min-width:min(42%,30rem)}
.op h3 code{font-size:.875rem}
.op h3 i{font-style:normal;color:var(--c,var(--soft))}
.s{color:var(--soft);font-size:.875rem;min-width:0;overflow-wrap:anywhere}
.l{flex:none;width:.75rem;height:.5625rem;border-radius:.125rem;background:var(--soft);position:relative;margin:.25rem .125rem 0}
.l::before{content:"";position:absolute;left:.1875rem;top:-.3125rem;width:.375rem;height:.375rem;border:1.5px solid var(--soft);border-bottom:0;border-radius:.25rem .25rem 0 0;box-sizing:border-box}
.op>summary>.l{margin-left:auto}
.dot{margin-top:.375rem}.dot.on,.dot.on::before{background:var(--good);border-color:var(--good)}.dot.on::before{background:none}
.b{scroll-margin-top:3.25rem;padding:1rem 1.25rem 1.5rem;display:grid;gap:1.5rem;overflow-wrap:anywhere}
.d{min-width:0}
.d>:first-child{margin-top:0}
.a{font-size:.875rem;color:var(--soft);margin-top:.625rem}
.a .l{display:inline-block;margin:0 .375rem 0 .125rem}
.f{list-style:none}
.f>li{padding:.5rem 0;border-top:1px solid var(--line)}
.f>li:first-child{border-top:0;padding-top:.125rem}
.f>li>code:first-child{font-weight:650}
.f>li>p{font-size:.875rem;margin-top:.125rem}
.f .f{margin:.375rem 0 0;padding-left:.875rem;border-left:2px solid var(--line)}
.f.peek{margin-top:.375rem;padding-left:.875rem;border-left:2px solid var(--line)}
.peek>p{font-size:.875rem}
.f.peek>.f{margin:0;padding:0;border:0}
.t{font-size:.8125rem;color:var(--soft);overflow-wrap:anywhere}
p.t{margin:.375rem 0}
.t>code{color:var(--text)}
.k{font-size:.8125rem!important;color:var(--soft)}
.x{display:inline-flex;align-items:center;justify-content:center;min-width:1.5rem;height:1.5rem;margin-left:.3rem;padding:0 .25rem;border:1px solid var(--line);border-radius:.3125rem;background:var(--bg);color:var(--soft);cursor:pointer;font-size:.75rem;line-height:1;vertical-align:middle}
.x:hover{background:var(--hover)}
.r{border:1px solid var(--line);border-radius:.5rem;margin-top:.5rem;font-size:.875rem}
p.r,.r>summary{padding:.4375rem .75rem}
.r[open]>summary{border-bottom:1px solid var(--line)}
.r dd code{font-size:.75rem;color:var(--soft)}
.r dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.125rem .75rem;padding-top:.5rem;font-size:.8125rem}
.r em{color:var(--soft);font-weight:500}
.r>:not(summary){margin-left:.75rem;margin-right:.75rem}
.r>:last-child:not(summary){margin-bottom:.75rem}
.r>b,.r>summary>b,.st>b{display:inline-block;min-width:2rem}
.c2{color:var(--good)}.c3{color:var(--accent)}.c4{color:var(--warn)}.c5{color:var(--bad)}
.e{margin-top:.5rem;font-size:.875rem}
.e summary{color:var(--soft);font-size:.8125rem}
.e pre{margin-top:.375rem}
.sc{border-bottom:1px solid var(--line)}
.sc:last-child{border-bottom:0}
.sc h3{font-family:ui-monospace,"SF Mono",SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.875rem}

.y{align-self:start;border:1px solid var(--line);border-radius:.625rem;background:var(--side);min-width:0;font-size:.875rem}
.y form{padding:.875rem 1rem 1rem}
.y h4{border:0;margin:0;padding:0;font-size:.875rem}
.bar{display:flex;align-items:center;justify-content:space-between;gap:.5rem;min-height:2rem}
.bar p{min-width:0}
.y label,dialog label{display:block;margin:.625rem 0 .1875rem;font-size:.8125rem}
.y label code,dialog label code{font-weight:650}
.in{width:100%;min-height:2.125rem;padding:.3125rem .625rem;border:1px solid var(--edge);border-radius:.4375rem;background:var(--field)}
textarea.in{display:block;resize:vertical;line-height:1.5}
.in.wrong{border-color:var(--bad)}
.in::placeholder{color:var(--soft);opacity:1}
.wrongs{color:var(--bad);font-size:.8125rem;margin-top:.25rem}
.go{display:flex;gap:.5rem;margin-top:.875rem}
.go .main{flex:1;justify-content:center}
.y .need{margin-top:.5rem;color:var(--soft)}
.curl{border-top:1px solid var(--line);padding:.5rem 1rem}
.curl summary{font-size:.8125rem;color:var(--soft)}
.curl pre,.out pre{margin-top:.375rem;background:var(--bg);border:1px solid var(--line)}
.out{border-top:1px solid var(--line);padding:.75rem 1rem 1rem}
.out:empty{display:none}
.out img{display:block;max-width:100%;margin-top:.375rem;border:1px solid var(--line);border-radius:.375rem}
.st b{font-size:1rem}
.heads{font-size:.8125rem;margin-top:.375rem}
.heads dl{display:grid;grid-template-columns:minmax(6rem,auto) minmax(0,1fr);gap:.125rem .75rem;margin-top:.375rem}
.heads dt{color:var(--soft);overflow-wrap:anywhere}
.heads dd{overflow-wrap:anywhere}
.js-k{color:var(--key)}.js-s{color:var(--string)}.js-n{color:var(--number)}.js-l{color:var(--patch)}

dialog{width:min(32rem,calc(100vw - 2rem));max-height:calc(100dvh - 4rem);padding:1.25rem 1.5rem 1.5rem;border:1px solid var(--line);border-radius:.75rem;background:var(--bg);color:var(--text)}
dialog::backdrop{background:rgb(0 0 0/.45)}
dialog fieldset{border:1px solid var(--line);border-radius:.5rem;margin:1rem 0 0;padding:.25rem .875rem .875rem;min-width:0}
dialog legend{font-weight:650;padding:0 .375rem}
dialog p{color:var(--soft);font-size:.8125rem}
dialog .tick{display:flex;gap:.5rem;align-items:center;margin-top:1rem;font-size:.875rem}

@container (min-width:50rem){.js .b{grid-template-columns:minmax(0,1fr) minmax(19rem,44%);gap:1.5rem}.y{position:sticky;top:4.5rem;max-height:calc(100vh - 5.5rem);overflow-y:auto}}
@container (max-width:40rem){.s{flex:1 0 100%;order:1}.op h3{min-width:0}}
@media (max-width:56rem){
.shell{grid-template-columns:minmax(0,1fr)}
.top{padding:0 1rem;gap:.5rem}
.js .menu{display:inline-flex}
.brand{display:none}
.search{flex-basis:6rem}
.top .t2{position:absolute;clip-path:inset(50%)}
nav{position:static;height:auto;border-right:0;border-bottom:1px solid var(--line);padding-bottom:1rem}
.js nav{display:none}
.js nav.open{display:block;position:fixed;inset:3.5rem 0 0;z-index:2;height:auto}
main{padding-top:1.5rem}
.b{padding:.875rem 1rem 1.25rem}
h1{font-size:1.5rem}
}
@media (prefers-reduced-motion:no-preference){nav summary::before{transition:transform .12s}.button,.x{transition:background .12s}}
@media (forced-colors:active){.m,.button{border:1px solid}.l{background:CanvasText}}
@media print{.top,nav,.y,.x{display:none!important}.shell{display:block}.many .op,.many .sc{content-visibility:visible}}
`;

/** The style sheet, in as few lines as it has rules. */
export const STYLE: string = `:root{${colours(0)}}@media (prefers-color-scheme:dark){:root:not([data-theme=light]){${colours(1)}}}:root[data-theme=dark]{${colours(1)}}${RULES.replace(/\n+/g, '\n')}`;
