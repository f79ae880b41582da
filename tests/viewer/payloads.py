"""Ways to run a script in a page: each marks the document if a browser obeys it."""

from collections.abc import Iterator
from html.parser import HTMLParser

RUN = "document.documentElement.setAttribute('data-owned','1')"
_FRAMES = (
    "<script>{js}</script>", '"><script>{js}</script>', "'><script>{js}</script>", "</title><script>{js}</script>",
    "</style><script>{js}</script>", "</textarea><script>{js}</script>", "</script><script>{js}</script>",
    "--><script>{js}</script>", "]]><script>{js}</script>", "<scr<script>ipt>{js}</scr</script>ipt>",
    "<SCRIPT\n>{js}</SCRIPT\t>", "<script/x>{js}</script>", "<script src='data:text/javascript,{js}'></script>",
    "\x00<script>{js}</script>", "<img src=x onerror={js}>", '<img src="x" onerror="{js}">',
    '" onmouseover="{js}" autofocus onfocus="{js}', "' onfocus='{js}' autofocus tabindex='1", "<svg onload={js}>",
    "<svg/onload={js}>", "<svg><script>{js}</script></svg>", "<svg><animate onbegin={js} attributeName=x dur=1s>",
    "<svg><set onbegin={js} attributename=x>", "<svg><foreignObject><img src=x onerror={js}></foreignObject></svg>",
    "</svg><script>{js}</script>", "<math><mtext><img src=x onerror={js}></mtext></math>", "<body onload={js}>",
    "<body onpageshow={js}>", "<iframe srcdoc='<script>parent.{js}</script>'></iframe>",
    "<iframe src='javascript:parent.{js}'></iframe>", "<iframe onload={js}></iframe>",
    "<object data='javascript:{js}'></object>", "<embed src='javascript:{js}'>", "<a href='javascript:{js}'>x</a>",
    "[x](javascript:{js})", "<form action='javascript:{js}'><button autofocus>x</button></form>",
    "<input autofocus onfocus={js}>", "<select autofocus onfocus={js}></select>", "<details open ontoggle={js}>",
    "<video src=x onerror={js}>", "<audio src=x onerror={js}>", "<marquee onstart={js}>x</marquee>",
    "<link rel=stylesheet href=x onerror={js}>", "<meta http-equiv=refresh content='0;url=javascript:{js}'>",
    "<base href='javascript:/'><script src='x'></script>", "<style onload={js}></style>",
    "<style>@import 'javascript:{js}';</style>", "<template><script>{js}</script></template><script>{js}</script>",
    "<noscript><p title='</noscript><img src=x onerror={js}>'></noscript>", "<!--><img src=x onerror={js}>-->",
    "&lt;script&gt;{js}&lt;/script&gt;", "&#60;img src=x onerror={js}&#62;", "${{{js}}}{{{{{js}}}}}<%={js}%>",
)  # fmt: skip


def payloads() -> Iterator[str]:
    """Yield the payloads, each once."""
    for frame in _FRAMES:
        yield frame.format(js=RUN)


ELEMENTS = frozenset((
    "html", "head", "meta", "title", "link", "script", "body", "a", "header", "p", "strong", "span", "nav",
    "ul", "ol", "li", "form", "input", "button", "main", "div", "h1", "h2", "h3", "h4", "section", "article",
    "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "time", "code", "pre", "details", "summary",
    "label", "select", "option", "textarea", "meter", "progress", "figure", "figcaption", "svg", "path",
    "polyline", "polygon", "circle", "rect", "text",
    "line", "g", "kbd", "dialog", "br", "mark", "ins", "del", "fieldset", "legend", "b", "em",
    "small", "blockquote", "aside",
))  # fmt: skip
"""The elements that our pages may contain."""


class Page(HTMLParser):
    """Collects everything not ours that a browser could run, load, follow or send."""

    def __init__(self, elements: frozenset[str] = ELEMENTS) -> None:
        super().__init__()
        self._elements = elements
        self.strange: list[str] = []
        self.text = ""
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag
        if tag not in self._elements or "http-equiv" in dict(attrs):
            self.strange.append(tag)
        for name, value in attrs:
            ours = ("/ui/", "/ui?", "#")
            leads = (
                name in ("href", "src", "action", "formaction", "ping", "poster")
                and value != "/ui"
                and not (value or "").startswith(ours)
            )
            runs = name.startswith("on") or name in ("style", "srcdoc", "srcset", "xlink:href")
            if leads or runs or (tag == "script" and name == "src" and not (value or "").startswith("/ui/static/")):
                self.strange.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._within == "script" and data.strip():
            self.strange.append(f"script {data[:80]}")

    def handle_endtag(self, tag: str) -> None:
        self._within = ""
