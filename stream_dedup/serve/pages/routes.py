"""The paths of the pages, and the layer between requests and the pages.

Safety:

* Templates escape everything; nothing here or there marks text as safe. The policy of every page forbids scripts,
  styles and connections but the service's own files, and frames altogether.
* A form is taken from the service's own pages only (``_refuse_strangers``): by ``Sec-Fetch-Site``, or ``Origin`` where
  a browser does not send it. So no session or token of a form is needed. A check changes nothing; a preference changes
  a cookie that has no other use.
* A browser that needs the service's token asks for it and sends it as the password of ``Basic`` (``server.Gate``): no
  cookie says who somebody is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from stream_dedup.clusters.model import Window
from stream_dedup.core.model import Verdict
from stream_dedup.errors import UserError
from stream_dedup.serve.pages.backend import PageBackend
from stream_dedup.serve.pages.check_page import CheckForm, CheckView, checked, prefilled
from stream_dedup.serve.pages.clusters_page import ClusterView, cluster_list, cluster_page, stored_clusters
from stream_dedup.serve.pages.live_page import LATENCY_OF, RateMeter, live_page
from stream_dedup.serve.pages.rendering import LANGUAGES, THEMES, PageReader, Renderer, language_of, read_assets, said
from stream_dedup.serve.problems import ProblemError, invalid, not_found
from stream_dedup.serve.routing import Route, require_type

PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    # The browser names the page that a form comes from to this service only.
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
ASSET_S = 86_400
"""Seconds for which a browser keeps a file; the address changes with its content."""
COOKIE_S = 365 * 86_400
FORM = "application/x-www-form-urlencoded"
MAX_FORM_FIELDS = 64


def page_routes(backend: PageBackend) -> list[Route]:
    """Return the routes of the pages."""
    pages = _PageRoutes(backend)
    return [
        Route("/", pages.home),
        Route("/check", pages.check_form),
        Route("/check", pages.check, method="POST"),
        Route("/clusters", pages.clusters),
        Route("/clusters/{cluster_id}", pages.cluster),
        Route("/live", pages.live),
        Route("/system", pages.system),
        Route("/assets/{name:any_text}", pages.asset),
        Route("/preferences", pages.preferences, method="POST"),
    ]


class _PageRoutes:
    def __init__(self, backend: PageBackend) -> None:
        self._backend = backend
        self._assets = read_assets()
        self._renderer = Renderer(self._assets)
        self._meter = RateMeter()

    async def home(self, _: Request) -> Response:
        return RedirectResponse("/check", HTTPStatus.TEMPORARY_REDIRECT)

    # Check

    async def check_form(self, request: Request) -> Response:
        """Show the empty form; with ``article`` the text of an article of the stream, with ``sample`` our own."""
        query = request.query_params
        if article := query.get("article"):
            return await self._check_page(request, await prefilled(self._backend, article))
        fields = self._backend.format.text_fields
        form = CheckForm(dict.fromkeys(fields, ""))
        if not query.get("sample"):
            return await self._check_page(request, CheckView(form))
        text = said(_reader(request).language, "check.sample")
        filled = CheckForm(dict(form.texts) | {fields[-1]: text})
        return await self._check_page(request, await checked(self._backend, filled))

    async def check(self, request: Request) -> Response:
        form = CheckForm.of(await _form(request), self._backend.format)
        return await self._check_page(request, await checked(self._backend, form))

    async def _check_page(self, request: Request, view: CheckView) -> Response:
        example = await asyncio.to_thread(_last_duplicate, self._backend)
        return self._page(request, "check.html", view.status, view=view, format=self._backend.format, example=example)

    # Clusters

    async def clusters(self, request: Request) -> Response:
        view = await cluster_list(self._backend, _window(request, Window.HOUR), self._backend.now_ms())
        return self._page(request, "clusters.html", view=view)

    async def cluster(self, request: Request) -> Response:
        cluster_id, after = request.path_params["cluster_id"], request.query_params.get("after")
        window = _window(request, Window.DAY)
        try:
            view = await cluster_page(self._backend, cluster_id, window, after, self._backend.now_ms())
        except UserError as error:
            raise not_found(str(error)) from error
        return self._page(request, "cluster.html", _cluster_status(view), view=view)

    # Live and System

    async def live(self, request: Request) -> Response:
        view = await live_page(self._backend, self._meter, self._backend.now_ms(), time.monotonic())
        return self._page(request, "live.html", view=view)

    async def system(self, request: Request) -> Response:
        return self._page(request, "system.html", status=await self._backend.status(), state=self._backend.clusters())

    # the rest

    async def asset(self, request: Request) -> Response:
        if (asset := self._assets.get(request.path_params["name"])) is None:
            raise not_found("there is no such file")
        headers = {"Cache-Control": f"private, max-age={ASSET_S}, immutable"}
        return Response(asset.body, media_type=asset.media, headers=headers)

    async def preferences(self, request: Request) -> Response:
        """Keep language and theme in cookies, and go back to the page."""
        given = await _form(request)
        response = RedirectResponse(_local_path(given.get("back", "")), HTTPStatus.SEE_OTHER)
        for name, allowed in (("language", tuple(LANGUAGES)), ("theme", THEMES)):
            if given.get(name) in allowed:
                response.set_cookie(name, given[name], max_age=COOKIE_S, samesite="strict", httponly=True)
        return response

    def _page(self, request: Request, template: str, code: int = 200, **values: Any) -> Response:  # noqa: ANN401 - what a template shows
        address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        body = self._renderer.page(
            template,
            _reader(request),
            self._backend.now_ms(),
            path=request.url.path,
            back=address if request.method == "GET" else request.url.path,
            position=self._backend.position(),
            **values,
        )
        return HTMLResponse(body.encode("utf-8", "replace"), int(code), PAGE_HEADERS)


def _reader(request: Request) -> PageReader:
    theme = request.cookies.get("theme", "")
    language = language_of(request.cookies.get("language"), request.headers.get("accept-language", ""))
    return PageReader(language, theme if theme in THEMES else THEMES[0])


async def _form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form; of one that occurs twice, the last.

    Raises:
        ProblemError: the form comes from another site, or is none.
    """
    _refuse_strangers(request)
    require_type(request.headers, FORM)
    try:
        found = parse_qsl(
            (await request.body()).decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS
        )
    except ValueError as error:
        raise invalid(f"the body is not {FORM}") from error
    return dict(found)


def _refuse_strangers(request: Request) -> None:
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    own = site in {"same-origin", "none"} if site else origin is None or _is_own(origin, request)
    if not own:
        detail = "forms are taken from the pages of this service only"
        raise ProblemError(HTTPStatus.FORBIDDEN, "cross-site", detail)


def _is_own(origin: str, request: Request) -> bool:
    return urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()


def _local_path(path: str) -> str:
    """Return a path of this service, never the address of another one."""
    parts = urlsplit(path)
    is_local = path.startswith("/") and not path.startswith("//") and not parts.netloc and "\\" not in path
    return path if is_local and path.isprintable() and path.isascii() else "/"


def _window(request: Request, usual: Window) -> Window:
    name = request.query_params.get("window", usual)
    return Window(name) if name in set(Window) else Window.HOUR


def _cluster_status(view: ClusterView) -> int:
    if view.cluster is not None:
        return HTTPStatus.OK
    is_missing = view.state.store is not None and view.failure is None
    return HTTPStatus.NOT_FOUND if is_missing else HTTPStatus.SERVICE_UNAVAILABLE


def _last_duplicate(backend: PageBackend) -> Any:  # noqa: ANN401 - an article, or None
    """Return the newest duplicate of the stream."""
    latest = stored_clusters(backend.clusters().store, lambda store: store.latest(LATENCY_OF), [])
    return next((one for one in latest if one.verdict is Verdict.DUPLICATE), None)
