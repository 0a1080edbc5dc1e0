// SPDX-License-Identifier: Apache-2.0
// edge: the page's style, its script, and the policy that names both by their SHA-256: test_page.c says what they must be.
#include "webhook/edge/page.h"

const char page_policy[] =
	"default-src 'none'; style-src 'sha256-d35mzNv3PFDxZhyApOm59TyDe3+ukKmj09yHgkoS2sQ='; "
	"script-src 'sha256-YUqaWvz0JE9pVXLS6EfmRl2vdalMGc9eIaGsF9wv4aU='; "
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const char *const page_style[] = {
	":root{color-scheme:light dark;--bg:#f4f6f8;--card:#fff;--ink:#1c2633;--dim:#5a6878;"
	"--line:#dfe4ea;\n",
	"--bound:#3a6db5;--pending:#e0a12f;--free:#cfe6d2;--drained:#cdd4dc;--stale:#aeb7c2;"
	"--gap:#e9edf1;\n",
	"--unfit:#cf5a4f;--link:#245bab;--yes:#1f6b41;--yesbg:#ddf0e3;--no:#a12d22;"
	"--nobg:#fbe3e0;--wait:#7a5200;--waitbg:#fbeccb}\n",
	"@media(prefers-color-scheme:dark){:root{--bg:#0e1318;--card:#161c23;--ink:#dde5ee;"
	"--dim:#8e9dae;--line:#28313b;\n",
	"--bound:#5b8fdb;--pending:#d69c33;--free:#254a33;--drained:#3b4552;--stale:#4d5967;"
	"--gap:#222a33;\n",
	"--unfit:#c9584c;--link:#86b3f2;--yes:#8fd6a9;--yesbg:#173424;--no:#f0a097;"
	"--nobg:#41201c;--wait:#edc473;--waitbg:#3b2d10}}\n",
	"*{box-sizing:border-box}\n", "html{-webkit-text-size-adjust:100%}\n",
	"body{margin:0 auto;padding:0 20px 32px;max-width:1280px;background:var(--bg);"
	"color:var(--ink);\n",
	"font:14px/1.45 system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\","
	"sans-serif;font-variant-numeric:tabular-nums}\n",
	"h1,h2,h3,p,dl,dd,ul{margin:0;padding:0}\n", "ul{list-style:none}\n",
	"a{color:var(--link)}\n",
	"body>header{display:flex;align-items:baseline;gap:16px;padding:18px 0 0}\n",
	"h1{font-size:20px;letter-spacing:-.01em}\n", "h2{font-size:15px;margin:26px 0 10px}\n",
	"h2 small{font-weight:400;color:var(--dim)}\n",
	"h3{font-size:14px;overflow-wrap:anywhere}\n",
	".dim,small,.stand,#live,.none,.pager,footer{color:var(--dim)}\n",
	".stand{margin:0 0 12px}\n",
	"#live:not(:empty)::before{content:\"\";display:inline-block;width:8px;height:8px;"
	"margin-right:6px;border-radius:50%;background:var(--yes)}\n",
	"#live.bad{color:var(--no);font-weight:600}\n", "#live.bad::before{background:var(--no)}\n",
	".trouble{margin:0 0 12px;padding:10px 14px;border-radius:8px;background:var(--nobg);"
	"color:var(--no)}\n",
	".bad{color:var(--no)}\n", "i{font-style:normal}\n",
	".sum,article,table,.map{background:var(--card);border:1px solid var(--line);"
	"border-radius:10px}\n",
	".sum{padding:16px 18px}\n",
	".tiles{display:grid;grid-template-columns:repeat(4,auto);"
	"justify-content:space-between;gap:8px 24px;margin-bottom:14px}\n",
	".tiles dt{color:var(--dim);font-size:13px}\n",
	".tiles dd{font-size:24px;font-weight:600;letter-spacing:-.02em;white-space:nowrap}\n",
	".tiles small{font-size:14px;font-weight:400;letter-spacing:0}\n",
	".legend{display:flex;flex-wrap:wrap;gap:4px 20px;margin-top:10px;font-size:13px}\n",
	".legend b{font-weight:600}\n",
	".key{width:12px;height:12px;border-radius:3px;margin-right:6px;vertical-align:-1px}\n",
	".defs{position:absolute;width:0;height:0}\n",
	".bar{display:block;width:100%;height:10px;border-radius:4px;background:var(--gap)}\n",
	".bar.big{height:16px;border-radius:5px}\n",
	".bar rect{stroke:var(--card);stroke-width:1}\n", ".bar g:hover rect{opacity:.75}\n",
	".bound{fill:var(--bound)}\n", ".pending{fill:var(--pending)}\n",
	".free{fill:var(--free)}\n", ".drained{fill:var(--drained)}\n",
	".stale{fill:url(#hatch)}\n", ".missing{fill:var(--gap)}\n", ".unfit{fill:url(#cross)}\n",
	".part{fill:var(--bound);fill-opacity:.5}\n", ".over{fill:var(--unfit)}\n",
	".h0{fill:var(--gap)}\n", ".h1{fill:var(--stale)}\n",
	".c0{fill:var(--unfit);fill-opacity:.35}\n", ".c1{fill:var(--unfit)}\n",
	".map{display:block;width:100%;max-width:860px;padding:10px;margin-bottom:10px}\n",
	".map a:hover rect{stroke:var(--ink)}\n", ".pager{margin:0 0 10px}\n",
	".pager a{margin-left:10px}\n",
	".servers{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,360px),"
	"1fr));gap:12px;align-items:start}\n",
	"article{padding:12px 14px 14px;scroll-margin-top:10px}\n",
	"article:target{border-color:var(--bound)}\n",
	"article header{display:flex;flex-wrap:wrap;align-items:baseline;gap:2px 10px}\n",
	"article header .dim{font-size:13px}\n",
	"article header .n{margin-left:auto;color:var(--dim);font-size:13px;"
	"white-space:nowrap}\n",
	".labels{display:flex;flex-wrap:wrap;gap:4px 6px;margin-top:4px;font-size:12px;"
	"color:var(--dim)}\n",
	".labels span{padding:0 6px;border:1px solid var(--line);border-radius:4px;"
	"overflow-wrap:anywhere}\n",
	".gpus li{margin-top:9px}\n",
	".gpus p{display:flex;gap:0 8px;margin-bottom:3px;font-size:13px}\n",
	".gpus b,.gpus span{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}\n",
	".gpus b{flex:none;max-width:60%;font-weight:600}\n",
	".gpus span{flex:0 99 auto;min-width:0;color:var(--dim)}\n",
	".gpus em{margin-left:auto;font-style:normal;white-space:nowrap}\n",
	".gpus .why{display:block;margin:3px 0 0;color:var(--no);overflow-wrap:anywhere}\n",
	".chip{display:inline-block;padding:0 7px;border-radius:9px;font-size:12px;"
	"line-height:18px;white-space:nowrap;\n",
	"background:var(--gap);color:var(--dim)}\n",
	".chip.yes{background:var(--yesbg);color:var(--yes)}\n",
	".chip.no{background:var(--nobg);color:var(--no)}\n",
	".chip.wait{background:var(--waitbg);color:var(--wait)}\n",
	"table{width:100%;border-spacing:0;font-size:13px}\n",
	"th{padding:8px 12px;text-align:left;font-weight:400;color:var(--dim);"
	"white-space:nowrap}\n",
	"td{padding:6px 12px;border-top:1px solid var(--line);vertical-align:top;"
	"overflow-wrap:anywhere}\n",
	".age{white-space:nowrap;color:var(--dim)}\n", ".pod{min-width:150px}\n",
	".hook{white-space:nowrap}\n", ".hook .dim{text-transform:lowercase}\n",
	".parts span{display:inline-block;margin-right:12px}\n", ".parts b{font-weight:600}\n",
	".said b{font-weight:600}\n", ".words{color:var(--dim)}\n",
	"footer{margin-top:24px;font-size:13px}\n",
	"@media(max-width:640px){body{padding:0 12px 24px}.tiles{grid-template-columns:1fr "
	"1fr}.tiles dd{font-size:21px}\n",
	"table,tbody,tr,td{display:block}thead{display:none}tr{padding:9px 12px;"
	"border-top:1px solid var(--line)}\n",
	"tbody tr:first-child{border-top:0}td{border:0;padding:1px 0}\n",
	".claims tr{display:grid;grid-template-columns:1fr auto auto;gap:0 10px}.claims "
	".parts{grid-column:1/-1}\n",
	".decisions tr{display:grid;grid-template-columns:1fr auto;gap:0 10px}.decisions "
	".age{order:2;grid-column:2;grid-row:1}\n",
	".decisions .hook{grid-column:1;grid-row:1}.decisions .pod,.decisions .said{"
	"grid-column:1/-1}}\n",
	NULL};

/* The page without what it has of a script: the same, every ten seconds. Nothing is moved under somebody who selects text or
 * looks elsewhere. */
const char *const page_script[] = {"(() => {\n", "\"use strict\";\n",
	"const live = document.getElementById(\"live\");\n", "let seen = Date.now(), timer;\n",
	"const say = (text, bad) => {\n",
	"if (live.textContent !== text) live.textContent = text;\n",
	"live.className = bad ? \"bad\" : \"\";\n", "};\n",
	"const busy = () => document.hidden || String(document.getSelection()) !== \"\";\n",
	"const look = async () => {\n", "clearTimeout(timer);\n", "try {\n",
	"const answer = await fetch(location.pathname + location.search,\n",
	"{cache: \"no-store\", signal: AbortSignal.timeout(8000)});\n",
	"if (!answer.ok) throw new Error(String(answer.status));\n",
	"const fresh = new DOMParser().parseFromString(await answer.text(), \"text/html\");\n",
	"const main = fresh.querySelector(\"main\");\n",
	"if (!main) throw new Error(\"no page\");\n", "if (!busy()) {\n",
	"document.querySelector(\"main\").replaceWith(document.adoptNode(main));\n",
	"document.title = fresh.title;\n", "}\n", "seen = Date.now();\n", "say(\"live\", false);\n",
	"} catch {\n",
	"say(\"no answer for \" + Math.round((Date.now() - seen) / 1000) + \" s; this is how "
	"it was then\", true);\n",
	"}\n", "timer = setTimeout(() => document.hidden ? 0 : look(), 5000);\n", "};\n",
	"document.addEventListener(\"visibilitychange\", () => document.hidden || look());\n",
	"say(\"live\", false);\n", "timer = setTimeout(look, 5000);\n", "})();\n", NULL};
